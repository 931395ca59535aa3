"""The physical plan as data: what the control plane hands to a Spark driver, what is stored with a query and what EXPLAIN prints.

A `SparkPlan` is versioned JSON. Its steps are in topological order; each produces one DataFrame under its `id`, the last step is the sink.
It holds no secret: stores are named, and their properties travel beside the plan when a query is started.

Hidden columns begin with two underscores. `DecodeRows` gives, beside the declared columns:
`__rowtime` TIMESTAMP (event time), `__rowkey` (the decoded key, NULL without a key format), `__deleted` BOOLEAN (true for a
tombstone of an upsert changelog), `__topic` STRING, `__partition` INT, `__offset` BIGINT, `__timestamp_type` INT; and, where it is
to be carried through, `__key` BINARY (the key as it came).
Types are texts of `core.types`. All times are milliseconds.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PLAN_VERSION: Literal[1] = 1


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(_Data):
    """A column of a step's output."""

    name: str
    type: str
    nullable: bool = True


class ReadEntity(_Data):
    """Raw records of an entity: key BINARY, value BINARY, topic, partition, offset, timestamp TIMESTAMP, timestamp_type."""

    step: Literal["read_entity"] = "read_entity"
    id: str
    store: str
    connector: str
    entity: str
    starting_position: Literal["earliest", "latest", "timestamp"] = "latest"
    starting_timestamp_ms: int | None = None
    options: dict[str, str] = Field(default_factory=dict)


class DecodeRows(_Data):
    """Raw records to declared and hidden columns.

    `key_columns` are the value columns that a tombstone takes from the record's key. A record that cannot be decoded stops the
    query (`terminate`; the error names topic, partition and offset) or is skipped (`ignore`); so does one whose event time is
    more than `ahead_ms` ahead of the clock (0: any may be). `carries_key`: the sink's records have this source's keys.
    """

    step: Literal["decode_rows"] = "decode_rows"
    id: str
    input: str
    columns: list[Column]
    value_format: Literal["json"] = "json"
    key_format: Literal["json", "primitive"] | None = None
    key_type: str | None = None
    key_columns: list[str] = Field(default_factory=list)
    timestamp: str | None = None
    timestamp_format: Literal["sql", "iso8601"] = "sql"
    upsert: bool = False
    on_error: Literal["terminate", "ignore"] = "terminate"
    ahead_ms: int = 0
    carries_key: bool = False


class AssignWatermark(_Data):
    """Event time and per-partition watermark on `event_time`; same columns.

    Rows with `deleted` move no watermark. Late rows are counted for the windows that the rows go into (`window_ms` 0: none).
    """

    step: Literal["assign_watermark"] = "assign_watermark"
    id: str
    input: str
    source: str
    event_time: str = "__rowtime"
    delay_ms: int = 0
    idle_timeout_ms: int = 0
    all_idle: Literal["hold", "advance"] = "hold"
    deleted: str | None = None
    window_ms: int = 0
    advance_ms: int = 0


class SqlTransform(_Data):
    """Spark SQL over earlier steps, which it names by their ids."""

    step: Literal["sql_transform"] = "sql_transform"
    id: str
    inputs: list[str]
    sql: str


class TemporalJoin(_Data):
    """Event-time join of `left` with the versions of `right`.

    Output: all columns of `left`, and a STRUCT `right_name` of all columns of `right` (NULL where no version was valid).
    """

    step: Literal["temporal_join"] = "temporal_join"
    id: str
    left: str
    right: str
    left_keys: list[str]
    right_keys: list[str]
    left_time: str = "__rowtime"
    right_time: str = "__rowtime"
    right_name: str
    right_deleted: str | None = None
    how: Literal["inner", "left"] = "inner"
    state_ttl_ms: int = 0


class EncodeRows(_Data):
    """Columns to records: key BINARY (NULL without `key_format`), value BINARY (NULL where `deleted` is true).

    The key is the BINARY of `key_expression` where that is given, else made of `key_columns`: never NULL then. (Plans stored
    before `__key` was carried have the decoded `__rowkey` there, which is encoded anew.)
    A tombstone carries its event time in a header: that of the column `timestamp`, by which readers know it of other
    records, else that of the column `event_time`.
    """

    step: Literal["encode_rows"] = "encode_rows"
    id: str
    input: str
    columns: list[Column]
    value_format: Literal["json"] = "json"
    key_format: Literal["json", "primitive"] | None = None
    key_columns: list[str] = Field(default_factory=list)
    key_expression: str | None = None
    timestamp_format: Literal["sql", "iso8601"] = "sql"
    deleted: str | None = None
    timestamp: str | None = None
    event_time: str | None = None


class WriteEntity(_Data):
    """Records to an entity of `partitions` partitions."""

    step: Literal["write_entity"] = "write_entity"
    id: str
    input: str
    store: str
    connector: str
    entity: str
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    options: dict[str, str] = Field(default_factory=dict)


class WriteView(_Data):
    """Rows to a materialized view: appended, or upserted by `key_columns` (deleted where `deleted` is true)."""

    step: Literal["write_view"] = "write_view"
    id: str
    input: str
    view: str
    columns: list[Column]
    key_columns: list[str] = Field(default_factory=list)
    deleted: str | None = None


class Changes(_Data):
    """How the rows of a changelog are told apart: does one insert, update or delete its key?

    `primary_key` are the key's columns in the result, none if it is not selected. `key_columns` are those of the input that tell
    rows apart. A row where `deleted` is true ends its key. With `filtered` not all keys are shown, and the end of one that was
    not is none. With `final` each key comes once.
    """

    primary_key: list[str]
    key_columns: list[str]
    deleted: str | None = None
    filtered: bool = False
    final: bool = False


class WriteResults(_Data):
    """Rows to the result channel of an interactive query; `limit` rows at most (None: no end). `changes`: of a changelog."""

    step: Literal["write_results"] = "write_results"
    id: str
    input: str
    columns: list[Column]
    limit: int | None = None
    changes: Changes | None = None


Step = Annotated[
    ReadEntity
    | DecodeRows
    | AssignWatermark
    | SqlTransform
    | TemporalJoin
    | EncodeRows
    | WriteEntity
    | WriteView
    | WriteResults,
    Field(discriminator="step"),
]


class SparkPlan(_Data):
    """A whole continuous or interactive query.

    `mode` and the `reasons` for it are the planner's choice; `bounded` ends the query when it has read what was there at its start.
    """

    version: Literal[1] = PLAN_VERSION
    mode: Literal["micro_batch", "real_time"] = "micro_batch"
    reasons: list[str] = Field(default_factory=list)
    output_mode: Literal["append", "update"] = "append"
    bounded: bool = False
    steps: list[Step]

    def to_json(self) -> str:
        """Stable text: the form that is stored and compared."""
        return self.model_dump_json(indent=1, exclude_defaults=False)

    @staticmethod
    def from_json(text: str) -> SparkPlan:
        """Read a stored plan; raises pydantic.ValidationError for an unknown version or step."""
        return SparkPlan.model_validate_json(text)
