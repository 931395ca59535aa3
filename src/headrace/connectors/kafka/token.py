"""The token of a store, as both of its issuers give it."""

from __future__ import annotations

from dataclasses import dataclass, field

# Part of a token's lifetime: Kafka's clients request the next token at 80 %.
USED_FOR = 0.7


@dataclass(frozen=True)
class Token:
    """Credential for a broker; `expires_at` in seconds since 1970."""

    text: str = field(repr=False)
    principal: str
    expires_at: float
    fresh_until: float
