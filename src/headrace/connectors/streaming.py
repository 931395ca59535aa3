"""The driver half of the protocol of a store type: parameters and results of the functions in its `spark.py`.

    splits(request) -> dict[str, list[int]]                        the splits of each entity (its partitions or shards), by number, as they
                                                                   are now; entities as dotted texts
    source(session, request: SourceRequest) -> DataFrame           raw records: key BINARY, value BINARY, timestamp TIMESTAMP; their
                                                                   position: entity STRING, split INT, sequence BIGINT (orders records
                                                                   of a key in a batch), metadata (a STRUCT of `RecordSource.metadata`)
    rows(session, request: RowRequest) -> DataFrame                instead of `source`, for a store that types its rows itself: the
                                                                   request's columns, then of `core.internal_columns` ROW_TIME TIMESTAMP,
                                                                   ROW_KEY STRING, DELETED BOOLEAN, ENTITY STRING, SPLIT INT,
                                                                   SEQUENCE BIGINT, ROW_METADATA
    poll_ms(request: RowRequest) -> int                            if `rows` polls the store at the start of each batch: the minimum
                                                                   time between two batches, in milliseconds
    backlog(request: RowRequest) -> Callable[[], int]              if the store retains its log until it is read: a function that
                                                                   returns the retained bytes of this reader; raises ExternalError
    sink(records: DataFrame, request: SinkRequest)                 a DataStreamWriter without trigger, name and checkpoint, or a
                                                                   function (batch: DataFrame, epoch: int) -> None;
                                                                   records are key, value and perhaps headers
    write(session, request: SinkRequest)                           a function (batch: DataFrame, epoch: int) -> None, for batches that
                                                                   are shared with other sinks
    table(session, request: TableRequest) -> DataFrame             the rows that an entity has now, no stream: the columns of the request
    lookup(request: LookupRequest)                                 a function (keys: pyarrow.Table) -> pyarrow.Table for Spark's workers:
                                                                   the request's columns, of all rows that may have one of the keys.
                                                                   `keys` has the request's key, without NULLs and repeats
    write_rows(request: RowSinkRequest)                            a function (batch: DataFrame, epoch: int) -> None: the batch has the
                                                                   columns of the request, and with `upsert` one more, `DELETED
                                                                   BOOLEAN`, and each key once. It may be evaluated once only
    optimize(session, request: OptimizeRequest) -> tuple           compacts the files of an entity; returns the values of the result's
                                                                   single row
    side_topic(session, request: SinkRequest) -> str               an id, with which tasks send the records that the query leaves out
                                                                   to the entity, with the reason; all are written when a task ends
    probe(properties) -> Callable[[], None]                        a function that checks within some seconds whether the store
                                                                   answers; raises ExternalError with its address if not
    identify(properties) -> Callable[[EntityPath], dict[str, str]] if offsets would be used silently on a new entity of the same
                                                                   name: a function that returns identities of the path's entities by
                                                                   name, without missing entities and entities whose identity is
                                                                   unknown. It is called at each start, and while the query runs: for
                                                                   records every ten seconds, for a written table before each batch
    classify(text: str) -> HeadraceError | None                    the classified error of an exception's text
    secrets(properties) -> tuple[str, ...]                         values to mask in logs and errors
    CLASSES, NOISY_LOGGERS                                          Java classes that a driver loads while it warms up, and loggers of
                                                                   which only errors are logged

`engine.driver` finds the module by the store type (`registry.spark_module`). All raise classified HeadraceErrors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder
from headrace.core.names import EntityPath
from headrace.core.schema import Column


@dataclass(frozen=True)
class SourceRequest:
    """Request to read records. The starting position only counts for a query without a checkpoint.

    With `headers` the records have a column `headers`: an ARRAY of STRUCTs of `key` STRING and `value` BINARY.
    """

    entity: EntityPath
    properties: Mapping[str, str] = field(repr=False)
    starting_position: Literal["earliest", "latest", "timestamp"] = "latest"
    starting_timestamp_ms: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    records_per_batch: int | None = None
    headers: bool = False


@dataclass(frozen=True)
class RowRequest:
    """Request to read rows. The starting position only counts for a query without a checkpoint.

    With `upsert`, a row is the new version of its `key`, or its deletion. `kept` is the place of data that must outlive the driver, so that
    a batch can be repeated, and `checkpoint` that of the query; None if batches need not be repeatable. With `on_error` = `ignore` rows
    that cannot be read are skipped.
    """

    entity: EntityPath
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    upsert: bool
    properties: Mapping[str, str] = field(repr=False)
    starting_position: Literal["earliest", "latest", "timestamp"] = "earliest"
    starting_timestamp_ms: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    records_per_batch: int | None = None
    kept: CheckpointStore | None = None
    checkpoint: CheckpointStore | None = None
    on_error: Literal["terminate", "ignore"] = "terminate"


@dataclass(frozen=True)
class SinkRequest:
    """Request to write records. `query_id` and `checkpoint` identify the writer of an exactly-once sink after a restart.

    `resources` are closed when the query has ended, however it ended.
    """

    query_id: str
    entity: EntityPath
    properties: Mapping[str, str] = field(repr=False)
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    options: Mapping[str, str] = field(default_factory=dict)
    checkpoint: CheckpointStore = field(default_factory=lambda: LocalFolder(Path()))
    resources: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True)
class TableRequest:
    """Columns of a table to read. `resources` are closed when the query has ended."""

    entity: EntityPath
    columns: tuple[Column, ...]
    properties: Mapping[str, str] = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True)
class LookupRequest:
    """Columns of a table to read, and the `key` that selects rows. Types of key and column may differ if both are integers or decimals."""

    entity: EntityPath
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    properties: Mapping[str, str] = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowSinkRequest:
    """Request to write rows. With `upsert`, a row is the new version of its `key`, or its deletion.

    An epoch of a query may be repeated with the same rows after a crash: with the guarantee `exactly_once`, the repetition has no effect.
    `checkpoint` and `resources` are as in `SinkRequest`. `stopping` is set when the query must stop: code that waits in a batch must wait
    for this event too, and raise when it is set. `is_behind` is true if more rows wait than the previous batch could take.
    """

    query_id: str
    entity: EntityPath
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    upsert: bool
    properties: Mapping[str, str] = field(repr=False)
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    options: Mapping[str, str] = field(default_factory=dict)
    checkpoint: CheckpointStore = field(default_factory=lambda: LocalFolder(Path()))
    resources: ExitStack = field(default_factory=ExitStack)
    stopping: threading.Event = field(default_factory=threading.Event)
    is_behind: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class OptimizeRequest:
    """Request to maintain an entity.

    `queries` are the unterminated queries, by id. Their checkpoints, one for each incarnation, are in the places `checkpoints`, which also
    contain checkpoints of interactive queries. Data that these queries need to continue must stay.
    """

    entity: EntityPath
    properties: Mapping[str, str] = field(repr=False)
    queries: tuple[str, ...]
    checkpoints: tuple[CheckpointStore, ...]
    options: Mapping[str, str] = field(default_factory=dict)


def tasks(session: Any) -> int:
    """Return into how many tasks it pays to cut a store's part of a SparkSession's work: as many as a stateful operator has.

    A driver has far more places for tasks, since they are for all of its queries.
    """
    return int(session.conf.get("spark.sql.shuffle.partitions"))
