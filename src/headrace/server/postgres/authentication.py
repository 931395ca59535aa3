"""Sign-in by this door: the user's name with an API token or a password, which the client sends, or proves to know by SCRAM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headrace.catalog import principals
from headrace.catalog.audit import AuditEntry, AuditOutcome, Event
from headrace.catalog.objects import Principal
from headrace.server.auth import TOKEN_LENGTH_MAX
from headrace.server.ports import Accounts, ServerParts
from headrace.server.postgres import sasl
from headrace.server.postgres.errors import FatalError
from headrace.server.postgres.wire import Wire
from headrace.server.throttle import TooManyAttemptsError

DOOR = "postgres"


@dataclass(frozen=True)
class SignedIn:
    """The user of a connection. `current` returns the principal as of now, None if the credential is no longer valid."""

    user: str
    current: Callable[[], Principal | None] = field(repr=False)
    address: str | None

    def principal(self) -> Principal:
        """Return the principal with the user's current roles. Raises FatalError 28000 if the credential is no longer valid."""
        principal = self.current()
        if principal is None:
            raise FatalError(
                "28000", "the credential of this connection is no longer valid", hint="Connect again."
            )
        return replace(principal, address=self.address, door=DOOR)


async def signed_in(parts: ServerParts, user: str, secret: str, address: str | None) -> SignedIn:
    """Return the user with that name whose API token or password `secret` is. Raises FatalError 28P01 if it is neither."""
    name = user.strip().lower()
    by_token = parts.authenticate(secret) if len(secret) <= TOKEN_LENGTH_MAX else None
    if by_token is not None and by_token.user == name:
        parts.audit(_entry(AuditOutcome.ALLOWED, address, name, by_token.credential))
        return SignedIn(name, lambda: parts.authenticate(secret), address)
    accounts = parts.accounts
    if accounts is not None:
        current = await _by_password(parts, accounts, name, secret, address)
        if current is not None:
            parts.audit(_entry(AuditOutcome.ALLOWED, address, name, "password"))
            return SignedIn(name, current, address)
    known = accounts.user(name) if accounts is not None else None
    raise _refused(parts, address, known.name if known else None, "password")


async def signed_in_by_proof(parts: ServerParts, accounts: Accounts, user: str, wire: Wire) -> SignedIn:
    """Return the user with that name whose client proves to know a secret. Raises FatalError 28P01 if it does not, and 08P01 for messages
    that are not SCRAM's."""
    name = user.strip().lower()
    attempt = await sasl.attempt(wire, accounts.scram.salt(name))
    keys, known = parts.attempts.keys(name, wire.address), accounts.user(name)
    accepted = attempt.accepted(accounts.scram.of(name))
    principal = accepted[0].current() if accepted is not None else None
    if principal is None or principal.token is None:
        # A token cannot be guessed, so that it is accepted while passwords are.
        try:
            parts.attempts.refuse_hasty(keys, known.name if known else None)
        except TooManyAttemptsError as error:
            raise _throttled(parts, wire.address, error) from None
    if accepted is None or principal is None:
        parts.attempts.throttle.failed(keys)
        raise _refused(parts, wire.address, known.name if known else None, "scram")
    if principal.token is None:
        parts.attempts.throttle.forget(f"user {name}")
    verifier, signature = accepted
    parts.audit(_entry(AuditOutcome.ALLOWED, wire.address, name, principal.credential))
    wire.write(sasl.final(signature))
    return SignedIn(name, verifier.current, wire.address)


def _refused(parts: ServerParts, address: str | None, user: str | None, detail: str) -> FatalError:
    parts.audit(_entry(AuditOutcome.DENIED, address, user, None, detail))
    hint = "The password is the user's password or an API token of the user."
    if parts.settings.postgres_scram:
        hint += " Those that were set before HEADRACE_POSTGRES_SCRAM have to be set again."
    return FatalError("28P01", "the user, the token or the password is wrong", hint=hint)


def _throttled(parts: ServerParts, address: str | None, error: TooManyAttemptsError) -> FatalError:
    parts.audit(_entry(AuditOutcome.DENIED, address, error.user, None, "throttled"))
    return FatalError("28P01", str(error))


async def _by_password(
    parts: ServerParts, accounts: Accounts, name: str, secret: str, address: str | None
) -> Callable[[], Principal | None] | None:
    try:
        user = await parts.attempts.matches(accounts.user, name, secret, address)
    except TooManyAttemptsError as error:
        raise _throttled(parts, address, error) from None
    if user is None:
        return None
    return lambda: principals.by_password(accounts.user(name), user)


def _entry(
    outcome: AuditOutcome,
    address: str | None,
    user: str | None,
    credential: str | None,
    detail: str | None = None,
) -> AuditEntry:
    """Return the entry of a sign-in. An unknown user name is left out: people type passwords there."""
    return AuditEntry(
        Event.SIGN_IN, outcome, user, credential=credential, address=address, door=DOOR, detail=detail
    )
