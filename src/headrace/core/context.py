"""Context of a statement: the session's current names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionContext:
    """The current names of a session; None where nothing was chosen. `USE` answers with a changed copy.

    `organization_id` is a UUID, `timezone` an IANA name. Names are checked when a statement resolves against them, not before:
    a client may go on naming a database that was dropped (client-contract, section 1.1).
    """

    organization_id: str
    role: str | None = None
    database: str | None = None
    schema: str | None = None
    store: str | None = None
    compute_pool: str | None = None
    timezone: str = "UTC"
