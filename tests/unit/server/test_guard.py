"""Tokens, paths and headers: rules for every request."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIWebSocketRoute
from starlette.routing import Mount, Route

from headrace.catalog.audit import AuditEntry
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.server.scripted import TOKENS, ScriptedStatements

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def walk(app: FastAPI) -> list[object]:
    collected: list[object] = []

    def visit(routes: object) -> None:
        for route in routes:  # type: ignore[attr-defined]
            inner = getattr(route, "original_router", None) or getattr(route, "router", None)
            if inner is not None and not isinstance(route, Mount):
                visit(inner.routes)
            else:
                collected.append(route)

    visit(app.routes)
    return collected


async def test_every_route_refuses_without_a_token(app: FastAPI, http: httpx.AsyncClient) -> None:
    routes = [route for route in walk(app) if not isinstance(route, Mount | APIWebSocketRoute)]
    paths = set()
    for route in routes:
        assert isinstance(route, Route), f"a kind of route that this test does not know: {route!r}"
        if route.path in ("/healthz", "/readyz"):
            continue
        paths.add(route.path)
        for method in route.methods or ():
            path = route.path.replace("{statement_id}", UNKNOWN)
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": "Basic Z29vZC10b2tlbg=="},
            ):
                request = httpx.Request(method, f"http://headrace{path}", headers=headers)
                answer = await http.send(request)
                # Clients of MCP find out by a 401 how to authenticate.
                expected = 401 if path == "/mcp" else 403
                assert answer.status_code == expected, (method, path, headers)
                assert set(answer.json()) == {"message"}
    assert paths == {
        "/v2/version",
        "/v2/statements",
        "/v2/statements/{statement_id}",
        "/v2/validate",
        "/v2/plan",
        "/v2/complete",
        "/v2/language",
        "/v2/openapi.json",
        "/v2/quick-start",
        "/v2/console",
        "/v2/download/{kind}/{organization}/{name:path}",
        "/metrics",
        "/mcp",
    }


def test_the_only_unguarded_mounts_are_static(app: FastAPI) -> None:
    mounts = [route.name for route in walk(app) if isinstance(route, Mount)]
    # The documentation is there if it was built.
    assert mounts in (["web"], ["docs", "web"])


async def test_unknown_api_paths_need_a_token_too(http: httpx.AsyncClient) -> None:
    for path in ("/v2/nothing", "/v2", "http://headrace//v2//version", "/metrics/x"):
        answer = await http.get(path, headers={"Authorization": "Bearer wrong"})
        assert answer.status_code == 403, path


async def test_the_version_is_three_integers(http: httpx.AsyncClient) -> None:
    body = (await http.get("/v2/version")).json()
    assert set(body) == {"major", "minor", "patch"}
    assert all(type(part) is int for part in body.values())


async def test_a_doubled_slash_is_one(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v2//version")).status_code == 200


async def test_probes_need_no_token_and_reveal_nothing(
    http: httpx.AsyncClient, settings: Settings, statements: ScriptedStatements
) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await http.send(httpx.Request("GET", f"http://headrace{path}"))
        assert (answer.status_code, answer.text) == (200, "ok\n")
    app = create_app(ServerParts(settings, statements, TOKENS.get, is_ready=lambda: False))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://headrace") as unready:
        assert (await unready.get("/healthz")).status_code == 200
        answer = await unready.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "not ready\n")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/nothing", 404),
        ("GET", "/nothing", 404),
        ("DELETE", "/v2/version", 405),
        ("POST", "/readyz", 405),
        ("PUT", "/", 405),
    ],
)
async def test_http_failures_have_one_shape(
    http: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await http.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()) == {"message"}
    assert answer.headers["content-type"] == "application/json"


async def test_security_headers_are_on_every_answer(http: httpx.AsyncClient) -> None:
    for path in ("/v2/version", "/v2/nothing", "/"):
        headers = (await http.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "script-src" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in headers


async def test_answers_of_the_api_are_not_cached(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v2/version")).headers["cache-control"] == "no-store"


async def test_metrics_count_statements_and_refusals(http: httpx.AsyncClient) -> None:
    await http.post("/v2/statements", json={"statement": "LIST STORES;"})
    await http.get("/v2/version", headers={"Authorization": "Bearer wrong"})
    text = (await http.get("/metrics")).text
    assert 'headrace_statements_total{sqlstate="00000"} 1.0' in text
    assert "headrace_authentication_failures_total 1.0" in text


async def test_refused_tokens_are_logged_without_the_token(
    http: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    await http.get("/v2/version", headers={"Authorization": "Bearer wrong-but-private"})
    captured = capsys.readouterr()
    assert "authentication_failed" in captured.out + captured.err
    assert "wrong-but-private" not in captured.out + captured.err


async def test_the_metrics_page_is_for_who_may_read_it(
    statements: ScriptedStatements, settings: Settings
) -> None:
    audited: list[AuditEntry] = []
    parts = ServerParts(
        settings,
        statements,
        TOKENS.get,
        audit=audited.append,
        may_read_metrics=lambda principal: principal.user == "admin",
    )
    transport = httpx.ASGITransport(create_app(parts))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        codes = [
            (await http.get("/metrics", headers={"Authorization": f"Bearer {token}"})).status_code
            for token in ("good-token", "other-token")
        ]
    assert codes == [200, 403]
    assert [(entry.user, entry.detail) for entry in audited] == [
        ("other", "GET /metrics: READ_METRICS is missing")
    ]
