"""Metrics of the last hours, in a SQLite file of the data directory, so that pages and SQL can draw them.

The file is beside the catalog's database: a row for each query and interval would make backups of the catalog large, and losing the
history loses no data. A file that cannot be read is replaced.
"""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock

import structlog

from headrace.engine.metrics import Metric, QueryMetrics, labelled

log = structlog.get_logger()

HISTORY: tuple[Metric, ...] = tuple(
    metric for metric in labelled(()) if metric.is_number and metric.name not in ("batch_id", "batch_age_ms")
)
"""The metrics that are kept: numbers of a whole query."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS samples "
    "(query_id TEXT NOT NULL, seconds REAL NOT NULL, metrics TEXT NOT NULL, PRIMARY KEY (query_id, seconds)) WITHOUT ROWID"
)
_SAMPLES = (
    "SELECT query_id, seconds, metrics FROM samples "
    "WHERE query_id IN (SELECT value FROM json_each(?)) ORDER BY query_id, seconds"
)


class MetricsHistory:
    """Samples of the metrics of queries. Used from any thread; all methods block.

    A sample that cannot be written, as on a full disk, is logged and missing.
    """

    def __init__(self, path: Path, *, hours: float) -> None:
        self._path = path
        self._kept_s = hours * 3600
        self._lock = Lock()

    def add(self, now: float, metrics: Mapping[str, QueryMetrics]) -> None:
        """Add a sample for each query, at `now` in seconds since the epoch, and delete those that are too old."""
        rows = [(query_id, now, _written(sample)) for query_id, sample in metrics.items()]
        with self._lock:
            try:
                self._write(rows, now - self._kept_s)
            except sqlite3.DatabaseError as error:
                log.warning("metrics_history_not_written", path=str(self._path), error=str(error))
                # An OperationalError is a full or locked disk, which passes. Any other is a file that is damaged.
                if not isinstance(error, sqlite3.OperationalError):
                    self._path.unlink(missing_ok=True)

    def rows(self, query_ids: Collection[str]) -> Iterator[tuple[object, ...]]:
        """Yield query, time and the values of `HISTORY` of the samples of these queries, by query and time."""
        if not self._path.exists():
            return
        try:
            with self._lock, closing(self._open()) as database:
                stored = database.execute(_SAMPLES, (json.dumps(sorted(query_ids)),)).fetchall()
        except sqlite3.DatabaseError as error:
            log.warning("metrics_history_not_read", path=str(self._path), error=str(error))
            return
        for query_id, seconds, text in stored:
            values = json.loads(text)
            moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
            yield (query_id, moment, *(values.get(metric.name) for metric in HISTORY))

    def _write(self, rows: list[tuple[str, float, str]], oldest: float) -> None:
        with closing(self._open()) as database, database:
            database.execute(_TABLE)
            database.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?)", rows)
            database.execute("DELETE FROM samples WHERE seconds < ?", (oldest,))

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=5)


def _written(metrics: QueryMetrics) -> str:
    values = {metric.name: value for metric in HISTORY for value in metric.read(metrics).values()}
    return json.dumps(values, separators=(",", ":"))
