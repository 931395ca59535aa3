"""The messages between the control plane and a compute pool's Spark driver, and how they cross the process border.

Transport: the server listens, the driver connects: to a Unix socket for each pool, or from another machine to the server's port for
drivers, with TLS and a first frame `Authenticate`. A driver that outlives its server connects to the next one in the same way
(docs/adr/0096). A frame is two big-endian unsigned 32-bit lengths
(JSON, payload), the JSON of one message, and the payload (bytes; most messages have none). Both sides see the other's death as the end
of the socket. The driver waits for an `Ack` of each `Rows` and `ApplyView`: that wait is the back-pressure and the commit.
"""

from __future__ import annotations

import struct
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from headrace.planner.physical import SparkPlan

FRAME_HEADER = struct.Struct(">II")
FRAME_BYTES_MAX = 256 * 1024 * 1024
SERVER_NAME = "headrace"
"""Name in the server's certificate for drivers on other machines, whatever address they use."""
TOKEN_FILE, CERTIFICATE_FILE = "token", "server.pem"
"""Files with what a driver on another machine connects by."""
DRIVER_FAILED = "the driver failed: "
"""Prefix of the line of a driver's log with the reason of its end; the server shows users the rest of that line."""
DRIVER_REFUSED = 3
"""Exit code of a driver that cannot start with the server's settings, however often it is tried."""
HOLD_S = 120.0
"""How long a query waits at a border for the request to stop or to continue. It follows at once, unless the server cannot write to its
catalog."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# --- server to driver


class FunctionLaunch(_Message):
    """Description of a call of a function of a user: the `command` that starts a worker of its `source`, the frame that declares the
    function there (base64), the type of its result, and how long a call may take.

    With `on_executors`, executors start the workers: the command has the arguments of their Python, to which the folder of the files that
    they have received is added."""

    id: str
    signature: str
    source: str
    command: list[str]
    declaration: str
    result: str
    timeout_ms: int
    on_executors: bool = False


class StartQuery(_Message):
    """Run a plan. `stores` and `registries` hold the properties (secrets included) of all that the plan names; never logged.

    `files` are those that executors need for `functions`, by name, in base64. `bucket` is the login of S3 for the checkpoints that the plan
    reads, which a driver of another pool has not; never logged either.
    """

    type: Literal["start_query"] = "start_query"
    query_id: str
    generation: int
    plan: SparkPlan
    checkpoint: str
    stores: dict[str, dict[str, str]] = Field(default_factory=dict, repr=False)
    registries: dict[str, dict[str, str]] = Field(default_factory=dict, repr=False)
    functions: list[FunctionLaunch] = Field(default_factory=list)
    files: dict[str, str] = Field(default_factory=dict, repr=False)
    bucket: dict[str, str] = Field(default_factory=dict, repr=False)
    checkpoint_interval_ms: int = 10_000
    planning_timeout_ms: int = 60_000


class StopQuery(_Message):
    """End a query; answered by `QueryEnded`. Unknown ids are answered too."""

    type: Literal["stop_query"] = "stop_query"
    query_id: str


class CopyCheckpoint(_Message):
    """Copy the checkpoint of a query between two batches into the folder `target`; answered by `CheckpointCopied`. With `hold` the query
    begins no batch afterwards: `StopQuery` or `ReleaseQuery` follows."""

    type: Literal["copy_checkpoint"] = "copy_checkpoint"
    sequence: int
    query_id: str
    target: str
    hold: bool = False


class ReleaseQuery(_Message):
    """Let a query that `CopyCheckpoint` holds between two batches continue."""

    type: Literal["release_query"] = "release_query"
    query_id: str


class Shutdown(_Message):
    """Stop every query and exit."""

    type: Literal["shutdown"] = "shutdown"


class TakeOver(_Message):
    """The first frame of a server to a driver that has lost its server; answered by `Resumed`, or by `Refused` if the driver has followed a
    server with this epoch or a later one."""

    type: Literal["take_over"] = "take_over"
    epoch: int


class Ack(_Message):
    """Answer to the `Rows` or `ApplyView` of that `sequence`; `error` ends the query, `stop` ends it without one."""

    type: Literal["ack"] = "ack"
    sequence: int
    error: str | None = None
    stop: bool = False


# --- driver to server


class Ready(_Message):
    """The Spark session is warm and queries are accepted; the first message of a driver."""

    type: Literal["ready"] = "ready"
    pid: int
    spark_version: str
    start_ms: int


class RunningState(BaseModel):
    """A continuous query of a driver that is taken over: whether Spark runs it, and whether the driver is stopping it."""

    query_id: str
    generation: int
    is_started: bool
    is_stopping: bool = False


class Resumed(_Message):
    """The driver follows the server that takes it over, with these continuous queries; the first message after `TakeOver`. The ends of
    queries that nobody has received follow."""

    type: Literal["resumed"] = "resumed"
    pid: int
    spark_version: str
    queries: list[RunningState]


class Refused(_Message):
    """The driver does not follow a server that takes it over: it has followed one with this epoch."""

    type: Literal["refused"] = "refused"
    epoch: int


class PoolSlots(_Message):
    """Slots of a driver's executors on a cluster, and how many of them run a task; sent when this changes.

    `requested` is the number of executors that the pool has asked for, None for a pool that takes all of a cluster.
    """

    type: Literal["pool_slots"] = "pool_slots"
    executors: int
    slots: int
    used: int
    requested: int | None = None


class TaskTime(BaseModel):
    """Milliseconds for which tasks occupied slots, and milliseconds of processors that their threads used."""

    model_config = ConfigDict(frozen=True)

    slot_ms: int = 0
    cpu_ms: int = 0

    def __add__(self, more: TaskTime) -> TaskTime:
        return TaskTime(slot_ms=self.slot_ms + more.slot_ms, cpu_ms=self.cpu_ms + more.cpu_ms)


class PoolTasks(_Message):
    """The time of a driver's tasks since the last such message, by the query that ran them, readers' queries included; `""` for tasks that
    no query ran. Sent when there is any: also while a batch runs, and after the query has ended."""

    type: Literal["pool_tasks"] = "pool_tasks"
    queries: dict[str, TaskTime]


class QueryStarted(_Message):
    """The streaming query runs (its first batch may not have ended)."""

    type: Literal["query_started"] = "query_started"
    query_id: str
    generation: int


class QueryWaits(_Message):
    """The query runs, but gets nowhere until a store answers or a source's process starts: why, and what to do.

    Without `reason` it does again. `store` is the name of that store, if it is one of the catalog.
    """

    type: Literal["query_waits"] = "query_waits"
    query_id: str
    generation: int
    reason: str | None = None
    sqlstate: str | None = None
    store: str | None = None


class OperatorState(BaseModel):
    """State of an operator after a batch: rows, and bytes of memory."""

    rows: int
    bytes: int


class StepRows(BaseModel):
    """Rows of a condition or a join: those that it received, and those that it let through."""

    step: str
    input_rows: int
    output_rows: int


SUMMED = (
    "batches",
    "input_rows",
    "late_rows",
    "timeless_rows",
    "bad_records",
    "future_rows",
    "function_failures",
)
"""The fields of `QueryProgress` that are sums over batches, and over the parts of an application."""


class QueryProgress(_Message):
    """Progress of `batches`. Milliseconds; `watermark_ms` since the epoch or None; `late_rows` were dropped as too late.

    Numbers of rows are sums over the batches; all else is of the last one. `output_rows` were passed to the sink, None where Spark does not
    count them. `operators` are those with state, and `steps` the conditions and joins.

    `bad_records` could not be read and `future_rows` were too far ahead of the clock: both were skipped, as the source's property says.
    `function_failures` are rows for which a function of a user failed without ending the query. `timeless_rows` have no event time where
    one is needed. `lag` is how many records each split of each entity had, when the batch was planned, behind the last one that it read;
    without the splits of stores that do not count their records. `backlog_bytes` is how much of its log the store of each entity keeps
    because the query has not confirmed to have read it.
    `input_bytes` and `output_bytes` are the keys and values of the records that were read and written, None where a source or the sink has
    no records; the rates are over the duration of the batches. `committed_at_ms` is when the last batch was committed, since the epoch, and
    `checkpoint_bytes` the size of the checkpoint, which is measured from time to time.
    `latencies_ms` has, for each batch with records that have a time of their store, the time from that of its oldest record to its commit.
    """

    type: Literal["query_progress"] = "query_progress"
    query_id: str
    batch_id: int
    input_rows: int
    input_rows_per_second: float
    batch_duration_ms: int
    watermark_ms: int | None = None
    batches: int = 1
    output_rows: int | None = None
    input_bytes: int | None = None
    input_bytes_per_second: float | None = None
    output_bytes: int | None = None
    output_bytes_per_second: float | None = None
    committed_at_ms: int | None = None
    checkpoint_bytes: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    state_file_bytes: int = 0
    operators: dict[str, OperatorState] = Field(default_factory=dict)
    steps: list[StepRows] = Field(default_factory=list)
    late_rows: int = 0
    timeless_rows: int = 0
    bad_records: int = 0
    future_rows: int = 0
    function_failures: int = 0
    lag: dict[str, dict[str, int]] = Field(default_factory=dict)
    backlog_bytes: dict[str, int] = Field(default_factory=dict)
    latencies_ms: list[int] = Field(default_factory=list)
    detail: dict[str, object] = Field(default_factory=dict)


class QueryEnded(_Message):
    """The query is over: stopped (no `error`), finished (bounded), or failed.

    `domain` is `user`, `external` or `internal` (core.errors.ErrorDomain) and decides whether the supervisor restarts it.
    """

    type: Literal["query_ended"] = "query_ended"
    query_id: str
    generation: int
    error: str | None = None
    hint: str | None = None
    sqlstate: str | None = None
    domain: Literal["user", "external", "internal"] | None = None


class Authenticate(_Message):
    """The first frame of a driver on another machine, and of one that outlives its server: the token that the server has created for it."""

    type: Literal["authenticate"] = "authenticate"
    token: str = Field(repr=False)


class CheckpointCopied(_Message):
    """The checkpoint was copied as it was after `batch`; or not, since the query does not run in this driver, or for an `error`, as
    `connectors.carried_errors` writes it."""

    type: Literal["checkpoint_copied"] = "checkpoint_copied"
    sequence: int
    is_running: bool = True
    batch: int = -1
    error: str | None = None


class Rows(_Message):
    """Rows of an interactive query; payload: `core.resultset.LiveRows` as JSON, its cells wire text, which the server passes on."""

    type: Literal["rows"] = "rows"
    sequence: int
    query_id: str
    batch_id: int


class ApplyView(_Message):
    """An epoch of a materialized view; payload: Arrow IPC stream of the plan's columns (and `deleted` or `sign`).

    Applied in one transaction with `epoch`; an epoch that was applied before is acknowledged and skipped.
    """

    type: Literal["apply_view"] = "apply_view"
    sequence: int
    query_id: str
    view: str
    epoch: int
    key_columns: list[str]
    deleted: str | None = None
    sign: str | None = None


Message = Annotated[
    StartQuery
    | StopQuery
    | CopyCheckpoint
    | ReleaseQuery
    | Shutdown
    | TakeOver
    | Ack
    | Authenticate
    | Ready
    | Resumed
    | Refused
    | PoolSlots
    | PoolTasks
    | QueryStarted
    | QueryWaits
    | QueryProgress
    | QueryEnded
    | CheckpointCopied
    | Rows
    | ApplyView,
    Field(discriminator="type"),
]
_MESSAGES: TypeAdapter[Message] = TypeAdapter(Message)


def encode_frame(message: Message, payload: bytes = b"") -> bytes:
    """Return a frame."""
    body = message.model_dump_json().encode()
    return FRAME_HEADER.pack(len(body), len(payload)) + body + payload


def decode_message(body: bytes) -> Message:
    """Return the message of a frame's JSON; raises pydantic.ValidationError."""
    return _MESSAGES.validate_json(body)
