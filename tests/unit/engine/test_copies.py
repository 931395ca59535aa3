"""Copies of checkpoints of queries that start meanwhile, without a driver process."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checkpoint import write_checkpoint
from headrace.catalog.objects import Query, QueryKind, QueryState
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState
from headrace.engine import copies
from headrace.engine.checkpoint_copy import Border
from headrace.engine.checkpoints import Checkpoints
from headrace.engine.copies import Copies
from headrace.engine.protocol import CheckpointCopied, CopyCheckpoint
from tests.unit.engine.conftest import plan

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NAME = RelationName("d", "s", "r")
QUERY = Query(
    id="q",
    name=None,
    version=1,
    kind=QueryKind.INSERT_INTO,
    sql="INSERT …",
    plan=plan("runs").to_json(),
    sink=NAME,
    sources=(NAME,),
    compute_pool="p",
    actual_state=QueryState.STARTING,
    owner="sysadmin",
    created_at=NOW,
    updated_at=NOW,
)


class StartingDriver:
    """Driver that runs the query from the `asks`-th copy on that is requested: then one more batch is finished."""

    def __init__(self, folder: Path, asks: int) -> None:
        self.copies = Copies(Checkpoints(folder), lambda _query: self._if_known())
        self.asked: list[CopyCheckpoint] = []
        self.is_known: Callable[[], bool] = lambda: True
        self._folder = folder
        self._asks = asks

    def sees(self, _folder: Path) -> bool:
        return True

    def send(self, message: CopyCheckpoint) -> bool:
        self.asked.append(message)
        is_running = len(self.asked) >= self._asks
        if is_running:
            write_checkpoint(Path(message.target), batches=4)
        answer = CheckpointCopied(sequence=message.sequence, is_running=is_running, batch=3)
        asyncio.get_running_loop().call_soon(self.copies.copied, answer)
        return True

    def _if_known(self) -> Any:
        return self if self.is_known() else None


@pytest.fixture
def starting(tmp_path: Path) -> StartingDriver:
    write_checkpoint(tmp_path / "q", batches=3)
    return StartingDriver(tmp_path, 3)


async def test_a_query_that_is_to_end_is_copied_when_it_runs(
    starting: StartingDriver, tmp_path: Path
) -> None:
    """Otherwise it would write the batches that it begins before it ends, and so would the query that continues from the copy."""
    last = await starting.copies.copy(QUERY, tmp_path / "copy", hold=True)
    assert last == Border(3, is_interrupted=False, is_final=True)
    assert [message.hold for message in starting.asked] == [True] * 3


async def test_a_query_that_starts_while_it_is_copied_is_copied_again(
    starting: StartingDriver, tmp_path: Path
) -> None:
    # When it is asked for its copy, and before the server copies.
    unknown = iter([False, False])
    starting.is_known = lambda: next(unknown, True)
    last = await starting.copies.copy(QUERY, tmp_path / "copy", hold=True)
    assert last == Border(3, is_interrupted=False, is_final=True)


async def test_a_query_that_does_not_start_is_not_copied_for_its_end(
    starting: StartingDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "START_WAIT_S", 0.0)
    with pytest.raises(UserError, match="the query q is starting") as refused:
        await starting.copies.copy(QUERY, tmp_path / "copy", hold=True)
    assert refused.value.state is SqlState.RELATION_NOT_READY
    assert not (tmp_path / "copy").exists()
    # If it runs on, the copy may lack what it is about to write.
    assert await starting.copies.copy(QUERY, tmp_path / "copy") == Border(2, is_interrupted=False)


async def test_a_query_that_no_driver_has_is_copied_at_rest(starting: StartingDriver, tmp_path: Path) -> None:
    starting.is_known = lambda: False
    assert await starting.copies.copy(QUERY, tmp_path / "copy", hold=True) == Border(2, is_interrupted=False)
