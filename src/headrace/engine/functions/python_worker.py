"""Process that runs the functions of one Python module or wheel (ADR 58): `python python_worker.py SITE FILE [PACKAGES] [PROXY]`.

The arguments are the folder of pyarrow, the file, the folder of the packages that it requires, and, as a number, the descriptor of a
connection to the proxy through which `socket` connects (ADR 78).

Speaks the protocol of `FunctionWorker.scala`. Imports the standard library and pyarrow only, and is run by its path: it sees nothing else.
A scalar function is called with the values of each row, or once with Arrow arrays if it is vectorized; a table function yields the rows of
each row; an aggregate is a class whose `accumulate` gets the values of each row of a group, and whose `finish` returns the result.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import itertools
import os
import queue
import struct
import sys
import threading
import traceback
import zoneinfo
from collections.abc import Callable
from typing import Any

_HEADER = struct.Struct(">cI")
_NUMBER = struct.Struct(">i")
_FRAMES_MAX = 20
_TEXT_MAX = 1000
_ROWS_MAX = 1_000_000
_MODULE = "<function>"


class _Failure(Exception):  # noqa: N818 - names what happened
    """Failure of a function at a row of a batch, -1 without one."""

    def __init__(self, row: int, error: BaseException) -> None:
        self.row = row
        kind = type(error)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        self.message = f"{name}: {str(error)[:_TEXT_MAX]}" if str(error) else name
        # Of a wheel, the names of files start with its own.
        own = (_MODULE, sys.argv[2])
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(own)
        ]
        self.trace = "\n".join(f"at {frame.name} (line {frame.lineno})" for frame in frames[-_FRAMES_MAX:])

    @property
    def text(self) -> str:
        return f"{self.message}\0{self.trace}".encode(errors="replace").decode()

    def content(self) -> bytes:
        return _NUMBER.pack(self.row) + self.text.encode()


class _Function:
    """A declared function; `kind` is scalar, vectorized, table or aggregate."""

    def __init__(self, kind: str, entry: Any, field: Any) -> None:
        import pyarrow

        self._pyarrow = pyarrow
        self._kind = kind
        self._entry = entry
        self._type = field.type

    def call(self, batch: Any) -> Any:
        """Return the results of a batch as an array. Raises _Failure of the first row that fails."""
        if self._kind == "vectorized":
            return self._vectorized(batch)
        return self._array([self._attempt(row, arguments, None) for row, arguments in self._rows(batch)])

    def attempts(self, batch: Any) -> tuple[Any, Any]:
        """Return the results of all rows, NULL for those that fail, and the texts of the failures.

        A vectorized function that fails is called once more for each row alone, which shows the rows that fail.
        """
        failures: list[str | None] = [None] * batch.num_rows
        texts = self._pyarrow.string()
        if self._kind == "vectorized":
            try:
                return self._vectorized(batch), self._pyarrow.array(failures, texts)
            except _Failure:
                parts = [self._part(batch.slice(row, 1), row, failures) for row in range(batch.num_rows)]
            return self._pyarrow.concat_arrays(parts), self._pyarrow.array(failures, texts)
        results = [self._attempt(row, arguments, failures) for row, arguments in self._rows(batch)]
        try:
            return self._array(results), self._pyarrow.array(failures, texts)
        except _Failure:
            for row, result in enumerate(results):
                try:
                    self._array([result])
                except _Failure as failure:
                    failures[row], results[row] = failure.text, None
            return self._array(results), self._pyarrow.array(failures, texts)

    def _part(self, row: Any, number: int, failures: list[str | None]) -> Any:
        try:
            return self._vectorized(row)
        except _Failure as failure:
            failures[number] = failure.text
            return self._pyarrow.nulls(1, self._type)

    def _rows(self, batch: Any) -> Any:
        columns = [column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns]
        return enumerate(zip(*columns, strict=True) if columns else [()] * batch.num_rows)

    def _attempt(self, row: int, arguments: tuple[Any, ...], failures: list[str | None] | None) -> Any:
        """Return the result of a row. Its failure goes into `failures`; it is raised without them."""
        try:
            return self._result(arguments)
        except Exception as error:  # noqa: BLE001 - the user's
            failure = _Failure(row, error)
            if failures is None:
                raise failure from None
            failures[row] = failure.text
            return None

    def _array(self, results: list[Any]) -> Any:
        whole = self._pyarrow.types.is_integer(self._type)
        if whole and any(isinstance(result, float) for result in results):
            # Arrow would cut the fraction off.
            raise self._misfit(results)
        try:
            return self._pyarrow.array(results, self._type)
        except (self._pyarrow.ArrowException, TypeError, ValueError, OverflowError):
            raise self._misfit(results) from None

    def _result(self, arguments: tuple[Any, ...]) -> Any:
        if self._kind == "table":
            rows = [
                self._row(value) for value in itertools.islice(self._entry(*arguments) or (), _ROWS_MAX + 1)
            ]
            if len(rows) > _ROWS_MAX:
                raise ValueError(f"it returned more than {_ROWS_MAX} rows for one row")
            return rows
        if self._kind == "aggregate":
            group = self._entry()
            for values in arguments[0] or ():
                group.accumulate(*values.values())
            return group.finish()
        return self._entry(*arguments)

    def _row(self, value: Any) -> Any:
        """Return a row of a table function: a STRUCT of a tuple or a dict, or the value of the only column, which may be a tuple of one."""
        kind = self._type.value_type
        if isinstance(value, dict):
            return value
        if not self._pyarrow.types.is_struct(kind):
            return value[0] if isinstance(value, tuple) and len(value) == 1 else value
        if len(value) != kind.num_fields:
            raise TypeError(
                f"expected a value for each of {kind.num_fields} declared columns in a row, found {len(value)}"
            )
        return {kind.field(index).name: item for index, item in enumerate(value)}

    def _vectorized(self, batch: Any) -> Any:
        try:
            result = self._entry(*batch.columns)
            if isinstance(result, self._pyarrow.ChunkedArray):
                result = result.combine_chunks()
            if not isinstance(result, self._pyarrow.Array):
                result = self._pyarrow.array(result, self._type)
            if len(result) != batch.num_rows:
                raise ValueError(f"expected a result for each row ({batch.num_rows}), found {len(result)}")
            return result.cast(self._type)
        except Exception as error:  # noqa: BLE001
            raise _Failure(-1, error) from None

    def _misfit(self, results: list[Any]) -> _Failure:
        """Return the failure of the first result that is not of the declared type."""
        for row, result in enumerate(results):
            try:
                if isinstance(result, float) and self._pyarrow.types.is_integer(self._type):
                    raise TypeError
                self._pyarrow.array([result], self._type)
            except Exception:  # noqa: BLE001 - a value may have any methods
                error = TypeError(f"it returned {repr(result)[:100]}, which is not of the declared type")
                return _Failure(row, error)
        return _Failure(-1, TypeError("its results are not of the declared type"))


def main(site: str, module: str, *more: str) -> None:
    """Answer frames until standard input ends, also while a function runs."""
    source, sink = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    # What a function prints goes to standard error, never between the frames.
    os.dup2(2, 1)
    sys.stdin = io.StringIO()
    frames: queue.SimpleQueue[tuple[bytes, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(source, frames), daemon=True).start()
    _load_arrow(site)
    for argument in more:
        if argument.isdecimal():
            _connect_through(int(argument))
        else:
            sys.path.append(argument)
    functions: dict[int, _Function] = {}
    entries: dict[str, Any] = {}
    while True:
        kind, content = frames.get()
        number = _NUMBER.unpack(content[: _NUMBER.size])[0]
        try:
            if kind == b"D":
                functions[number] = _declared(content[_NUMBER.size :], module, entries)
                answer = b"repeatable"
            else:
                answer = _called(functions[number], content[_NUMBER.size :], keeps_failures=kind == b"T")
            sink.write(_HEADER.pack(b"O", len(answer)) + answer)
        except Exception as error:  # noqa: BLE001 - also what values of a type do
            answer = (error if isinstance(error, _Failure) else _Failure(-1, error)).content()
            sink.write(_HEADER.pack(b"E", len(answer)) + answer)
        sink.flush()


def _load_arrow(site: str) -> None:
    """Import pyarrow from its folder: the folder around it, with what else the server has installed, cannot be read."""
    folder = f"{site}/pyarrow"
    spec = importlib.util.spec_from_file_location(
        "pyarrow", f"{folder}/__init__.py", submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError("pyarrow has no loader")
    zoneinfo.reset_tzpath([*zoneinfo.TZPATH, f"{site}/tzdata/zoneinfo"])
    sys.modules["pyarrow"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _connect_through(descriptor: int) -> None:
    """Let `socket` connect through the proxy: this process has no system call that opens a connection or asks for an address."""
    import json
    import socket

    proxy, lock = socket.socket(fileno=descriptor), threading.Lock()

    def requested(request: dict[str, Any]) -> int:
        with lock:
            proxy.send(json.dumps(request).encode())
            answer, descriptors, _, _ = socket.recv_fds(proxy, 1 << 16, 1)
        if not descriptors:
            raise PermissionError(errno.EACCES, json.loads(answer)["error"])
        return descriptors[0]

    class Socket(socket.socket):
        def __init__(
            self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None
        ) -> None:
            if fileno is None:
                if family == socket.AF_UNIX or type not in (-1, socket.SOCK_STREAM):
                    raise PermissionError(errno.EACCES, "a function has connections by TCP only")
                fileno = requested({})
            super().__init__(family, type, proto, fileno)

        def connect(self, address: Any) -> None:
            connected = requested({"host": address[0], "port": address[1]})
            os.dup2(connected, self.fileno(), inheritable=False)
            os.close(connected)
            self.settimeout(self.gettimeout())

        def connect_ex(self, address: Any) -> int:
            try:
                self.connect(address)
            except OSError as error:
                return error.errno or errno.ECONNREFUSED
            return 0

    def getaddrinfo(host: Any, port: Any, *_args: Any, **_words: Any) -> list[Any]:
        # The proxy looks a name up, once for each connection: no other address than the one that it has checked is used.
        name = host.decode() if isinstance(host, bytes) else host
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (name, int(port or 0)))]

    socket.socket, socket.getaddrinfo = Socket, getaddrinfo  # type: ignore[misc]


def _read(source: Any, frames: queue.SimpleQueue[tuple[bytes, bytes]]) -> None:
    while len(header := source.read(_HEADER.size)) == _HEADER.size:
        kind, length = _HEADER.unpack(header)
        frames.put((kind, source.read(length)))
    os._exit(0)


def _declared(content: bytes, module: str, entries: dict[str, Any]) -> _Function:
    import pyarrow

    schema = pyarrow.ipc.open_stream(content).schema
    facts = {key.decode(): value.decode() for key, value in schema.metadata.items()}
    try:
        entry: Callable[..., Any] = _entry(facts["class"], module, entries)
    except Exception as error:  # noqa: BLE001
        raise _Failure(-1, error) from None
    return _Function(facts["kind"], entry, schema.field(len(schema) - 1))


def _entry(name: str, path: str, entries: dict[str, Any]) -> Any:
    """Return a function or a class by its name. A wheel is imported as it is, and the name has its module."""
    with open(path, "rb") as file:
        content = file.read()
    if content.startswith(b"PK\x03\x04"):
        if path not in sys.path:
            sys.path.insert(0, path)
        module, _, own = name.rpartition(".")
        return getattr(importlib.import_module(module), own)
    if not entries:
        namespace = {"__name__": _MODULE}
        exec(compile(content, _MODULE, "exec"), namespace)  # noqa: S102 - what this process is for
        entries.update(namespace)
    return entries[name]


def _called(function: _Function, content: bytes, *, keeps_failures: bool) -> bytes:
    import pyarrow

    (batch,) = pyarrow.ipc.open_stream(content)
    columns = function.attempts(batch) if keeps_failures else (function.call(batch),)
    results = pyarrow.RecordBatch.from_arrays(list(columns), ["result", "failure"][: len(columns)])
    with io.BytesIO() as file:
        with pyarrow.ipc.new_stream(file, results.schema) as stream:
            stream.write_batch(results)
        return file.getvalue()


if __name__ == "__main__":
    main(*sys.argv[1:])
