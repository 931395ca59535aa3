"""Whose text runs next: a bounded number at a time, of one session fewer, sessions in turn.

A session that sends hundreds of statements at once waits for itself; what another one sends meanwhile is next.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

RUNNING_MAX = 64
RUNNING_PER_SESSION_MAX = 4
"""Texts under way at a time, in all and of one session; more wait. Few of a session, because what they compute shares one
interpreter: with four of the widest statements under way, another session's waits some tens of milliseconds, with sixteen seconds."""

WAITING_MAX = 1024
WAITING_PER_SESSION_MAX = 256
WAIT_S = 15.0
"""How many wait, in all and of one session, and how long; more, and those that waited in vain, are refused."""

RETRY_AFTER_S = 2
"""When a refused client should come again."""

Session = tuple[str, str]
"""A user's name, and the session id that the client sent; those that send none are one session."""


class NoTurnError(Exception):
    """So many texts wait already, or this one waited for too long."""


class Turns:
    """Gives turns, first come first served within a session, round and round between sessions."""

    def __init__(self) -> None:
        self._running: Counter[Session] = Counter()
        self._waiting: OrderedDict[Session, deque[asyncio.Future[None]]] = OrderedDict()

    def turn(self, session: Session) -> AbstractAsyncContextManager[None]:
        """A place in the queue, taken now: entering it waits for the turn, which lasts as long as the block.

        Raises NoTurnError when `session` may not even wait; so does entering, when it waited for too long.
        """
        mine = len(self._waiting.get(session, ()))
        everyone = sum(len(queue) for queue in self._waiting.values())
        if mine >= WAITING_PER_SESSION_MAX or everyone >= WAITING_MAX:
            raise NoTurnError
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(session, deque()).append(turn)
        self._give()
        return self._taken(session, turn)

    @asynccontextmanager
    async def _taken(self, session: Session, turn: asyncio.Future[None]) -> AsyncIterator[None]:
        try:
            await asyncio.wait([turn], timeout=WAIT_S)
            if not turn.done():
                raise NoTurnError
            yield
        finally:
            if turn.done():
                self._running[session] -= 1
                self._running += Counter()  # drops zeros
                self._give()
            else:
                self._leave(session, turn)

    def _give(self) -> None:
        for session in list(self._waiting):
            if self._running.total() >= RUNNING_MAX:
                return
            if self._running[session] >= RUNNING_PER_SESSION_MAX:
                continue
            turn = self._waiting[session][0]
            self._leave(session, turn)
            self._running[session] += 1
            turn.set_result(None)
            # Whoever had a turn goes to the end.
            if session in self._waiting:
                self._waiting.move_to_end(session)

    def _leave(self, session: Session, turn: asyncio.Future[None]) -> None:
        queue = self._waiting[session]
        queue.remove(turn)
        if not queue:
            del self._waiting[session]
