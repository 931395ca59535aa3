"""The driver half of the protocol of a store type: what the functions of its `spark.py` are given and give.

    splits(request) -> dict[str, list[int]]                        the splits of each entity (its partitions or shards), by number, as they
                                                                   are now; entities as dotted texts
    source(session, request: SourceRequest) -> DataFrame           raw records: key BINARY, value BINARY, timestamp TIMESTAMP; where each
                                                                   stands: entity STRING, split INT, sequence BIGINT (orders the records
                                                                   of a key in a batch), metadata (a STRUCT of `RecordSource.metadata`)
    rows(session, request: RowRequest) -> DataFrame                in place of `source`, for a store that types its rows itself: the
                                                                   request's columns, then of `core.internal_columns` ROW_TIME TIMESTAMP,
                                                                   ROW_KEY STRING, DELETED BOOLEAN, ENTITY STRING, SPLIT INT,
                                                                   SEQUENCE BIGINT, ROW_METADATA
    poll_ms(request: RowRequest) -> int                            where `rows` asks a store at the beginning of each batch: the least
                                                                   time between two batches, in milliseconds
    backlog(request: RowRequest) -> Callable[[], int]              where the store keeps its log until it is read: a function that asks
                                                                   how many bytes it keeps for this reader; raises ExternalError
    sink(records: DataFrame, request: SinkRequest)                 a DataStreamWriter without trigger, name and checkpoint, or a
                                                                   function (batch: DataFrame, epoch: int) -> None;
                                                                   records are key, value and perhaps headers
    write(session, request: SinkRequest)                           a function (batch: DataFrame, epoch: int) -> None, for records that
                                                                   come in batches with those of other sinks
    table(session, request: TableRequest) -> DataFrame             the rows that an entity has now, no stream: the columns of the request
    lookup(request: LookupRequest)                                 a function (keys: pyarrow.Table) -> pyarrow.Table for Spark's workers:
                                                                   the request's columns, of all rows that may have one of the keys.
                                                                   `keys` has the request's key, without NULLs and repeats
    write_rows(request: RowSinkRequest)                            a function (batch: DataFrame, epoch: int) -> None: the batch has the
                                                                   columns of the request, and with `upsert` one more, `DELETED
                                                                   BOOLEAN`, and each key once. It may be evaluated once only
    optimize(session, request: OptimizeRequest) -> tuple           puts the files of an entity in order: the values of the one row that
                                                                   is answered
    side_topic(session, request: SinkRequest) -> str               an id: what has it may send records that the query leaves out
                                                                   to the entity, with why, and has them there when a task ends
    probe(properties) -> Callable[[], None]                        a function that asks the store whether it is there, at most some
                                                                   seconds long, and raises ExternalError, with its address, if not
    identify(properties) -> Callable[[EntityPath], dict[str, str]] where offsets mean nothing in another entity of the same name, and do not
                                                                   say so themselves: a function that asks the store for what tells
                                                                   them apart, for each entity that the path stands for, by its name;
                                                                   it leaves out what is not there, or of which it cannot tell.
                                                                   Asked at each start, and while the query runs: for records every
                                                                   ten seconds, for a table that is written before a batch
    classify(text: str) -> HeadraceError | None                    whose fault an exception's text says it is
    secrets(properties) -> tuple[str, ...]                         values to mask in logs and errors
    CLASSES, NOISY_LOGGERS                                          Java classes that are loaded while a driver warms up, and loggers of
                                                                   which only errors are kept

`engine.driver` finds the module by the store type (`registry.spark_module`). All raise classified HeadraceErrors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

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

    With `upsert` a row is the new version of its `key`, or its end. `folder` is for what must outlive the driver, so that a batch can be
    given again; None: it need not. With `on_error` = `ignore` rows that cannot be read are skipped.
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
    folder: str | None = None
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
    checkpoint: str = ""
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
    """Columns of a table to read, with the `key` by which rows are found. A key may have another type than its column, which is compared
    with it: other integers or decimals."""

    entity: EntityPath
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    properties: Mapping[str, str] = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowSinkRequest:
    """Request to write rows. With `upsert` a row is the new version of its `key`, or its end.

    The same epoch of a query may come again after a crash, with the same rows: with the guarantee `exactly_once` it has no effect then.
    `checkpoint` and `resources` are as of `SinkRequest`. `stopping` is set when the query is to stop: who waits in a batch waits for it,
    and then raises something. `is_behind` tells whether more rows wait than the batch before could take.
    """

    query_id: str
    entity: EntityPath
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    upsert: bool
    properties: Mapping[str, str] = field(repr=False)
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    options: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str = ""
    resources: ExitStack = field(default_factory=ExitStack)
    stopping: threading.Event = field(default_factory=threading.Event)
    is_behind: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class OptimizeRequest:
    """Request to maintain an entity.

    `queries` are those that are not terminated, by id, with their checkpoints in the folder `checkpoints`, among those of interactive ones:
    what they still need to go on must stay.
    """

    entity: EntityPath
    properties: Mapping[str, str] = field(repr=False)
    queries: tuple[str, ...]
    checkpoints: Path
    options: Mapping[str, str] = field(default_factory=dict)


def tasks(session: Any) -> int:
    """Return into how many tasks it pays to cut a store's part of a SparkSession's work: as many as a stateful operator has.

    A driver has far more places for tasks, since they are for all of its queries.
    """
    return int(session.conf.get("spark.sql.shuffle.partitions"))
