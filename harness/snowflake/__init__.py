"""A stand-in for Snowflake on loopback: fakesnow, DuckDB behind Snowflake's protocol, in an environment of its own (see `front.py`).

Real is the protocol as Snowflake's client speaks it: login, statements, PUT to a stage, results as Arrow. What a statement means is
DuckDB's: COPY knows no file format options, rights and warehouses are none, transactions are optimistic.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import snowflake.connector
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)

from harness.guarded_server import GuardedServer
from harness.patience import PATIENCE_S
from harness.virtual_environment import VirtualEnvironment

HERE = Path(__file__).parent
USER, PASSWORD, TOKEN, ROLE = "SHOP_OWNER", "pa'ss \\wörd;= #", "ver-to-ken", "LOADER"
PASSPHRASE = "open sesame"


class SnowflakeServer(GuardedServer):
    """Account `local` with its databases in memory; a context manager."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        encryption = BestAvailableEncryption(PASSPHRASE.encode())
        self.key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
        self._public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @property
    def uri(self) -> str:
        """The address for 'uris' of a store with 'tls.disabled'."""
        return f"http://127.0.0.1:{self.port}"

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Rows of the last statement."""
        rows: list[tuple[Any, ...]] = []
        with (
            snowflake.connector.connect(
                account="local",
                host="127.0.0.1",
                port=self.port,
                protocol="http",
                user=USER,
                password=PASSWORD,
                login_timeout=int(PATIENCE_S),
                platform_detection_timeout_seconds=0.0,
            ) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                rows = list(cursor.execute(statement).fetchall())
        return rows

    def abort_transactions(self) -> None:
        """Roll back open transactions: Snowflake does so after five minutes if another session waits for their locks."""
        httpx.post(f"{self.uri}/abort", timeout=PATIENCE_S, trust_env=False).raise_for_status()

    def _command(self) -> list[str]:
        environment = VirtualEnvironment("fakesnow", HERE / "requirements.lock")
        environment.make()
        accounts = self._folder / "accounts.json"
        accounts.write_text(
            json.dumps(
                {"user": USER, "password": PASSWORD, "token": TOKEN, "role": ROLE, "key": self._public}
            )
        )
        return [str(environment.python), str(HERE / "front.py"), str(accounts)]

    def _is_ready(self) -> bool:
        if (line := self._ready_line()) is None:
            return False
        self.port = int(line[1])
        return True
