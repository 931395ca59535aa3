"""A Python process of Spark connects before it imports pyspark, however long that takes."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from headrace.engine.driver.python_worker import NAME, write_executables

PYSPARK_THAT_WAITS = "import sys\nsys.stdin.read()\n"
MODULE = """
import pyspark.util, struct, sys
stream, connection = pyspark.util.local_connect_and_auth("ignored", "ignored")
stream.write(" ".join(sys.argv[1:]).encode())
stream.flush()
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")


def test_workers_of_a_cluster_start_their_own_python_by_the_same_path(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    python = tmp_path / "worker's python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o700)
    sent = Path(write_executables(tmp_path, str(python))["spark.files"])
    assert (sent.name, os.environ["PYSPARK_PYTHON"]) == (NAME, f"./{NAME}")
    output = subprocess.run(
        [os.environ["PYSPARK_PYTHON"], "-m", "module"], cwd=sent.parent, capture_output=True, check=True
    )
    assert output.stdout == b"-P -m module\n"
    assert write_executables(tmp_path, None) == {}


def test_a_process_connects_before_it_imports_pyspark(tmp_path: Path) -> None:
    package = tmp_path / "it's a folder" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PYSPARK_THAT_WAITS)
    (package / "util.py").touch()
    (package / "runner.py").write_text(MODULE)
    write_executables(package.parent, None)
    executable = package.parent / NAME
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = {
            **os.environ,
            "PYTHONPATH": str(package.parent),
            "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
        }
        command = [str(executable), "-m", "pyspark.runner", "one", "two"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                assert stream.read(10) == struct.pack("!i", 6) + b"secret"
                connection.sendall(struct.pack("!i", 2) + b"ok")
                assert process.stdin is not None
                process.stdin.close()
                assert stream.read() == b"one two"
        assert process.returncode == 0
