"""Progress of a query's batches, as Spark reports it, as `QueryProgress`.

Read by polling: a listener would call into Python for every batch of every query, idle ones too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder
from headrace.engine.driver.jvm import jvm
from headrace.engine.protocol import OperatorState, QueryProgress, StepRows
from headrace.planner.physical import ReadEntity, ReadRows, ReadTable, SparkPlan, WriteEntity

_STATE_PHASES = {"updates": "allUpdatesTimeMs", "removals": "allRemovalsTimeMs", "commit": "commitTimeMs"}
"""What a batch does with state, and Spark's name for the time that its tasks took for it together."""

_WALK_INTERVAL_S = 30.0

_YEAR_1_MS = -62_135_596_800_000
"""The beginning of the year 1, before which no TIMESTAMP is."""


class CheckpointSize:
    """Size of a checkpoint's files.

    A walk over a folder of some thousand files takes some ten milliseconds. The next one is 30 s later, or a thousand times as long as the
    walk took.
    """

    def __init__(self, checkpoint: CheckpointStore) -> None:
        self._checkpoint = checkpoint
        self._bytes: int | None = None
        self._next = 0.0

    def read(self) -> int | None:
        """Return the bytes that the last walk has counted; None for a checkpoint that is not in a folder of this machine."""
        if not isinstance(self._checkpoint, LocalFolder):
            return None
        start = time.monotonic()
        if self._bytes is None or start >= self._next:
            self._bytes = _size(str(self._checkpoint.path))
            end = time.monotonic()
            self._next = end + max(_WALK_INTERVAL_S, 1000 * (end - start))
        return self._bytes


class ProgressReader:
    """Reads the progress of one running query, and remembers the last reading."""

    def __init__(
        self,
        query_id: str,
        query: StreamingQuery,
        session: SparkSession,
        *,
        windowed: bool,
        real_time: bool,
        backlog: Mapping[str, int],
        measures: frozenset[str],
        checkpoint: CheckpointStore,
    ) -> None:
        self._id = query_id
        self._query = query._jsq
        self._windowed = windowed
        self._real_time = real_time
        self._backlog = backlog
        self._measures = measures
        self._checkpoint = checkpoint
        self._size = CheckpointSize(checkpoint)
        self._run = str(query.runId)
        self._watermark = jvm(session).io.headrace.spark.PartitionWatermark
        self._counts = jvm(session).io.headrace.spark.RowCounts
        self._steps = jvm(session).io.headrace.spark.StepRows
        self._last: tuple[int, str] = (-1, "")

    def read(self) -> QueryProgress | None:
        """Return the batches since the last call as one: rows are summed, all else is the last batch's."""
        batches = self._unread()
        if not batches:
            return None
        last = batches[-1]
        operators = last.get("stateOperators", [])
        detail: dict[str, object] = {
            "durations_ms": last.get("durationMs", {}),
            "state_ms": {
                phase: sum(operator.get(name, 0) for operator in operators)
                for phase, name in _STATE_PHASES.items()
            },
        }
        described = json.loads(self._watermark.describe(self._run))
        if described.get("active"):
            detail["watermark"] = described
        counted = json.loads(self._counts.take(self._query, last["batchId"]))
        rows = counted["counts"]
        passed = json.loads(self._steps.take(self._query))
        seconds = sum(batch.get("durationMs", {}).get("triggerExecution", 0) for batch in batches) / 1000
        sizes = {name: rows.get(name, 0) for name in self._measures}
        if counted["spellings"]:
            detail["fields_that_differ_in_case"] = counted["spellings"]
        return QueryProgress(
            query_id=self._id,
            batch_id=last["batchId"],
            batches=len(batches),
            input_rows=sum(batch.get("numInputRows", 0) for batch in batches),
            input_rows_per_second=_finite(last.get("processedRowsPerSecond", 0.0)),
            batch_duration_ms=last.get("batchDuration", 0),
            watermark_ms=watermark_ms(last, described),
            state_rows=sum(operator.get("numRowsTotal", 0) for operator in operators),
            state_bytes=sum(operator.get("memoryUsedBytes", 0) for operator in operators),
            state_file_bytes=sum(
                operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for operator in operators
            ),
            operators=_states(operators),
            output_rows=passed["outputRows"],
            steps=[StepRows(**step) for step in passed["steps"]],
            late_rows=rows.get("late_rows", 0) if self._windowed else _dropped(batches),
            timeless_rows=rows.get("timeless_rows", 0),
            bad_records=rows.get("bad_records", 0),
            future_rows=rows.get("future_rows", 0),
            function_failures=rows.get("function_failures", 0),
            lag=lag(last.get("sources", [])),
            backlog_bytes=dict(self._backlog),
            input_bytes=sizes.get("input_bytes"),
            input_bytes_per_second=_rate(sizes.get("input_bytes"), seconds),
            output_bytes=sizes.get("output_bytes"),
            output_bytes_per_second=_rate(sizes.get("output_bytes"), seconds),
            committed_at_ms=committed_at_ms(self._checkpoint, last["batchId"]),
            checkpoint_bytes=self._size.read(),
            # In real-time mode, rows are written long before their batch is committed.
            latencies_ms=[] if self._real_time else latencies_ms(batches, counted.get("oldest", {})),
            detail=detail,
        )

    def _unread(self) -> list[dict[str, Any]]:
        unread: list[dict[str, Any]] = []
        recent = self._query.recentProgress()
        for index in range(len(recent) - 1, -1, -1):
            batch = json.loads(recent[index].json())
            if (batch["batchId"], batch["timestamp"]) == self._last:
                break
            unread.append(batch)
        unread.reverse()
        if unread:
            self._last = (unread[-1]["batchId"], unread[-1]["timestamp"])
        return unread


