"""Audit entries of the doors, and retention of the audit log."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import structlog
from starlette.types import Scope

from headrace.catalog.audit import AuditEntry, AuditLog, AuditOutcome, Event
from headrace.catalog.objects import ApiToken, Principal
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.server.hosts import address_of

log = structlog.get_logger()

FLUSH_INTERVAL_S = 1.0
FORGET_INTERVAL_S = 3600.0
_PATH_LENGTH_MAX = 200
MCP_PATH = "/mcp"
GRAPHQL_PATHS = ("/graphql", "/v2/graphql")
"""Addresses of GraphQL: the page's cookie belongs to paths below /v2."""
Audit = Callable[[AuditEntry], None]


def refused_request(scope: Scope, who: ApiToken | Principal | None, reason: str) -> AuditEntry:
    """Return the entry of a request that was refused before anything was done; with its user if known.

    The path is left out: an unauthenticated client chooses it, and each path would create a separate entry.
    """
    # A websocket has no method.
    method = scope.get("method", "GET")
    place = f"{method} {scope['path'][:_PATH_LENGTH_MAX]}: " if who is not None else ""
    return AuditEntry(
        Event.REQUEST,
        AuditOutcome.DENIED,
        who.user if who is not None else None,
        credential=who.credential if who is not None else None,
        address=address_of(scope),
        door=_door(scope["path"]),
        sqlstate=SqlState.INSUFFICIENT_PRIVILEGE.value,
        detail=f"{place}{reason}",
    )


def _door(path: str) -> str:
    if path in GRAPHQL_PATHS:
        return "graphql"
    return "mcp" if path == MCP_PATH else "api"


def refused_stream(address: str | None, reason: str, principal: Principal | None = None) -> AuditEntry:
    """Return the entry of a stream that was requested without a valid ticket, or ended with its reader's rights."""
    return AuditEntry(
        Event.STREAM,
        AuditOutcome.DENIED,
        principal.user if principal is not None else None,
        credential=principal.credential if principal is not None else None,
        address=address,
        door="stream",
        sqlstate=SqlState.INSUFFICIENT_PRIVILEGE.value,
        detail=reason,
    )


def at_the_page(
    scope: Scope, event: Event, outcome: AuditOutcome, user: str | None = None, detail: str | None = None
) -> AuditEntry:
    """Return the entry of signing in or out, or accepting an invitation. An unknown user name is left out: people type passwords there."""
    return AuditEntry(event, outcome, user, address=address_of(scope), door="page", detail=detail)


@asynccontextmanager
async def audit_log_writer(audit: AuditLog, days: int) -> AsyncIterator[None]:
    """Write the audit log every second, and delete its entries after some days, while the context is open."""
    task = asyncio.create_task(_keep(audit, datetime.timedelta(days=days)), name="audit")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _keep(audit: AuditLog, lasts: datetime.timedelta) -> None:
    loop = asyncio.get_running_loop()
    forget_at = loop.time()
    while True:
        try:
            await asyncio.to_thread(audit.flush)
            if loop.time() >= forget_at:
                forget_at = loop.time() + FORGET_INTERVAL_S
                await asyncio.to_thread(audit.forget, datetime.datetime.now(datetime.UTC) - lasts)
        except ExternalError as error:
            log.warning("audit_waits", reason=error.message)
        await asyncio.sleep(FLUSH_INTERVAL_S)
