"""A way into the product without a door: the services in the process of the tests. The other way is `headrace.testing.door`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness.patience import PATIENCE_S
from headrace.client import LiveRow
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError
from headrace.core.resultset import LiveRows, ResultSet
from headrace.core.settings import Settings
from headrace.session import Executed
from headrace.testing.door import Loop, first_rows
from headrace.testing.runner import Rows, StatementError


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
                seconds=PATIENCE_S,
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
