"""ClickHouse's engine for the tests: the library chdb behind a simulated HTTP front, in a separate process.

No package contains the server. The engine is real: SQL, types, MergeTree, deduplication, errors and their numbers.
The front is not: HTTP, the single user, TLS. It runs one statement at a time, and supports neither clusters nor rights.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from harness.authority import Authority
from harness.patience import PATIENCE_S
from headrace.runtime.guard import guarded

USER, PASSWORD = "shop owner", "pa'ss \\wörd;= #"


class ClickHouseServer:
    """A ClickHouse engine over `folder`, on loopback, with and without TLS; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority = Authority()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = self.tls_port = 0

    @property
    def uri(self) -> str:
        """The address for 'uris' of a store with 'tls.disabled'."""
        return f"jdbc:clickhouse://127.0.0.1:{self.port}"

    @property
    def tls_uri(self) -> str:
        """The address for 'uris' of a store that trusts `authority`."""
        return f"jdbc:clickhouse://localhost:{self.tls_port}"

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Rows of the last statement."""
        text = ""
        for statement in statements:
            answer = httpx.post(
                f"http://127.0.0.1:{self.port}/",
                params={"default_format": "JSONCompactEachRow"},
                content=statement.encode(),
                auth=httpx.BasicAuth(USER, PASSWORD),
                timeout=PATIENCE_S,
                trust_env=False,
            )
            assert answer.status_code == httpx.codes.OK, answer.text
            text = answer.text
        return [tuple(json.loads(line)) for line in text.splitlines()]

    def start(self) -> Self:
        """Returns when it answers; a server that was stopped starts again where it was, at the same ports."""
        certificate = self._folder / "front.pem"
        certificate.write_bytes(self.authority.key_and_certificate("localhost"))
        command = [
            sys.executable,
            "-m",
            "harness.clickhouse.front",
            str(self._folder / "data"),
            str(certificate),
            str(self.port),
            str(self.tls_port),
        ]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                guarded(command, grace_s=10), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        said = self._process.stdout
        assert said is not None
        assert select.select([said], [], [], PATIENCE_S)[0], self.log()
        line = said.readline().decode().split()
        assert line[:1] == ["ready"], (line, self.log())
        self.port, self.tls_port = int(line[1]), int(line[2])
        return self

    def kill(self) -> None:
        """kill -9 of the engine, in the midst of whatever it does."""
        assert self._process is not None
        for child in psutil.Process(self._process.pid).children(recursive=True):
            child.kill()
        self.stop()

    def stop(self) -> None:
        """Ends it, and with it every connection."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(PATIENCE_S)
        process.stdout.close()

    def log(self) -> str:
        """Return the end of its output."""
        return (self._folder / "server.log").read_text(errors="replace")[-4000:]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
