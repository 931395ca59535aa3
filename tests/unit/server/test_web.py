"""The static page."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from headrace.server.web import PAGES
from tests.unit.server.scripted import ScriptedStatements


@pytest.fixture
async def visitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings, statements: ScriptedStatements
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a token, at a server with a built page."""
    (tmp_path / "dist" / "assets").mkdir(parents=True)
    (tmp_path / "dist" / "index.html").write_text('<meta nonce="STYLE-NONCE"><title>the page</title>')
    (tmp_path / "dist" / "assets" / "app-1234.js").write_text("//")
    (tmp_path / "secret").write_text("private")
    (tmp_path / "site" / "concepts").mkdir(parents=True)
    (tmp_path / "site" / "index.html").write_text("<title>documentation</title>")
    (tmp_path / "site" / "concepts" / "index.html").write_text("<title>concepts</title>")
    monkeypatch.setattr("headrace.server.web.web_page", lambda: tmp_path / "dist")
    monkeypatch.setattr("headrace.server.web.documentation_site", lambda: tmp_path / "site")
    app = create_app(ServerParts(settings, statements, lambda _token: None))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://headrace") as client:
        yield client


async def test_the_page_needs_no_token_and_is_asked_for_anew(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.get("/")
    assert answer.status_code == 200
    assert "the page" in answer.text
    assert answer.headers["cache-control"] == "no-cache"
    assert (await visitor.head("/sql")).status_code == 200


async def test_the_policy_allows_no_inline_script_and_the_styles_of_one_answer_only(
    visitor: httpx.AsyncClient,
) -> None:
    nonces = []
    for path in ("/", "/sql", "/v2/version", "/docs/"):
        answer = await visitor.get(path)
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "script-src" not in policy, "default-src 'self' allows no inline script"
        [nonce] = re.findall(r"style-src 'self' 'nonce-([\w-]{22})'", policy)
        nonces.append(nonce)
        if path in ("/", "/sql"):
            assert f'<meta nonce="{nonce}">' in answer.text
    assert len(set(nonces)) == 4


async def test_the_documentation_needs_no_token_and_runs_no_inline_scripts(
    visitor: httpx.AsyncClient,
) -> None:
    for path, title in (("/docs/", "documentation"), ("/docs/concepts/", "concepts")):
        answer = await visitor.get(path)
        assert (answer.status_code, f"<title>{title}</title>" in answer.text) == (200, True)
        assert answer.headers["cache-control"] == "no-cache"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self';" in policy
        assert "script-src" not in policy
    assert (await visitor.get("/docs")).headers["location"].endswith("/docs/")
    for path in ("/docs/nothing/", "/docs/../secret", "/docs/%2e%2e/secret"):
        assert (await visitor.get(path)).status_code == 404
    assert (await visitor.post("/docs/")).status_code == 405


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


@pytest.mark.parametrize(
    "path", ["/sql", "/queries", "/queries/1", "/lineage?focus=x", "/catalog/db/public/a.b", "/stores/s/%2Fa"]
)
async def test_addresses_of_pages_are_answered_by_the_page(visitor: httpx.AsyncClient, path: str) -> None:
    answer = await visitor.get(path)
    assert answer.status_code == 200
    assert "the page" in answer.text
    assert answer.headers["cache-control"] == "no-cache"
    assert "script-src" not in answer.headers["content-security-policy"], (
        "default-src 'self' allows no inline script"
    )
    assert (await visitor.post(path)).status_code == 405


def test_the_server_knows_the_addresses_of_the_router() -> None:
    router = (Path(__file__).parents[3] / "web" / "src" / "router.tsx").read_text()
    assert set(re.findall(r'path: "/([a-z]+)', router)) == PAGES


async def test_what_is_not_there_is_not_found(visitor: httpx.AsyncClient) -> None:
    for path in ("/query/1", "/index.php", "/.env", "/queriesx"):
        answer = await visitor.get(path)
        assert answer.status_code == 404
        assert answer.json() == {"message": f"path not found: {path}"}


@pytest.mark.parametrize(
    "path",
    ["/assets/gone.js", "/queries/../../secret", "/..%2fsecret", "/%2e%2e/secret.txt", "/.//..//secret.txt"],
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
