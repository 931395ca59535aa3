"""JSON records.

Mapping (dialect section 16): a VARCHAR takes any value (all but strings as their JSON text), a missing field is NULL, an extra
one is ignored; a string where a number is declared, or the other way round for times, is an error. Timestamps are read with or
without a zone (UTC). It is read by the JVM extension (`JsonDecoder`), which is strict, and written by Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Literal

from headrace.core.errors import InternalError
from headrace.core.types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
    Varchar,
)
from headrace.core.wording import with_article
from headrace.formats.base import Field, TextFormat, TimestampFormat
from headrace.formats.types import name_sql, spark_type, text_sql

_TIMES = {
    # Spark's own forms end at milliseconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


class Json(TextFormat):
    """The JSON format: an object whose fields are the columns."""

    format: Literal["json"] = "json"
    a_row: ClassVar[str] = "a JSON object"
    for_keys: ClassVar[bool] = True

    def refusal(self, columns: Struct) -> str | None:
        """Refuse a MAP whose keys are not text."""
        unsupported = next(_unnamed(columns, lambda key: isinstance(key, Varchar)), None)
        return (
            f"does not support {with_article(str(unsupported))}: the keys of its objects are VARCHAR"
            if unsupported
            else None
        )

    def read(self, data: str, columns: Struct) -> str:
        """Return a call of `JsonDecoder`."""
        return self.read_key(data, columns)

    def read_key(self, data: str, kind: DataType) -> str:
        """Return a call of `JsonDecoder`: any JSON may be a key."""
        return (
            f"headrace_from_json({data}, {text_sql(spark_type(kind))}, {text_sql(self.timestamps or 'any')})"
        )

    def written(self, fields: Sequence[Field]) -> str:
        """Return to_json with NULLs included."""
        layout = self.timestamps or "sql"
        values = ", ".join(
            f"{text_sql(name)}, {_nested_sql(value, kind, layout)}" for name, value, kind in fields
        )
        return f"CAST(to_json(named_struct({values}), map('ignoreNullFields', 'false')) AS BINARY)"


def wrong_map(kind: DataType) -> Map | None:
    """Return a MAP in a type whose keys `nested_sql` writes as other values: days of a DATE, an address in memory of BYTES."""
    return next(_unnamed(kind, _is_printable), None)


def nested_sql(value: str, *, nulls: bool = True) -> str:
    """Return Spark SQL of a list, map or struct as JSON text: times have microseconds, and with `nulls` no field is left out."""
    chosen = ({"ignoreNullFields": "false"} if nulls else {}) | _TIMES
    options = ", ".join(f"{text_sql(name)}, {text_sql(text)}" for name, text in chosen.items())
    return f"to_json({value}, map({options}))"


def timestamp_sql(value: str, kind: Timestamp, layout: TimestampFormat) -> str:
    """Return a TIMESTAMP as text: milliseconds are always printed, microseconds where there are any and the type has them."""
    precise = str(kind.precision > 3).lower()
    zone = "Z" if kind.local else ""
    return f"headrace_time_text({value}, {text_sql(layout)}, {precise}, {text_sql(zone)})"


def _nested_sql(value: str, kind: DataType, layout: TimestampFormat, depth: int = 0) -> str:
    """Return SQL of a value whose nested times are texts, since Spark writes all nested times in one layout."""
    if not _has_time(kind):
        return value
    match kind:
        case Timestamp():
            return timestamp_sql(value, kind, layout)
        case Array(element):
            return f"transform({value}, v{depth} -> {_nested_sql(f'v{depth}', element, layout, depth + 1)})"
        case Map(_, item):
            item_sql = _nested_sql(f"v{depth}", item, layout, depth + 1)
            return f"transform_values({value}, (k{depth}, v{depth}) -> {item_sql})"
        case Struct(fields):
            fields_sql = ", ".join(
                f"{text_sql(name)}, {_nested_sql(f'({value}).{name_sql(name)}', field, layout, depth)}"
                for name, field in fields
            )
            return f"IF({value} IS NULL, NULL, named_struct({fields_sql}))"
    raise InternalError(f"no times in {kind}")


def _unnamed(kind: DataType, is_name: Callable[[DataType], bool]) -> Iterator[Map]:
    """Yield the MAPs in a type with keys that cannot be names of JSON fields."""
    match kind:
        case Array(element):
            yield from _unnamed(element, is_name)
        case Map(key, value):
            if not is_name(key):
                yield kind
            yield from _unnamed(value, is_name)
        case Struct(fields):
            for _, item in fields:
                yield from _unnamed(item, is_name)


def _is_printable(key: DataType) -> bool:
    return isinstance(key, Varchar | Decimal) or key in (BOOLEAN, FLOAT, DOUBLE, *INTEGRAL)


def _has_time(kind: DataType) -> bool:
    match kind:
        case Timestamp():
            return True
        case Array(element):
            return _has_time(element)
        case Map(_, value):
            return _has_time(value)
        case Struct(fields):
            return any(_has_time(item) for _, item in fields)
    return False
