"""CSV records (RFC 4180): one line, a field for each column in the order of their declaration, without a header.

A field that is empty is NULL; one that is empty in quotes is an empty text, as PostgreSQL's COPY has it. It is read by the JVM
extension (`CsvDecoder`), which is strict: another number of fields, or what is no value of its column, is a bad record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headrace.core.types import BYTES, Array, DataType, Map, Struct, Timestamp, Varchar
from headrace.core.wording import with_article
from headrace.formats.base import Field, TextFormat
from headrace.formats.json import timestamp_sql
from headrace.formats.types import spark_type, text_sql


class Csv(TextFormat):
    """`delimiter` is one character between fields: neither a quote, nor a letter or digit, nor a line break."""

    format: Literal["csv"] = "csv"
    delimiter: str = ","

    def refusal(self, columns: Struct) -> str | None:
        """Refuse everything but single values."""
        nested = next((kind for _, kind in columns.fields if isinstance(kind, Array | Map | Struct)), None)
        return (
            f"does not support {with_article(str(nested))}: its fields are single values" if nested else None
        )

    def read(self, data: str, columns: Struct) -> str:
        """Return a call of `CsvDecoder`."""
        arguments = (spark_type(columns), self.timestamps or "any", self.delimiter)
        return f"headrace_from_csv({data}, {', '.join(map(text_sql, arguments))})"

    def written(self, fields: Sequence[Field]) -> str:
        """Quotes stand only where they are needed."""
        texts = (f"coalesce({self._field(value, kind)}, '')" for _, value, kind in fields)
        return f"CAST(concat_ws({text_sql(self.delimiter)}, {', '.join(texts)}) AS BINARY)"

    def _field(self, value: str, kind: DataType) -> str:
        if isinstance(kind, Varchar):
            special = f"{value} RLIKE " + text_sql(f'["\r\n\\{self.delimiter}]')
            quoted = f"""concat('"', replace({value}, '"', '""'), '"')"""
            return f"CASE WHEN {value} = '' OR {special} THEN {quoted} ELSE {value} END"
        if isinstance(kind, Timestamp):
            return self._quoted(timestamp_sql(value, kind, self.timestamps or "sql"))
        if kind == BYTES:
            return f"""concat('"', base64({value}), '"')"""
        return self._quoted(f"CAST({value} AS STRING)")

    def _quoted(self, text: str) -> str:
        """Return SQL that quotes numbers and times which contain the delimiter, a point or a minus for example."""
        return f"""concat('"', {text}, '"')""" if self.delimiter in ".-+: " else text
