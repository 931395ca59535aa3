"""Host names and origins that the server accepts."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from harness.patience import PATIENCE_S
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.server.scripted import TOKENS, ScriptedStatements, ScriptedStream, serving

Ask = Callable[..., httpx.AsyncClient]


@pytest.fixture
def ask(settings: Settings, statements: ScriptedStatements) -> Ask:
    """Return a factory of clients of a server with some settings, at the address 10.0.0.5."""

    def make(**changes: object) -> httpx.AsyncClient:
        changed = Settings.model_validate({**settings.model_dump(), **changes})
        app = create_app(ServerParts(changed, statements, TOKENS.get))
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://10.0.0.5:8080",
            headers={"Authorization": "Bearer good-token"},
        )

    return make


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.5:8080",
        "127.0.0.1:8080",
        "localhost",
        "LOCALHOST:9090",
        "[::1]:8080",
        "127.9.9.9:1",
        "[::ffff:127.0.0.1]",
    ],
)
async def test_the_server_s_own_addresses_are_answered(ask: Ask, host: str) -> None:
    async with ask() as http:
        answer = await http.get("/v2/version", headers={"Host": host, "Origin": f"http://{host}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "10.0.0.6:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "",
        "localhost:8080/x",
        "localhost; script-src *",
        "[::1",
        "localhost:999999",
    ],
)
@pytest.mark.parametrize("path", ["/", "/v2/version", "/metrics", "/healthz", "/nothing"])
async def test_other_names_are_refused(ask: Ask, host: str, path: str) -> None:
    async with ask() as http:
        answer = await http.get(path, headers={"Host": host})
    assert answer.status_code == 400
    assert "HEADRACE_ALLOWED_HOSTS" in answer.json()["message"]
    assert "evil" not in answer.headers["content-security-policy"]


async def test_a_second_host_header_is_refused(ask: Ask) -> None:
    async with ask() as http:
        headers = [("Host", "10.0.0.5:8080"), ("Host", "evil.example")]
        request = httpx.Request("GET", "http://10.0.0.5:8080/healthz", headers=headers)
        assert (await http.send(request)).status_code == 400


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://10.0.0.5:3000",
        "http://localhost:8080",
        "file://",
        "http://[::1",
    ],
)
async def test_foreign_pages_are_refused(ask: Ask, origin: str) -> None:
    async with ask() as http:
        answer = await http.post("/v2/statements", json={"statement": ""}, headers={"Origin": origin})
    assert answer.status_code == 403
    assert set(answer.json()) == {"message"}


async def test_names_of_the_settings_are_answered_and_their_pages_heard(ask: Ask) -> None:
    async with ask(allowed_hosts="data.example.com, other.example.com:444") as http:

        async def status(host: str, origin: str) -> int:
            return (await http.get("/v2/version", headers={"Host": host, "Origin": origin})).status_code

        assert await status("data.example.com", "https://data.example.com") == 200
        assert await status("DATA.example.com:8443", "https://data.example.com:8443") == 200
        assert await status("10.0.0.5:8080", "https://data.example.com") == 200
        assert await status("other.example.com:444", "https://other.example.com:444") == 200
        assert await status("other.example.com", "https://other.example.com") == 400
        assert await status("10.0.0.5:8080", "https://other.example.com") == 403


async def test_the_page_may_open_sockets_at_its_own_address_only(ask: Ask) -> None:
    async with ask(public_url="https://data.example.com") as http:
        policy = (await http.get("/", headers={"Host": "localhost:9090"})).headers["content-security-policy"]
    [connections] = [part.split() for part in policy.split("; ") if part.startswith("connect-src")]
    assert connections == [
        "connect-src",
        "'self'",
        "ws://data.example.com",
        "ws://localhost:9090",
        "wss://data.example.com",
        "wss://localhost:9090",
    ]


async def stream_address(http: httpx.AsyncClient, **headers: str) -> str:
    answer = await http.post("/v2/statements", json={"statement": "SELECT"}, headers=headers)
    return str(answer.json()["metadata"]["dataplaneRequest"]["uri"]).partition("/v2/")[0]


async def test_a_stream_s_address_is_the_public_one_but_for_pages_that_were_reached_at_another(
    ask: Ask, statements: ScriptedStatements
) -> None:
    statements.answer("SELECT", ScriptedStream())
    python = {"User-Agent": "OpenAPI-Generator/1.0.0/python"}
    async with ask(public_url="https://Data.example.com/") as http:
        assert await stream_address(http) == "https://data.example.com"
        assert await stream_address(http, **python) == "https://data.example.com"
        assert await stream_address(http, Host="data.example.com") == "https://data.example.com"
        page = {"Host": "localhost:9090", "Origin": "http://localhost:9090"}
        assert await stream_address(http, **page) == "http://localhost:9090"
    async with ask(public_url="http://data.example.com:81") as http:
        assert await stream_address(http, **python) == "ws://data.example.com:81"


async def test_forwarded_headers_change_nothing(
    app: FastAPI, statements: ScriptedStatements, port: int
) -> None:
    statements.answer("SELECT", ScriptedStream())
    forwarded = {
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil.example",
        "Forwarded": "host=evil.example",
    }
    async with (
        serving(app, port),
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": "Bearer good-token"},
            trust_env=False,
            timeout=PATIENCE_S,
        ) as http,
    ):
        assert await stream_address(http, **forwarded) == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Host": "evil.example"}, 400)],
)
async def test_upgrades_from_elsewhere_are_refused_with_a_reason(
    address: str, headers: dict[str, str], status: int
) -> None:
    uri = f"ws://{headers.get('Host', address)}/v2/statements/00000000-0000-4000-8000-000000000000"
    at, _, number = address.partition(":")
    with pytest.raises(InvalidStatus) as refused:
        await connect(
            uri, origin=headers.get("Origin"), proxy=None, host=at, port=int(number), open_timeout=PATIENCE_S
        )
    assert refused.value.response.status_code == status
    assert b"HEADRACE_ALLOWED_HOSTS" in refused.value.response.body


async def test_an_upgrade_of_the_own_page_is_let_through(address: str) -> None:
    uri = f"ws://{address}/v2/statements/00000000-0000-4000-8000-000000000000"
    async with connect(uri, origin=f"http://{address}", proxy=None, open_timeout=PATIENCE_S) as socket:
        await socket.send('{"type":"auth","accessToken":"none"}')
        assert '"42501"' in str(await socket.recv())
