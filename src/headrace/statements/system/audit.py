"""The audit log, one's own statements, and the interactive queries that run now, as system relations."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence

from headrace.catalog.access import Privilege
from headrace.catalog.audit import AuditCondition, Event
from headrace.catalog.times import micros
from headrace.core.schema import Column
from headrace.core.types import BIGINT, TIMESTAMP, VARCHAR, DataType
from headrace.planner.view_reads import Condition
from headrace.statements.base import Execution
from headrace.statements.system.relation import Reference, Rows, always, system_relation

ROWS_MAX = 100_000
STATEMENTS_MAX = 10_000
CONDITIONS_MAX = 100
"""Conditions, and values of each, that the catalog's database evaluates: it limits how many values and levels a statement has."""

_COLUMNS = (
    always("id", BIGINT),
    always("time", TIMESTAMP),
    always("event"),
    always("outcome"),
    Column("sqlstate", VARCHAR),
    Column("user_name", VARCHAR),
    Column("role_name", VARCHAR),
    Column("credential", VARCHAR),
    Column("address", VARCHAR),
    Column("door", VARCHAR),
    Column("statement_id", VARCHAR),
    Column("statement", VARCHAR),
    Column("duration_ms", BIGINT),
    Column("detail", VARCHAR),
    always("times", BIGINT),
)
_TYPES = {column.name: column.type for column in _COLUMNS}
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""PostgreSQL's texts have no NUL, and no driver encodes half of a surrogate pair."""


_OWN = (
    "id",
    "time",
    "outcome",
    "sqlstate",
    "role_name",
    "door",
    "statement_id",
    "statement",
    "duration_ms",
    "times",
)
"""The columns of `statements`, which have the same names and types in `audit`."""


def _matching(run: Execution, conditions: Sequence[Condition]) -> Rows:
    return [
        (
            number,
            entry.time,
            entry.event.value,
            entry.outcome.value,
            entry.sqlstate,
            entry.user,
            entry.role,
            entry.credential,
            entry.address,
            entry.door,
            entry.statement_id,
            entry.statement,
            entry.duration_ms,
            entry.detail,
            entry.times,
        )
        for number, entry in run.catalog.audit.read(ROWS_MAX, list(_stored(conditions)))
    ]


def _stored(conditions: Sequence[Condition]) -> Iterator[AuditCondition]:
    """Translate the conditions to the catalog's table, without conditions that databases evaluate differently."""
    for condition in conditions[:CONDITIONS_MAX]:
        kind = _TYPES[condition.column]
        if len(condition.values) > CONDITIONS_MAX or (kind == VARCHAR and not _is_alike(condition)):
            continue
        column = "role" if condition.column == "role_name" else condition.column
        values = tuple(_value(text, kind) for text in condition.values)
        yield AuditCondition(column, condition.operator, values)


def _is_alike(condition: Condition) -> bool:
    """True if all databases evaluate a condition on a text in the same way: databases differ in the order of texts."""
    refused = any(_UNSTORABLE.search(text) for text in condition.values)
    return not refused and condition.operator in ("=", "<>", "IN", "IS NULL", "IS NOT NULL")


def _value(text: str, kind: DataType) -> str | int:
    if kind == TIMESTAMP:
        return micros(datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC))
    return int(text) if kind == BIGINT else text


@system_relation(
    "audit",
    *_COLUMNS,
    key=("id",),
    references=(Reference("user", "users", ("user_name",)),),
    doc="The allowed and refused actions of the last `HEADRACE_AUDIT_DAYS` days; requires READ_AUDIT. A query reads the newest 100,000 "
    "events that satisfy its conditions on a time, a user, an outcome or another column: "
    "[Audit log](../operations.md#audit-log) lists the conditions that reach older events. "
    "`event` is `statement`, `check` (a statement that was only checked, and refused for a privilege), "
    "`sign_in`, `sign_out`, `invitation`, `request` (a request that was refused for its token or for a privilege), "
    "`stream` (a stream that the server refused or ended) or `lost`; `outcome` is `allowed`, `denied` or `failed`. `credential` is the "
    "user's means of sign-in, such as `token ci`; `address` is the other end of the connection, and `door` is `api`, `page`, `stream`, "
    "`mcp`, `graphql` or `postgres`. "
    "`statement` contains `****` instead of secrets and possible secrets; of a text that cannot be parsed, only the first words. "
    "Equal events within a second share one row, and `times` is their number; so do equal events of a stranger within ten minutes, and "
    "repetitions by the page or by GraphQL of a LIST or of a SELECT of system relations, after the first row.",
    needs=Privilege.READ_AUDIT,
    matching=_matching,
)
def audit(run: Execution) -> Rows:
    return _matching(run, ())


def _own(run: Execution, conditions: Sequence[Condition]) -> Iterator[tuple[object, ...]]:
    """Yield the statements of the user; with an API token of one role, those that ran with that role."""
    role = _role_of_token(run)
    mine = [
        AuditCondition("event", "=", (Event.STATEMENT.value,)),
        AuditCondition("user_name", "=", (run.principal.user,)),
    ]
    if role is not None:
        mine.append(AuditCondition("role", "=", (role,)))
    for number, entry in run.catalog.audit.read(STATEMENTS_MAX, [*mine, *_stored(conditions)]):
        yield (
            number,
            entry.time,
            entry.outcome.value,
            entry.sqlstate,
            entry.role,
            entry.door,
            entry.statement_id,
            entry.statement,
            entry.duration_ms,
            entry.times,
        )


@system_relation(
    "statements",
    *(column for column in _COLUMNS if column.name in _OWN),
    key=("id",),
    doc="Your own statements of the last `HEADRACE_AUDIT_DAYS` days, the newest 10,000 that satisfy a query's conditions: the rows of "
    "`audit` that are yours, which need no privilege. With an API token of one role, those that ran with that role.",
    matching=_own,
)
def statements(run: Execution) -> Rows:
    return _own(run, ())


def _role_of_token(run: Execution) -> str | None:
    """Return the role of the session's API token; None if it has all roles of its user, or if there is no token."""
    tokens = run.catalog.snapshot().members.tokens.values()
    return next((token.role for token in tokens if token.id == run.principal.token), None)


@system_relation(
    "live_queries",
    always("id"),
    always("user_name"),
    Column("role_name", VARCHAR),
    always("state"),
    always("since", TIMESTAMP),
    always("rows_read", BIGINT),
    Column("statement", VARCHAR),
    key=("id",),
    doc=(
        "The interactive queries that run now: SELECT and PRINT whose rows a client reads, yours, and with READ_AUDIT those of all users. "
        "With an API token of one role, yours are those with that role. `state` is `starting` or `running`, `rows_read` the number of rows "
        "that the client has taken, and `id` the `statement_id` of the audit log. A query ends when its client leaves."
    ),
)
def live_queries(run: Execution) -> Rows:
    sees_all, role = run.may(Privilege.READ_AUDIT), _role_of_token(run)
    for query in run.services.engine.live_queries.all():
        is_own = query.user == run.principal.user and role in (None, query.role)
        if sees_all or is_own:
            state = "running" if query.channel.is_started else "starting"
            yield (
                query.id,
                query.user,
                query.role,
                state,
                query.since,
                query.channel.rows_read,
                query.statement,
            )
