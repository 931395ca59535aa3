"""Fair queue for statements: a global limit, lower limits per user and session, round robin between users and their sessions.

A session that sends hundreds of statements at once delays only itself: the next statement of another session runs first.
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

RUNNING_PER_USER_MAX = 16
"""Of one user, however many sessions it opens."""

WAITING_MAX = 1024
WAITING_PER_SESSION_MAX = 256
WAITING_PER_USER_MAX = 512
WAIT_S = 15.0
"""How many wait, in all, of one session and of one user, and how long; more, and those that waited in vain, are refused."""

RETRY_AFTER_S = 2
"""When a refused client should come again."""

Session = tuple[str, str]
"""A user's name, and the session id that the client sent; those that send none are one session."""


class NoTurnError(Exception):
    """Too many texts wait already, or this one waited for too long."""


class Turns:
    """Gives turns: to the user with the fewest first, round robin between sessions, first come first served within a session."""

    def __init__(self) -> None:
        self._running: Counter[Session] = Counter()
        self._waiting: OrderedDict[Session, deque[asyncio.Future[None]]] = OrderedDict()

    def turn(self, session: Session) -> AbstractAsyncContextManager[None]:
        """Return a place in the queue, taken now: entering it waits for the turn, which lasts as long as the block.

        Raises NoTurnError when `session` may not even wait; so does entering, when it waited for too long.
        """
        mine = len(self._waiting.get(session, ()))
        users = Counter[str]()
        for (user, _), queue in self._waiting.items():
            users[user] += len(queue)
        full = users[session[0]] >= WAITING_PER_USER_MAX or users.total() >= WAITING_MAX
        if full or mine >= WAITING_PER_SESSION_MAX:
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
        while self._running.total() < RUNNING_MAX:
            users = Counter[str]()
            for (user, _), running in self._running.items():
                users[user] += running
            free = [
                session
                for session in self._waiting
                if self._running[session] < RUNNING_PER_SESSION_MAX
                and users[session[0]] < RUNNING_PER_USER_MAX
            ]
            if not free:
                return
            # The user with the fewest; of one user the session that has waited longest.
            session = min(free, key=lambda session: users[session[0]])
            turn = self._waiting[session][0]
            self._leave(session, turn)
            self._running[session] += 1
            turn.set_result(None)
            # Round robin: after its turn, a session moves to the end.
            if session in self._waiting:
                self._waiting.move_to_end(session)

    def _leave(self, session: Session, turn: asyncio.Future[None]) -> None:
        queue = self._waiting[session]
        queue.remove(turn)
        if not queue:
            del self._waiting[session]
