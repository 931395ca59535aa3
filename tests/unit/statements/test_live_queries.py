"""Interactive queries that run now, as a system relation; the engine's channels are scripted, since no driver runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.session import Session, open_session
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.resultset import LiveRows, ResultColumn
from headrace.engine.results import ResultChannel
from tests.unit.statements.test_audit import AUDITOR

LIVE = "SELECT user_name, role_name, state, rows_read, statement FROM deltastream.sys.live_queries"
TEXT = "SELECT n FROM shop.public.orders WITH ('starting.position' = 'earliest')"


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Session]:
    async with open_session(tmp_path) as opened:

        async def run_interactive(*_arguments: Any, **_named: Any) -> ResultChannel:
            return ResultChannel("q", (ResultColumn("n"),), 100)

        monkeypatch.setattr(opened.engine, "run_interactive", run_interactive)
        yield opened


async def test_a_query_is_shown_until_its_reader_leaves(session: Session) -> None:
    executed = await session.service.execute(
        TEXT, principal=session.principal, context=SessionContext(""), files={}
    )
    channel = executed.outcome
    assert isinstance(channel, ResultChannel)
    shown = (session.principal.user, session.principal.default_role)
    assert await session.answer(LIVE, session.principal) == [(*shown, "starting", "0", TEXT)]
    await channel.put(LiveRows([["1"], ["2"]]))
    async for rows in channel:
        assert len(rows.cells) == 2
        break
    assert await session.answer(LIVE, session.principal) == [(*shown, "running", "2", TEXT)]

    others = Principal("bob", ("public",), "public")
    assert await session.answer(LIVE, others) == []
    assert len(await session.answer(LIVE, AUDITOR)) == 1

    await channel.close()
    assert await session.answer(LIVE, session.principal) == []


async def test_a_bounded_result_is_no_live_query(session: Session) -> None:
    await session.run("LIST STORES; SELECT name FROM deltastream.sys.stores")
    assert await session.answer(LIVE, session.principal) == []


async def test_the_message_of_a_live_result_warns_in_sentences(session: Session) -> None:
    executed = await session.service.execute(
        "SELECT n, COUNT(*) AS rows_of_it FROM shop.public.orders GROUP BY n",
        principal=session.principal,
        context=SessionContext(""),
        files={},
    )
    assert isinstance(executed.outcome, ResultChannel)
    assert executed.outcome.message == (
        "Only records of shop_orders that arrive from now on are read. Write WITH ('starting.position' = 'earliest') "
        "after the name of a relation to read its earlier records too. Warning: the state of GROUP BY orders.n is "
        "unbounded: QUERY WITH ('state.ttl.millis' = …) limits it."
    )
