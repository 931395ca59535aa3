"""Starts a Python process for Spark that connects to Spark before it imports pyspark.

Spark waits ten seconds for the process that reads a Python source (`PythonWorkerFactory.createSimpleWorker`), which by itself connects
after its imports. On a busy machine these take longer. Spark then fails the query and leaves the late process running, so that each
attempt made the machine busier and no query with such a source started.

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
from pathlib import Path

_LENGTH = struct.Struct("!i")


def write_executable(file: Path) -> None:
    """Write the executable that Spark starts in Python's place (`PYSPARK_PYTHON`): it takes no arguments of its own."""
    command = [sys.executable, "-P", str(Path(__file__).resolve())]
    file.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    file.chmod(0o700)


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


def _main(arguments: list[str]) -> None:
    # The daemon, which forks processes for tasks, has no port to connect to.
    if port := os.environ.get("PYTHON_WORKER_FACTORY_PORT"):
        opened = _connect(int(port), os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode())
        import pyspark.util

        pyspark.util.local_connect_and_auth = lambda *_: opened
    _, module, *sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(sys.argv[1:])
