"""A websocket from its ticket and metadata to its last row.

The sender stops taking rows while the socket's buffer is full, the result's bounded channel then fills up and holds its
query: a slow reader slows its query down and costs no memory.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from headrace.catalog.objects import Principal
from headrace.core.errors import HeadraceError, InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.server.auditing import Audit, refused_stream
from headrace.server.dataplane.frames import (
    PYTHON_FRAME_BYTES_MAX,
    Manners,
    data_frames,
    data_lines,
    error_frame,
    manners,
    metadata_frame,
)
from headrace.server.dataplane.tickets import Ticket, TicketOffice
from headrace.server.hosts import address_of
from headrace.server.metrics import Metrics
from headrace.server.ports import LiveResult

log = structlog.get_logger()

AUTHENTICATION_TIMEOUT_S = 30.0
SIGNED_IN_CHECK_S = 1.0
"""How often a stream looks whether its reader's token is still good."""

FAREWELL_S = 5.0

_NORMAL, _POLICY_VIOLATION, _INTERNAL = 1000, 1008, 1011


async def serve_stream(
    websocket: WebSocket,
    statement_id: str,
    tickets: TicketOffice,
    metrics: Metrics,
    ended: Callable[[Principal], str | None],
    audit: Audit,
) -> None:
    """Serve the stream of `statement_id` to the client that presents its ticket; return when the socket is closed.

    The stream ends early when the principal's credentials end (`ended` returns the reason), or when the role loses a privilege
    that the query needs."""
    await websocket.accept()
    to = manners(websocket.headers.get("user-agent", ""))
    try:
        presented = await asyncio.wait_for(_presented(websocket), AUTHENTICATION_TIMEOUT_S)
        ticket = tickets.redeem(presented.token, statement_id) if presented.token else None
        if ticket is None:
            address = address_of(websocket.scope)
            log.warning("ticket_refused", request_id=statement_id, client=address)
            audit(refused_stream(address, "the ticket is not valid"))
            metrics.refused()
            refused = UserError(
                SqlState.INSUFFICIENT_PRIVILEGE,
                "the stream's token is not valid: it is valid for one connection and a short time only",
                hint="Run the statement again.",
            )
            await websocket.send_text(error_frame(refused, to))
            await websocket.close(_POLICY_VIOLATION)
            return
    except (WebSocketDisconnect, TimeoutError):
        return
    # The connection belongs to its user from now on (`server.connections`).
    websocket.scope.setdefault("state", {})["principal"] = ticket.principal
    log.info(
        "stream_opened", request_id=statement_id, query_id=ticket.result.query_id, user=ticket.principal.user
    )
    with metrics.stream():
        try:
            reason = await _run(websocket, ticket, to, metrics, ended, lines=presented.lines)
            if reason is not None:
                audit(refused_stream(address_of(websocket.scope), reason, ticket.principal))
        finally:
            # Shielded: a cancelled socket (shutdown) must not leave its query running.
            await asyncio.shield(ticket.result.close())
            log.info("stream_closed", request_id=statement_id, query_id=ticket.result.query_id)


@dataclass(frozen=True)
class _Presented:
    """First frame of a client: its token, None without one, and whether it reads several rows in a message, one in each line."""

    token: str | None = None
    lines: bool = False


async def _presented(websocket: WebSocket) -> _Presented:
    try:
        frame = json.loads(await websocket.receive_text())
    except (ValueError, KeyError):
        return _Presented()
    if not isinstance(frame, dict) or frame.get("type") != "auth":
        return _Presented()
    token = frame.get("accessToken")
    return _Presented(token if isinstance(token, str) else None, frame.get("rows") == "lines")


async def _run(
    websocket: WebSocket,
    ticket: Ticket,
    to: Manners,
    metrics: Metrics,
    ended: Callable[[Principal], str | None],
    *,
    lines: bool,
) -> str | None:
    """Send until the query ends, the client disconnects, or the client loses the right to read; return the reason in the last case."""
    revoking = asyncio.create_task(_until_refused(ticket, ended))
    sending = asyncio.create_task(_send(websocket, ticket.result, to, metrics, lines=lines))
    leaving = asyncio.create_task(_until_closed(websocket))
    tasks = {revoking, sending, leaving}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if revoking.cancelled():
        return None
    await _turn_out(websocket, ticket, to, revoking.result())
    return revoking.result()


async def _until_refused(ticket: Ticket, ended: Callable[[Principal], str | None]) -> str:
    while (reason := ended(ticket.principal) or ticket.result.lost()) is None:
        await asyncio.sleep(SIGNED_IN_CHECK_S)
    return reason


async def _turn_out(websocket: WebSocket, ticket: Ticket, to: Manners, reason: str) -> None:
    log.info("stream_revoked", request_id=ticket.statement_id, user=ticket.principal.user, reason=reason)
    refused = UserError(SqlState.INSUFFICIENT_PRIVILEGE, f"the stream was ended: {reason}")
    # A client that does not read would keep the socket open for ever.
    with suppress(TimeoutError, WebSocketDisconnect):
        async with asyncio.timeout(FAREWELL_S):
            await websocket.send_text(error_frame(refused, to))
            await websocket.close(_POLICY_VIOLATION)


async def _until_closed(websocket: WebSocket) -> None:
    # Clients send nothing after their first frame; later frames are ignored.
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def _send(
    websocket: WebSocket, result: LiveResult, to: Manners, metrics: Metrics, *, lines: bool
) -> None:
    try:
        await _send_rows(websocket, result, to, metrics, lines=lines)
        if to is not Manners.OWN:
            await websocket.send_text(error_frame(_end_of_stream(), to))
        await websocket.close(_NORMAL)
    except WebSocketDisconnect:
        return
    except HeadraceError as error:
        log.info("stream_failed", query_id=result.query_id, sqlstate=error.state.value)
        await _fail(websocket, error, to)
    except Exception:
        identifier = str(uuid.uuid4())
        log.exception("stream_broke", query_id=result.query_id, error_id=identifier)
        await _fail(
            websocket, InternalError(f"the stream broke; the server's log has error {identifier}"), to
        )


async def _send_rows(
    websocket: WebSocket, result: LiveResult, to: Manners, metrics: Metrics, *, lines: bool
) -> None:
    await result.started()
    await websocket.send_text(metadata_frame(result.columns, result.changelog_key))
    async for rows in result:
        for frame in data_lines(rows) if lines else data_frames(rows):
            if to is Manners.PYTHON and len(frame) > PYTHON_FRAME_BYTES_MAX:
                raise _row_too_large(len(frame))
            await websocket.send_text(frame)
        metrics.streamed(len(rows.cells))


async def _fail(websocket: WebSocket, error: HeadraceError, to: Manners) -> None:
    try:
        await websocket.send_text(error_frame(error, to))
        await websocket.close(_INTERNAL)
    except WebSocketDisconnect:
        return


def _end_of_stream() -> HeadraceError:
    return UserError(SqlState.NO_DATA, "the stream has ended: there are no more rows")


def _row_too_large(size: int) -> HeadraceError:
    return UserError(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        f"expected rows of at most {PYTHON_FRAME_BYTES_MAX} bytes, the limit of this client, found one of "
        f"{size}",
        hint="Select fewer or smaller columns.",
    )
