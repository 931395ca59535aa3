"""The server as a user runs it: `headrace up` in a separate process, over a data directory of its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from headrace.runtime.guard import guarded
from headrace.runtime.ports import free_port
from headrace.testing.patience import Patience
from headrace.testing.processes import running_after
from headrace.testing.script import ExpectationError

_GREETINGS = ("headrace ready http", "headrace standby http")
_GRACE_S = 60.0
_LOG_TAIL = 4000
_DRIVER_LOG_TAIL = 8000


class ServerProcess:
    """A server over `data_dir`; `start` after `stop` or `kill` resumes there, at the same address, with the same `environment`.

    It ends with the process that started it, even when that is killed.
    """

    def __init__(
        self, data_dir: Path, *, token: str, environment: Mapping[str, str], patience: Patience
    ) -> None:
        self.data_dir = data_dir
        self.token = token
        self.patience = patience
        self.url = ""
        # Nothing outlives a test, unless that is what it tests.
        self._environment = {"HEADRACE_DRIVER_ORPHAN_S": "0", **environment, "HEADRACE_TOKEN": token}
        self._port = free_port()  # a server that is restarted is expected at the same address
        self._guard: subprocess.Popen[str] | None = None

    def start(self, **environment: str) -> Self:
        """Return when the server reports that it is ready, or stands by; raise ExpectationError with its log if it does not start."""
        command = [
            *(sys.executable, "-m", "headrace.cli", "up"),
            *("--data-dir", str(self.data_dir), "--port", str(self._port)),
        ]
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with (self.data_dir / "server.log").open("a") as log:
            self._guard = subprocess.Popen(
                guarded(command, grace_s=_GRACE_S),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**self._environment, **environment},
                # Ctrl-C in a terminal ends the test, which then ends the server in order.
                start_new_session=True,
            )
        line = self._line()
        if not line.startswith(_GREETINGS):
            raise ExpectationError(f"the server does not start: {line!r}\n{self.log()}")
        self.url = line.split()[2]
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The server's process id."""
        (server,) = psutil.Process(self._running().pid).children()
        return server.pid

    def log(self) -> str:
        """Return the end of the server's log."""
        path = self.data_dir / "server.log"
        return path.read_text(errors="replace")[-_LOG_TAIL:] if path.exists() else ""

    def driver_logs(self) -> str:
        """Return the ends of the logs of its compute pools' drivers."""
        paths = sorted((self.data_dir / "logs").glob("driver-*.log"))
        return "\n".join(
            f"{path.name}:\n{path.read_text(errors='replace')[-_DRIVER_LOG_TAIL:]}" for path in paths
        )

    def driver_pids(self) -> list[int]:
        """Return the Python processes of the compute pools' drivers; their JVMs follow them."""
        pids = []
        for child in self.descendants():
            with suppress(psutil.Error):  # it may be ending just now
                if "headrace.engine.driver" in child.cmdline():
                    pids.append(child.pid)
        return pids

    def descendants(self) -> list[psutil.Process]:
        """Return all processes that the server started."""
        return psutil.Process(self.pid).children(recursive=True)

    def kill_driver(self) -> None:
        """Kill every driver with SIGKILL."""
        for pid in self.driver_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the server with SIGKILL, and wait until all processes that it started have ended."""
        started = self.descendants()
        os.kill(self.pid, signal.SIGKILL)
        self._ended(started)

    def stop(self) -> None:
        """End the server with SIGTERM; raise ExpectationError if it does not end in time, or leaves a process."""
        if self._guard is None or self._guard.poll() is not None:
            return
        started = self.descendants()
        self._guard.send_signal(signal.SIGTERM)
        self._ended(started)

    def _ended(self, processes: list[psutil.Process]) -> None:
        guard = self._running()
        guard.wait(self.patience.seconds)
        for stream in (guard.stdin, guard.stdout):
            if stream:
                stream.close()
        alive = running_after(processes, self.patience.seconds)
        if alive:
            raise ExpectationError(f"still running after the server ended: {alive}")

    def _running(self) -> subprocess.Popen[str]:
        if self._guard is None:
            raise ExpectationError("the server was not started")
        return self._guard

    def _line(self) -> str:
        guard = self._running()
        if guard.stdout is None:
            return ""
        deadline = time.monotonic() + self.patience.seconds
        while time.monotonic() < deadline and guard.poll() is None:
            if select.select([guard.stdout], [], [], 0.2)[0]:
                return guard.stdout.readline()
        return ""
