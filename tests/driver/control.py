"""The server's end of a driver's socket, for tests: start a driver, send messages, wait for its messages."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pyarrow

from harness.patience import PATIENCE_S
from headrace.engine.protocol import (
    FRAME_HEADER,
    Ack,
    ApplyView,
    Message,
    QueryEnded,
    QueryProgress,
    QueryStarted,
    Ready,
    Rows,
    Shutdown,
    StartQuery,
    StopQuery,
    decode_message,
    encode_frame,
)
from headrace.planner.physical import SparkPlan

Kind = TypeVar("Kind", bound=Message)


class DriverControl:
    """A driver process; every message that it sends is kept in `messages` with its payload and arrival time."""

    def __init__(self, folder: Path, *, environment: dict[str, str] | None = None, **options: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.messages: list[tuple[float, Message, bytes]] = []
        self.views: dict[str, list[pyarrow.Table]] = {}
        self.on_rows: Callable[[Rows], Ack | None] = lambda message: Ack(sequence=message.sequence)
        self._arrived = threading.Condition()
        path = Path("/tmp") / f"headrace-{uuid.uuid4().hex[:12]}.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._log = (folder / "driver.log").open("ab")
        given = {"work_dir": str(folder / "work"), "driver_memory_mb": 1024, **options}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "headrace.engine.driver",
                "--socket",
                str(path),
                "--options",
                json.dumps(given),
            ],
            stderr=self._log,
            stdout=self._log,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        self._listener.settimeout(PATIENCE_S)
        self._connection, _ = self._listener.accept()
        path.unlink()
        threading.Thread(target=self._read, daemon=True).start()
        self.ready = self.wait(Ready)

    def start(
        self,
        plan: SparkPlan,
        *,
        checkpoint: Path | str,
        stores: dict[str, dict[str, str]],
        query_id: str = "",
        **more: Any,
    ) -> str:
        """Send StartQuery and return the query's id."""
        query_id = query_id or str(uuid.uuid4())
        message = StartQuery(
            query_id=query_id,
            generation=more.pop("generation", 1),
            plan=plan,
            checkpoint=str(checkpoint),
            stores=stores,
            **more,
        )
        self.send(message)
        return query_id

    def stop(self, query_id: str) -> QueryEnded:
        """Send StopQuery and wait for the end."""
        self.send(StopQuery(query_id=query_id))
        return self.wait(QueryEnded, query_id)

    def started(self, query_id: str) -> QueryStarted:
        """Wait until the query runs; fails with its error if it ends instead."""
        return self.wait(QueryStarted, query_id)

    def ended(self, query_id: str) -> QueryEnded:
        """Wait for the query's end."""
        return self.wait(QueryEnded, query_id)

    def rows(self, query_id: str, count: int) -> list[list[str | None]]:
        """Wait for that many rows of an interactive query."""
        self._until(lambda: len(self._rows(query_id)) >= count or bool(self.of(QueryEnded, query_id)))
        return self._rows(query_id)

    def progress(self, query_id: str) -> list[QueryProgress]:
        """Return the reported progress of the query."""
        return self.of(QueryProgress, query_id)

    def of(self, kind: type[Kind], query_id: str | None = None) -> list[Kind]:
        """The messages of a kind, so far."""
        with self._arrived:
            return [
                message
                for _, message, _ in self.messages
                if isinstance(message, kind) and query_id in (None, getattr(message, "query_id", None))
            ]

    def wait(self, kind: type[Kind], query_id: str | None = None) -> Kind:
        """Wait for a message of a kind, and return the latest."""
        failed = kind is not QueryEnded
        self._until(
            lambda: (
                bool(self.of(kind, query_id))
                or (failed and query_id is not None and bool(self.of(QueryEnded, query_id)))
            )
        )
        messages = self.of(kind, query_id)
        assert messages, f"no {kind.__name__}; the query ended: {self.of(QueryEnded, query_id)}\n{self.log()}"
        return messages[-1]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds, looking now and then."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s\n{self.log()}"
            time.sleep(0.1)

    def send(self, message: Message) -> None:
        """Write one frame."""
        self._connection.sendall(encode_frame(message))

    def processes(self) -> list[psutil.Process]:
        """The driver, its JVM and its Python workers."""
        driver = psutil.Process(self.process.pid)
        return [driver, *driver.children(recursive=True)]

    def log(self) -> str:
        """The end of the driver's log."""
        return (self.folder / "driver.log").read_text(errors="replace")[-6000:]

    def shutdown(self) -> int:
        """Ask the driver to end; returns its exit code."""
        self.send(Shutdown())
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """Close the connection as a killed server does, and wait until the driver has ended."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        self._listener.close()
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self._log.close()

    def _rows(self, query_id: str) -> list[list[str | None]]:
        with self._arrived:
            payloads = [
                payload
                for _, message, payload in self.messages
                if isinstance(message, Rows) and message.query_id == query_id
            ]
        return [row for payload in payloads for row in json.loads(payload)["cells"]]

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with self._arrived:
            while not condition():
                left = deadline - time.monotonic()
                gone = self.process.poll() is not None
                if left <= 0 or gone:
                    raise AssertionError(
                        f"waited {PATIENCE_S:.0f} s, driver {'gone' if gone else 'alive'}\n{self.log()}"
                    )
                self._arrived.wait(min(left, 0.5))

    def _read(self) -> None:
        stream = self._connection.makefile("rb")
        try:
            while header := stream.read(FRAME_HEADER.size):
                body, payload = FRAME_HEADER.unpack(header)
                message, data = decode_message(stream.read(body)), stream.read(payload)
                with self._arrived:
                    self.messages.append((time.monotonic(), message, data))
                    self._arrived.notify_all()
                if isinstance(message, ApplyView):
                    table = pyarrow.ipc.open_stream(data).read_all()
                    self.views.setdefault(message.view, []).append(table)
                    self.send(Ack(sequence=message.sequence))
                elif isinstance(message, Rows) and (answer := self.on_rows(message)) is not None:
                    self.send(answer)
        except (OSError, ValueError):
            return
