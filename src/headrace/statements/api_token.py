"""API_TOKEN: create, alter, drop, describe, list. Source: dialect section 7.5; who may do what is in docs/adr/0028."""

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
    "token.role_name", TEXT, Scope.TOKEN, "the role that whoever signs in with it has", default="needed"
)
DAYS = PropertySpec(
    "token.expires_in_days",
    number(1, DAYS_MAX, f"a number of days from 1 to {DAYS_MAX}"),
    Scope.TOKEN,
    "after how many days it is good no longer",
    default=str(DAYS_DEFAULT),
)
PROPERTIES = (ROLE, DAYS)


@handles(CreateApiToken, requires=nothing)
async def create_api_token(statement: CreateApiToken, run: Execution) -> Outcome:
    """For the user who asks, and a role that this user may take on."""
    reader = PropertyReader(
        statement.properties.entries, PROPERTIES, what="an API token", lacking=statement.span
    )
    role = reader.require(ROLE)
    run.check_role(Identifier(role, reader.span(ROLE)))
    moment = now()
    token = ApiToken(statement.name.name, run.principal.user, role, moment, moment, _end(reader, run, moment))
    try:
        secret = await asyncio.to_thread(run.catalog.create_api_token, token)
    except UserError as error:
        error.span = statement.name.span
        raise
    return Outcome(_shown_once(token, "CREATE", "was created", secret))


@handles(AlterApiToken, requires=nothing)
async def alter_api_token(statement: AlterApiToken, run: Execution) -> Outcome:
    """Another secret and another end, the same name and role: the secret before is good no longer."""
    token = _token(statement.name, run)
    reader = PropertyReader(statement.properties.entries, (DAYS,), what="ALTER API_TOKEN")
    moment = now()
    if token.user != run.principal.user:
        raise UserError(
            SqlState.INSUFFICIENT_PRIVILEGE,
            f"the API token {token.name!r} belongs to {token.user!r}, whose secret would become known to you",
            hint="Drop it, and let its user make another.",
            span=statement.name.span,
        )
    user = run.catalog.user(token.user)
    held = user.roles if user is not None else ()
    for role in held if token.role is None else (token.role,):
        run.check_role(Identifier(role, statement.name.span))
    renewed = replace(token, updated_at=moment, expires_at=_end(reader, run, moment))
    secret = await asyncio.to_thread(run.catalog.renew_api_token, renewed)
    return Outcome(_shown_once(token, "ALTER", "was made anew", secret))


@handles(DropApiToken, requires=nothing)
async def drop_api_token(statement: DropApiToken, run: Execution) -> Outcome:
    """Requests, streams and sessions with it end within seconds."""
    token = _token(statement.name, run)
    await asyncio.to_thread(run.catalog.drop_api_token, token)
    return Outcome(ddl("api_token", token.name, "DROP", f"API token {token.name} was dropped", [token.name]))


@handles(DescribeApiToken, requires=nothing)
async def describe_api_token(statement: DescribeApiToken, run: Execution) -> Outcome:
    """One row of the list."""
    return Outcome(await API_TOKENS.rows(run, name=_token(statement.name, run).name))


def _token(name: Identifier, run: Execution) -> ApiToken:
    """Raises UserError 3D012 also for one that is there and that the role may not see."""
    found = next((token for token in visible_tokens(run) if token.name == name.name), None)
    if found is None:
        raise UserError(
            SqlState.API_TOKEN_NOT_FOUND,
            f"the API token {name.name!r} does not exist",
            hint="LIST API_TOKENS shows those that do.",
            span=name.span,
        )
    return found


def _end(reader: PropertyReader, run: Execution, moment: datetime.datetime) -> datetime.datetime:
    """Never later than that of the token which asks for it, which could outlive itself otherwise."""
    days = reader.take(DAYS)
    end = moment + datetime.timedelta(days=DAYS_DEFAULT if days is None else days)
    asking = next((token for token in run.catalog.api_tokens() if token.id == run.principal.token), None)
    return min(end, asking.expires_at) if asking is not None and asking.expires_at is not None else end


def _shown_once(token: ApiToken, command: str, done: str, secret: str) -> ResultSet:
    columns = [(title, VARCHAR) for title in ("Type", "Name", "Command", "Summary", "Token")]
    summary = f"API token {token.name} {done}; keep the token, which is shown this once"
    return result(columns, [("api_token", token.name, command, summary, secret)])
