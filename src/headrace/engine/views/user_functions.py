"""Functions of users in the process that evaluates a snapshot query: DuckDB calls them in batches, and a worker answers."""

from __future__ import annotations

import inspect
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow
from duckdb.func import FunctionNullHandling, PythonUDFType

from headrace.core.types import parse_type
from headrace.engine.functions.protocol import (
    CallError,
    FunctionWorker,
    LentFunction,
    WorkerEnded,
    arrow_type,
)

_PREFIX = "headrace_call_"
"""How the texts of snapshot queries name a function: see `analyzer/functions/resolver.py`."""
_NO_ARGUMENT = "INTEGER"
"""A function without arguments gets a constant: DuckDB passes the number of rows by no other way."""


@contextmanager
def functions_of_users(
    database: duckdb.DuckDBPyConnection,
    functions: Sequence[tuple[tuple[LentFunction, ...], float]],
    sockets: Sequence[socket.socket],
) -> Iterator[None]:
    """Register the functions of each worker with a database while the block runs."""
    names: list[str] = []
    try:
        for (of_worker, timeout_s), connection in zip(functions, sockets, strict=True):
            worker = FunctionWorker(connection)
            for function in of_worker:
                name = f"{_PREFIX}{function.id}"
                kinds: Any = function.duckdb_arguments or [_NO_ARGUMENT]
                result: Any = function.duckdb_result
                database.create_function(
                    name,
                    _caller(worker, function, timeout_s),
                    list(kinds),
                    result,
                    type=PythonUDFType.ARROW,
                    null_handling=FunctionNullHandling.SPECIAL,
                    side_effects=True,
                )
                names.append(name)
        yield
    finally:
        for name in names:
            database.remove_function(name)


def _caller(worker: FunctionWorker, function: LentFunction, timeout_s: float) -> Callable[..., pyarrow.Array]:
    kinds = [arrow_type(parse_type(kind)) for kind in function.arguments]
    result = arrow_type(parse_type(function.result))
    declared = False

    def call(*columns: pyarrow.ChunkedArray) -> pyarrow.Array:
        nonlocal declared
        arguments = [_cast(column, kind) for column, kind in zip(columns, kinds, strict=False)]
        names = [f"a{index}" for index in range(len(kinds))]
        if not kinds:
            arguments, names = [_cast(columns[0], pyarrow.int32())], ["a0"]
        try:
            if not declared:
                worker.declare(function.number, function.declaration, timeout_s)
                declared = True
            values = worker.call(
                function.number, pyarrow.RecordBatch.from_arrays(arguments, names), result, timeout_s
            )
        except CallError as error:
            trace = "".join(f"; {line}" for line in error.trace.splitlines()[:5])
            raise ValueError(
                f"[38000] the function {function.signature} failed: {error.message}{trace}"
            ) from error
        except WorkerEnded as error:
            raise ValueError(f"[38000] the function {function.signature} failed: {error}") from error
        # DuckDB has no time zones here: all its times are in UTC.
        return values.cast(_without_zone(result))

    # DuckDB compares the number of parameters with that of the types.
    parameters = [
        inspect.Parameter(f"a{index}", inspect.Parameter.POSITIONAL_ONLY)
        for index in range(max(len(kinds), 1))
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _cast(column: pyarrow.ChunkedArray, kind: pyarrow.DataType) -> pyarrow.Array:
    values = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    return values if values.type == kind else values.cast(kind)


def _without_zone(kind: pyarrow.DataType) -> pyarrow.DataType:
    if pyarrow.types.is_timestamp(kind):
        return pyarrow.timestamp(kind.unit)
    if pyarrow.types.is_map(kind):
        return pyarrow.map_(_without_zone(kind.key_type), _without_zone(kind.item_type))
    if pyarrow.types.is_list(kind):
        return pyarrow.list_(_without_zone(kind.value_type))
    if pyarrow.types.is_struct(kind):
        return pyarrow.struct([(field.name, _without_zone(field.type)) for field in kind])
    return kind
