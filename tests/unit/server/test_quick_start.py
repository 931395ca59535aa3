"""The first statements of a new user."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from headrace.server.quick_start import USUAL_BROKER, quick_start
from headrace.sql import parse
from tests.unit.server.scripted import TOKENS, ScriptedStatements

ROOT = Path(__file__).resolve().parents[3]


def test_the_readme_shows_the_statements_of_the_page() -> None:
    assert f"```sql\n{quick_start(USUAL_BROKER)}```" in (ROOT / "README.md").read_text(encoding="utf-8")


async def test_the_statements_name_the_broker_that_the_server_started(
    statements: ScriptedStatements, settings: Settings
) -> None:
    app = create_app(ServerParts(settings, statements, TOKENS.get, broker="127.0.0.1:40001"))
    text = (await _get(app)).text
    assert "'uris' = '127.0.0.1:40001'" in text
    assert len(parse(text)) > 5


async def test_a_server_without_a_broker_says_how_to_get_one(app: FastAPI) -> None:
    text = (await _get(app)).text
    assert f"'uris' = '{USUAL_BROKER}'" in text
    assert "headrace up --with-kafka" in text


async def test_the_statements_are_for_those_who_are_signed_in(app: FastAPI) -> None:
    assert (await _get(app, token="wrong")).status_code == 403


@pytest.mark.parametrize("is_on", [True, False])
async def test_the_console_learns_which_optional_pages_it_has(
    statements: ScriptedStatements, settings: Settings, is_on: bool
) -> None:
    app = create_app(ServerParts(settings.model_copy(update={"graphiql": is_on}), statements, TOKENS.get))
    assert (await _get(app, path="/v2/console")).json() == {"graphiql": is_on}


async def _get(app: FastAPI, token: str = "good-token", path: str = "/v2/quick-start") -> httpx.Response:  # noqa: S107
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://headrace:8080",
        headers={"Authorization": f"Bearer {token}"},
    ) as client:
        return await client.get(path)
