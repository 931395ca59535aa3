"""The real application over scripted statements, in process and on a real socket; the client's tests use it too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI

from harness.patience import PATIENCE_S
from headrace.catalog import passwords
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.server.scripted import TOKENS, ScriptedStatements, download, serving

PATIENCE_MS = int(PATIENCE_S * 1000)


@pytest.fixture(autouse=True)
def _light_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2id at its least cost: a hash of the product deliberately takes 64 MiB, and these tests hash hundreds of times."""
    monkeypatch.setattr(passwords, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    passwords._nobodys.cache_clear()


@pytest.fixture
def statements() -> ScriptedStatements:
    return ScriptedStatements()


@pytest.fixture
def limits() -> dict[str, int]:
    """Settings of a test that waits for the end of a time limit, which parametrizes this fixture."""
    return {}


@pytest.fixture
def settings(tmp_path: Path, limits: dict[str, int]) -> Settings:
    """Settings with few rows in an answer, and with time limits that a busy machine does not reach."""
    patience = {"statement_timeout_ms": PATIENCE_MS, "result_channel_grace_ms": PATIENCE_MS}
    return Settings(
        data_dir=tmp_path,
        result_rows_max=3,
        request_bytes_max=2 * 1024 * 1024,
        **(patience | limits),
    )


@pytest.fixture
def app(statements: ScriptedStatements, settings: Settings) -> FastAPI:
    ended = statements.endings.get
    return create_app(ServerParts(settings, statements, TOKENS.get, ended=ended, download=download))


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://headrace:8080",
        headers={"Authorization": "Bearer good-token"},
    ) as client:
        yield client


@pytest.fixture
def port(unused_tcp_port: int) -> int:
    return unused_tcp_port


@pytest.fixture
async def address(app: FastAPI, port: int) -> AsyncIterator[str]:
    """`127.0.0.1:PORT` of the application behind the websocket implementation that the product uses."""
    async with serving(app, port):
        yield f"127.0.0.1:{port}"
