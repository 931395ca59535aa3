"""The way of the tests into a server: REST v2 and the data plane."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from headrace.client import Client, LiveRow, SqlError
from headrace.core.context import SessionContext
from headrace.core.sqlstate import SqlState
from headrace.testing.runner import Rows, StatementError
from headrace.testing.script import ExpectationError
from headrace.testing.server import ServerProcess

T = TypeVar("T")


class Loop:
    """An event loop in a thread, for tests that are written without one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """Stop the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def first_rows(rows: AsyncIterator[LiveRow], *, count: int, seconds: float) -> list[LiveRow]:
    """Return the first `count` rows, fewer when the time is up."""
    live_rows: list[LiveRow] = []
    try:
        async with asyncio.timeout(seconds):
            async for row in rows:
                live_rows.append(row)
                if len(live_rows) >= count:
                    break
    except TimeoutError:
        pass
    return live_rows


class RestDoor:
    """REST v2 and the WebSocket data plane of a server process."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._loop = Loop()
        self._context = SessionContext("")

    def execute(self, sql: str, files: Mapping[str, bytes] | None = None) -> Rows:
        """Run a text; return the rows of its last statement. Raises StatementError."""
        return self._loop.run(self._execute(sql, files or {}))

    def stream(self, sql: str, *, count: int, when_live: Callable[[], None]) -> list[LiveRow]:
        """Return the first rows of a live result; `when_live` runs once it reads. Raises StatementError."""
        return self._loop.run(self._stream(sql, count, when_live))

    def fault(self, words: list[str]) -> None:
        """Restart or kill the server, or kill its drivers; return when the server answers again."""
        if words == ["kill", "driver"]:
            self._server.kill_driver()
            return
        if words == ["kill", "server"]:
            self._server.kill()
        elif words == ["restart", "server"]:
            self._server.stop()
        else:
            raise ExpectationError("expected restart server, kill server or kill driver")
        self._server.start()

    def close(self) -> None:
        """Release the event loop."""
        self._loop.close()

    async def _execute(self, sql: str, files: Mapping[str, bytes]) -> Rows:
        async with Client(self._server.url, self._server.token, context=self._context) as client:
            try:
                answer = await client.execute(sql, files=files)
            except SqlError as error:
                raise self._failure(error) from None
            self._context = answer.context
            return [list(row) for row in answer.rows]

    async def _stream(self, sql: str, count: int, when_live: Callable[[], None]) -> list[LiveRow]:
        async with Client(self._server.url, self._server.token, context=self._context) as client:
            try:
                answer = await client.execute(sql)
                loop = asyncio.get_running_loop()
                acting: list[asyncio.Future[None]] = []
                rows = answer.stream(
                    on_started=lambda _: acting.append(loop.run_in_executor(None, when_live))
                )
                try:
                    return await first_rows(rows, count=count, seconds=self._server.patience.seconds)
                finally:
                    await rows.aclose()
                    await asyncio.gather(*acting)
            except SqlError as error:
                raise self._failure(error) from None

    def _failure(self, error: SqlError) -> StatementError:
        place = f" at line {error.line}, column {error.column}" if error.line else ""
        hint = f"\nHint: {error.hint}" if error.hint else ""
        # The client's part of an internal error is not enough to fix it.
        log = f"\n{self._server.driver_logs()}" if error.sqlstate == SqlState.INTERNAL_ERROR.value else ""
        return StatementError(error.sqlstate, f"{error.message}{place}{hint}{log}")
