"""Lookup joins: Spark's Python workers read the rows of a table for each Arrow batch of a stream, by key, or use a table kept whole.

docs/adr/0033 describes what the result promises.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType

from headrace.connectors.carried_errors import carried_text, carrying_errors
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


_seen: dict[str, tuple[int, pa.Table]] = {}
"""In a worker: the tables that were last seen at a path, with the number of the file that they are in."""


@dataclass(frozen=True)
class CachedTable:
    """A table in a file, which the driver replaces.

    The workers of one machine share it in memory (`is_mapped`). In a folder that several machines share, a file that one machine has
    replaced may not be read by another: each worker has a copy.
    """

    path: str
    is_mapped: bool = True

    def __call__(self, keys: pa.Table) -> pa.Table:
        """Return the rows that may have one of `keys`; raises RuntimeError with what the driver could not read it for."""
        failure = Path(self.failure)
        if failure.exists():
            raise RuntimeError(failure.read_text())
        table = self._table()
        chosen = None
        for name in keys.column_names:
            key_column = keys.column(name)
            one = compute.is_in(
                table.column(name).cast(key_column.type), value_set=key_column.combine_chunks()
            )
            chosen = one if chosen is None else compute.and_(chosen, one)
        return table.filter(chosen)

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


def cached(
    session: SparkSession,
    module: Any,
    request: TableRequest,
    refresh_ms: int,
    resources: ExitStack,
    shared: Callable[[], Path],
) -> CachedTable:
    """Reads a table, and again every `refresh_ms` until `resources` are closed. While its store is away it stays as it was last read.

    `shared` returns a folder of the query that all workers of a cluster see. Raises as `table` of the store type's `module`.
    """
    if (session.sparkContext.master or "").startswith("local"):
        temporary = resources.enter_context(TemporaryDirectory(prefix="headrace-table-"))
        table = CachedTable(str(Path(temporary, "table")))
    else:
        # By a fixed name, so that a driver that was killed leaves no further file.
        folder = shared()
        folder.mkdir(parents=True, exist_ok=True)
        table = CachedTable(str(folder / "table"), is_mapped=False)
        Path(table.failure).unlink(missing_ok=True)
    ended = threading.Event()
    resources.callback(ended.set)

    def read() -> None:
        with ExitStack() as opened:
            rows = module.table(session, replace(request, resources=opened)).toArrow()
        written = f"{table.path}.new"
        with pa.ipc.new_file(written, rows.schema) as file:
            file.write_table(rows)
        Path(written).replace(table.path)

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
                Path(table.failure).write_text(
                    carried_text(failure) if isinstance(failure, UserError) else str(error)
                )

    read()
    threading.Thread(target=refresh, name=f"table-{'.'.join(request.entity)}", daemon=True).start()
    return table
