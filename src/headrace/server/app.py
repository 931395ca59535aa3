"""The application over its parts; `wiring` creates the real parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from headrace.catalog.objects import Principal
from headrace.server import console, failures, probes, quick_start, signin
from headrace.server.auditing import refused_request
from headrace.server.auth import TokenGate, principal_of
from headrace.server.dataplane.tickets import TicketOffice
from headrace.server.graphql.endpoint import Door, GraphQLEndpoint
from headrace.server.hosts import HostGate, Hosts
from headrace.server.mcp.endpoint import McpEndpoint
from headrace.server.metrics import Metrics
from headrace.server.middleware import BodyLimit, CleanPaths, SecurityHeaders
from headrace.server.openapi import document
from headrace.server.ports import ServerParts
from headrace.server.rest import downloads, worksheets
from headrace.server.rest.routes import ControlPlane, router
from headrace.server.rest.runs import StatementRuns
from headrace.server.signin import Sessions, cookie_of
from headrace.server.turns import RUNNING_MAX
from headrace.server.web import PageMount, documentation, is_reserved, is_static

COMPRESSED_FROM_BYTES = 1024
COMPRESSION_LEVEL = 5
"""The page's script is a third of its size then, in 15 ms.

The length of a compressed answer tells something of its content, to those who may ask for it again and again: a foreign page may
not (`hosts`).
"""
OTHER_THREADS = 32
"""For probes, and what the engine does in threads."""


def create_app(parts: ServerParts, metrics: Metrics | None = None) -> FastAPI:
    """Return the application. Every HTTP route added here is behind the token gate, except `probes`, signing in, and what is static: the
    page and the documentation."""
    hosts = Hosts(parts.settings)
    metrics = metrics or Metrics(parts.query_metrics, leads=parts.leads)
    tickets = TicketOffice(grace_ms=parts.settings.result_channel_grace_ms)
    sessions = Sessions(parts.settings, parts.accounts.user if parts.accounts else lambda _name: None)

    def ended(principal: Principal) -> str | None:
        return parts.ended(principal) or sessions.ended(principal)

    def refused(scope: Scope, token: str | None, reason: str) -> None:
        metrics.refused()
        known = parts.accounts.known_token(token) if parts.accounts is not None and token else None
        parts.audit(refused_request(scope, known, reason))

    runs = StatementRuns(parts.statements, tickets, metrics, parts.turns)
    graphql = _graphql(parts, runs, tickets, metrics, sessions, ended)
    mcp = McpEndpoint(parts.settings, parts.statements, runs, tickets, ended, parts.accounts, parts.audit)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # Each text under way may wait for a store in a thread: none may keep others from one.
        threads = ThreadPoolExecutor(RUNNING_MAX + OTHER_THREADS, "worker")
        asyncio.get_running_loop().set_default_executor(threads)
        async with mcp.running():
            yield
        await runs.close()
        await tickets.close()

    app = FastAPI(
        title="Headrace",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    failures.register(app)
    app.include_router(
        router(ControlPlane(parts.settings, hosts, runs, tickets, metrics, ended, parts.audit))
    )
    app.include_router(downloads.router(parts.download, parts.audit))
    app.include_router(probes.router(parts.is_ready, leads=parts.leads))
    app.include_router(quick_start.router(parts.broker))
    app.include_router(console.router(parts.settings))
    if parts.worksheets is not None:
        app.include_router(worksheets.router(parts.worksheets))
    if parts.accounts is not None:
        app.include_router(
            signin.router(parts.settings, hosts, parts.accounts, sessions, parts.audit, parts.attempts)
        )

    @app.get("/metrics", response_class=PlainTextResponse, summary="Figures for Prometheus")
    async def metrics_page(request: Request) -> Response:
        principal = principal_of(request)
        if not parts.may_read_metrics(principal):
            parts.audit(refused_request(request.scope, principal, "READ_METRICS is missing"))
            raise HTTPException(
                403, "the metrics page requires the privilege READ_METRICS on the organization"
            )
        return Response(metrics.page(), media_type="text/plain; version=0.0.4")

    @app.get("/v2/openapi.json", summary="This document")
    async def openapi() -> Response:
        return JSONResponse(document(app))

    app.router.routes += [*mcp.routes(), *graphql, *documentation(), PageMount()]
    _add_gates(app, parts, sessions, hosts, mcp, refused)
    return app


def _graphql(
    parts: ServerParts,
    runs: StatementRuns,
    tickets: TicketOffice,
    metrics: Metrics,
    sessions: Sessions,
    ended: Callable[[Principal], str | None],
) -> list[BaseRoute]:
    """Return the routes of GraphQL."""
    if parts.reader is None:
        return []

    def signed_in(scope: Scope) -> Principal | None:
        cookie = cookie_of(scope)
        return sessions.principal(cookie) if cookie else None

    door = Door(
        parts.settings,
        parts.reader,
        runs,
        tickets,
        parts.turns,
        metrics,
        ended,
        parts.audit,
        parts.authenticate,
        signed_in,
    )
    return GraphQLEndpoint(door).routes()


def _add_gates(
    app: FastAPI,
    parts: ServerParts,
    sessions: Sessions,
    hosts: Hosts,
    mcp: McpEndpoint,
    refused: Callable[[Scope, str | None, str], None],
) -> None:
    """Wrap the application in the middleware that checks each request before a route runs."""
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, bytes_max=parts.settings.request_bytes_max)
    app.add_middleware(
        TokenGate,
        signed_in=sessions.principal,
        authenticate=parts.authenticate,
        is_public=_public(app.routes, mcp),
        challenge=mcp.challenge,
        access_token=mcp.access_token,
        on_refusal=refused,
    )
    app.add_middleware(CleanPaths)
    app.add_middleware(HostGate, hosts=hosts)
    app.add_middleware(SecurityHeaders, hosts=hosts)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM_BYTES, compresslevel=COMPRESSION_LEVEL)


def _public(routes: list[BaseRoute], mcp: McpEndpoint) -> Callable[[Scope], bool]:
    """True if a request needs no token: it is a probe, signs in or asks where to sign in, or only static files can answer it."""

    def is_public(scope: Scope) -> bool:
        if scope["path"] in probes.PATHS or signin.is_sign_in(scope) or mcp.is_metadata(scope):
            return True
        if is_reserved(scope["path"]):
            return False
        return all(is_static(route) or route.matches(scope)[0] is Match.NONE for route in routes)

    return is_public
