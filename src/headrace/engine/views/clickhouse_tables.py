"""A view as a table of ClickHouse: its columns, what it was made with, its rows as SQL of both engines; pure.

Every value comes back as it was. So what ClickHouse has in a narrower range, or without NULL, is kept in another form: times are
microseconds and dates days since 1970, lists, maps and structs DuckDB's text.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

from headrace.connectors.clickhouse.client import identifier, literal
from headrace.core.names import quote
from headrace.core.types import BYTES, DATE, DataType, Decimal, Primitive, Timestamp, Varchar, parse_type
from headrace.planner.duckdb_sql import type_name
from headrace.planner.view_reads import Condition

QUERY = "__headrace_query"
DIGEST = "__headrace_digest"
ROW = "__headrace_row"
EPOCH = "__headrace_epoch"
VERSION = "__headrace_version"
DELETED = "__headrace_deleted"
WRITTEN = "__headrace_written"
# ClickHouse takes the name that an expression is given for that expression, wherever it stands: it must be no column's.
_READ = "__headrace_read_"
_PLAIN = {
    **{"BOOLEAN": "Bool", "TINYINT": "Int8", "SMALLINT": "Int16", "INTEGER": "Int32", "BIGINT": "Int64"},
    **{"FLOAT": "Float32", "DOUBLE": "Float64"},
}
_EPOCH_DAY = datetime.date(1970, 1, 1)
_EPOCH_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NUMBER_MAX = 2**63 - 1
_EXPIRY_MAX_MS = 20 * 365 * 86_400_000
"""Beyond it ClickHouse's clock of 32 bits would run over; such rows are only not shown."""
_EXPIRY_MARGIN_S = 3600
_SETTINGS = {
    "allow_nullable_key": 1,
    "allow_experimental_replacing_merge_with_cleanup": 1,
    "non_replicated_deduplication_window": 100,
    "fsync_after_insert": 1,
    "fsync_part_directory": 1,
}


@dataclass(frozen=True)
class ViewTable:
    """Definition of a view's table, kept in the table's comment. `owner` is the server's catalog."""

    owner: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    retention_ms: int | None

    @classmethod
    def read(cls, comment: str) -> ViewTable | None:
        """Return the definition in a comment; None if the table is not ours."""
        try:
            facts = json.loads(comment)
            return cls(facts["owner"], facts["columns"], tuple(facts["key"]), facts["retention_ms"])
        except (ValueError, KeyError, TypeError):
            return None

    @cached_property
    def types(self) -> dict[str, DataType]:
        """The types of the view's columns."""
        return {name: parse_type(kind) for name, kind in self.columns.items()}

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that identify rows."""
        return self.key or (DIGEST, ROW)

    def creation(self, name: str) -> str:
        """Return the statement that makes the table unless it is there."""
        columns = {column: f"Nullable({_type(kind)})" for column, kind in self.types.items()}
        columns |= {} if self.key else {DIGEST: "String", ROW: "UInt64"}
        columns |= {QUERY: "String", EPOCH: "Int64", VERSION: "UInt64", DELETED: "UInt8", WRITTEN: "Int64"}
        described = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns.items())
        return (
            f"CREATE TABLE IF NOT EXISTS {identifier(name)} ({described}) ENGINE = ReplacingMergeTree({VERSION}, {DELETED}) "
            f"ORDER BY ({', '.join(map(identifier, (QUERY, *self.order)))}){self._expiry()} "
            f"SETTINGS {', '.join(f'{setting} = {value}' for setting, value in _SETTINGS.items())} "
            f"COMMENT {literal(json.dumps(asdict(self)))}"
        )

    def _expiry(self) -> str:
        if self.retention_ms is None or self.retention_ms > _EXPIRY_MAX_MS:
            return ""
        seconds = self.retention_ms // 1000 + _EXPIRY_MARGIN_S
        return f" TTL toDateTime(intDiv({WRITTEN}, 1000000)) + toIntervalSecond({seconds}) DELETE WHERE {QUERY} = ''"

    def alive(self, now: int) -> str:
        """Return ClickHouse's condition on the rows that the view has at `now`, in microseconds since 1970."""
        old = f" AND {WRITTEN} >= {now - 1000 * self.retention_ms}" if self.retention_ms is not None else ""
        return f"{QUERY} = ''{old}"


def encoded(types: Mapping[str, DataType]) -> str:
    """Return DuckDB's select list that converts a view's columns to those of its table."""
    return ", ".join(f"{_encode(quote(name), kind)} AS {quote(name)}" for name, kind in types.items())


def decoded(types: Mapping[str, DataType]) -> str:
    """Return DuckDB's select list that makes them again of what `selected` gives."""
    return ", ".join(_decode(f"{_READ}{number}", kind) for number, kind in enumerate(types.values()))


def selected(types: Mapping[str, DataType]) -> str:
    """Return ClickHouse's select list, with bytes as digits, since Arrow has one type for texts and bytes."""
    texts = (
        f"hex({identifier(name)})" if kind == BYTES else identifier(name) for name, kind in types.items()
    )
    return ", ".join(f"{text} AS {_READ}{number}" for number, text in enumerate(texts))


def condition_sql(condition: Condition, kind: DataType) -> str | None:
    """Return a condition on a column of that type; None where it has no counterpart."""
    return condition.sql(identifier(condition.column), lambda text: _value(text, kind))


def _type(kind: DataType) -> str:
    match kind:
        case Timestamp():
            return "Int64"
        case Decimal(precision, scale):
            return f"Decimal({precision}, {scale})"
        case Primitive(name):
            return "Int32" if kind == DATE else _PLAIN.get(name, "String")
    return "String"


def _encode(column: str, kind: DataType) -> str:
    value = f"CAST({column} AS {type_name(kind)})"
    match kind:
        case Timestamp():
            return f"epoch_us({value})"
        case Primitive() if kind == DATE:
            return f"CAST({value} - DATE '1970-01-01' AS INTEGER)"
        case Primitive() | Decimal() | Varchar():
            return value
    return f"CAST({value} AS VARCHAR)"


def _decode(column: str, kind: DataType) -> str:
    match kind:
        case Timestamp():
            return f"make_timestamp({column})"
        case Primitive() if kind == DATE:
            return f"CAST(DATE '1970-01-01' + {column} AS DATE)"
        case Primitive() if kind == BYTES:
            return f"unhex({column})"
    return f"CAST({column} AS {type_name(kind)})"


def _value(text: str, kind: DataType) -> str | None:
    try:
        if isinstance(kind, Timestamp):
            moment = datetime.datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
            return str((moment - _EPOCH_START) // datetime.timedelta(microseconds=1))
        if kind == DATE:
            return str((datetime.date.fromisoformat(text) - _EPOCH_DAY).days)
        if isinstance(kind, Varchar):
            return literal(text)
        return str(int(text)) if abs(int(text)) <= _NUMBER_MAX else None
    except ValueError:
        return None
