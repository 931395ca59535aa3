"""The static page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.server.scripted import ScriptedStatements


@pytest.fixture
async def visitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings, statements: ScriptedStatements
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a token, at a server with a built page."""
    (tmp_path / "dist" / "assets").mkdir(parents=True)
    (tmp_path / "dist" / "index.html").write_text("<title>the page</title>")
    (tmp_path / "dist" / "assets" / "app-1234.js").write_text("//")
    (tmp_path / "secret").write_text("private")
    monkeypatch.setattr("headrace.server.web.web_page", lambda: tmp_path / "dist")
    app = create_app(ServerParts(settings, statements, lambda _token: None))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://headrace") as client:
        yield client


async def test_the_page_needs_no_token_and_is_asked_for_anew(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.get("/")
    assert answer.status_code == 200
    assert "the page" in answer.text
    assert answer.headers["cache-control"] == "no-cache"


async def test_built_assets_are_kept_by_browsers(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.get("/assets/app-1234.js")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/javascript")


async def test_what_is_long_is_sent_compressed_to_who_takes_it(
    visitor: httpx.AsyncClient, tmp_path: Path
) -> None:
    script = "const a = 1;\n" * 1000
    (tmp_path / "dist" / "assets" / "app-1234.js").write_text(script)
    answer = await visitor.get("/assets/app-1234.js")
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < len(script) / 10
    assert answer.text == script
    plain = await visitor.get("/assets/app-1234.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == script


async def test_the_page_has_one_address_and_what_is_not_there_is_not_found(
    visitor: httpx.AsyncClient,
) -> None:
    for path in ("/queries/1", "/index.php", "/.env"):
        answer = await visitor.get(path)
        assert answer.status_code == 404
        assert answer.json() == {"message": f"path not found: {path}"}


@pytest.mark.parametrize(
    "path", ["/assets/gone.js", "/..%2fsecret", "/%2e%2e/secret.txt", "/.//..//secret.txt"]
)
async def test_nothing_outside_the_page_s_folder_is_served(visitor: httpx.AsyncClient, path: str) -> None:
    answer = await visitor.get(path)
    assert "private" not in answer.text
    assert answer.status_code == 404


async def test_the_api_is_never_answered_by_the_page(visitor: httpx.AsyncClient) -> None:
    for path in ("/v2", "/v2/nothing", "/metrics"):
        assert (await visitor.get(path)).status_code == 403


async def test_a_page_that_is_not_built_says_so(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, statements: ScriptedStatements
) -> None:
    monkeypatch.setattr("headrace.server.web.web_page", lambda: None)
    app = create_app(ServerParts(settings, statements, lambda _token: None))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://headrace") as client:
        answer = await client.get("/")
    assert answer.status_code == 503
    assert "not built" in answer.text
