"""The server as a user runs it: `headrace up` in a separate process."""

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

import psutil

from harness.patience import PATIENCE_S


class HeadraceProcess:
    """A server over `data_dir`; `start` after `stop` or `kill` resumes there, at the same address, with the same `environment`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        token: str = "test-administrator-token",  # noqa: S107
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self._environment = {**(environment or {})}
        self.token = token
        self.url = ""
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self, **environment: str) -> HeadraceProcess:
        """Return when the server reports that it is ready."""
        command = [
            sys.executable,
            "-m",
            "headrace.cli",
            "up",
            "--data-dir",
            str(self.data_dir),
            "--port",
            str(self._port),
        ]
        self.data_dir.mkdir(parents=True, exist_ok=True)
        log = (self.data_dir / "server.log").open("a")
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={
                **os.environ,
                "HEADRACE_TOKEN": self.token,
                # The history of metrics is tested too, and tests do not wait half a minute for it.
                "HEADRACE_METRICS_INTERVAL_S": "2",
                **self._environment,
                **environment,
            },
        )
        log.close()
        line = self._line()
        assert line.startswith("headrace ready http"), f"{line!r}\n{self.log()}"
        self.url = line.split()[2]
        self._port = int(self.url.rsplit(":", 1)[1])
        return self

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """The end of the server's log."""
        path = self.data_dir / "server.log"
        return path.read_text()[-4000:] if path.exists() else ""

    def driver_logs(self) -> str:
        """The ends of the logs of its compute pools' drivers."""
        paths = sorted((self.data_dir / "logs").glob("driver-*.log"))
        return "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-8000:]}" for path in paths)

    def driver_pids(self) -> list[int]:
        """The Python processes of the compute pools' drivers; their JVMs follow them."""
        pids = []
        for child in self.descendants():
            with suppress(psutil.Error):  # it may be ending just now
                if "headrace.engine.driver" in child.cmdline():
                    pids.append(child.pid)
        return pids

    def descendants(self) -> list[psutil.Process]:
        """Everything that the server started."""
        return psutil.Process(self.pid).children(recursive=True)

    def kill_driver(self) -> None:
        """kill -9 of every driver."""
        for pid in self.driver_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_jvm(self) -> None:
        """kill -9 of the JVM of every driver, which its Python outlives."""
        for driver in self.driver_pids():
            for child in psutil.Process(driver).children():
                if child.name() == "java":
                    child.kill()

    def kill(self) -> None:
        """Kill the server with SIGKILL, and wait until all processes that it started have ended."""
        started = self.descendants()
        os.kill(self.pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._gone(started)

    def stop(self) -> None:
        """SIGTERM; the server must end within seconds and leave no process."""
        if self._process is None or self._process.poll() is not None:
            return
        started = self.descendants()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
        self._gone(started)

    def _gone(self, processes: list[psutil.Process]) -> None:
        assert self._process is not None
        if self._process.stdout:
            self._process.stdout.close()
        _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
        assert not alive, f"still running after the server ended: {alive}"

    def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if select.select([self._process.stdout], [], [], 0.2)[0]:
                return self._process.stdout.readline()
        return ""
