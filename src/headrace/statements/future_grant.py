"""GRANT and REVOKE on future objects. ADR 27 lists the required privileges."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from headrace.catalog.access import FutureGrant, Privilege
from headrace.catalog.kinds import BY_NAME
from headrace.catalog.objects import SchemaObject
from headrace.catalog.policy import Requirement, named
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql.statements.grant import GrantFuture, ListFutureGrants, RevokeFuture, several
from headrace.statements.base import Execution, Outcome, ddl, handles, nothing
from headrace.statements.grant import target_of
from headrace.statements.listing import FUTURE_GRANTS
from headrace.statements.privilege import privilege_of
from headrace.statements.system.access import kind_and_name


def _requirements(statement: GrantFuture | RevokeFuture, run: Execution) -> Iterator[Requirement]:
    """Yield MANAGE_GRANTS, since others will own the objects; in a schema with managed access its owner's right suffices."""
    place = target_of(statement.place, run)
    if isinstance(place, SchemaObject) and place.managed:
        yield Requirement(Privilege.OWNERSHIP, place, grantable=True)
    else:
        yield Requirement(Privilege.MANAGE_GRANTS)


def _privileges(statement: GrantFuture | RevokeFuture) -> list[Privilege]:
    """Return the named privileges, or all of the kind; raises UserError 0LP01 for OWNERSHIP, 42601 for a privilege that the kind lacks."""
    privileges: list[Privilege] = []
    for word in statement.privileges:
        privilege = privilege_of(word, statement.kind)
        if privilege is Privilege.OWNERSHIP:
            raise UserError(
                SqlState.INVALID_GRANT_OPERATION,
                "a future object belongs to the role that creates it",
                hint=(
                    f"After it was created, GRANT OWNERSHIP ON {statement.kind} … transfers it to another "
                    "role."
                ),
                span=word.span,
            )
        privileges.append(privilege)
    spec = BY_NAME.get(statement.kind.lower())
    return privileges or [*(spec.privileges if spec is not None else (Privilege.USAGE,))]


@handles(GrantFuture, requires=_requirements, checked=True)
async def grant_future(statement: GrantFuture, run: Execution) -> Outcome:
    """Grant privileges on future objects; existing ones do not change."""
    place, privileges = target_of(statement.place, run), _privileges(statement)
    roles = [run.named_role(name).name for name in statement.roles]
    owner = Requirement(Privilege.OWNERSHIP, place, grantable=True)
    grantor = run.policy.grantor(run.role, owner) or run.role
    kind, where = statement.kind.lower(), run.policy.need(owner).object
    given = [
        FutureGrant(where, kind, privilege, role, grantor, statement.grantable)
        for privilege in privileges
        for role in roles
    ]
    new = await asyncio.to_thread(run.catalog.grant_future, given)
    done = f"granted to {', '.join(roles)}" + ("" if new else ": it was before")
    return _answer("GRANT", statement, privileges, place, roles, done)


@handles(RevokeFuture, requires=_requirements, checked=True)
async def revoke_future(statement: RevokeFuture, run: Execution) -> Outcome:
    """Revoke privileges on future objects; existing ones keep theirs."""
    place, privileges = target_of(statement.place, run), _privileges(statement)
    roles = [run.named_role(name).name for name in statement.roles]
    kind, where = statement.kind.lower(), run.policy.need(Requirement(Privilege.OWNERSHIP, place)).object
    keys = [(where, kind, privilege, role) for privilege in privileges for role in roles]
    revoked = await asyncio.to_thread(run.catalog.revoke_future, keys)
    done = (
        f"revoked from {', '.join(roles)}" if revoked else f"not revoked: {', '.join(roles)} did not have it"
    )
    return _answer("REVOKE", statement, privileges, place, roles, done)


@handles(ListFutureGrants, requires=nothing)
async def list_future_grants(statement: ListFutureGrants, run: Execution) -> Outcome:
    """List the future grants of the organization, and of the schemas and databases that the active role sees."""
    filters: dict[str, str] = {}
    if statement.place is not None:
        kind, name = kind_and_name(target_of(statement.place, run), run.catalog.organization().name)
        filters = {"kind": kind, "name": name}
    if statement.to_role is not None:
        filters["grantee"] = run.named_role(statement.to_role).name
    return Outcome(await FUTURE_GRANTS.rows(run, **filters))


def _answer(
    verb: str,
    statement: GrantFuture | RevokeFuture,
    privileges: list[Privilege],
    place: Any,
    roles: list[str],
    done: str,
) -> Outcome:
    words = ", ".join(privilege.value for privilege in privileges)
    summary = (
        f"{words} on future {several(statement.kind).lower().replace('_', ' ')} in {named(place)} {done}"
    )
    return Outcome(ddl("role", roles[0], verb, summary, roles))