def measures(plan: SparkPlan) -> frozenset[str]:
    """Return which of `input_bytes` and `output_bytes` a plan counts: where all its sources have records, and where its sink does.

    Sources and sinks with rows of their store's own know no bytes, and several sinks encode their records in another query.
    """
    reads = [step for step in plan.steps if isinstance(step, ReadEntity | ReadRows | ReadTable)]
    counted = {
        "input_bytes": all(isinstance(step, ReadEntity) for step in reads),
        "output_bytes": len(plan.sinks) == 1 and isinstance(plan.sink, WriteEntity),
    }
    return frozenset(name for name, is_counted in counted.items() if is_counted)


def _size(folder: str) -> int:
    """Return the bytes of the files in a folder. Spark may delete files meanwhile."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    total += _size(entry.path) if is_folder else entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue
    except FileNotFoundError:
        return 0
    return total


def committed_at_ms(checkpoint: CheckpointStore, batch: int) -> int | None:
    """Return when the last batch was committed, in milliseconds since the epoch; None before the first one.

    Spark also reports triggers that ran no batch, under the number of the next batch.
    """
    for number in (batch, batch - 1):
        if (seconds := checkpoint.written_at(f"commits/{number}")) is not None:
            return round(seconds * 1000)
    return None


def latencies_ms(batches: list[dict[str, Any]], oldest: Mapping[str, int]) -> list[int]:
    """Return the milliseconds from the oldest record of each batch to the commit of the batch; `oldest` has microseconds by batch."""
    latencies = []
    for batch in batches:
        if (micros := oldest.get(str(batch["batchId"]))) is not None:
            began = datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp() * 1000
            committed = began + batch.get("durationMs", {}).get("triggerExecution", 0)
            # The clock of a producer may be ahead.
            latencies.append(max(0, round(committed - micros / 1000)))
    return latencies


def lag(sources: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return, by entity and split, how far a batch's sources are behind their ends.

    Of stores whose offsets are numbers by entity and split. If two sources read an entity, the lag is that of the source which is further
    behind.
    """
    lags: dict[str, dict[str, int]] = {}
    for source in sources:
        read = _numbers(source.get("endOffset"))
        for place, latest in _numbers(source.get("latestOffset")).items():
            if place in read:
                entity, split = place
                behind = max(0, latest - read[place])
                splits = lags.setdefault(entity, {})
                splits[split] = max(behind, splits.get(split, 0))
    return lags


def _numbers(offsets: object) -> dict[tuple[str, str], int]:
    if not isinstance(offsets, dict):
        return {}
    return {
        (entity, split): offset
        for entity, splits in offsets.items()
        if isinstance(splits, dict)
        for split, offset in splits.items()
        if isinstance(offset, int)
    }


def _states(operators: list[dict[str, Any]]) -> dict[str, OperatorState]:
    """Return the state of each operator by its name, numbered where several have one."""
    states: dict[str, OperatorState] = {}
    for operator in operators:
        name = str(operator.get("operatorName", "state"))
        number = sum(known.partition(" ")[0] == name for known in states) + 1
        states[name if number == 1 else f"{name} {number}"] = OperatorState(
            rows=operator.get("numRowsTotal", 0), bytes=operator.get("memoryUsedBytes", 0)
        )
    return states


def _dropped(batches: list[dict[str, Any]]) -> int:
    """Return how many rows joins dropped; for windows Spark counts dropped *groups* instead."""
    return sum(
        operator.get("numRowsDroppedByWatermark", 0)
        for batch in batches
        for operator in batch.get("stateOperators", [])
    )


def watermark_ms(batch: dict[str, Any], described: dict[str, Any]) -> int | None:
    """Return a query's watermark from its run, else from its last batch as Spark reports it; None while there is none."""
    ms: int | None = described.get("watermarkMs")
    text = batch.get("eventTime", {}).get("watermark")
    if ms is None and text:
        # While there is none, a batch has the epoch or the year 0, which Spark prints as the year 1.
        ms = int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000) or None
    return ms if ms is not None and ms > _YEAR_1_MS else None


def _rate(count: int | None, seconds: float) -> float | None:
    if count is None:
        return None
    return count / seconds if seconds else 0.0


def _finite(rate: float | str) -> float:
    return float(rate) if isinstance(rate, int | float) else 0.0
