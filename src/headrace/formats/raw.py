"""The raw format: the bytes of a record as a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.core.types import BYTES, Struct
from headrace.formats.base import Field, Format
from headrace.formats.types import text_sql


class Raw(Format):
    """A record that is one column of BYTES. A NULL is a record without a value."""

    format: Literal["raw"] = "raw"
    null_is_a_row: ClassVar[bool] = True

    def refusal(self, columns: Struct) -> str | None:
        """Refuse everything but one column of BYTES."""
        if [kind for _, kind in columns.fields] == [BYTES]:
            return None
        kinds = ", ".join(str(kind) for _, kind in columns.fields)
        return f"is one column of BYTES, found {kinds}"

    def read(self, data: str, columns: Struct) -> str:
        """Return the bytes: every record is valid."""
        ((name, _),) = columns.fields
        return (
            f"named_struct('value', named_struct({text_sql(name)}, {data}), 'reason', CAST(NULL AS STRING))"
        )

    def written(self, fields: Sequence[Field]) -> str:
        """Return SQL of the bytes."""
        ((_, value, _),) = fields
        return value
