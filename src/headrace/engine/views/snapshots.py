"""SELECTs of views in DuckDB's SQL: what they may use, how long they may take, and what goes wrong in the user's words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb

from headrace.core.errors import InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.data_errors import data_error
from headrace.engine.views.functions import OWN_ERROR, install
from headrace.engine.views.store import READER_THREADS

MEMORY_MB = 64
_OF_DATA = (duckdb.DataError, duckdb.InvalidInputException)
_OUT_OF_RANGE = ("out of range", " to DECIMAL(", "Timestamp(MS)")
"""In DuckDB's sentences of conversions that fail; a text that is no number does not come so far."""

Prepare = Callable[[duckdb.DuckDBPyConnection, Callable[[], float]], None]


class Snapshots:
    """A DuckDB that answers SELECTs, each in one of `readers`. It reaches nothing outside."""

    def __init__(self, path: str | Path, *, rows_max: int, spill: Path | None = None) -> None:
        """`spill` is where it puts what has no place in its memory; of a file: beside that."""
        self.readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="views-read")
        self._rows_max = rows_max
        self._reading: set[duckdb.DuckDBPyConnection] = set()
        self._closing = False
        self.database = duckdb.connect(
            str(path),
            config={
                "memory_limit": f"{MEMORY_MB}MB",
                "threads": 1,
                "preserve_insertion_order": "false",
                # What reaches this engine was compiled from checked SQL; should that ever fail, there is nothing here to reach.
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "python_enable_replacements": "false",
                # DuckDB 2.0 takes a needed join for an unneeded one under NOT IN and then fails with an internal error.
                "disabled_optimizers": "join_elimination",
                "lock_configuration": "true",
                **({"temp_directory": str(spill)} if spill else {}),
            },
        )
        install(self.database)

    def query(
        self, sql: str, timeout_s: float, beside: Mapping[str, Any], prepare: Prepare | None = None
    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """As `ViewStore.query`. `prepare` makes what it needs in its cursor, and asks now and then how many seconds are left for that."""
        end = time.monotonic() + timeout_s

        def left() -> float:
            seconds = end - time.monotonic()
            if self._closing or seconds <= 0:
                raise duckdb.InterruptException("no time is left")
            return seconds

        cursor = self.database.cursor()
        self._reading.add(cursor)
        timer = threading.Timer(timeout_s, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            for name, table in beside.items():
                cursor.register(name, table)
            if prepare is not None:
                prepare(cursor, left)
            cursor.execute(sql)
            names = tuple(column[0] for column in cursor.description or ())
            found = cursor.fetchmany(self._rows_max + 1)
            if len(found) > self._rows_max:
                raise UserError(
                    SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                    f"the query of materialized views has more than {self._rows_max} rows",
                    hint=f"Add LIMIT {self._rows_max}, or raise HEADRACE_SNAPSHOT_ROWS_MAX.",
                )
            return names, found
        except duckdb.InterruptException as error:
            if self._closing:
                raise UserError(SqlState.CANCELLED, "the server is being stopped") from error
            raise UserError(
                SqlState.TIMEOUT,
                f"the query of materialized views took longer than {timeout_s:g} s",
                hint="Aggregate in the view's own query, or join on a condition that fewer rows meet.",
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                "the query needs more memory than views may use",
                hint="Select fewer rows or columns, or aggregate in the view's own query.",
            ) from error
        except duckdb.Error as error:
            of_data = _data_error(error)
            if of_data is not None:
                raise of_data from error
            raise InternalError(f"the views cannot answer the query: {error}") from error
        finally:
            timer.cancel()
            timer.join()
            self._reading.discard(cursor)
            cursor.close()

    def interrupt(self) -> None:
        """End the queries and take no more."""
        self._closing = True
        for cursor in self._reading.copy():
            cursor.interrupt()
        self.readers.shutdown(cancel_futures=True)


def _data_error(error: duckdb.Error) -> UserError | None:
    """What DuckDB, or a function of ours in it, could not do with a value; None for any other error."""
    text = _in_short(error)
    if isinstance(error, duckdb.InvalidInputException):
        own = OWN_ERROR.search(text)
        if own is not None:
            return (
                data_error(own[1], own[2]) if own[1].startswith("22") else UserError(SqlState(own[1]), own[2])
            )
        if "ivision by zero" in text:
            return data_error(SqlState.DIVISION_BY_ZERO.value, text)
    if isinstance(error, duckdb.OutOfRangeException) or any(word in text for word in _OUT_OF_RANGE):
        return data_error(SqlState.NUMERIC_VALUE_OUT_OF_RANGE.value, text)
    return data_error(SqlState.DATA_EXCEPTION.value, text) if isinstance(error, _OF_DATA) else None


def _in_short(error: duckdb.Error) -> str:
    """DuckDB's sentence without its kind and without the SQL that we wrote for it."""
    sentence = str(error).partition("\n\nLINE ")[0].partition("Error: ")[2] or str(error)
    return sentence[:1].lower() + sentence[1:]
