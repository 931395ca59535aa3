"""Frames between a worker of functions and whoever calls it; `FunctionWorker.scala` has the other side and describes them."""

from __future__ import annotations

import io
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow

from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TINYINT,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
    Varchar,
)

DECLARE, CALL = b"D", b"C"
_ANSWER, ERROR = b"O", b"E"
HEADER = struct.Struct(">cI")
NUMBER = struct.Struct(">i")
_FRAME_BYTES_MAX = 1 << 30
_PLAIN: Mapping[DataType, pyarrow.DataType] = {
    BOOLEAN: pyarrow.bool_(),
    TINYINT: pyarrow.int8(),
    SMALLINT: pyarrow.int16(),
    INTEGER: pyarrow.int32(),
    BIGINT: pyarrow.int64(),
    FLOAT: pyarrow.float32(),
    DOUBLE: pyarrow.float64(),
    DATE: pyarrow.date32(),
    BYTES: pyarrow.binary(),
}


class CallError(Exception):
    """Failure of a function: its message, its trace, and the row of the batch; -1 without a row."""

    def __init__(self, message: str, trace: str = "", row: int = -1) -> None:
        super().__init__(message)
        self.message = message
        self.trace = trace
        self.row = row


class WorkerEnded(Exception):  # noqa: N818 - names what happened
    """The worker has ended, or has not answered in time."""


def arrow_type(kind: DataType) -> pyarrow.DataType:
    """Return the Arrow type that carries values of a type; a TIMESTAMP_LTZ has a time zone."""
    match kind:
        case Varchar():
            return pyarrow.string()
        case Decimal(precision=precision, scale=scale):
            return pyarrow.decimal128(precision, scale)
        case Timestamp(local=local):
            return pyarrow.timestamp("us", tz="UTC" if local else None)
        case Array(element=element):
            return pyarrow.list_(arrow_type(element))
        case Map(key=key, value=value):
            return pyarrow.map_(arrow_type(key), arrow_type(value))
        case Struct(fields=fields):
            return pyarrow.struct([(name, arrow_type(field)) for name, field in fields])
    return _PLAIN[kind]


def declaration(class_name: str, kind: str, parameters: Sequence[DataType], result: DataType) -> bytes:
    """Return the content of the frame that declares a function."""
    fields = [pyarrow.field(f"a{index}", arrow_type(each)) for index, each in enumerate(parameters)]
    facts = {"class": class_name, "kind": kind}
    schema = pyarrow.schema([*fields, pyarrow.field("result", arrow_type(result))], metadata=facts)
    with io.BytesIO() as file:
        pyarrow.ipc.new_stream(file, schema).close()
        return file.getvalue()


@dataclass(frozen=True)
class LentFunction:
    """A function of a worker: the id that texts call it by, the frame that declares it, and its types as texts, ours and DuckDB's."""

    id: str
    declaration: bytes
    number: int
    signature: str
    arguments: tuple[str, ...]
    result: str
    duckdb_arguments: tuple[str, ...]
    duckdb_result: str


class FunctionWorker:
    """A connection to a worker; used by one thread at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def declare(self, number: int, content: bytes, timeout_s: float) -> bool:
        """Declare a function; True if equal arguments give equal results. Raises CallError and WorkerEnded."""
        return self._exchange(DECLARE, NUMBER.pack(number) + content, timeout_s) == b"repeatable"

    def call(
        self, number: int, arguments: pyarrow.RecordBatch, result: pyarrow.DataType, timeout_s: float
    ) -> pyarrow.Array:
        """Return the results of a declared function for each row. Raises CallError and WorkerEnded."""
        with io.BytesIO() as file:
            file.write(NUMBER.pack(number))
            with pyarrow.ipc.new_stream(file, arguments.schema) as stream:
                stream.write_batch(arguments)
            answer = self._exchange(CALL, file.getvalue(), timeout_s)
        try:
            (batch,) = pyarrow.ipc.open_stream(answer)
            batch.validate(full=True)
        except (pyarrow.ArrowInvalid, ValueError, OSError) as error:
            raise WorkerEnded(f"its answer cannot be read: {error}") from error
        if batch.num_rows != arguments.num_rows or batch.schema.types != [result]:
            raise WorkerEnded("its answer has other rows or types than declared")
        return batch.column(0)

    def _exchange(self, kind: bytes, content: bytes, timeout_s: float) -> bytes:
        end = time.monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(HEADER.pack(kind, len(content)) + content)
            answer, length = HEADER.unpack(self._received(HEADER.size, end))
            if length > _FRAME_BYTES_MAX:
                raise WorkerEnded(f"its answer has {length} bytes")
            received = self._received(length, end)
        except TimeoutError:
            raise WorkerEnded(f"it has not answered within {timeout_s:g} s") from None
        except OSError as error:
            raise WorkerEnded("its process has ended") from error
        if answer == ERROR:
            message, _, trace = received[NUMBER.size :].decode(errors="replace").partition("\0")
            raise CallError(message, trace, NUMBER.unpack(received[: NUMBER.size])[0])
        if answer != _ANSWER:
            raise WorkerEnded("its answer cannot be read")
        return received

    def _received(self, count: int, end: float) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            part = self._socket.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise WorkerEnded("its process has ended")
            parts += part
        return bytes(parts)
