"""The routes of worksheets, over a real catalog."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from headrace.catalog.catalog import Catalog
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from headrace.server.rest.worksheets import TEXT_MAX
from tests.unit.server.scripted import ScriptedStatements

TOKEN = "an administrator's token"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    opened = Catalog.open(tmp_path)
    opened.ensure_administrator(TOKEN)
    return opened


@pytest.fixture
async def client(
    catalog: Catalog, statements: ScriptedStatements, settings: Settings
) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(ServerParts(settings, statements, catalog.authenticate, worksheets=catalog.worksheets))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://headrace:8080/v2/worksheets/",
        headers={"Authorization": f"Bearer {TOKEN}"},
    ) as http:
        yield http
    catalog.close()


async def test_a_worksheet_is_saved_closed_and_deleted(client: httpx.AsyncClient, catalog: Catalog) -> None:
    identifier = str(uuid.uuid4())
    draft = {"name": "a", "text": "x" * TEXT_MAX, "schema": "public", "computePool": "p", "role": "sysadmin"}
    saved = await client.put(identifier, json=draft)
    assert (saved.status_code, saved.json()) == (200, {"version": 1, "replaced": False})
    saved = await client.put(identifier, json={**draft, "open": False, "version": 1})
    assert saved.json() == {"version": 2, "replaced": False}
    saved = await client.put(identifier, json={**draft, "open": False, "version": 1})
    assert saved.json() == {"version": 3, "replaced": True}
    principal = catalog.authenticate(TOKEN)
    assert principal is not None
    (sheet,) = catalog.worksheets.of(principal)
    assert (sheet.content.schema, sheet.content.compute_pool, sheet.is_open) == ("public", "p", False)
    assert (await client.delete(identifier)).status_code == 204
    missing = await client.delete(identifier)
    assert (missing.status_code, "does not exist" in missing.json()["message"]) == (404, True)


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        ({"name": "", "text": ""}, "name"),
        ({"name": "a", "text": "secret" + "x" * TEXT_MAX}, "text"),
        ({"name": "a", "text": "", "version": -1}, "version"),
        ({"name": "a"}, "text"),
    ],
)
async def test_a_draft_that_cannot_be_saved_is_refused_without_its_text(
    client: httpx.AsyncClient, draft: dict[str, object], reason: str
) -> None:
    answer = await client.put(str(uuid.uuid4()), json=draft)
    assert answer.status_code == 400
    assert reason in answer.json()["message"]
    assert "secret" not in answer.text


async def test_routes_require_a_token_and_an_id(client: httpx.AsyncClient) -> None:
    assert (await client.put("a", json={"name": "a", "text": ""})).status_code == 400
    refused = await client.delete(str(uuid.uuid4()), headers={"Authorization": "Bearer wrong"})
    assert refused.status_code == 403


async def test_too_many_open_worksheets_are_refused_with_a_hint(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.catalog.worksheets.WORKSHEETS_MAX", 1)
    draft = {"name": "a", "text": ""}
    assert (await client.put(str(uuid.uuid4()), json=draft)).status_code == 200
    answer = await client.put(str(uuid.uuid4()), json=draft)
    assert (answer.status_code, "Close a worksheet" in answer.json()["message"]) == (409, True)
