"""Interface of formats, decoders and encoders; free of any plan and of Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from headrace.core.internal_columns import DELETED, ENTITY, ROW_KEY, ROW_METADATA, ROW_TIME, SEQUENCE, SPLIT
from headrace.core.schema import Column
from headrace.core.types import DataType, Struct

TimestampFormat = Literal["sql", "iso8601"]

Field = tuple[str, str, DataType]
"""A column that is written: its name, its value as Spark SQL, its type."""


class Format(BaseModel, ABC):
    """Layout of columns in the bytes of a record's value or key. `format` is its tag and the user's word, in lower case.

    The catalog keeps it with a relation, a plan carries it, and the driver has it make the Spark SQL that reads and writes:
    it is the same value everywhere, and holds no secret. `known.AnyFormat` is the union of all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str
    null_is_a_row: ClassVar[bool] = False
    """True if a record without a value is a row whose only column is NULL, and vice versa; else such a record is not a row."""
    a_row: ClassVar[str] = "a row"
    """What a record must hold, in the words of an error."""
    for_keys: ClassVar[bool] = False

    @model_serializer(mode="wrap")
    def _tagged(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Write the tag even where defaults are left out."""
        return {"format": self.format, **handler(self)}

    @property
    def label(self) -> str:
        """The name in statements."""
        return self.format.upper()

    @abstractmethod
    def refusal(self, columns: Struct) -> str | None:
        """Return why the format cannot hold these columns, as the end of a sentence that begins with a format; None if it can."""

    @abstractmethod
    def read(self, data: str, columns: Struct) -> str:
        """Return SQL of a STRUCT: `value`, the columns in the BINARY `data` as a STRUCT, and `reason`, why there is none. NULL for NULL."""

    @abstractmethod
    def written(self, fields: Sequence[Field]) -> str:
        """Return SQL of a BINARY, NULL only where `null_is_a_row`."""

    def key_refusal(self, kind: DataType) -> str | None:
        """Return the same as `refusal`, for a record key of that type: a STRUCT of its columns if the format has names, else one
        column's type."""
        return self.refusal(kind) if isinstance(kind, Struct) else "needs a STRUCT<name TYPE, …>"

    def read_key(self, data: str, kind: DataType) -> str:
        """Return the same as `read`, where `value` is of type `kind`."""
        if not isinstance(kind, Struct):
            raise TypeError(f"expected a STRUCT as the {self.label} key's type, found {kind}")
        return self.read(data, kind)

    def written_key(self, fields: Sequence[Field]) -> str:
        """Return the same as `written`, for a record key, which is never NULL."""
        return self.written(fields)


class TextFormat(Format):
    """A format that writes times as text. `timestamps`: the only layout; None: `sql` is written, both layouts are read."""

    timestamps: TimestampFormat | None = None


BAD_RECORD = "HEADRACE_BAD_RECORD"
"""Begins the message of the exception that ends a query at a record that cannot be decoded; then, between colons, in base64
JSON with the `reason` and the fields of the record's `metadata` as texts."""

EVENT_TIME_HEADER = "headrace.event.time"
"""The header of a tombstone that we write: the event time of what ended the key, in microseconds since 1970, as digits.
The record's own timestamp says when it was written, which in a replay is something else."""

EPOCH_MS_MIN, EPOCH_MS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999 in milliseconds since 1970: an event time that is a number outside of them is no time."""

HIDDEN_COLUMNS = (
    ROW_TIME,
    ROW_KEY,
    DELETED,
    ENTITY,
    SPLIT,
    SEQUENCE,
    ROW_METADATA,
)
"""Hidden columns that a decoder adds to the declared columns."""


def epoch_time_sql(value: str) -> str:
    """Return Spark SQL of a BIGINT event time as a TIMESTAMP; NULL if it is not a time."""
    return f"CASE WHEN {value} BETWEEN {EPOCH_MS_MIN} AND {EPOCH_MS_MAX} THEN timestamp_millis({value}) END"


@dataclass(frozen=True)
class DecodeSpec:
    """Records to columns. See `planner.physical.DecodeRows`.

    `on_error`: `terminate`, `ignore`, or the id that a connector gave for the place where bad records go.
    """

    columns: tuple[Column, ...]
    value: Format
    key: Format | None = None
    key_type: DataType | None = None
    key_columns: tuple[str, ...] = ()
    timestamp: str | None = None
    upsert: bool = False
    on_error: str = "terminate"
    ahead_ms: int = 0
    carries_key: bool = False
    carries_record: bool = False
    arrival: bool = False
    flat_metadata: bool = False
    headers: bool = False


@dataclass(frozen=True)
class EncodeSpec:
    """Columns to records. See `planner.physical.EncodeRows`.

    The key is `key_expression` (Spark SQL of a BINARY) where that is given, else made of `key_columns`.
    """

    columns: tuple[Column, ...]
    value: Format
    key: Format | None = None
    key_columns: tuple[str, ...] = ()
    key_expression: str | None = None
    deleted: str | None = None
    timestamp: str | None = None
    event_time: str | None = None
