"""A `headrace up --with-kafka` of the demonstration's own, as a user would start it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from headrace.client import Client
from headrace.core.context import SessionContext
from headrace.runtime.ports import free_port
from headrace.sql import parse

TOKEN = "demo"  # noqa: S105 - the demonstration's server listens on loopback only and holds public data
SESSION = SessionContext("", database="nyc", schema="public", store="kafka")


class Server:
    """The server's process over `folder`; `start` again after `kill` resumes there."""

    def __init__(self, folder: Path, *, port: int) -> None:
        self.folder = folder
        self.url = ""
        self._port = port
        self._kafka_port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def log(self) -> Path:
        """Return the file of the server's standard error."""
        return self.folder / "server.log"

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self._kafka_port}"

    def start(self) -> None:
        """Return when the server reports that it is ready; raise RuntimeError with the end of its log otherwise."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "headrace.cli", "up", "--data-dir", str(self.folder)]
        command += ["--port", str(self._port), "--with-kafka", str(self._kafka_port)]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "HEADRACE_TOKEN": TOKEN},
            )
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line.startswith("headrace ready "):
            raise RuntimeError("the server did not start:\n" + self.log.read_text()[-3000:])
        self.url = line.split()[2]
        self._port = int(self.url.rsplit(":", 1)[1])

    def run(self, script: str, **values: str) -> list[str]:
        """Run a script of this folder, statement by statement; return each statement's answer. `values` replace `${name}` in the text."""
        text = (Path(__file__).parent / script).read_text()
        for name, value in {"bootstrap": self.bootstrap, **values}.items():
            text = text.replace(f"${{{name}}}", value.replace("'", "''"))
        return asyncio.run(self._run(text))

    def select(self, sql: str) -> list[list[str | None]]:
        """The rows of a SELECT that ends, in the database of the flights."""
        return asyncio.run(self._select(sql))

    async def _run(self, text: str) -> list[str]:
        async with Client(self.url, TOKEN) as client:
            answers = [await client.execute(statement.text) for statement in parse(text)]
        return [str(row[3]) for answer in answers for row in answer.rows]

    async def _select(self, sql: str) -> list[list[str | None]]:
        async with Client(self.url, TOKEN, context=SESSION) as client:
            answer = await client.execute(sql)
            return [list(row.cells) async for row in answer.stream()]

    def kill_driver(self) -> None:
        """kill -9 of the Spark driver."""
        for child in psutil.Process(self._pid).children(recursive=True):
            # A child that ends between the listing and the look has no command line any more.
            with suppress(psutil.NoSuchProcess):
                if "headrace.engine.driver" in child.cmdline():
                    child.kill()

    def kill(self) -> None:
        """Kill the server with SIGKILL; the processes that it started end with it."""
        started = psutil.Process(self._pid).children(recursive=True)
        os.kill(self._pid, signal.SIGKILL)
        if self._process:
            self._process.wait()
        psutil.wait_procs(started, timeout=30)

    def stop(self) -> None:
        """End it in order."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)

    @property
    def _pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server is not started")
        return self._process.pid
