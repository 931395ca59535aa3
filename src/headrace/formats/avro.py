"""Avro records in Confluent's wire format: a zero byte, the id of the schema in a registry, and the data.

What is read may have been written with any schema of the registry: each is asked for by its id when it is first met (`AvroDecoder`).
What is written has the one schema that was registered when its query was planned.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.types import DataType, Struct
from headrace.formats.avro_schema import record_schema, value_schema
from headrace.formats.base import Field, Format
from headrace.formats.types import spark_type, text_sql

FROM_FILES = ""
"""In place of a registry's name: the schemas are in the files that the records come from, as `headrace_avro_records` says them."""


class Avro(Format):
    """`registry` is the catalog's name of the one that knows the schemas. `schema_text` and `schema_id`: of what a query writes."""

    format: Literal["avro"] = "avro"
    a_row: ClassVar[str] = "a record"
    for_keys: ClassVar[bool] = True
    registry: str
    schema_text: str | None = None
    schema_id: int | None = None

    def refusal(self, columns: Struct) -> str | None:
        """Return the reason why Avro's names and types cannot represent columns; None if they can."""
        return self.key_refusal(columns)

    def key_refusal(self, kind: DataType) -> str | None:
        """Accept what `refusal` accepts, and single values."""
        try:
            generated_schema(kind, "record")
        except UserError as error:
            return f"does not support it: {error.message}"
        return None

    def read(self, data: str, columns: Struct) -> str:
        """Return a call of `AvroDecoder`."""
        return self.read_key(data, columns)

    def read_key(self, data: str, kind: DataType) -> str:
        """Return a call of `AvroDecoder`."""
        return f"headrace_from_avro({data}, {text_sql(spark_type(kind))}, {text_sql(self.registry)})"

    def written(self, fields: Sequence[Field]) -> str:
        """Return a call of `AvroEncoder`. Raises ValueError when the schema is not pinned."""
        if self.schema_text is None or self.schema_id is None:
            raise ValueError("expected a schema that is registered, found none")
        record = json.loads(self.schema_text)
        if isinstance(record, dict) and record.get("type") == "record":
            value = f"named_struct({', '.join(f'{text_sql(name)}, {item}' for name, item, _ in fields)})"
        else:
            ((_, value, _),) = fields
        return f"headrace_to_avro({value}, {text_sql(self.schema_text)}, {self.schema_id})"


def generated_schema(kind: DataType, name: str, *, required: frozenset[str] = frozenset()) -> str:
    """Return the Avro schema of values of `kind`: of a STRUCT a record called `name`, whose `required` fields have no null.

    Raises UserError 42P16 or 0A000 for what Avro cannot say.
    """
    if not isinstance(kind, Struct):
        return value_schema(kind, name)
    columns = [Column(field, item, nullable=field not in required) for field, item in kind.fields]
    return record_schema(columns, name)
