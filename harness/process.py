"""The server as a user runs it, with the settings of the tests."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import psutil

from harness.patience import PATIENCE, PATIENCE_S
from headrace.testing.server import ServerProcess


class HeadraceProcess(ServerProcess):
    """A server in the environment of the test run and `environment`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        token: str = "test-administrator-token",  # noqa: S107
        environment: Mapping[str, str] | None = None,
    ) -> None:
        # The history of metrics is tested too, and tests do not wait half a minute for it.
        settings = {
            **os.environ,
            "HEADRACE_METRICS_INTERVAL_S": "2",
            "HEADRACE_SNAPSHOT_TIMEOUT_MS": str(int(PATIENCE_S * 1000)),
            **(environment or {}),
        }
        super().__init__(data_dir, token=token, environment=settings, patience=PATIENCE)

    @property
    def postgres_port(self) -> int:
        """The port for clients of PostgreSQL; HEADRACE_POSTGRES_PORT must be set."""
        log = (self.data_dir / "server.log").read_text(errors="replace")
        return int(re.findall(r"PostgreSQL clients at .*:(\d+)$", log, re.MULTILINE)[-1])

    def kill_jvm(self) -> None:
        """Kill the JVM of every driver with SIGKILL; the driver's Python outlives it."""
        for driver in self.driver_pids():
            for child in psutil.Process(driver).children():
                if child.name() == "java":
                    child.kill()
