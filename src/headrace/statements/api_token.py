"""API_TOKEN: create, alter, drop, describe, list. Source: dialect section 7.5; docs/adr/0028 lists the required privileges."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import replace

from headrace.catalog.objects import ApiToken
from headrace.core.errors import UserError
from headrace.core.names import Identifier
from headrace.core.properties import TEXT, PropertyReader, PropertySpec, Scope, number
from headrace.core.resultset import ResultSet, result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.sql.statements.api_token import (
    AlterApiToken,
    CreateApiToken,
    DescribeApiToken,
    DropApiToken,
)
from headrace.statements.base import Execution, Outcome, ddl, handles, nothing, now
from headrace.statements.listing import API_TOKENS
from headrace.statements.system.access import visible_tokens

DAYS_MAX = 3650
DAYS_DEFAULT = 90
ROLE = PropertySpec(
    "token.role_name", TEXT, Scope.TOKEN, "the role of sessions that sign in with the token", default="needed"
)
DAYS = PropertySpec(
    "token.expires_in_days",
    number(1, DAYS_MAX, f"a number of days from 1 to {DAYS_MAX}"),
    Scope.TOKEN,
    "the number of days after which it expires",
    default=str(DAYS_DEFAULT),
)
PROPERTIES = (ROLE, DAYS)


@handles(CreateApiToken, requires=nothing)
async def create_api_token(statement: CreateApiToken, run: Execution) -> Outcome:
    """Create a token for the current user, and a role that this user holds or owns. It ends with the token that created it."""
    reader = PropertyReader(
        statement.properties.entries, PROPERTIES, what="an API token", lacking=statement.span
    )
    role = reader.require(ROLE)
    _check_role(Identifier(role, reader.span(ROLE)), run)
    moment, end = now(), _end(reader, run, run.principal.token)
    token = ApiToken(
        statement.name.name, run.principal.user, role, moment, moment, end, parent=run.principal.token
    )
    try:
        secret = await asyncio.to_thread(run.catalog.create_api_token, token)
    except UserError as error:
        error.span = statement.name.span
        raise
    return Outcome(_shown_once(token, "CREATE", "was created", secret))


@handles(AlterApiToken, requires=nothing)
async def alter_api_token(statement: AlterApiToken, run: Execution) -> Outcome:
    """Renew a token with a new secret and expiry; its name and role stay. The earlier secret and the tokens made with it end."""
    token = _token(statement.name, run)
    reader = PropertyReader(statement.properties.entries, (DAYS,), what="ALTER API_TOKEN")
    if token.user != run.principal.user:
        raise UserError(
            SqlState.INSUFFICIENT_PRIVILEGE,
            f"the API token {token.name!r} belongs to {token.user!r}, whose secret would become known to you",
            hint="Drop the token, and let its user create another one.",
            span=statement.name.span,
        )
    user = run.catalog.user(token.user)
    held = user.roles if user is not None else ()
    for role in held if token.role is None else (token.role,):
        _check_role(Identifier(role, statement.name.span), run)
    end = _end(reader, run, run.principal.token, token.parent)
    renewed = replace(token, updated_at=now(), expires_at=end)
    secret = await asyncio.to_thread(run.catalog.renew_api_token, renewed)
    return Outcome(_shown_once(token, "ALTER", "was renewed", secret))


@handles(DropApiToken, requires=nothing)
async def drop_api_token(statement: DropApiToken, run: Execution) -> Outcome:
    """Drop a token; requests, streams and sessions with it end within seconds."""
    token = _token(statement.name, run)
    await asyncio.to_thread(run.catalog.drop_api_token, token)
    return Outcome(ddl("api_token", token.name, "DROP", f"API token {token.name} was dropped", [token.name]))


@handles(DescribeApiToken, requires=nothing)
async def describe_api_token(statement: DescribeApiToken, run: Execution) -> Outcome:
    """Return one row of the list."""
    token = _token(statement.name, run)
    return Outcome(await API_TOKENS.rows(run, name=token.name, user_name=token.user))


def _token(name: Identifier, run: Execution) -> ApiToken:
    """Return the token of that name or id, the user's own before others'. Raises UserError 3D012 also for a token that the user may not
    know of."""
    known = [token for token in visible_tokens(run) if name.name in (token.name, token.id)]
    matching = [token for token in known if token.user == run.principal.user] or known
    if len(matching) == 1:
        return matching[0]
    raise UserError(
        SqlState.API_TOKEN_NOT_FOUND,
        f"{len(matching)} users have an API token {name.name!r}: {', '.join(token.user for token in matching)}"
        if matching
        else f"the API token {name.name!r} does not exist",
        hint="Write the token's id: SELECT id, name, user_name FROM deltastream.sys.api_tokens;"
        if matching
        else "LIST API_TOKENS shows the existing API tokens.",
        span=name.span,
    )


def _check_role(name: Identifier, run: Execution) -> None:
    """Raise UserError 3D001 or 42501 for a role that a token of this user cannot have."""
    role = run.catalog.role(name.name)
    if role is None or not run.policy.graph.commands(run.principal, role):
        run.check_role(name)


def _end(reader: PropertyReader, run: Execution, *tokens: str | None) -> datetime.datetime:
    """Return the requested expiry, limited by the expiry of the tokens with these ids: a token expires with the token that created it."""
    days = reader.take(DAYS)
    end = now() + datetime.timedelta(days=DAYS_DEFAULT if days is None else days)
    ends = [token.expires_at for token in run.catalog.api_tokens() if token.id in tokens]
    return min([end, *(other for other in ends if other is not None)])


def _shown_once(token: ApiToken, command: str, done: str, secret: str) -> ResultSet:
    columns = [(title, VARCHAR) for title in ("Type", "Name", "Command", "Summary", "Token")]
    summary = f"API token {token.name} {done}; store the token, which is shown only once"
    return result(columns, [("api_token", token.name, command, summary, secret)])
