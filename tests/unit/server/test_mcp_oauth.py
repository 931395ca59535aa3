"""MCP with access tokens of a provider: the metadata, and which tokens count where."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI

from harness.session import open_session
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.server.mcp_world import call, connected, running, tool_names

RESOURCE = "https://data.example.com/mcp"
METADATA = "/.well-known/oauth-protected-resource/mcp"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    """A provider's metadata and keys; it counts the requests."""

    def __init__(self) -> None:
        issuer = self
        self.requests: Counter[str] = Counter()
        self.is_up = True

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests[self.path] += 1
                self.send_response(200 if issuer.is_up else 503)
                self.end_headers()
                self.wfile.write(json.dumps(issuer.body(self.path)).encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def body(self, path: str) -> object:
        if path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
            return {"keys": [{**public, "kid": "1", "use": "sig"}]}
        places = ("authorization_endpoint", "token_endpoint")
        return {
            "issuer": self.uri,
            "jwks_uri": f"{self.uri}keys",
            **{name: self.uri + name for name in places},
        }

    def token(self, key: Any = KEY, kid: str = "1", algorithm: str = "RS256", **claims: object) -> str:
        now = int(time.time())
        whole = {"iss": self.uri, "sub": "1", "aud": RESOURCE, "iat": now, "exp": now + 60}
        whole |= {"email": "Anna@x.org", "email_verified": True, **claims}
        present = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode(present, key, algorithm, {"kid": kid})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def _issuer() -> Iterator[Issuer]:
    started = Issuer()
    yield started
    started.close()


@pytest.fixture
def issuer(_issuer: Issuer) -> Issuer:
    _issuer.requests.clear()
    _issuer.is_up = True
    return _issuer


@pytest.fixture
async def app(issuer: Issuer, tmp_path: Path) -> AsyncIterator[FastAPI]:
    async with serving(issuer.uri, tmp_path) as app:
        yield app


@asynccontextmanager
async def serving(issuer: str, tmp_path: Path, **more: Any) -> AsyncIterator[FastAPI]:
    given = {"oidc_client_id": "headrace", "public_url": "https://data.example.com", **more}
    settings = Settings(data_dir=tmp_path, oidc_issuer=issuer, **given)
    async with open_session(tmp_path) as session:
        catalog = session.catalog
        catalog.admit("anna@x.org", {"useradmin": True}, create=True)
        app = create_app(
            ServerParts(
                settings, session.service, catalog.authenticate, ended=catalog.ended, accounts=catalog
            )
        )
        async with running(app):
            yield app


def browser(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


async def test_a_client_finds_out_where_to_get_a_token(app: FastAPI, issuer: Issuer) -> None:
    async with browser(app) as http:
        refused = await http.post("/mcp", json={})
        assert refused.status_code == 401
        where = f"https://data.example.com{METADATA}"
        assert refused.headers["www-authenticate"] == f'Bearer realm="headrace", resource_metadata="{where}"'
        metadata = (await http.get(METADATA)).json()
        assert metadata["resource"] == RESOURCE
        assert metadata["authorization_servers"] == [issuer.uri]
        assert (await http.get(METADATA, headers={"Origin": "https://evil.example"})).status_code == 403
        assert (await http.get("/.well-known/other")).status_code == 404


async def test_the_metadata_name_the_issuer_as_it_is_spelled(tmp_path: Path) -> None:
    async with serving("https://login.example.com", tmp_path) as app, browser(app) as http:
        metadata = (await http.get(METADATA)).json()
    assert metadata["authorization_servers"] == ["https://login.example.com"]
    assert "scopes_supported" not in metadata


async def test_a_token_without_the_scopes_is_refused_and_the_client_learns_them(
    issuer: Issuer, tmp_path: Path
) -> None:
    async with (
        serving(issuer.uri, tmp_path, mcp_scopes="data.read, data.chat") as app,
        browser(app) as http,
    ):
        assert (await http.get(METADATA)).json()["scopes_supported"] == ["data.read", "data.chat"]
        refused = await http.post("/mcp", json={})
        assert refused.headers["www-authenticate"].endswith('/mcp", scope="data.read data.chat"')
        for claims in ({}, {"scope": "openid data.read"}, {"scp": ["data.chat"]}):
            headers = {"Authorization": f"Bearer {issuer.token(**claims)}"}
            refused = await http.post("/mcp", json={}, headers=headers)
            assert refused.status_code == 403
            assert refused.headers["www-authenticate"].endswith(
                'scope="data.read data.chat", error="insufficient_scope"'
            )
        # A token that is not valid learns nothing about scopes.
        expired = {"Authorization": f"Bearer {issuer.token(exp=1)}"}
        assert (await http.post("/mcp", json={}, headers=expired)).status_code == 401
        given: tuple[dict[str, object], ...] = (
            {"scope": "data.chat data.read openid"},
            {"scp": ["data.read", "data.chat"]},
        )
        for allowed in given:
            async with connected(app, issuer.token(**allowed)) as client:
                assert "select" in await tool_names(client)


async def test_an_access_token_for_the_endpoint_has_the_roles_of_its_user(
    app: FastAPI, issuer: Issuer
) -> None:
    async with connected(app, issuer.token()) as client:
        assert "select" in await tool_names(client)
        (row,) = (await call(client, "list_objects", kind="users", name_like="anna%"))["rows"]
        assert row[0] == "anna@x.org"
    async with browser(app) as http:
        # It counts at the endpoint only.
        headers = {"Authorization": f"Bearer {issuer.token()}"}
        assert (await http.get("/v2/version", headers=headers)).status_code == 403


async def test_other_tokens_are_refused_and_cause_few_requests(app: FastAPI, issuer: Issuer) -> None:
    now = int(time.time())
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    tokens = {
        "for another resource": issuer.token(aud="https://other.example.com/mcp"),
        "an ID token": issuer.token(aud="headrace"),
        "no audience": issuer.token(aud=None),
        "another issuer": issuer.token(iss="https://evil.example"),
        "expired": issuer.token(exp=now - 3600),
        "no end": issuer.token(exp=None),
        "unverified": issuer.token(email_verified="true"),
        "nobody": issuer.token(email="ben@x.org"),
        "another key": issuer.token(key=other),
        "an unknown key": issuer.token(key=other, kid="2"),
        "another unknown key": issuer.token(key=other, kid="3"),
        "not signed": jwt.encode({"iss": issuer.uri, "aud": RESOURCE}, "", "none"),
        "signed by a password": issuer.token(key="x" * 32, algorithm="HS256"),
        "garbage": "a.b.c",
        "long": "a." * 4000,
    }
    async with browser(app) as http:
        statuses = {
            name: (await http.post("/mcp", json={}, headers={"Authorization": f"Bearer {token}"})).status_code
            for name, token in tokens.items()
        }
    assert statuses == dict.fromkeys(tokens, 401)
    assert issuer.requests["/keys"] <= 2


async def test_a_provider_that_is_away_is_left_alone_for_a_while(app: FastAPI, issuer: Issuer) -> None:
    issuer.is_up = False
    async with browser(app) as http:
        for _ in range(5):
            headers = {"Authorization": f"Bearer {issuer.token()}"}
            assert (await http.post("/mcp", json={}, headers=headers)).status_code == 401
    assert issuer.requests.total() == 1
