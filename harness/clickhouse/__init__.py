"""ClickHouse's engine for the tests: the library chdb behind a simulated HTTP front, in a separate process.

No package contains the server. The engine is real: SQL, types, MergeTree, deduplication, errors and their numbers.
The front is not: HTTP, the single user, TLS. It runs one statement at a time, and supports neither clusters nor rights.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil

from harness.authority import Authority
from harness.guarded_server import GuardedServer
from harness.patience import PATIENCE_S
from headrace.runtime.ports import free_port

USER, PASSWORD = "shop owner", "pa'ss \\wörd;= #"


class ClickHouseServer(GuardedServer):
    """A ClickHouse engine over `folder`, on loopback, with and without TLS; a context manager."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.authority = Authority()
        self.port, self.tls_port = free_port(), free_port()

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

    def kill(self) -> None:
        """kill -9 of the engine, in the midst of whatever it does."""
        assert self._process is not None
        for child in psutil.Process(self._process.pid).children(recursive=True):
            child.kill()
        self.stop()

    def _command(self) -> list[str]:
        certificate = self._folder / "front.pem"
        certificate.write_bytes(self.authority.key_and_certificate("localhost"))
        ports = (str(self.port), str(self.tls_port))
        return [
            *(sys.executable, "-m", "harness.clickhouse.front"),
            *(str(self._folder / "data"), str(certificate), *ports),
        ]

    def _is_ready(self) -> bool:
        return self._ready_line() is not None
