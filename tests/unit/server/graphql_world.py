"""GraphQL of the real application over a real catalog, in process; live results are scripted, since no driver runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from gql import Client
from gql.transport.websockets import WebsocketsTransport

from harness.patience import PATIENCE_S
from harness.session import Session, open_session
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import Executed, ServerParts
from tests.unit.server.scripted import ScriptedExecuted, ScriptedStream

ADMINISTRATOR = "admin-token"


@dataclass
class LiveStatements:
    """The real statements, but for texts that a test has scripted a live result for."""

    session: Session
    streams: dict[str, ScriptedStream] = field(default_factory=dict)

    async def execute(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> Executed:
        if text in self.streams:
            return ScriptedExecuted(("id",), self.streams[text], self.settled(context, principal))
        return await self.session.service.execute(text, principal=principal, context=context, files=files)

    def settled(self, context: SessionContext, principal: Principal) -> SessionContext:
        return self.session.service.settled(context, principal)


@dataclass
class World:
    """An application, and what tests change."""

    app: FastAPI
    session: Session
    live: LiveStatements
    tokens: dict[str, Principal]
    endings: dict[Principal, str]

    async def post(
        self,
        document: str,
        variables: dict[str, Any] | None = None,
        *,
        token: str = ADMINISTRATOR,
        at: str = "",
    ) -> dict[str, Any]:
        """Return the answer to an operation, which may have errors."""
        async with self.http(token) as http:
            answer = await http.post(f"/graphql{at}", json={"query": document, "variables": variables})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def data(
        self, document: str, variables: dict[str, Any] | None = None, **named: str
    ) -> dict[str, Any]:
        """Return the data of an operation without errors."""
        answer = await self.post(document, variables, **named)
        assert "errors" not in answer, answer["errors"]
        return dict(answer["data"])

    async def error(
        self, document: str, variables: dict[str, Any] | None = None, **named: str
    ) -> dict[str, Any]:
        """Return the only error of an operation."""
        (error,) = (await self.post(document, variables, **named))["errors"]
        return dict(error)

    def http(self, token: str = ADMINISTRATOR) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app),
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {token}"},
        )

    @property
    def audited(self) -> list[tuple[str | None, str | None, str]]:
        """Door, statement and outcome of the events so far, oldest first."""
        audit = self.session.catalog.audit
        audit.flush()
        return [(each.door, each.statement, each.outcome.value) for _, each in reversed(audit.read(1000, []))]


@asynccontextmanager
async def open_world(folder: Path, **settings: Any) -> AsyncIterator[World]:
    """The catalog of `harness.session`, for its administrator and for `other-token` of the role public."""
    async with open_session(folder) as session:
        live, endings = LiveStatements(session), dict[Principal, str]()
        tokens = {ADMINISTRATOR: session.principal, "other-token": Principal("other", ("public",), "public")}
        parts = ServerParts(
            Settings(data_dir=folder, **settings),
            live,  # type: ignore[arg-type] # the parts that MCP needs are missing
            tokens.get,
            ended=endings.get,
            audit=session.catalog.audit.record,
            reader=session.service,
        )
        yield World(create_app(parts), session, live, tokens, endings)


def socket_client(address: str, token: str = ADMINISTRATOR, query: str = "") -> Client:
    """Return a client library's connection to the websocket of a server."""
    transport = WebsocketsTransport(
        f"ws://{address}/graphql{query}",
        init_payload={"Authorization": f"Bearer {token}"},
        connect_args={"proxy": None},
        connect_timeout=PATIENCE_S,
        ack_timeout=PATIENCE_S,
        close_timeout=1,
    )
    return Client(transport=transport, execute_timeout=PATIENCE_S)
