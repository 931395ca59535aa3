"""ROLE: create, drop, describe."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from headrace.catalog.access import BUILT_IN_ROLES, Privilege
from headrace.catalog.policy import Requirement
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql.statements.role import CreateRole, DescribeRole, DropRole
from headrace.statements.base import Execution, Outcome, ddl, handles, nothing
from headrace.statements.dropping import ownership
from headrace.statements.listing import ROLES


def _creation(statement: CreateRole, run: Execution) -> Iterator[Requirement]:
    yield Requirement(Privilege.MANAGE_MEMBERS)
    for name in statement.granted_roles:
        yield Requirement(Privilege.OWNERSHIP, run.named_role(name), grantable=True)


@handles(CreateRole, requires=_creation, checked=True)
async def create_role(statement: CreateRole, run: Execution) -> Outcome:
    """Create a role. It inherits the privileges of the roles in the statement, and is not granted to any user yet."""
    name = statement.name.name
    exists = statement.if_not_exists and run.catalog.role(name) is not None
    if not exists:
        granted_roles = [run.named_role(role) for role in statement.granted_roles]
        try:
            await asyncio.to_thread(run.catalog.create_role, name, run.role, granted_roles)
        except UserError as error:
            error.span = error.span or statement.name.span
            raise
    done = "already exists" if exists else "was created"
    return Outcome(ddl("role", name, "CREATE", f"role {name} {done}", [name]))


@handles(DropRole, requires=lambda statement, run: ownership(run.named_role(statement.name), run))
async def drop_role(statement: DropRole, run: Execution) -> Outcome:
    """Drop a role. Refused with 2BP01 while it owns objects. Removes its grants, and the grants that depend on its grant options."""
    role = run.named_role(statement.name)
    if role.name in BUILT_IN_ROLES:
        raise UserError(
            SqlState.INVALID_GRANT_OPERATION,
            f"the role {role.name} is built in: it cannot be dropped",
            span=statement.name.span,
        )
    try:
        await asyncio.to_thread(run.catalog.drop_role, role, known=run.knows)
    except UserError as error:
        error.span = error.span or statement.name.span
        raise
    run.services.engine.wake()
    return Outcome(ddl("role", role.name, "DROP", f"role {role.name} was dropped", [role.name]))


@handles(DescribeRole, requires=nothing)
async def describe_role(statement: DescribeRole, run: Execution) -> Outcome:
    """Return one row of the list: roles are known to everybody."""
    return Outcome(await ROLES.rows(run, name=run.named_role(statement.name).name))
