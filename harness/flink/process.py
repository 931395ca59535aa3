"""A process of Flink, and its few requests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from harness.flink.installation import installed
from harness.patience import PATIENCE_S
from headrace.runtime.java import java_runtime
from headrace.testing.processes import running_after

WORKER = Path(__file__).with_name("worker.py")


class FlinkError(Exception):
    """Flink's error of a statement or a job."""


class Flink:
    """A JVM with Flink in it, on the Java that Headrace uses; jobs run in clusters inside it. `settings` are Flink's own."""

    def __init__(self, folder: Path, *, memory_mb: int, settings: Mapping[str, str]) -> None:
        """Raises `NotInstalledError`."""
        installation = installed()
        folder.mkdir(parents=True)
        jars = ";".join(jar.as_uri() for jar in installation.jars)
        all_settings = {
            "table.local-time-zone": "UTC",
            "pipeline.jars": jars,
            # One cluster a job in one process: none of them may take a port that another has.
            "rest.port": "0",
            **settings,
        }
        # Not the environment of this process: its JAVA_HOME, Spark and Python settings are ours, not Flink's.
        environment = {
            name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR")
        }
        self._log = folder / "flink.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [str(installation.python), str(WORKER), json.dumps(all_settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env={
                    **environment,
                    "JAVA_HOME": str(java_runtime().home),
                    "JVM_ARGS": f"-Xmx{memory_mb}m",
                    "FLINK_LOG_DIR": str(folder),
                },
            )

    def execute(self, sql: str) -> None:
        """Runs DDL or SET. Raises `FlinkError`, as all of these do."""
        self._ask("execute", sql=sql)

    def columns(self, sql: str) -> list[tuple[str, str]]:
        """Names and types of a query's result."""
        return [(name, kind) for name, kind in self._ask("columns", sql=sql)]

    def explain(self, sql: str) -> tuple[str, str]:
        """Return the optimized plan of a query, and what Flink's log has of the planning."""
        logs = sorted(self._log.parent.glob("flink-*.log"))
        sizes = {log: log.stat().st_size for log in logs}
        plan = str(self._ask("explain", sql=sql))
        return plan, "".join(log.read_bytes()[size:].decode() for log, size in sizes.items())

    def last(self, sql: str) -> list[Any]:
        """Return the last row of a bounded query, which is that of an aggregate over all of its input."""
        return list(self._ask("last", sql=sql))

    def start(self, sql: str) -> int:
        """Start an INSERT, and return the number of its job."""
        return int(self._ask("start", sql=sql))

    def state(self, job: int) -> str:
        """Return the state of a running job, in Flink's words: INITIALIZING, RUNNING and so on."""
        return str(self._ask("state", job=job))

    def wait(self, job: int, *, within: float = PATIENCE_S) -> None:
        """Wait until a job over bounded sources has ended."""
        self._ask("wait", job=job, within_s=within)

    def cancel(self, job: int) -> None:
        """Ends a job that runs."""
        self._ask("cancel", job=job)

    def cpu_s(self) -> float:
        """Processor time of the process and its JVM so far."""
        root = psutil.Process(self._process.pid)
        times = [process.cpu_times() for process in (root, *root.children(recursive=True))]
        return float(sum(time.user + time.system for time in times))

    def close(self) -> None:
        """End the process; its JVM ends with it."""
        started = psutil.Process(self._process.pid).children(recursive=True)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        alive = running_after(started, PATIENCE_S)
        for process in alive:
            process.kill()

    def _ask(self, what: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise FlinkError(f"Flink has ended: {self._log.read_text()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise FlinkError(answer["error"])
        return answer["answer"]
