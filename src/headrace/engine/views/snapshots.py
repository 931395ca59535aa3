"""SELECTs of views in DuckDB's SQL, each in a worker process (ADR 45), with a time limit and with errors in the user's terms."""

from __future__ import annotations

import datetime
import decimal
import io
import math
import os
import pickle
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from pathlib import Path
from typing import IO, Any

import duckdb
import structlog

from headrace.core.errors import HeadraceError, InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.data_errors import data_error
from headrace.engine.functions.runtime import LentWorker
from headrace.engine.views.functions import OWN_ERROR
from headrace.engine.views.store import ABANDONED, READER_THREADS, Bounds
from headrace.engine.views.worker import Evaluation, OutOfMemory, Table, TooManyBytes, TooManyRows

log = structlog.get_logger()

READ_BYTES_MAX = 4 * 1024**3
_ALARM_MARGIN_S = 2
"""The worker ends itself so much later than the server would end it."""
_OUT_OF_RANGE = ("out of range", " to DECIMAL(", "Timestamp(MS)")
"""In DuckDB's sentences of conversions that fail; a text that is no number does not come so far."""
_OF_MEMORY = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
"""The signals that end a process whose allocation failed: by the kernel, by C++, and in code that does not check (DuckDB's replace)."""

Left = Callable[[], float]
"""The seconds that are left for a query; raises UserError when there are none, or when the server stops."""


@dataclass(frozen=True)
class ViewRows:
    """The rows that a query reads of a view: a table of a worker, and the Arrow batches that fill it."""

    table: Table
    schema: Any
    batches: Iterable[Any]


Fetch = Callable[[Left], AbstractContextManager[Iterator[ViewRows]]]
"""Opens the rows of all views of a query, as of one moment."""


class Snapshots:
    """The worker processes, and the threads that wait for them. Workers are started when they are needed, and kept."""

    def __init__(self, spill: Path, bounds: Bounds) -> None:
        self.readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="views-read")
        self._spill = spill
        self._bounds = bounds
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._alive: set[_Worker] = set()
        self._closing = threading.Event()

    def warm_up(self) -> None:
        """Start a worker ahead of the first query."""
        self._idle.put(self._start())

    def query(
        self,
        sql: str,
        timeout_s: float | None,
        arrow_tables: Mapping[str, Any],
        fetch: Fetch,
        workers: Sequence[LentWorker] = (),
    ) -> tuple[tuple[tuple[str, str], ...], list[tuple[Any, ...]]]:
        """Run a query as `ViewStore.query` does; `fetch` returns the rows of its views."""
        limit_s = self._bounds.timeout_s if timeout_s is None else timeout_s
        end = time.monotonic() + limit_s

        def left() -> float:
            seconds = end - time.monotonic()
            if self._closing.is_set():
                raise UserError(SqlState.CANCELLED, "the server is being stopped")
            if (is_abandoned := ABANDONED.get()) is not None and is_abandoned.is_set():
                raise UserError(SqlState.CANCELLED, "the query was cancelled")
            if seconds <= 0:
                raise _too_slow(limit_s)
            return seconds

        self._spill.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._spill) as file:
            tables = [*_write(file, _registered(arrow_tables), left)]
            with fetch(left) as rows:
                tables += _write(file, rows, left)
            file.flush()
            seconds = left()
            evaluation = Evaluation(
                sql,
                tuple(tables),
                self._bounds.rows,
                self._bounds.bytes,
                math.ceil(seconds) + _ALARM_MARGIN_S,
                tuple((worker.functions, worker.timeout_s) for worker in workers),
            )
            handles = [worker.socket.fileno() for worker in workers]
            return self._evaluated(evaluation, [*([file.fileno()] if tables else []), *handles], left)

    def close(self) -> None:
        """End the queries and take no more."""
        self._closing.set()
        for worker in self._alive.copy():
            worker.kill()
        self.readers.shutdown(cancel_futures=True)
        while self._alive:
            self._alive.pop().end()

    def _evaluated(
        self, evaluation: Evaluation, handles: Sequence[int], left: Left
    ) -> tuple[tuple[tuple[str, str], ...], list[tuple[Any, ...]]]:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._start()
        fit = False
        try:
            outcome = worker.evaluate(evaluation, handles, left)
            fit = outcome[0] != OutOfMemory.__name__
        except (EOFError, OSError) as error:
            left()
            raise self._died(worker) from error
        finally:
            if not fit:
                worker.end()
                self._alive.discard(worker)
                worker = self._start()
            self._idle.put(worker)
        if isinstance(outcome[0], str):
            raise self._error(outcome[0], str(outcome[1]))
        return outcome

    def _start(self) -> _Worker:
        if self._closing.is_set():
            raise UserError(SqlState.CANCELLED, "the server is being stopped")
        worker = _Worker(self._spill / str(uuid.uuid4()), self._bounds.memory_mb)
        self._alive.add(worker)
        if self._closing.is_set():
            worker.kill()
        return worker

    def _died(self, worker: _Worker) -> HeadraceError:
        code = worker.end()
        log.warning("snapshot_worker_died", code=code)
        if -code in _OF_MEMORY:
            return self._error(OutOfMemory.__name__, "")
        return InternalError(f"the process that evaluated the query ended with code {code}")

    def _error(self, kind: str, text: str) -> HeadraceError:
        """Return a worker's error in the user's words."""
        if kind == OutOfMemory.__name__:
            return UserError(
                SqlState.OUT_OF_MEMORY,
                f"the query needs more than the {self._bounds.memory_mb} MiB of memory that a query of materialized views may use",
                hint="Select fewer rows or columns or shorter texts, aggregate in the query of the view, or "
                "raise HEADRACE_SNAPSHOT_MEMORY_MB.",
            )
        if kind == TooManyRows.__name__:
            return UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"the query of materialized views returns more than {self._bounds.rows} rows",
                hint=f"Add LIMIT {self._bounds.rows}, or raise HEADRACE_SNAPSHOT_ROWS_MAX.",
            )
        if kind == TooManyBytes.__name__:
            return UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"the result of the query is larger than {self._bounds.bytes} bytes",
                hint="Add LIMIT, select fewer columns, or raise HEADRACE_SNAPSHOT_BYTES_MAX.",
            )
        return _data_error(kind, text) or InternalError(f"the views cannot answer the query: {text}")


