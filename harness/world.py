"""Servers that all processes of a test run share: a Kafka broker and a schema registry, each started when the first test needs it.

The process that leads the run (pytest-xdist's controller, or pytest itself) starts a `World`: a process that ends with it, however it
ends, and takes its servers along. `address` asks the world for a server's address; workers find the world by `HEADRACE_WORLD`.

Only a server whose every test uses names of its own belongs here. A test that stops a server, fills it or changes its settings starts
one of its own. PostgreSQL stays with each worker: its tests end other clients' sessions, and a new slot waits for every open transaction.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Self

from harness.patience import until

SOCKET = "HEADRACE_WORLD"
Address = dict[str, str]


def _kafka(folder: Path, started: ExitStack) -> Address:
    from headrace.runtime.kafka_broker import KafkaBroker

    return {"bootstrap": started.enter_context(KafkaBroker(folder)).bootstrap}


def _registry(folder: Path, started: ExitStack) -> Address:
    from harness.apicurio import Apicurio

    return {"server": started.enter_context(Apicurio(folder)).server}


SERVERS: dict[str, Callable[[Path, ExitStack], Address]] = {"kafka": _kafka, "registry": _registry}
"""How to start each server in a folder of its own. The imports wait until a test needs the server."""


class World:
    """The process that owns the shared servers."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-world-")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Return at once: `address` waits until the process listens."""
        # In a session of its own: Ctrl-C in a terminal ends the run, which then ends the world in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.world", self._folder.name],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            start_new_session=True,
        )
        os.environ[SOCKET] = str(Path(self._folder.name, "socket"))
        return self

    def stop(self) -> None:
        """End the process and its servers."""
        del os.environ[SOCKET]
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


def address(server: str) -> Address:
    """Return the address of a shared server; start it if no test requested it before."""
    with _connected(os.environ[SOCKET]) as connection:
        connection.send_bytes(server.encode())
        answer: Address = json.loads(connection.recv_bytes())
    assert "error" not in answer, f"{server} did not start: {answer['error']}"
    return answer


def _connected(path: str) -> Connection:
    connections: list[Connection] = []

    def is_connected() -> bool:
        # A socket is in the file system before it listens.
        with suppress(FileNotFoundError, ConnectionRefusedError):
            connections.append(Client(path, "AF_UNIX"))
        return bool(connections)

    until(is_connected, "the shared servers' process to listen")
    return connections[0]


class _Servers:
    """The servers that run, each with a lock, so that two may start at once and none starts twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._addresses: dict[str, Address] = {}
        self._locks = {name: threading.Lock() for name in SERVERS}
        self._started = {name: ExitStack() for name in SERVERS}

    def serve(self, listener: Listener) -> None:
        while True:
            connection = listener.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection:
            try:
                answer = self._address(connection.recv_bytes().decode())
            except Exception:  # noqa: BLE001 - the test that asked reports it
                answer = {"error": traceback.format_exc()}
            connection.send_bytes(json.dumps(answer).encode())

    def _address(self, name: str) -> Address:
        with self._locks[name]:
            if name not in self._addresses:
                folder = self._folder / name
                folder.mkdir(exist_ok=True)
                self._addresses[name] = SERVERS[name](folder, self._started[name])
            return self._addresses[name]

    def stop(self) -> None:
        for name, lock in self._locks.items():
            with lock:
                self._started[name].close()
                self._addresses[name] = {"error": "the run has ended"}


def _main(folder: Path) -> None:
    servers = _Servers(folder)
    listener = Listener(str(folder / "socket"), "AF_UNIX", backlog=64)
    threading.Thread(target=servers.serve, args=(listener,), daemon=True).start()
    sys.stdin.buffer.read()  # until the process that leads the run ends, or closes it
    servers.stop()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
