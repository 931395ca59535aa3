"""Two ways into the product: over REST to a server process, and in process without any door in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.patience import PATIENCE_S
from harness.process import HeadraceProcess
from harness.slt import Rows, StatementError
from headrace.client import Client, LiveRow, SqlError
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError
from headrace.core.resultset import LiveRows, ResultSet
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.session import Executed

T = TypeVar("T")


class Loop:
    """An event loop in a thread, for tests that are written without one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """Stop the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def first_rows(rows: AsyncIterator[LiveRow], *, count: int) -> list[LiveRow]:
    """The first `count` rows, fewer when the time is up."""
    live_rows: list[LiveRow] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for row in rows:
                live_rows.append(row)
                if len(live_rows) >= count:
                    break
    except TimeoutError:
        pass
    return live_rows


class RestDoor:
    """REST v2 and the WebSocket data plane of a server process."""

    def __init__(self, server: HeadraceProcess) -> None:
        self._server = server
        self._loop = Loop()
        self._context = SessionContext("")

    def execute(self, sql: str, files: Mapping[str, bytes] | None = None) -> Rows:
        return self._loop.run(self._execute(sql, files or {}))

    def stream(self, sql: str, *, count: int, when_live: Callable[[], None]) -> list[LiveRow]:
        return self._loop.run(self._stream(sql, count, when_live))

    def fault(self, words: list[str]) -> None:
        if words == ["kill", "driver"]:
            self._server.kill_driver()
            return
        if words == ["kill", "server"]:
            self._server.kill()
        else:
            self._server.stop()
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
                    return await first_rows(rows, count=count)
                finally:
                    await rows.aclose()
                    await asyncio.gather(*acting)
            except SqlError as error:
                raise self._failure(error) from None

    def _failure(self, error: SqlError) -> StatementError:
        place = f" at line {error.line}, column {error.column}" if error.line else ""
        hint = f"\nHint: {error.hint}" if error.hint else ""
        # What a user is told of an error of our own does not say enough to mend it.
        log = f"\n{self._server.driver_logs()}" if error.sqlstate == SqlState.INTERNAL_ERROR.value else ""
        return StatementError(error.sqlstate, f"{error.message}{place}{hint}{log}")


class InProcessDoor:
    """The real services in this process. The driver of its compute pool is a process of its own, or is missing without `pools`."""

    def __init__(self, data_dir: Path, *, pools: bool = True) -> None:
        self._pools = pools
        self._loop = Loop()
        self._data_dir = data_dir
        self._context = SessionContext("")
        self._loop.run(self._open())

    def execute(self, sql: str, files: Mapping[str, bytes] | None = None) -> Rows:
        executed = self._loop.run(self._run(sql, files))
        assert isinstance(executed.outcome, ResultSet), "this statement has a live result"
        return [list(row) for row in executed.outcome.rows]

    def stream(self, sql: str, *, count: int, when_live: Callable[[], None]) -> list[LiveRow]:
        return self._loop.run(self._stream(sql, count, when_live))

    def fault(self, words: list[str]) -> None:
        if words == ["restart", "server"]:
            self._loop.run(self._close())
            self._loop.run(self._open())
            return
        raise AssertionError(f"cannot {' '.join(words)} in process")

    def close(self) -> None:
        """Stop the services."""
        self._loop.run(self._close())
        self._loop.close()

    async def _open(self) -> None:
        from headrace.catalog.catalog import Catalog
        from headrace.engine.engine import Engine
        from headrace.session import StatementService
        from headrace.statements.base import Services

        settings = Settings(data_dir=self._data_dir)
        self._catalog = Catalog.open(self._data_dir)
        self._catalog.ensure_administrator("in-process")
        self._engine = Engine(self._catalog, settings)
        if self._pools:
            await self._engine.start()
        self._service = StatementService(Services(self._catalog, self._engine, settings))

    async def _close(self) -> None:
        await self._engine.stop()
        self._catalog.close()

    async def _run(self, sql: str, files: Mapping[str, bytes] | None = None) -> Executed:
        principal = self._catalog.authenticate("in-process")
        assert principal is not None
        try:
            executed = await self._service.execute(
                sql, principal=principal, context=self._context, files=files
            )
        except HeadraceError as error:
            raise StatementError(error.state.value, error.text()) from None
        self._context = executed.context
        return executed

    async def _stream(self, sql: str, count: int, when_live: Callable[[], None]) -> list[LiveRow]:
        executed = await self._run(sql)
        channel = executed.outcome
        assert not isinstance(channel, ResultSet), "this statement has no live result"
        try:
            async with asyncio.timeout(PATIENCE_S):
                await channel.started()
            acting = asyncio.get_running_loop().run_in_executor(None, when_live)
            rows = await first_rows(
                (row async for batch in channel for row in _rows(batch)),
                count=count,
            )
            await acting
            return rows
        except HeadraceError as error:
            raise StatementError(error.state.value, error.text()) from None
        finally:
            await channel.close()


def _rows(batch: LiveRows) -> Iterator[LiveRow]:
    kinds = batch.kinds or [None] * len(batch.cells)
    return (LiveRow(tuple(row), kind) for row, kind in zip(batch.cells, kinds, strict=True))
