"""Lookup joins: Spark's Python workers read the rows of a table for each Arrow batch of a stream, by key, or use a table kept whole.

docs/adr/0033 describes what the result promises.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import compute
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType

from headrace.connectors.carried_errors import carried_text, carrying_errors
from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder, facts_of, store_of
from headrace.connectors.streaming import TableRequest
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.internal_columns import PREFIX
from headrace.core.schema import Column
from headrace.formats.types import name_sql, spark_type

logger = logging.getLogger(__name__)

Find = Callable[[pa.Table], pa.Table]
"""See `lookup` of `connectors.streaming`."""

_PLACE, _ROW = f"{PREFIX}place", f"{PREFIX}row"


def with_matches(
    frame: DataFrame,
    keys: Sequence[str],
    key_columns: Sequence[str],
    columns: Sequence[Column],
    name: str,
    find: Find,
) -> DataFrame:
    """Return `frame` with a column `name`: an ARRAY of the rows that `find` has for the `keys` of each row."""
    fields = ", ".join(f"{name_sql(column.name)} {spark_type(column.type)}" for column in columns)
    row = frame.sparkSession.createDataFrame([], fields).schema
    schema = to_arrow_schema(row, timestamp_utc=True)
    names = list(key_columns)

    def matches(batches: Iterable[pa.Array]) -> Iterator[pa.Array]:
        with carrying_errors():
            for batch in batches:
                lookup_keys = pa.Table.from_arrays(batch.flatten(), names)
                yield matching(lookup_keys, find, schema)

    # A row is looked up once: a second time it may meet another one.
    look = arrow_udf(matches, ArrayType(row), ArrowUDFType.SCALAR_ITER).asNondeterministic()
    parts = functions.struct(*(functions.col(name_sql(key)) for key in keys))
    return frame.withColumns({name: look(parts)})


def matching(keys: pa.Table, find: Find, schema: pa.Schema) -> pa.ListArray:
    """Return for each row of `keys` the matching rows of `schema`, by the columns of the same names; none for a NULL."""
    names = keys.column_names
    distinct_keys = keys.drop_null().group_by(names).aggregate([])
    rows = (
        (find(distinct_keys) if distinct_keys.num_rows else schema.empty_table())
        .select(schema.names)
        .cast(schema)
    )
    compared = {name: rows.column(name).cast(keys.schema.field(name).type) for name in names}
    left = keys.append_column(_PLACE, pa.array(range(keys.num_rows), pa.int64()))
    right = pa.table({**compared, _ROW: pa.array(range(rows.num_rows), pa.int64())})
    pairs = left.join(right, names, join_type="inner", use_threads=False)
    pairs = pairs.sort_by([(_PLACE, "ascending"), (_ROW, "ascending")])
    counts = Counter(pairs.column(_PLACE).to_pylist())
    offsets = [0, *accumulate(counts[place] for place in range(keys.num_rows))]
    values = rows.take(pairs.column(_ROW)).to_struct_array().combine_chunks()
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


# --- tables that are kept whole


_FAILURE, _TABLE, _VERSION = "failure", "table", "version"
_LOOK_S = 1.0
"""A worker asks a bucket for a newer table at most so often."""

_seen: dict[str, tuple[int, pa.Table]] = {}
"""In a worker: the tables that were last seen at a path, with the number of the file that they are in."""

_fetched: dict[str, tuple[float, bytes | None, pa.Table]] = {}
"""In a worker: the tables that were last read from a bucket, with the time of the last look and the version."""


class KeptTable(Protocol):
    """A table that the driver keeps for tasks; called in a task it returns rows that may have one of some keys (`Find`)."""

    def __call__(self, keys: pa.Table) -> pa.Table:
        """Raises RuntimeError with the reason for which the driver could not read the table."""
        ...

    def replace(self, rows: pa.Table) -> None:
        """Let tasks use other rows."""
        ...

    def refuse(self, reason: str) -> None:
        """Let tasks fail with a reason."""
        ...


@dataclass(frozen=True)
class CachedTable:
    """A table in a file.

    The workers of one machine share it in memory (`is_mapped`). In a folder that several machines share, a file that one machine has
    replaced may not be read by another: each worker has a copy.
    """

    path: str
    is_mapped: bool = True

    def __call__(self, keys: pa.Table) -> pa.Table:
        failure = Path(self.failure)
        if failure.exists():
            raise RuntimeError(failure.read_text())
        return _with_keys(self._table(), keys)

    def replace(self, rows: pa.Table) -> None:
        written = f"{self.path}.new"
        with pa.ipc.new_file(written, rows.schema) as file:
            file.write_table(rows)
        Path(written).replace(self.path)

    def refuse(self, reason: str) -> None:
        Path(self.failure).write_text(reason)

    @property
    def failure(self) -> str:
        """File with the reason why there is no table."""
        return f"{self.path}.failure"

    def _table(self) -> pa.Table:
        number = os.stat(self.path).st_ino
        known = _seen.get(self.path)
        if known is None or known[0] != number:
            source = pa.memory_map(self.path) if self.is_mapped else pa.OSFile(self.path)
            with pa.ipc.open_file(source) as file:
                known = _seen[self.path] = number, file.read_all()
        return known[1]


@dataclass(frozen=True)
class FetchedTable:
    """A table in a bucket, beside the checkpoint, of which each worker has a copy. `place` are the facts of its folder, with the key."""

    place: Mapping[str, str] = field(repr=False)

    def __call__(self, keys: pa.Table) -> pa.Table:
        store, now = store_of(self.place), time.monotonic()
        known = _fetched.get(store.uri)
        if known is None or now - known[0] >= _LOOK_S:
            if (failure := store.read(_FAILURE)) is not None:
                raise RuntimeError(failure.decode())
            version = store.read(_VERSION)
            # A table that was replaced in between is newer than its version here, and is read once more at the next look.
            table = known[2] if known is not None and known[1] == version else self._read(store)
            known = _fetched[store.uri] = now, version, table
        return _with_keys(known[2], keys)

    def replace(self, rows: pa.Table) -> None:
        store, content = store_of(self.place), pa.BufferOutputStream()
        with pa.ipc.new_file(content, rows.schema) as file:
            file.write_table(rows)
        store.write(_TABLE, content.getvalue().to_pybytes())
        store.write(_VERSION, uuid.uuid4().hex)

    def refuse(self, reason: str) -> None:
        store_of(self.place).write(_FAILURE, reason)

    def _read(self, store: CheckpointStore) -> pa.Table:
        content = store.read(_TABLE)
        if content is None:
            raise RuntimeError(f"{store.uri}/{_TABLE} does not exist: it was deleted")
        with pa.ipc.open_file(pa.py_buffer(content)) as file:
            return file.read_all()


def _with_keys(table: pa.Table, keys: pa.Table) -> pa.Table:
    chosen = None
    for name in keys.column_names:
        key_column = keys.column(name)
        one = compute.is_in(table.column(name).cast(key_column.type), value_set=key_column.combine_chunks())
        chosen = one if chosen is None else compute.and_(chosen, one)
    return table.filter(chosen)


def cached(
    session: SparkSession,
    module: Any,
    request: TableRequest,
    refresh_ms: int,
    resources: ExitStack,
    shared: Callable[[], CheckpointStore],
) -> KeptTable:
    """Reads a table, and again every `refresh_ms` until `resources` are closed. While its store is away it stays as it was last read.

    `shared` returns a folder of the query that all workers of a cluster reach. Raises as `table` of the store type's `module`.
    """
    table = _kept_table(session, resources, shared)
    ended = threading.Event()
    resources.callback(ended.set)

    def read() -> None:
        with ExitStack() as opened:
            rows = module.table(session, replace(request, resources=opened)).toArrow()
        table.replace(rows)

    def refresh() -> None:
        while not ended.wait(refresh_ms / 1000):
            try:
                read()
            except Exception as error:  # noqa: BLE001 - classified, and told to the query
                failure = error if isinstance(error, HeadraceError) else module.classify(str(error))
                if ended.is_set():
                    return
                if isinstance(failure, ExternalError):
                    logger.warning("a table could not be read again: %s", failure.message)
                    continue
                table.refuse(carried_text(failure) if isinstance(failure, UserError) else str(error))

    read()
    # Its jobs are of the query whose thread this is, in its fair pool.
    InheritableThread(target=refresh, name=f"table-{'.'.join(request.entity)}", daemon=True).start()
    return table


def _kept_table(
    session: SparkSession, resources: ExitStack, shared: Callable[[], CheckpointStore]
) -> KeptTable:
    """Return a table without rows, in a place that all tasks reach, and without the failure of an earlier driver."""
    if (session.sparkContext.master or "").startswith("local"):
        temporary = resources.enter_context(TemporaryDirectory(prefix="headrace-table-"))
        return CachedTable(str(Path(temporary, _TABLE)))
    # By fixed names, so that a driver that was killed leaves no further file.
    folder = shared()
    if not isinstance(folder, LocalFolder):
        folder.delete(_FAILURE)
        return FetchedTable(facts_of(folder))
    folder.path.mkdir(parents=True, exist_ok=True)
    table = CachedTable(str(folder.path / _TABLE), is_mapped=False)
    Path(table.failure).unlink(missing_ok=True)
    return table
