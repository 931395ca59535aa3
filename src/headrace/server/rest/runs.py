"""Statements that run, and results that clients may still request."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import structlog

from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, ErrorDomain, HeadraceError
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.server.dataplane.tickets import TicketOffice
from headrace.server.metrics import Metrics
from headrace.server.ports import StatementRunner
from headrace.server.rest.answers import Answer, Envelope, Failed, Streaming, Succeeded, TurnedAway
from headrace.server.turns import NoTurnError, Turns
from headrace.session.checking import Checked
from headrace.statements.completion import Completion
from headrace.statements.desired_state import Plan
from headrace.statements.language import Language

log = structlog.get_logger()

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
KEPT_MAX = 256
KEPT_S = 600.0
KEPT_ROWS_MAX = 250_000
"""Finished results are kept for further partitions and late polls: of each user so many, so long, of so many rows in all. The newest
one is kept whatever its size."""


class _Answering(Protocol[T_co]):
    """A function of `StatementRunner` that answers about a text without running it."""

    async def __call__(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> T_co: ...


@dataclass(frozen=True)
class Work:
    """A text with its principal, its session and the files that came with it."""

    text: str = field(repr=False)
    principal: Principal
    context: SessionContext
    session_id: str
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass
class StatementRun:
    """A submitted text, running or done; `task` never raises (but may be cancelled at shutdown)."""

    envelope: Envelope
    principal: Principal
    task: asyncio.Task[Answer]
    pages: int = 1
    fetched: set[int] = field(default_factory=set)
    """The partitions of the result, and those that the client has fetched."""
    prefix: str = field(default="", repr=False)
    """Start of the text that the server wrote: positions of errors are shown from its end on."""

    async def answer(self, timeout_s: float) -> Answer | None:
        """Return the answer, or None when it is not there in time."""
        await asyncio.wait({self.task}, timeout=timeout_s)
        return self.task.result() if self.task.done() else None

    @property
    def is_unread(self) -> bool:
        """True if the client has not fetched all partitions yet."""
        return len(self.fetched) < self.pages

    @property
    def kept_rows(self) -> int:
        """The number of rows in memory."""
        if not self.task.done() or self.task.cancelled():
            return 0
        answer = self.task.result()
        return len(answer.result.rows) if isinstance(answer, Succeeded) else 0


class StatementRuns:
    """Starts statements and remembers them, within bounds."""

    def __init__(
        self, statements: StatementRunner, tickets: TicketOffice, metrics: Metrics, turns: Turns
    ) -> None:
        self._statements = statements
        self._tickets = tickets
        self._metrics = metrics
        self._runs: OrderedDict[str, StatementRun] = OrderedDict()
        self._turns = turns

    def submit(self, work: Work) -> StatementRun:
        """Start a text when it is its session's turn; raises NoTurnError when too many wait already."""
        principal = work.principal
        turn = self._turn(work)
        self._forget(principal.user)
        envelope = Envelope(str(uuid.uuid4()), int(time.time()))
        task = asyncio.create_task(self._in_turn(turn, envelope.statement_id, work))
        run = StatementRun(envelope, principal, task)
        self._runs[envelope.statement_id] = run
        return run

    async def check(self, work: Work) -> Checked:
        """Check a text in its session's turn, without running it, and return its statements and errors; raises NoTurnError."""
        return await self._unrun(work, self._statements.check, lambda error: Checked((error,)))

    async def plan(self, work: Work) -> Plan:
        """Compare the state that a text describes with what exists, in its session's turn; raises NoTurnError."""
        return await self._unrun(work, self._statements.plan, lambda error: Plan((), (error,)))

    async def complete(
        self, text: str, offset: int, principal: Principal, context: SessionContext, *, session_id: str
    ) -> Completion:
        """Return what can be typed at `offset` of `text`, in its session's turn; nothing for a session that does not exist. Raises
        NoTurnError."""
        async with self._turns.turn((principal.user, session_id)):
            try:
                return await self._statements.complete(text, offset, principal=principal, context=context)
            except HeadraceError:
                return Completion(offset, offset)

    async def language(self) -> Language:
        """Return the language of this version."""
        return await self._statements.language()

    def find(self, statement_id: str, principal: Principal) -> StatementRun | None:
        """Return a remembered run of the same user, by a token of the same roles."""
        run = self._runs.get(statement_id)
        asks = (principal.user, principal.roles)
        return run if run and asks == (run.principal.user, run.principal.roles) else None

    def forget(self, run: StatementRun) -> None:
        """Drop the result of a run that is done, of which no client will fetch a partition."""
        if run.task.done():
            self._runs.pop(run.envelope.statement_id, None)

    async def close(self) -> None:
        """End all running statements."""
        tasks = [run.task for run in self._runs.values() if not run.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._runs.clear()

    def _forget(self, user: str) -> None:
        """Drop expired runs, and the runs of `user` beyond the limit except the newest: runs that were read first, then the oldest."""
        finished = {identifier: run for identifier, run in self._runs.items() if run.task.done()}
        oldest = time.time() - KEPT_S
        for identifier, run in finished.items():
            if run.envelope.created_on <= oldest:
                del self._runs[identifier]
        mine = [
            identifier
            for identifier, run in finished.items()
            if run.principal.user == user and identifier in self._runs
        ]
        rows = sum(self._runs[identifier].kept_rows for identifier in mine)
        surplus = len(mine) - KEPT_MAX
        for identifier in sorted(mine[:-1], key=lambda identifier: self._runs[identifier].is_unread):
            if surplus <= 0 and rows <= KEPT_ROWS_MAX:
                break
            surplus -= 1
            rows -= self._runs[identifier].kept_rows
            del self._runs[identifier]

    def _turn(self, work: Work) -> AbstractAsyncContextManager[None]:
        return self._turns.turn((work.principal.user, work.session_id))

    async def _unrun(self, work: Work, answer: _Answering[T], failed: Callable[[Diagnostic], T]) -> T:
        """Return the answer about a text that is not run, in its session's turn; `failed` is the answer with an error alone."""
        async with self._turn(work):
            try:
                return await answer(
                    work.text, principal=work.principal, context=work.context, files=work.files
                )
            except HeadraceError as error:
                return failed(error.diagnostic())
            except Exception:  # noqa: BLE001 - a defect of ours, which is logged
                return failed(broke("statement_broke"))

    async def _in_turn(self, turn: AbstractAsyncContextManager[None], identifier: str, work: Work) -> Answer:
        try:
            async with turn:
                return await self._run(identifier, work)
        except NoTurnError:
            self._metrics.turned_away()
            return TurnedAway()

    async def _run(self, identifier: str, work: Work) -> Answer:
        # Every log line of the statement carries this id, which the client also receives.
        structlog.contextvars.bind_contextvars(request_id=identifier)
        start = time.perf_counter()
        answer = await self._answer(identifier, work)
        sqlstate = answer.error.sqlstate if isinstance(answer, Failed) else SqlState.SUCCESS.value
        self._metrics.finished(sqlstate, time.perf_counter() - start)
        return answer

    async def _answer(self, identifier: str, work: Work) -> Answer:
        settled = partial(self._statements.settled, work.context, work.principal)
        try:
            executed = await self._statements.execute(
                work.text, principal=work.principal, context=work.context, files=work.files
            )
        except HeadraceError as error:
            # The user's mistakes are in the session's line of the log; our own leave their trace.
            if error.domain is ErrorDomain.INTERNAL:
                log.exception("statement_failed", sqlstate=error.state.value)
            return Failed(error.diagnostic(), error.text(), settled())
        except Exception:  # noqa: BLE001 - a defect of ours, which is logged
            diagnostic = broke("statement_broke")
            return Failed(diagnostic, diagnostic.message, settled())
        outcome = executed.outcome
        if isinstance(outcome, ResultSet):
            return Succeeded(outcome, executed.context, executed.statement_ids)
        ticket = self._tickets.issue(outcome, identifier, work.principal)
        return Streaming(ticket, executed.context, executed.statement_ids)


def broke(event: str) -> Diagnostic:
    """Return the diagnostic of an internal error; its trace is in the log."""
    error_id = str(uuid.uuid4())
    log.exception(event, error_id=error_id)
    message = f"internal server error; the server's log contains the details under {error_id}"
    return Diagnostic(SqlState.INTERNAL_ERROR.value, message)
