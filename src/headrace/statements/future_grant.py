"""GRANT and REVOKE on relations that are not there yet. ADR 27 says who may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from headrace.catalog.access import Grant, Privilege
from headrace.catalog.objects import SchemaObject
from headrace.catalog.policy import Requirement, named
from headrace.core.errors import UserError
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.sql.statements.grant import GrantFuture, ListFutureGrants, RevokeFuture
from headrace.statements.base import Execution, Outcome, ddl, handles, nothing
from headrace.statements.grant import target_of
from headrace.statements.privilege import privilege_of
from headrace.statements.system.access import future_rows, kind_and_name

_TITLES = ("Privilege", "Kind", "Name", "Grantee", "GrantOption", "GrantedBy")
_COLUMNS = [(title, BOOLEAN if title == "GrantOption" else VARCHAR) for title in _TITLES]


def _wanted(statement: GrantFuture | RevokeFuture, run: Execution) -> Iterator[Requirement]:
    """MANAGE_GRANTS, since others will own the relations; in a schema with managed access its owner's right does."""
    place = target_of(statement.place, run)
    if isinstance(place, SchemaObject) and place.managed:
        yield Requirement(Privilege.OWNERSHIP, place, grantable=True)
    else:
        yield Requirement(Privilege.MANAGE_GRANTS)


def _privileges(statement: GrantFuture | RevokeFuture) -> list[Privilege]:
    """Those that are named, or all that a relation has; raises UserError 0LP01 for OWNERSHIP, 42601 for no privilege of relations."""
    found: list[Privilege] = []
    for word in statement.privileges:
        privilege = privilege_of(word, "RELATION")
        if privilege is Privilege.OWNERSHIP:
            raise UserError(
                SqlState.INVALID_GRANT_OPERATION,
                "a relation that is not there yet belongs to the role that will make it",
                hint="GRANT OWNERSHIP ON RELATION … gives it to another then.",
                span=word.span,
            )
        found.append(privilege)
    return found or [Privilege.SELECT, Privilege.INSERT]


@handles(GrantFuture, requires=_wanted)
async def grant_future(statement: GrantFuture, run: Execution) -> Outcome:
    """What is there already stays as it is."""
    place, privileges = target_of(statement.place, run), _privileges(statement)
    roles = [run.named_role(name).name for name in statement.roles]
    owner = Requirement(Privilege.OWNERSHIP, place, grantable=True)
    grantor = run.policy.grantor(run.role, owner) or run.role
    given = [
        Grant(place.id, privilege, role, grantor, statement.grantable)
        for privilege in privileges
        for role in roles
    ]
    new = await asyncio.to_thread(run.catalog.grant_future, given)
    done = f"granted to {', '.join(roles)}" + ("" if new else ": it was before")
    return _answer("GRANT", privileges, place, roles, done)


@handles(RevokeFuture, requires=_wanted)
async def revoke_future(statement: RevokeFuture, run: Execution) -> Outcome:
    """What relations have got by it they keep."""
    place, privileges = target_of(statement.place, run), _privileges(statement)
    roles = [run.named_role(name).name for name in statement.roles]
    taken = [(place.id, privilege, role) for privilege in privileges for role in roles]
    gone = await asyncio.to_thread(run.catalog.revoke_future, taken)
    done = f"revoked from {', '.join(roles)}" if gone else f"not revoked: {', '.join(roles)} did not have it"
    return _answer("REVOKE", privileges, place, roles, done)


@handles(ListFutureGrants, requires=nothing)
async def list_future_grants(statement: ListFutureGrants, run: Execution) -> Outcome:
    """Of the schemas and databases that the active role sees."""
    found = future_rows(run)
    if statement.place is not None:
        place = kind_and_name(target_of(statement.place, run), run.catalog.organization().name)
        found = [row for row in found if (row.kind, row.name) == place]
    if statement.to_role is not None:
        role = run.named_role(statement.to_role).name
        found = [row for row in found if row.grantee == role]
    rows = [(row.privilege, row.kind, row.name, row.grantee, row.grantable, row.grantor) for row in found]
    return Outcome(result(_COLUMNS, rows))


def _answer(verb: str, privileges: list[Privilege], place: Any, roles: list[str], done: str) -> Outcome:
    words = ", ".join(privilege.value for privilege in privileges)
    summary = f"{words} on future relations in {named(place)} {done}"
    return Outcome(ddl("role", roles[0], verb, summary, roles))
