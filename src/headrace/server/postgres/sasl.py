"""Sign-in by SCRAM-SHA-256 (RFC 5802, RFC 7677), in which the client proves that it knows a secret and does not send it.

The server does not know which of a user's secrets the client has. All of them have one salt, so it compares the proof with each.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from dataclasses import dataclass

from headrace.catalog.scram import ITERATIONS, Verifier
from headrace.server.postgres import messages
from headrace.server.postgres.errors import FatalError, protocol_violation
from headrace.server.postgres.messages import Fields
from headrace.server.postgres.wire import Wire

MECHANISM = "SCRAM-SHA-256"
_NONCE_BYTES = 18
_MESSAGE = "a message of SCRAM"


@dataclass(frozen=True)
class Attempt:
    """Text that both sides sign, and the proof that a client sent for it."""

    message: bytes
    proof: bytes

    def accepted(self, verifiers: list[Verifier]) -> tuple[Verifier, bytes] | None:
        """Return the verifier of the secret that the client knows, with the server's signature; None if it knows none of them."""
        for verifier in verifiers:
            if (signature := verifier.signature(self.message, self.proof)) is not None:
                return verifier, signature
        return None


async def attempt(wire: Wire, salt: bytes) -> Attempt:
    """Ask for a proof over `salt`, and return it. Raises FatalError 08P01 for messages that are not the mechanism's."""
    wire.write(messages.sasl(messages.zero_ended(MECHANISM) + b"\0", messages.SASL))
    await wire.flush()
    fields = Fields(await wire.secret_message(_MESSAGE))
    if (mechanism := fields.text()) != MECHANISM:
        raise FatalError("28000", f"expected the mechanism {MECHANISM}, found {mechanism[:100]!r}")
    first = fields.bytes(max(0, fields.int32())).decode("ascii", "replace")
    fields.end()
    header, bare = _first(first)
    nonce = _attribute(bare.split(","), "r") + secrets.token_urlsafe(_NONCE_BYTES)
    challenge = f"r={nonce},s={base64.b64encode(salt).decode()},i={ITERATIONS}"
    wire.write(messages.sasl(challenge.encode(), messages.SASL_CONTINUE))
    await wire.flush()
    final = (await wire.secret_message(_MESSAGE)).decode("ascii", "replace")
    without_proof, _, proof = final.rpartition(",p=")
    if without_proof != f"c={base64.b64encode(header.encode()).decode()},r={nonce}":
        raise protocol_violation("the final message of SCRAM does not continue the first one")
    try:
        decoded = base64.b64decode(proof, validate=True)
    except binascii.Error:
        raise protocol_violation("the proof of SCRAM is not base64") from None
    return Attempt(f"{bare},{challenge},{without_proof}".encode(), decoded)


def final(signature: bytes) -> bytes:
    """Return the server's last message, by which the client sees that the server knows the verifier."""
    return messages.sasl(b"v=" + base64.b64encode(signature), messages.SASL_FINAL)


def _first(text: str) -> tuple[str, str]:
    """Return the header and the rest of the client's first message. The name in it is ignored, as PostgreSQL does: the startup message
    has named the user."""
    parts = text.split(",", 2)
    if len(parts) < 3 or parts[0] not in ("n", "y"):
        # `p=…` binds to a channel, for which the mechanism has another name.
        raise protocol_violation("the first message of SCRAM has a header that is not supported")
    return f"{parts[0]},{parts[1]},", parts[2]


def _attribute(parts: list[str], name: str) -> str:
    for part in parts:
        if part.startswith(f"{name}=") and len(part) > 2:
            return part[2:]
    raise protocol_violation(f"a message of SCRAM has no attribute {name}")
