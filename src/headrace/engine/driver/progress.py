"""Progress of a query's batches, as Spark reports it, as `QueryProgress`.

Read by polling: a listener would call into Python for every batch of every query, idle ones too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine.driver.jvm import jvm
from headrace.engine.protocol import OperatorState, QueryProgress, StepRows

_STATE_PHASES = {"updates": "allUpdatesTimeMs", "removals": "allRemovalsTimeMs", "commit": "commitTimeMs"}
"""What a batch does with state, and Spark's name for the time that its tasks took for it together."""

_YEAR_1_MS = -62_135_596_800_000
"""The beginning of the year 1, before which no TIMESTAMP is."""


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
    ) -> None:
        self._id = query_id
        self._query = query._jsq
        self._windowed = windowed
        self._real_time = real_time
        self._backlog = backlog
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


def _finite(rate: float | str) -> float:
    return float(rate) if isinstance(rate, int | float) else 0.0