class _Worker:
    """A worker process and the socket to it. Used by one thread at a time, but for `kill`."""

    def __init__(self, spill: Path, memory_mb: int) -> None:
        self._spill = spill
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "headrace.engine.views.worker",
                    str(theirs.fileno()),
                    str(memory_mb),
                    str(spill),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"},
            )
        self._connection = Connection(ours.detach())

    def evaluate(self, evaluation: Evaluation, handles: Sequence[int], left: Left) -> tuple[Any, Any]:
        """Return columns and rows, or the name of an exception and its text; `handles` are those of the file with the tables, if there
        are any, and of the workers of functions. Raises EOFError or OSError when the process dies."""
        self._connection.send_bytes(pickle.dumps(evaluation))
        for handle in handles:
            send_handle(self._connection, handle, self._process.pid)
        columns, count = _loaded(self._received(left))
        if isinstance(columns, str):
            return columns, count
        rows = [row for _ in range(count) for row in _loaded(self._received(left))]
        return columns, rows

    def _received(self, left: Left) -> bytes:
        # Polled now and then: the server may stop meanwhile.
        while not self._connection.poll(min(left(), 1.0)):
            pass
        return self._connection.recv_bytes()

    def kill(self) -> None:
        """End the process. A thread that waits for its answer gets EOFError."""
        self._process.kill()

    def end(self) -> int:
        """End the process, if it still runs, and remove what it left behind; its exit code."""
        with suppress(subprocess.TimeoutExpired):
            # A process that is about to end by itself has an exit code with the reason.
            self._process.wait(0.1)
        self._process.kill()
        code = self._process.wait()
        self._connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)
        return code


class _Values(pickle.Unpickler):
    """Reads only values of rows: a worker evaluates users' expressions, so its messages are not trusted."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a type of DuckDB's values; refuse any other."""
        for kind in (
            decimal.Decimal,
            datetime.date,
            datetime.datetime,
            datetime.time,
            datetime.timedelta,
            uuid.UUID,
        ):
            if (module, name) == (kind.__module__, kind.__qualname__):
                return kind
        raise pickle.UnpicklingError(f"{module}.{name} cannot be a value of a row")


def _loaded(content: bytes) -> Any:
    return _Values(io.BytesIO(content)).load()


def _registered(arrow_tables: Mapping[str, Any]) -> Iterator[ViewRows]:
    for name, table in arrow_tables.items():
        yield ViewRows(Table(name), table.schema, table.to_batches())


def _write(file: IO[bytes], rows: Iterable[ViewRows], left: Left) -> Iterator[Table]:
    """Write an Arrow stream for each."""
    import pyarrow

    for each in rows:
        with pyarrow.ipc.new_stream(file, each.schema) as out:
            for batch in each.batches:
                left()
                out.write_batch(batch)
                if file.tell() > READ_BYTES_MAX:
                    raise UserError(
                        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                        f"the query reads more than {READ_BYTES_MAX} bytes of materialized views",
                        hint="Aggregate in the query of the view, or select fewer columns.",
                    )
        yield each.table


def _too_slow(timeout_s: float) -> UserError:
    return UserError(
        SqlState.TIMEOUT,
        f"the query of materialized views took longer than {timeout_s:g} s",
        hint="Aggregate in the query of the view, join on a more selective condition, or raise HEADRACE_SNAPSHOT_TIMEOUT_MS.",
    )


def _data_error(kind: str, text: str) -> UserError | None:
    """Return the error for a value that DuckDB, or a function of ours in it, refused; None for any other error."""
    text = _in_short(text)
    if kind == "InvalidInputException":
        own = OWN_ERROR.search(text)
        if own is not None:
            return (
                data_error(own[1], own[2]) if own[1].startswith("22") else UserError(SqlState(own[1]), own[2])
            )
        if "ivision by zero" in text:
            return data_error(SqlState.DIVISION_BY_ZERO.value, text)
    if kind == "OutOfRangeException" or any(word in text for word in _OUT_OF_RANGE):
        return data_error(SqlState.NUMERIC_VALUE_OUT_OF_RANGE.value, text)
    of_data = isinstance(error := getattr(duckdb, kind, None), type) and issubclass(
        error, (duckdb.DataError, duckdb.InvalidInputException)
    )
    return data_error(SqlState.DATA_EXCEPTION.value, text) if of_data else None


def _in_short(text: str) -> str:
    """Return DuckDB's sentence without its kind and without the SQL that we wrote for it."""
    sentence = text.partition("\n\nLINE ")[0].partition("Error: ")[2] or text
    return sentence[:1].lower() + sentence[1:]
