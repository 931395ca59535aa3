"""The SDK's client signs users in at a real provider, and gets the tools of their roles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from harness.openid import CLIENT, REDIRECT, SECRET, OpenIdServer, sign_in_at
from harness.session import open_session
from headrace.catalog.access import Grant, Privilege
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.server.mcp_world import refusal, running, tool_names

PEOPLE = {name: {"email": f"{name}@x.org", "email_verified": True} for name in ("anna", "ben", "stranger")}


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdServer]:
    with OpenIdServer(PEOPLE) as server:
        yield server


@pytest.fixture
async def app(provider: OpenIdServer, tmp_path: Path) -> AsyncIterator[FastAPI]:
    """A server on which anna, but not ben, may run statements by MCP."""
    settings = Settings(
        data_dir=tmp_path,
        oidc_issuer=provider.uri,
        oidc_client_id=CLIENT,
        oidc_client_secret=SECRET,
        public_url="http://localhost",
        mcp_scopes="headrace",
    )
    async with open_session(tmp_path) as session:
        catalog = session.catalog
        for name, role in (("anna", "agent"), ("ben", "reader")):
            catalog.create_role(role, "orgadmin")
            catalog.admit(f"{name}@x.org", {role: True}, create=True)
        catalog.grant([Grant(catalog.organization().id, Privilege.EXECUTE_BY_MCP, "agent", "orgadmin")])
        parts = ServerParts(
            settings, session.service, catalog.authenticate, ended=catalog.ended, accounts=catalog
        )
        app = create_app(parts)
        async with running(app):
            yield app


class Registered(TokenStorage):
    """A client that the provider knows, as no client registers itself: the tokens of one person, and the server's statuses."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.statuses: list[int] = []

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return OAuthClientInformationFull(
            client_id=CLIENT,
            client_secret=SECRET,
            redirect_uris=[AnyUrl(REDIRECT)],
            token_endpoint_auth_method="client_secret_basic",
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError(f"expected no registration, found {client_info.client_id}")


@asynccontextmanager
async def signed_in(app: FastAPI, name: str, tokens: Registered) -> AsyncIterator[Client]:
    """Connect without a token: the client finds the provider by itself, and `name` signs in there."""
    came_back: list[str] = []

    async def note(response: httpx2.Response) -> None:
        if response.request.url.path == "/mcp":
            tokens.statuses.append(response.status_code)

    async def redirect(address: str) -> None:
        came_back.append(await sign_in_at(address, name))

    async def callback() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(came_back[-1]).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(REDIRECT)], client_name="test")
    auth = OAuthClientProvider("http://localhost/mcp", metadata, tokens, redirect, callback)
    http = httpx2.AsyncClient(
        auth=auth,
        mounts={"all://localhost": httpx2.ASGITransport(app)},
        event_hooks={"response": [note]},
    )
    async with (
        http,
        Client(streamable_http_client("http://localhost/mcp", http_client=http)) as client,
    ):
        yield client


async def test_two_people_see_the_tools_of_their_roles(app: FastAPI) -> None:
    stored = {name: Registered() for name in ("anna", "ben")}
    tools = {}
    for name, tokens in stored.items():
        async with signed_in(app, name, tokens) as client:
            tools[name] = await tool_names(client)
            if name == "ben":
                error = await refusal(client, "run_statement", statement="LIST DATABASES")
                assert (error["sqlState"], Privilege.EXECUTE_BY_MCP.value in error["message"]) == (
                    "42501",
                    True,
                )
    assert tools["anna"] - tools["ben"] == {"run_statement"}
    assert "select" in tools["ben"]
    # Each token has the scope that the server asked for.
    assert [tokens.tokens.scope for tokens in stored.values() if tokens.tokens] == ["headrace"] * 2


async def test_a_person_whom_the_server_does_not_know_gets_no_tools(app: FastAPI) -> None:
    tokens = Registered()
    with pytest.raises(ExceptionGroup):
        async with signed_in(app, "stranger", tokens) as client:
            await tool_names(client)
    assert tokens.tokens is not None
    assert set(tokens.statuses) == {401}
