"""The process that evaluates snapshot queries (ADR 45): `python -m headrace.engine.views.worker SOCKET MEMORY_MB SPILL`.

The server sends the SQL and a file with the rows that it reads; the answer is the rows of the result. An expression can need any
amount of memory (`REPEAT(name, 20000000)`), and DuckDB's own limit does not count the texts of expressions. So the kernel limits the
memory of this process: what fails here fails for one query. Imports little: a worker that was killed is replaced while users wait.
"""

from __future__ import annotations

import mmap
import os
import pickle
import resource
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path

import duckdb
import pyarrow

from headrace.engine.functions.protocol import LentFunction
from headrace.engine.views.database import open_database
from headrace.engine.views.functions import install
from headrace.engine.views.user_functions import functions_of_users

SPILL_MAX_MB = 4096
_ROWS_AT_ONCE = 1024
_PART = "__part"
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Table:
    """A table of a query; its rows are one Arrow stream of the file.

    With `columns` (DuckDB's column definitions) it is built by the select list `values`; without, the stream itself is the table.
    """

    name: str
    columns: str | None = None
    values: str = "*"


@dataclass(frozen=True)
class Evaluation:
    """The message of the server: a query, the tables in the file that follows, in order, and the bounds of the result.

    `functions` are those of users, of each worker whose socket follows, with the seconds that a call may take.
    """

    sql: str
    tables: tuple[Table, ...]
    rows_max: int
    bytes_max: int
    timeout_s: int
    functions: tuple[tuple[tuple[LentFunction, ...], float], ...] = ()


class OutOfMemory(Exception):  # noqa: N818 - the name of an outcome
    """The query needs more memory than the process may use."""


class TooManyRows(Exception):  # noqa: N818
    """The result has more rows than allowed."""


class TooManyBytes(Exception):  # noqa: N818
    """The result has more bytes than allowed."""


def main(handle: int, memory_mb: int, spill: Path) -> None:
    """Answer one query after the other until the server closes its end or memory has run out once."""
    connection = Connection(handle)
    _limit(memory_mb)
    # The other half is for expressions and for Python.
    database = open_database(":memory:", memory_mb=memory_mb // 2, spill=spill, spill_mb=SPILL_MAX_MB)
    install(database)
    with suppress(EOFError, OSError):
        while True:
            evaluation: Evaluation = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our parent
            file = recv_handle(connection) if evaluation.tables else None
            sockets = [socket.socket(fileno=recv_handle(connection)) for _ in evaluation.functions]
            # The default action of SIGALRM ends the process, also if the server is gone or native code does not return.
            signal.alarm(evaluation.timeout_s)
            try:
                with functions_of_users(database, evaluation.functions, sockets):
                    columns, parts = _evaluate(database, evaluation, file)
            except (duckdb.Error, OutOfMemory, TooManyRows, TooManyBytes) as error:
                connection.send_bytes(pickle.dumps((type(error).__name__, str(error))))
                if isinstance(error, OutOfMemory):
                    return
                continue
            finally:
                signal.alarm(0)
                if file is not None:
                    os.close(file)
                for each in sockets:
                    each.close()
            connection.send_bytes(pickle.dumps((columns, len(parts))))
            for part in parts:
                connection.send_bytes(part)


def _limit(memory_mb: int) -> None:
    """Bound the memory of this process, and let the kernel end it first when the machine runs out."""
    # Private memory only: the rows that are read are pages of a file, which the kernel can take back.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mb * _MIB, memory_mb * _MIB))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _evaluate(
    database: duckdb.DuckDBPyConnection, evaluation: Evaluation, file: int | None
) -> tuple[tuple[tuple[str, str], ...], list[bytes]]:
    cursor = database.cursor()
    try:
        if file is not None:
            _build(cursor, evaluation.tables, file)
        cursor.execute(evaluation.sql)
        columns = tuple((column[0], str(column[1])) for column in cursor.description or ())
        return columns, _parts(cursor, evaluation)
    except (MemoryError, duckdb.OutOfMemoryException, pyarrow.ArrowMemoryError) as error:
        raise OutOfMemory(str(error)) from error
    except duckdb.Error as error:
        # A failed allocation outside of DuckDB's own buffers.
        if "bad_alloc" in str(error) or "MemoryError" in str(error):
            raise OutOfMemory(str(error)) from error
        raise
    finally:
        # Its temporary tables go with it.
        cursor.close()


def _parts(cursor: duckdb.DuckDBPyConnection, evaluation: Evaluation) -> list[bytes]:
    """Return the rows, some at a time."""
    parts: list[bytes] = []
    rows = size = 0
    while batch := cursor.fetchmany(_ROWS_AT_ONCE):
        rows += len(batch)
        if rows > evaluation.rows_max:
            raise TooManyRows
        parts.append(pickle.dumps(batch, pickle.HIGHEST_PROTOCOL))
        size += len(parts[-1])
        if size > evaluation.bytes_max:
            raise TooManyBytes
    return parts


def _build(cursor: duckdb.DuckDBPyConnection, tables: tuple[Table, ...], file: int) -> None:
    mapped = pyarrow.BufferReader(pyarrow.py_buffer(mmap.mmap(file, 0, prot=mmap.PROT_READ)))
    for table in tables:
        rows = pyarrow.ipc.open_stream(mapped).read_all()
        if table.columns is None:
            cursor.register(table.name, rows)
            continue
        name = '"' + table.name.replace('"', '""') + '"'
        cursor.execute(f"CREATE TEMP TABLE {name} ({table.columns})")
        cursor.register(_PART, rows)
        cursor.execute(f"INSERT INTO {name} SELECT {table.values} FROM {_PART}")  # noqa: S608 - of the server
        cursor.unregister(_PART)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
