"""Layout of a table's rows in folders: `name=value` by columns and by times; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from headrace.core.errors import UserError
from headrace.core.names import printed
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import DATE, Decimal, Primitive, Timestamp, Varchar
from headrace.formats.types import name_sql, text_sql

_PART = re.compile(
    r'\s*(?:(year|month|day|hour)\s*\(\s*)?("(?:[^"]|"")+"|[A-Za-z_][A-Za-z_0-9]*)\s*(\))?\s*\Z'
)
_COMMA = re.compile(r'("(?:[^"]|"")*"|[^",])+')
_TIMES = {"year": "yyyy", "month": "yyyy-MM", "day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}
NULL = "__HIVE_DEFAULT_PARTITION__"
"""What Hive, and after it everybody, writes for NULL."""


@dataclass(frozen=True)
class Part:
    """A level of folders: by a column, or by the year, month, day or hour of a column."""

    column: str
    unit: str | None = None

    @property
    def name(self) -> str:
        """The name before the `=`."""
        return self.column if self.unit is None else f"{self.column}_{self.unit}"


def parts_of(text: str) -> tuple[Part, ...]:
    """Reads `country, day(ts)`; raises ValueError."""
    parts = []
    for item in _COMMA.finditer(text):
        match = _PART.match(item[0])
        if match is None or bool(match[1]) is not bool(match[3]):
            raise ValueError(
                f"expected columns, or year, month, day or hour of one, found {item[0].strip()!r}"
            )
        name = match[2]
        quoted = name.startswith('"')
        parts.append(Part(name[1:-1].replace('""', '"') if quoted else name.lower(), match[1]))
    if not parts or len({part.name for part in parts}) < len(parts):
        raise ValueError(f"expected columns, each once, found {text!r}")
    return tuple(parts)


def check(parts: tuple[Part, ...], schema: Schema) -> None:
    """Raises UserError 42703, 42804 or 42P16 for parts that a table's columns have no values for."""
    for part in parts:
        column = schema.column(part.column)
        if column is None:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"'s3.partition.by' names {printed(part.column)}, which is not a column",
                hint=f"Columns: {', '.join(map(printed, schema.names))}.",
            )
        kind = column.type
        timed = isinstance(kind, Timestamp) or kind == DATE
        whole = isinstance(kind, Varchar | Decimal) or (
            isinstance(kind, Primitive) and kind.name not in ("FLOAT", "DOUBLE", "BYTES")
        )
        if not (timed if part.unit else timed or whole):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"there are no folders by {printed(part.column)}, which is {kind}",
                hint="Use columns of texts, whole numbers or DATE, or year, month, day or hour of a TIMESTAMP or DATE.",
            )
    named = {part.column for part in parts if part.unit is None}
    if named >= set(schema.names):
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            "no column would be left for the files: all of them are in 's3.partition.by'",
            hint="Leave one out.",
        )


def folder_sql(parts: tuple[Part, ...]) -> str:
    """Return Spark SQL of a row's folder, relative to the table's: "" or `country=at/ts_day=2026-01-31/`."""
    if not parts:
        return "''"
    return f"concat({', '.join(_level_sql(part) for part in parts)})"


def _level_sql(part: Part) -> str:
    column = name_sql(part.column)
    text = f"date_format({column}, '{_TIMES[part.unit]}')" if part.unit else f"CAST({column} AS STRING)"
    # As Hive escapes names of folders; `url_encode` makes a blank a plus.
    escaped = f"replace(url_encode({text}), '+', '%20')"
    value = f"CASE WHEN {text} = '' THEN '{NULL}' ELSE coalesce({escaped}, '{NULL}') END"
    return f"{text_sql(quote(part.name, safe='') + '=')}, {value}, '/'"


def values_of(key: str) -> dict[str, str | None]:
    """Return the column values in the folders of an object's key."""
    levels = (level.partition("=") for level in key.split("/")[:-1] if "=" in level)
    return {unquote(name): None if value == NULL else unquote(value) for name, _, value in levels}
