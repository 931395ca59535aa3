"""USER and INVITATION: invite, alter, drop, describe, list, revoke. Source: dialect section 5 and docs/adr/0028."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable

from headrace.catalog.access import Privilege
from headrace.catalog.objects import Invitation, User
from headrace.core.errors import Span, UserError
from headrace.core.names import Identifier
from headrace.core.properties import NAMES, TEXT, PropertyReader, PropertySpec, Scope
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.sql.statements.user import (
    AlterUser,
    DescribeUser,
    DropUser,
    InviteUser,
    RevokeInvitation,
)
from headrace.statements.base import Execution, Outcome, ddl, handles, nothing, now, on_organization
from headrace.statements.grant import check_recipient
from headrace.statements.listing import USERS
from headrace.statements.system.access import has_all_roles, visible_users

INVITED_DAYS = 7
ROLES = PropertySpec(
    "roles", NAMES, Scope.INVITATION, "the roles of the user, in parentheses", default="needed"
)
DEFAULT = PropertySpec("default", TEXT, Scope.INVITATION, "the role of a new session", default="the first")
PROPERTIES = (ROLES, DEFAULT)


@handles(InviteUser, requires=on_organization(Privilege.MANAGE_MEMBERS))
async def invite_user(statement: InviteUser, run: Execution) -> Outcome:
    """Create an invitation and return its code, which the inviter hands over; the invited user chooses a password with it."""
    reader = PropertyReader(
        statement.properties.entries, PROPERTIES, what="an invitation", lacking=statement.span
    )
    roles = reader.require(ROLES)
    default = reader.take(DEFAULT) or roles[0]
    if default not in roles:
        raise reader.bad(DEFAULT, "one of the roles")
    _may_give(run, roles, span=reader.span(ROLES))
    moment = now()
    invitation = Invitation(
        statement.user.name,
        tuple(dict.fromkeys(roles)),
        default,
        run.principal.user,
        moment,
        moment + datetime.timedelta(days=INVITED_DAYS),
    )
    try:
        code = await asyncio.to_thread(run.catalog.create_invitation, invitation)
    except UserError as error:
        error.span = statement.user.span
        raise
    columns = [(title, VARCHAR) for title in ("Type", "Name", "Command", "Summary", "Token")]
    summary = f"{invitation.user} was invited; the code, shown only once, is valid for {INVITED_DAYS} days"
    return Outcome(result(columns, [("invitation", invitation.id, "INVITE", summary, code)]))


@handles(RevokeInvitation, requires=on_organization(Privilege.MANAGE_MEMBERS))
async def revoke_invitation(statement: RevokeInvitation, run: Execution) -> Outcome:
    """Withdraw an invitation: its code ends."""
    identifier = statement.invitation.name
    invitation = next((item for item in run.catalog.invitations() if item.id == identifier), None)
    if invitation is None:
        raise UserError(
            SqlState.USER_NOT_FOUND,
            f"the invitation {identifier!r} does not exist",
            hint="LIST INVITATIONS shows the existing invitations.",
            span=statement.invitation.span,
        )
    await asyncio.to_thread(run.catalog.drop_invitation, invitation)
    summary = f"the invitation of {invitation.user} was revoked"
    return Outcome(ddl("invitation", invitation.id, "REVOKE", summary, [invitation.id]))


@handles(AlterUser, requires=nothing)
async def alter_user(statement: AlterUser, run: Execution) -> Outcome:
    """Change the own password, or the password of a user all of whose roles one could grant; the sessions of that user end."""
    user = _user(statement.user, run)
    if user.name == run.principal.user:
        refuse_part(run, "set the password", statement.user.span)
    else:
        _may_give(run, user.roles, span=statement.user.span)
    await asyncio.to_thread(run.catalog.set_password, user, statement.password)
    return Outcome(ddl("user", user.name, "ALTER", f"the password of {user.name} was set", [user.name]))


@handles(DropUser, requires=on_organization(Privilege.MANAGE_MEMBERS))
async def drop_user(statement: DropUser, run: Execution) -> Outcome:
    """Drop a user; the user's API tokens, sessions and streams end; objects owned by roles stay."""
    user = _user(statement.name, run)
    _may_give(run, user.roles, span=statement.name.span)
    try:
        await asyncio.to_thread(run.catalog.drop_user, user)
    except UserError as error:
        error.span = statement.name.span
        raise
    return Outcome(ddl("user", user.name, "DROP", f"user {user.name} was dropped", [user.name]))


@handles(DescribeUser, requires=nothing)
async def describe_user(statement: DescribeUser, run: Execution) -> Outcome:
    """Return one row of the list."""
    return Outcome(await USERS.rows(run, name=_user(statement.user, run).name))


def _user(name: Identifier, run: Execution) -> User:
    """Raise UserError 3D000 for a missing user, and for a user that the role may not see."""
    match = next((user for user in visible_users(run) if user.name == name.name), None)
    if match is None:
        raise UserError(
            SqlState.USER_NOT_FOUND,
            f"the user {name.name!r} does not exist",
            hint="LIST USERS shows the existing users.",
            span=name.span,
        )
    return match


def _may_give(run: Execution, roles: Iterable[str], *, span: Span | None) -> None:
    """Raise UserError 42501 for a role that the active role could not grant: managing a user gives access to the user's roles."""
    for role in roles:
        check_recipient(Identifier(role, span), run)


def refuse_part(run: Execution, what: str, span: Span | None) -> None:
    """Raise UserError 42501 if a session of an API token with a single role would change its user, which affects all roles of the user."""
    if not has_all_roles(run):
        raise UserError(
            SqlState.INSUFFICIENT_PRIVILEGE,
            f"this API token has fewer roles than its user, and is not allowed to {what} of the user",
            hint="Sign in with the password, or with a token that has every role of the user.",
            span=span,
        )


def _row(user: User) -> tuple[object, ...]:
    return (user.name, ", ".join(user.roles), user.default_role, user.password is not None, user.created_at)
