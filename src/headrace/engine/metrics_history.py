"""Metrics of queries, slots of compute pools, and what queries used of them, over the last hours: a SQLite file of the data directory.

The file is beside the catalog's database: a row for each query and interval would make backups of the catalog large, and losing the
history loses no data. A file that cannot be read is replaced.
"""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import structlog

from headrace.engine.metrics import Metric, QueryMetrics, labelled
from headrace.engine.protocol import TaskTime

log = structlog.get_logger()

HISTORY: tuple[Metric, ...] = tuple(
    metric for metric in labelled(()) if metric.is_number and metric.name not in ("batch_id", "batch_age_ms")
)
"""The metrics that are kept: numbers of a whole query."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS samples "
    "(query_id TEXT NOT NULL, seconds REAL NOT NULL, metrics TEXT NOT NULL, PRIMARY KEY (query_id, seconds)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS pool_samples (pool_id TEXT NOT NULL, seconds REAL NOT NULL, length_s REAL NOT NULL, "
    "slots INTEGER NOT NULL, used INTEGER, PRIMARY KEY (pool_id, seconds)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS pool_tasks (pool_id TEXT NOT NULL, seconds REAL NOT NULL, slot_ms INTEGER NOT NULL, "
    "PRIMARY KEY (pool_id, seconds)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS task_hours (query_id TEXT NOT NULL, hour INTEGER NOT NULL, pool_id TEXT NOT NULL, "
    "slot_ms INTEGER NOT NULL, cpu_ms INTEGER NOT NULL, PRIMARY KEY (query_id, hour, pool_id)) WITHOUT ROWID",
)
_HOUR_S = 3600
_SAMPLES = (
    "SELECT query_id, seconds, metrics FROM samples "
    "WHERE query_id IN (SELECT value FROM json_each(?)) ORDER BY query_id, seconds"
)
_POOL_SAMPLES = (
    "SELECT pool_id, seconds, length_s, slots, used, slot_ms FROM pool_samples LEFT JOIN pool_tasks USING (pool_id, seconds) "
    "WHERE pool_id IN (SELECT value FROM json_each(?)) ORDER BY pool_id, seconds"
)
_TASK_HOURS = (
    "SELECT query_id, hour, pool_id, slot_ms, cpu_ms FROM task_hours "
    "WHERE query_id IN (SELECT value FROM json_each(?)) ORDER BY query_id, hour, pool_id"
)
_ADD_TASKS = (
    "INSERT INTO task_hours VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
    "SET slot_ms = slot_ms + excluded.slot_ms, cpu_ms = cpu_ms + excluded.cpu_ms"
)


@dataclass(frozen=True)
class PoolSample:
    """The slots of a compute pool for `length_s` seconds, how many of them ran a task at the end, and the time for which tasks occupied
    them; None: not known."""

    pool_id: str
    length_s: float
    slots: int
    used: int | None
    busy_ms: int | None = None


@dataclass(frozen=True)
class TaskHour:
    """The time of a query's tasks in a compute pool, of the hour from `hour` seconds after the epoch on, or a part of it to add."""

    query_id: str
    hour: int
    pool_id: str
    time: TaskTime

    @staticmethod
    def at(now: float, query_id: str, pool_id: str, time: TaskTime) -> TaskHour:
        """Return the part of the hour of `now`, in seconds since the epoch."""
        return TaskHour(query_id, int(now) // _HOUR_S * _HOUR_S, pool_id, time)


class MetricsHistory:
    """Samples of the metrics of queries and of the slots of compute pools, and hours of tasks. Used from any thread; all methods block.

    A sample that cannot be written, as on a full disk, is logged and missing.
    """

    def __init__(self, path: Path, *, hours: float) -> None:
        self._path = path
        self._kept_s = hours * 3600
        self._lock = Lock()

    def add(
        self,
        now: float,
        metrics: Mapping[str, QueryMetrics],
        pools: Collection[PoolSample] = (),
        tasks: Collection[TaskHour] = (),
    ) -> None:
        """Add samples of queries and pools, at `now` in seconds since the epoch, and the times of `tasks`; delete what is too old."""
        rows = [(query_id, now, _written(sample)) for query_id, sample in metrics.items()]
        of_pools = [(each.pool_id, now, each.length_s, each.slots, each.used) for each in pools]
        busy = [(each.pool_id, now, each.busy_ms) for each in pools if each.busy_ms is not None]
        of_tasks = [
            (each.query_id, each.hour, each.pool_id, each.time.slot_ms, each.time.cpu_ms) for each in tasks
        ]
        with self._lock:
            try:
                self._write(rows, of_pools, busy, of_tasks, now - self._kept_s)
            except sqlite3.DatabaseError as error:
                log.warning("metrics_history_not_written", path=str(self._path), error=str(error))
                # An OperationalError is a full or locked disk, which passes. Any other is a file that is damaged.
                if not isinstance(error, sqlite3.OperationalError):
                    self._path.unlink(missing_ok=True)

    def rows(self, query_ids: Collection[str]) -> Iterator[tuple[object, ...]]:
        """Yield query, time and the values of `HISTORY` of the samples of these queries, by query and time."""
        for query_id, seconds, text in self._read(_SAMPLES, query_ids):
            values = json.loads(text)
            yield (query_id, _moment(seconds), *(values.get(metric.name) for metric in HISTORY))

    def pool_rows(self, pool_ids: Collection[str]) -> Iterator[tuple[str, datetime.datetime, PoolSample]]:
        """Yield id, time and sample of these compute pools, by pool and time."""
        for pool_id, seconds, length_s, slots, used, busy_ms in self._read(_POOL_SAMPLES, pool_ids):
            yield (pool_id, _moment(seconds), PoolSample(pool_id, length_s, slots, used, busy_ms))

    def task_hours(self, query_ids: Collection[str]) -> Iterator[TaskHour]:
        """Yield the hours of the tasks of these queries, by query, hour and pool."""
        for query_id, hour, pool_id, slot_ms, cpu_ms in self._read(_TASK_HOURS, query_ids):
            yield TaskHour(query_id, hour, pool_id, TaskTime(slot_ms=slot_ms, cpu_ms=cpu_ms))

    def _read(self, query: str, ids: Collection[str]) -> list[tuple[Any, ...]]:
        if not self._path.exists():
            return []
        try:
            with self._lock, closing(self._open()) as database:
                return database.execute(query, (json.dumps(sorted(ids)),)).fetchall()
        except sqlite3.DatabaseError as error:
            log.warning("metrics_history_not_read", path=str(self._path), error=str(error))
            return []

    def _write(
        self,
        rows: list[tuple[str, float, str]],
        of_pools: list[tuple[str, float, float, int, int | None]],
        busy: list[tuple[str, float, int]],
        of_tasks: list[tuple[str, int, str, int, int]],
        oldest: float,
    ) -> None:
        with closing(self._open()) as database, database:
            database.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?)", rows)
            database.executemany("INSERT OR REPLACE INTO pool_samples VALUES (?, ?, ?, ?, ?)", of_pools)
            database.executemany("INSERT OR REPLACE INTO pool_tasks VALUES (?, ?, ?)", busy)
            database.executemany(_ADD_TASKS, of_tasks)
            database.execute("DELETE FROM samples WHERE seconds < ?", (oldest,))
            database.execute("DELETE FROM pool_samples WHERE seconds < ?", (oldest,))
            database.execute("DELETE FROM pool_tasks WHERE seconds < ?", (oldest,))
            database.execute("DELETE FROM task_hours WHERE hour <= ?", (oldest - _HOUR_S,))

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=5)
        # A file of an earlier version has fewer tables, and that version can still write its own.
        for table in _TABLES:
            database.execute(table)
        return database


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _written(metrics: QueryMetrics) -> str:
    values = {metric.name: value for metric in HISTORY for value in metric.read(metrics).values()}
    return json.dumps(values, separators=(",", ":"))
