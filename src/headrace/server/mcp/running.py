"""Statements of a tool, run as REST runs them, within the limits of rows, bytes and seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, HeadraceError
from headrace.core.resultset import Cell, LiveRows
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server.dataplane.tickets import TicketOffice
from headrace.server.mcp.answers import RefusedError, Rows, refused
from headrace.server.ports import LiveResult
from headrace.server.rest.answers import Failed, Streaming, Succeeded
from headrace.server.rest.runs import StatementRun, StatementRuns, Work
from headrace.server.turns import NoTurnError
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.statements.completion import Completion

SESSION_ID = "mcp"
"""The session of all tools of a user: they take turns."""
START_S = 60.0
"""Seconds that a live result may take to start: a compute pool that starts takes as long."""


@dataclass(frozen=True)
class Caller:
    """The principal of a call and the names that its statements run in."""

    principal: Principal
    context: SessionContext


@dataclass(frozen=True)
class Limits:
    """Limits of a call, at most those of the settings."""

    rows: int
    seconds: float


class ToolStatements:
    """Runs statements for tools."""

    def __init__(
        self,
        settings: Settings,
        runs: StatementRuns,
        tickets: TicketOffice,
        ended: Callable[[Principal], str | None],
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._tickets = tickets
        self._ended = ended

    def limits(self, rows: int | None = None, seconds: float | None = None) -> Limits:
        """Return the requested limits, or those of the settings where they are lower."""
        most_rows, most_seconds = self._settings.mcp_rows_max, self._settings.mcp_seconds_max
        return Limits(min(rows or most_rows, most_rows), min(seconds or most_seconds, most_seconds))

    async def rows(
        self, caller: Caller, text: str, limits: Limits | None = None, *, live: bool = False
    ) -> Rows:
        """Run one statement and return its rows. A live result is collected for a while if `live`, and refused otherwise. Raises
        RefusedError."""
        bounds = limits or self.limits()
        try:
            run = self._runs.submit(Work(text, caller.principal, caller.context, SESSION_ID))
        except NoTurnError:
            raise _too_busy() from None
        answer = await run.answer(bounds.seconds)
        if isinstance(answer, Streaming):
            return await self._live(caller, run, answer, bounds, live=live)
        self._runs.forget(run)
        if answer is None:
            # The statement is not cancelled: it may have changed something already.
            raise refused(
                SqlState.TIMEOUT,
                f"the statement did not end within {bounds.seconds:g} s; it continues on the server",
                "Look at its effect with list_objects, or try a smaller query.",
            )
        if isinstance(answer, Failed):
            raise RefusedError(answer.error)
        if not isinstance(answer, Succeeded):
            raise _too_busy()
        result = answer.result
        rows = Rows(result.columns, result.rows, message=result.message)
        return rows.limited(bounds.rows, self._settings.mcp_bytes_max)

    async def check(self, caller: Caller, text: str) -> list[Diagnostic]:
        """Return the errors of statements, which are not run. Raises RefusedError."""
        try:
            async with asyncio.timeout(self._settings.mcp_seconds_max):
                work = Work(text, caller.principal, caller.context, SESSION_ID)
                return list((await self._runs.check(work)).diagnostics)
        except NoTurnError:
            raise _too_busy() from None
        except TimeoutError:
            raise refused(SqlState.TIMEOUT, "the check took too long", "Check fewer statements.") from None

    async def complete(self, caller: Caller, text: str, offset: int) -> Completion:
        """Return what can be typed at a position of a text. Raises RefusedError."""
        try:
            async with asyncio.timeout(self._settings.mcp_seconds_max):
                return await self._runs.complete(
                    text, offset, caller.principal, caller.context, session_id=SESSION_ID
                )
        except NoTurnError:
            raise _too_busy() from None
        except TimeoutError:
            raise refused(SqlState.TIMEOUT, "the completion took too long", "Shorten the text.") from None

    def limited(self, rows: Rows) -> Rows:
        """Return the rows within the limits of the settings."""
        return rows.limited(self._settings.mcp_rows_max, self._settings.mcp_bytes_max)

    async def _live(
        self, caller: Caller, run: StatementRun, answer: Streaming, limits: Limits, *, live: bool
    ) -> Rows:
        ticket = self._tickets.redeem(answer.ticket.token, run.envelope.statement_id)
        self._runs.forget(run)
        if ticket is None:
            raise refused(SqlState.CANCELLED, "the result has expired", "Run the statement again.")
        try:
            if not live:
                raise refused(
                    SqlState.FEATURE_NOT_SUPPORTED,
                    "the result of the statement is live",
                    "Use the tool select or sample_relation, which collect rows for a while.",
                )
            return await self._collected(caller, ticket.result, limits)
        except HeadraceError as error:
            raise RefusedError(error.diagnostic()) from None
        finally:
            await asyncio.shield(ticket.result.close())

    async def _collected(self, caller: Caller, live: LiveResult, limits: Limits) -> Rows:
        try:
            async with asyncio.timeout(START_S):
                await live.started()
        except TimeoutError:
            raise refused(
                SqlState.TIMEOUT,
                f"the query did not start within {START_S:g} s",
                "The compute pool may still be starting: try again.",
            ) from None
        cells: list[list[Cell]] = []
        kinds: list[str] = []
        truncated: str | None = "rows"
        size = 0
        try:
            async with (
                asyncio.timeout(limits.seconds),
                aclosing(cast("AsyncGenerator[LiveRows]", aiter(live))) as batches,
            ):
                async for batch in batches:
                    self._refuse_ended(caller, live)
                    cells += batch.cells
                    kinds += batch.kinds or []
                    size += sum(len(cell or "") for row in batch.cells for cell in row)
                    if len(cells) > limits.rows or size > self._settings.mcp_bytes_max:
                        break
                else:
                    truncated = None
        except TimeoutError:
            truncated = "seconds"
        self._refuse_ended(caller, live)
        rows = Rows(live.columns, cells, kinds or None, truncated, live.message)
        return rows.limited(limits.rows, self._settings.mcp_bytes_max)

    def _refuse_ended(self, caller: Caller, live: LiveResult) -> None:
        reason = self._ended(caller.principal) or live.lost()
        if reason is not None:
            raise refused(SqlState.INSUFFICIENT_PRIVILEGE, f"the result was ended: {reason}")


async def only_statement(text: str) -> Statement:
    """Return the statement of a text that must contain exactly one. Raises RefusedError."""
    try:
        # In a thread: a text of megabytes takes seconds.
        statements = await asyncio.to_thread(parse, text)
    except HeadraceError as error:
        raise RefusedError(error.diagnostic()) from None
    if len(statements) != 1:
        raise refused(
            SqlState.SYNTAX_ERROR,
            f"expected one statement, found {len(statements)}",
            "Call the tool once for each statement.",
        )
    return statements[0]


def _too_busy() -> RefusedError:
    return refused(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED, "too many statements are running", "Try again soon."
    )
