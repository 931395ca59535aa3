"""Tickets: the right to read one live result, once, soon."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import dataclass, field

import structlog

from headrace.catalog.objects import Principal
from headrace.server.ports import LiveResult

log = structlog.get_logger()

TOKEN_BYTES = 32


@dataclass(frozen=True)
class Ticket:
    """A random 256-bit token bound to one statement and its principal."""

    statement_id: str
    principal: Principal
    result: LiveResult = field(repr=False)
    token: str = field(repr=False)


class TicketOffice:
    """Issues one-time tickets, and ends the query of a ticket that is not presented in time.

    The engine's limit of interactive queries also limits the number of tickets.
    """

    def __init__(self, *, grace_ms: int) -> None:
        self._grace_s = grace_ms / 1000
        self._open: dict[bytes, tuple[Ticket, asyncio.TimerHandle]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def issue(self, result: LiveResult, statement_id: str, principal: Principal) -> Ticket:
        """Return a new ticket for `result`, valid for the grace time."""
        ticket = Ticket(statement_id, principal, result, secrets.token_urlsafe(TOKEN_BYTES))
        digest = _digest(ticket.token)
        timer = asyncio.get_running_loop().call_later(self._grace_s, self._expire, digest)
        self._open[digest] = (ticket, timer)
        return ticket

    def redeem(self, token: str, statement_id: str) -> Ticket | None:
        """Remove and return the ticket with this token and statement; None if there is no such ticket."""
        # Looked up by digest, so that the time of a miss reveals nothing about the token.
        digest = _digest(token)
        entry = self._open.get(digest)
        if entry is None or entry[0].statement_id != statement_id:
            return None
        ticket, timer = self._open.pop(digest)
        timer.cancel()
        return ticket

    async def close(self) -> None:
        """Void all tickets and end their queries."""
        tickets = [ticket for ticket, _ in self._open.values()]
        for _, timer in self._open.values():
            timer.cancel()
        self._open.clear()
        await asyncio.gather(*(ticket.result.close() for ticket in tickets), *self._closing)

    def _expire(self, digest: bytes) -> None:
        ticket, _ = self._open.pop(digest)
        log.info("stream_not_read", request_id=ticket.statement_id, query_id=ticket.result.query_id)
        task = asyncio.create_task(ticket.result.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
