"""What a decoder and an encoder are told, free of any plan and of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.core.schema import Column
from headrace.core.types import DataType

ValueFormat = Literal["json"]
KeyFormat = Literal["json", "primitive"]
TimestampFormat = Literal["sql", "iso8601"]

BAD_RECORD = "HEADRACE_BAD_RECORD"
"""Begins the message of the exception that ends a query at a record that cannot be decoded; then, between colons, in base64
JSON with the `reason` and the fields of the record's `metadata` as texts."""

EVENT_TIME_HEADER = "headrace.event.time"
"""The header of a tombstone that we write: the event time of what ended the key, in microseconds since 1970, as digits.
The record's own timestamp says when it was written, which in a replay is something else."""

HIDDEN_COLUMNS = (
    "__rowtime",
    "__rowkey",
    "__deleted",
    "__entity",
    "__split",
    "__sequence",
    "__metadata",
)
"""What a decoder gives beside the declared columns."""


@dataclass(frozen=True)
class DecodeSpec:
    """Records to columns. See `planner.physical.DecodeRows`.

    `on_error`: `terminate`, `ignore`, or the id that a connector gave for the place where bad records go.
    """

    columns: tuple[Column, ...]
    value_format: ValueFormat = "json"
    key_format: KeyFormat | None = None
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


@dataclass(frozen=True)
class EncodeSpec:
    """Columns to records. See `planner.physical.EncodeRows`.

    The key is `key_expression` (Spark SQL of a BINARY) where that is given, else made of `key_columns`.
    """

    columns: tuple[Column, ...]
    value_format: ValueFormat = "json"
    key_format: KeyFormat | None = None
    key_columns: tuple[str, ...] = ()
    key_expression: str | None = None
    timestamp_format: TimestampFormat = "sql"
    deleted: str | None = None
    timestamp: str | None = None
    event_time: str | None = None
