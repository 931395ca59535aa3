"""ALERT: create, drop, describe; LIST is in `listing`. ADR 57."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

from headrace.catalog.access import Privilege
from headrace.catalog.objects import Alert
from headrace.catalog.policy import Requirement
from headrace.connectors.egress import Egress
from headrace.core.errors import UserError
from headrace.core.names import Identifier, printed
from headrace.core.properties import LINE, PropertyReader, PropertySpec, PropertyType, Scope
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.core.types import VARCHAR
from headrace.engine.findings import CODES
from headrace.sql.statements.alert import CreateAlert, DescribeAlert, DropAlert
from headrace.statements.base import (
    Execution,
    Outcome,
    ddl,
    handles,
    kept_secrets,
    moment_text,
    named_secrets,
    now,
)
from headrace.statements.dropping import drop, ownership


def _url(text: str) -> str:
    try:
        parts = urlsplit(text.strip())
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if (
        not usable
        or parts.username is not None
        or parts.fragment
        or not text.isascii()
        or not text.isprintable()
    ):
        raise ValueError(text)
    return text.strip()


# The path of many receivers, such as that of a chat, is its password.
URL = PropertySpec(
    "url",
    PropertyType("http(s)://host/path without a user", _url),
    Scope.ALERT,
    "the address to which reports are sent, as POST requests with JSON",
    default="needed",
    secret=True,
)
TOKEN = PropertySpec(
    "token", LINE, Scope.ALERT, "a bearer token that the receiver requires", default="none", secret=True
)
PROPERTIES = (URL, TOKEN)


def _of_create(statement: CreateAlert, run: Execution) -> Iterator[Requirement]:
    """Yield OWNERSHIP of the query, or of the organization: the reports leave the server."""
    query = run.query(statement.reference) if statement.reference is not None else None
    yield Requirement(Privilege.OWNERSHIP, query)
    yield from named_secrets(statement.properties, run)


@handles(CreateAlert, requires=_of_create, checked=True)
async def create_alert(statement: CreateAlert, run: Execution) -> Outcome:
    """Create an alert, which reports findings from now on, present ones too. Its receiver is not contacted before."""
    name = statement.name.name
    existing = run.catalog.alerts.get(name)
    if existing is not None and not (statement.if_not_exists and run.knows(existing)):
        raise UserError(
            SqlState.DUPLICATE_ALERT,
            f"the alert {name!r} already exists",
            hint="Choose another name, or drop it first.",
            span=statement.name.span,
        )
    if existing is not None:
        return _answer(name, "CREATE", "already exists")
    codes = tuple(dict.fromkeys(map(_code, statement.codes)))
    given, named = run.with_secrets(statement.properties, PROPERTIES)
    reader = PropertyReader(given.entries, PROPERTIES, what="an alert", lacking=statement.span)
    url, token = reader.require(URL), reader.take(TOKEN)
    reader.finish()
    if not run.checking:
        await asyncio.to_thread(Egress(run.services.settings.egress_allowed).check, [url])
    query = await asyncio.to_thread(run.query, statement.reference) if statement.reference else None
    properties = {"url": url, **({"token": token} if token is not None else {})}
    moment = now()
    alert = Alert(
        name=name,
        query_id=query.id if query is not None else None,
        codes=codes,
        host=urlsplit(url).netloc,
        owner=run.role,
        created_at=moment,
        updated_at=moment,
        properties=properties,
        secrets=kept_secrets(named, properties),
    )
    await asyncio.to_thread(run.catalog.create_alert, alert)
    return _answer(name, "CREATE", "was created")


def _code(name: Identifier) -> str:
    if name.name not in CODES:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"there is no finding {name.name!r}",
            hint=suggestion(name.name, CODES, otherwise=f"The findings are {', '.join(CODES)}."),
            span=name.span,
        )
    return name.name


@handles(DropAlert, requires=lambda statement, run: ownership(run.alert(statement.name), run), checked=True)
async def drop_alert(statement: DropAlert, run: Execution) -> Outcome:
    """Drop an alert. Reports that were not delivered are dropped with it."""
    alert = run.alert(statement.name)
    await drop(alert, run, cascade=False, span=statement.name.span)
    return _answer(alert.name, "DROP", "was dropped")


@handles(
    DescribeAlert,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.alert(statement.name))],
)
async def describe_alert(statement: DescribeAlert, run: Execution) -> Outcome:
    """Return property and value rows."""
    alert = run.alert(statement.name)
    delivery = run.services.engine.alerts.delivery(alert.id)
    delivered = delivery.delivered_at
    facts = {
        "name": alert.name,
        "query_id": alert.query_id,
        "codes": ", ".join(alert.codes) or None,
        "host": alert.host,
        "firing": str(len(delivery.firing)),
        "pending": str(len(delivery.pending)),
        "delivered_at": moment_text(delivered) if delivered is not None else None,
        "error": delivery.error,
        "owner": alert.owner,
        "created_at": moment_text(alert.created_at),
        "updated_at": moment_text(alert.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(facts.items())))


def _answer(name: str, command: str, done: str) -> Outcome:
    return Outcome(ddl("alert", name, command, f"alert {printed(name)} {done}", [name]))
