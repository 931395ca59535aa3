"""GRANT and REVOKE of privileges, roles and ownership; LIST GRANTS. ADR 27 describes required privileges and dependent grants."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from headrace.catalog.access import Grant, Privilege
from headrace.catalog.policy import Requirement, named, privileges_on
from headrace.core.errors import UserError
from headrace.core.names import Identifier
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.core.wording import plural
from headrace.sql.statements.grant import (
    GrantOwnership,
    GrantPrivileges,
    GrantRole,
    ListGrants,
    RevokePrivileges,
    RevokeRole,
    Target,
)
from headrace.statements.base import Execution, Outcome, ddl, handles, nothing
from headrace.statements.listing import GRANTS
from headrace.statements.privilege import privilege_of
from headrace.statements.system.access import kind_and_name


def target_of(target: Target, run: Execution) -> Any:
    """Return the object, None for the organization."""
    return None if target.kind is None or target.name is None else run.object(target.kind, target.name)


def _requirements(statement: GrantPrivileges | RevokePrivileges, run: Execution) -> Iterator[Requirement]:
    """Yield each privilege with the right to grant it: ownership, a grant option, or MANAGE_GRANTS."""
    target = target_of(statement.target, run)
    chosen = [privilege_of(word, statement.target.kind) for word in statement.privileges]
    for word, privilege in zip(statement.privileges, chosen, strict=True):
        if privilege is Privilege.OWNERSHIP:
            raise UserError(
                SqlState.INVALID_GRANT_OPERATION,
                f"{named(target)} belongs to exactly one role: OWNERSHIP can only be transferred",
                hint=f"GRANT OWNERSHIP ON {statement.target.sql()} TO ROLE ….",
                span=word.span,
            )
    for privilege in chosen or privileges_on(target):
        yield Requirement(privilege, target, grantable=True)


@handles(GrantPrivileges, requires=_requirements, checked=True)
async def grant_privileges(statement: GrantPrivileges, run: Execution) -> Outcome:
    """Grant all privileges or none. An existing grant does not change, but may gain its grant option."""
    requirements = [*_requirements(statement, run)]
    roles = [run.named_role(name).name for name in statement.roles]
    new_grants = [
        Grant(
            run.policy.need(item).object, item.privilege, role, run.policy.grantor(run.role, item) or run.role
        )
        for item in requirements
        for role in roles
    ]
    given = [replace(grant, grantable=statement.grantable) for grant in new_grants]
    new = await asyncio.to_thread(run.catalog.grant, given)
    note = "" if new else ": it was before"
    return Outcome(_answer("GRANT", requirements, roles, f"granted to {_roles(roles)}{note}"))


@handles(RevokePrivileges, requires=_requirements)
async def revoke_privileges(statement: RevokePrivileges, run: Execution) -> Outcome:
    """Revoke privileges. Refused with 2BP01 while grants depend on a revoked grant option, unless CASCADE revokes these grants too.
    Queries that need a revoked privilege stop."""
    requirements = [*_requirements(statement, run)]
    roles = [run.named_role(name).name for name in statement.roles]
    places = [(run.policy.need(item).object, item.privilege, role) for item in requirements for role in roles]
    try:
        revoked = await asyncio.to_thread(
            run.catalog.revoke,
            places,
            option_only=statement.option_only,
            cascade=statement.cascade,
        )
    except UserError as error:
        error.span = statement.target.name.span if statement.target.name else statement.span
        raise
    run.services.engine.wake()
    note = f"revoked from {_roles(roles)}" if revoked else f"not revoked: {_roles(roles)} did not have it"
    more = f", and {revoked - len(places)} that depended on it" if revoked > len(places) else ""
    return Outcome(_answer("REVOKE", requirements, roles, note + more))


def giving(target: object, role: Identifier, run: Execution) -> Iterator[Requirement]:
    """Yield the privileges for a change of an object's owner to `role`, for both statements that change it.

    Queries and views run with the rights of their owner: without `check_recipient`, any user could make them run with the rights of
    a stronger role.
    """
    yield Requirement(Privilege.OWNERSHIP, target, grantable=True)
    check_recipient(role, run)


def check_recipient(role: Identifier, run: Execution) -> None:
    """Raise UserError 42501 for a role that the user does not hold and the active role may not grant, 3D001 for a role that does not
    exist."""
    if not run.may_grant(run.named_role(role)):
        run.check_role(role)


async def give(target: object, role: Identifier, run: Execution) -> None:
    """Transfer an object to `role`; grants on the object stay. See `giving`."""
    await asyncio.to_thread(run.catalog.change_owner, target, role.name)
    run.services.engine.wake()


@handles(
    GrantOwnership,
    requires=lambda statement, run: giving(target_of(statement.target, run), statement.role, run),
)
async def grant_ownership(statement: GrantOwnership, run: Execution) -> Outcome:
    target, role = target_of(statement.target, run), statement.role.name
    await give(target, statement.role, run)
    summary = f"{named(target)} belongs to the role {role}"
    return Outcome(ddl("role", role, "GRANT", summary, [role]))


def _role_to_grant(statement: GrantRole | RevokeRole, run: Execution) -> list[Requirement]:
    return [Requirement(Privilege.OWNERSHIP, run.named_role(statement.role), grantable=True)]


@handles(GrantRole, requires=_role_to_grant)
async def grant_role(statement: GrantRole, run: Execution) -> Outcome:
    """Grant a role to a role, which then inherits its privileges, or to a user, who may then USE it. Refused with 0LP01 for a cycle."""
    role, other = statement.role, statement.to_role
    return Outcome(await _membership("GRANT", run.catalog.grant_role, role, other, statement.to_user, run))


@handles(RevokeRole, requires=_role_to_grant)
async def revoke_role(statement: RevokeRole, run: Execution) -> Outcome:
    """Revoke a role. Refused with 0LP01 within the built-in roles, and for the last user that holds orgadmin."""
    role, other = statement.role, statement.from_role
    return Outcome(
        await _membership("REVOKE", run.catalog.revoke_role, role, other, statement.from_user, run)
    )


async def _membership(
    verb: str, change: Any, role: Identifier, other: Identifier | None, user: str | None, run: Execution
) -> ResultSet:
    to_role = run.named_role(other).name if other is not None else None
    try:
        changed = await asyncio.to_thread(change, run.named_role(role), role=to_role, user=user)
    except UserError as error:
        error.span = error.span or (other or role).span
        raise
    run.services.engine.wake()
    whom = f"the role {to_role}" if to_role is not None else f"the user {user}"
    done = {"GRANT": "granted to", "REVOKE": "revoked from"}[verb]
    note = "" if changed else ": nothing changed"
    return ddl("role", role.name, verb, f"role {role.name} {done} {whom}{note}", [role.name])


@handles(ListGrants, requires=nothing)
async def list_grants(statement: ListGrants, run: Execution) -> Outcome:
    """List the grants on objects that the active role sees."""
    filters: dict[str, str] = {}
    if statement.target is not None:
        kind, name = kind_and_name(target_of(statement.target, run), run.catalog.organization().name)
        filters = {"kind": kind, "name": name}
    if statement.to_role is not None:
        filters = {"grantee_kind": "role", "grantee": run.named_role(statement.to_role).name}
    if statement.of_role is not None:
        filters = {"kind": "role", "name": run.named_role(statement.of_role).name, "privilege": "USAGE"}
    return Outcome(await GRANTS.rows(run, **filters))


def _answer(verb: str, requirements: Sequence[Requirement], roles: Sequence[str], done: str) -> ResultSet:
    words = ", ".join(item.privilege.value for item in requirements)
    summary = f"{words} on {named(requirements[0].target)} {done}" if requirements else done
    return ddl("role", roles[0], verb, summary, [*roles])


def _roles(names: Sequence[str]) -> str:
    return f"the {plural('role', len(names))} {', '.join(names)}"
