"""Generated rows as a Python streaming source of Spark, in a worker of the query.

An offset is `{"<entity>": {"<split>": <offset>}}`, as Kafka's is, so that the watermark follows each split. The first batch has no rows: it
records the starting offsets, which must be known after a kill.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.generator.admin import METADATA
from headrace.connectors.generator.rows import GeneratedRows
from headrace.core.internal_columns import (
    DELETED,
    ENTITY,
    PREFIX,
    ROW_KEY,
    ROW_METADATA,
    ROW_TIME,
    SEQUENCE,
    SPLIT,
)
from headrace.core.schema import Column
from headrace.core.types import parse_type
from headrace.formats.base import HIDDEN_COLUMNS
from headrace.formats.types import name_sql, spark_type, text_sql

REQUEST = "credentials"
"""The one option, as JSON. It contains no secret, but Spark searches the values of options with other names, which may be long."""
BAD = f"{PREFIX}bad"
_ROWS_PER_BATCH = 500_000
_BYTES_PER_BATCH = 64 << 20
_ROWS_AT_A_TIME = 10_000
_POLL_S = 0.02
_HIDDEN = (
    f"{ROW_TIME} TIMESTAMP, {ROW_KEY} STRING, {DELETED} BOOLEAN, {ENTITY} STRING, {SPLIT} INT, {SEQUENCE} BIGINT, "
    f"{ROW_METADATA} {spark_type(METADATA)}, {BAD} BOOLEAN"
)

Offsets = dict[int, int]


class GeneratorSource(DataSource):
    """The rows of a stream, by the request that is its one option."""

    @classmethod
    def name(cls) -> str:
        return "headrace_generator"

    def schema(self) -> str:
        columns = json.loads(self.options[REQUEST])["columns"]
        own = (f"{name_sql(name)} {spark_type(parse_type(kind))}" for name, kind, _ in columns)
        return ", ".join((*own, _HIDDEN))

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802 - Spark's names
        return GeneratorStream(json.loads(self.options[REQUEST]))


class GeneratorStream(SimpleDataSourceStreamReader):
    """Reader of rows that are ready, from the offsets `starts`."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._entity: str = request["entity"]
        self._most: int = request["most"] or _ROWS_PER_BATCH

    # Created where they are used: a reader is sent from process to process before it reads.
    @cached_property
    def _rows(self) -> GeneratedRows:
        columns = tuple(
            Column(name, parse_type(kind), nullable) for name, kind, nullable in self._request["columns"]
        )
        return GeneratedRows(columns, self._request["given"], self._request["started_ms"])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._offset({})

    def read(self, start: dict[str, Any]) -> tuple[Iterator[pa.RecordBatch], dict[str, Any]]:
        with carrying_errors():
            offsets = self._offsets(start)
            if not offsets:
                return iter([]), self._offset(
                    {int(key): value for key, value in self._request["starts"].items()}
                )
            ends = self._ends(offsets)
            if ends == offsets:
                time.sleep(_POLL_S)
                return iter([]), start
            # Spark copies the iterator to read it again: only that of a list can be copied.
            return iter(list(self._batches(offsets, ends))), self._offset(ends)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch]:  # noqa: N802
        """Yield the rows of a batch that started before the query stopped: the same ones."""
        with carrying_errors():
            offsets = self._offsets(start)
            if offsets:
                yield from self._batches(offsets, self._offsets(end))

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: no offset is kept."""

    def _ends(self, offsets: Offsets) -> Offsets:
        ready = self._rows.end(int(time.time() * 1000))
        most = min(self._most, _BYTES_PER_BATCH // self._rows.row_bytes)
        share = max(1, most // len(offsets))
        return {split: max(offset, min(ready[split], offset + share)) for split, offset in offsets.items()}

    def _batches(self, offsets: Offsets, ends: Offsets) -> Iterator[pa.RecordBatch]:
        for split, offset in offsets.items():
            for first in range(offset, ends[split], _ROWS_AT_A_TIME):
                yield self._batch(split, first, min(first + _ROWS_AT_A_TIME, ends[split]))

    def _batch(self, split: int, first: int, end: int) -> pa.RecordBatch:
        rows, count = self._rows, end - first
        numbers = rows.numbers(split, first, end)
        times_us = rows.times_us(numbers)
        entity, splits = pa.repeat(self._entity, count), pa.repeat(pa.scalar(split, pa.int32()), count)
        offsets = pa.array(range(first, end), pa.int64())
        metadata = pa.StructArray.from_arrays(
            [entity, splits, offsets], [name for name, _ in METADATA.fields]
        )
        hidden = [
            pa.array(times_us).cast(pa.timestamp("us", "UTC")),
            pa.nulls(count, pa.string()),
            pa.repeat(False, count),
            entity,
            splits,
            pa.array(numbers),
            metadata,
            pa.array(rows.bad(numbers)),
        ]
        names = [*(column.name for column in rows.columns), *HIDDEN_COLUMNS, BAD]
        return pa.RecordBatch.from_arrays([*rows.values(numbers, times_us), *hidden], names=names)

    def _offset(self, offsets: Offsets) -> dict[str, Any]:
        return {self._entity: {str(split): offset for split, offset in offsets.items()}}

    def _offsets(self, offset: dict[str, Any]) -> Offsets:
        return {int(split): number for split, number in offset[self._entity].items()}


def admitted(frame: DataFrame, columns: Sequence[Column], on_error: str) -> DataFrame:
    """Return the rows without the bad ones, which are counted or end the query as records that cannot be decoded do."""
    row = ", ".join(f"{text_sql(column.name)}, {name_sql(column.name)}" for column in columns)
    reason = "'the row is bad, as generator.bad.ratio requests'"
    admit = (
        f"inline(headrace_admit(named_struct({row}), CASE WHEN {BAD} THEN 'bad_records' END, {reason}, "
        f"{ROW_METADATA}, NULL, {text_sql(on_error)}))"
    )
    return frame.selectExpr(admit, *HIDDEN_COLUMNS)
