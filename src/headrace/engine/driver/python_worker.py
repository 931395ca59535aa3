"""Starts a Python process for Spark that connects to Spark before it imports pyspark.

Spark waits ten seconds for the process that reads a Python source (`PythonWorkerFactory.createSimpleWorker`), which by itself connects
after its imports. On a busy machine these take longer. Spark then fails the query and leaves the late process running, so that each
attempt made the machine busier and no query with such a source started.

The workers of a cluster get such an executable from the driver, which starts their own Python (`HEADRACE_WORKER_PYTHON`).

Run as a script, with the arguments that Spark gives to Python: ``python -P python_worker.py -m MODULE …``. Standard library only until
the connection is open.
"""

from __future__ import annotations

import io
import os
import runpy
import shlex
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

NAME = "python-worker"
_TASK_S = 0.05
_LENGTH = struct.Struct("!i")
_DAEMON = "pyspark.daemon"


def write_executables(folder: Path, worker_python: str | None) -> dict[str, str]:
    """Write the executable that Spark starts in Python's place: it takes no arguments of its own. Return the settings with which the
    workers of a cluster get theirs.

    Spark starts Python by the same path in every process. In the driver `folder` is the working folder, and in an executor the folder
    of the files that the driver sends.
    """
    _write_executable(folder / NAME, sys.executable, str(Path(__file__).resolve()))
    os.environ["PYSPARK_PYTHON"] = f"./{NAME}"
    if worker_python is None:
        return {}
    sent = folder / "tmp" / NAME
    _write_executable(sent, worker_python)
    return {"spark.files": str(sent)}


def _write_executable(file: Path, python: str, *arguments: str) -> None:
    command = [python, "-P", *arguments]
    file.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    file.chmod(0o700)


def versions(_rows: object) -> Iterator[tuple[str, str]]:
    """Yield the name of a worker's machine and its version of Headrace."""
    import headrace

    # For a moment, so that every executor gets such a task.
    time.sleep(_TASK_S)
    yield socket.gethostname(), headrace.__version__


def _connect(port: int, secret: bytes) -> tuple[io.IOBase, socket.socket]:
    """Connect and authenticate as `pyspark.util.local_connect_and_auth` does: a secret against "ok", each after its length."""
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, port))
    stream = connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))
    stream.write(_LENGTH.pack(len(secret)) + secret)
    stream.flush()
    (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
    if (answer := stream.read(length)) != b"ok":
        raise ConnectionRefusedError(f"expected ok from Spark, received {answer!r}")
    return stream, connection


def _import_before_forks() -> None:
    """Import what most tasks need: each process that the daemon forks would import it again, for half a second."""

    import headrace.connectors.aws
    import headrace.formats.base  # noqa: F401


def _main(arguments: list[str]) -> None:
    # The daemon, which forks processes for tasks, has no port to connect to.
    if port := os.environ.get("PYTHON_WORKER_FACTORY_PORT"):
        opened = _connect(int(port), os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode())
        import pyspark.util

        pyspark.util.local_connect_and_auth = lambda *_: opened
    _, module, *sys.argv[1:] = arguments
    if module == _DAEMON:
        _import_before_forks()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(sys.argv[1:])
