"""Wide statements: how wide they may be, and that nobody waits for one but who sent it."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from pathlib import Path

import httpx
import pytest

from harness.session import ADMINISTRATOR, Session
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from headrace.sql.limits import COLUMNS_MAX

NAMES = [f"column_{number}" for number in range(COLUMNS_MAX + 1)]


def declared(count: int) -> str:
    columns = ", ".join(f"{name} BIGINT" for name in NAMES[:count])
    return f"DESCRIBE CREATE STREAM wide ({columns}) WITH ('value.format' = JSON)"


def selected(count: int) -> str:
    return f"EXPLAIN SELECT {', '.join(f'n + {number} AS {name}' for number, name in enumerate(NAMES[:count]))} FROM orders"


@pytest.mark.parametrize(
    "text", [declared(COLUMNS_MAX + 1), selected(COLUMNS_MAX + 1)], ids=["create", "select"]
)
async def test_a_statement_has_a_bounded_number_of_columns(session: Session, text: str) -> None:
    await session.run("USE DATABASE shop; USE STORE k")
    with pytest.raises(UserError, match=f"expected {COLUMNS_MAX} columns at most") as refused:
        await session.run(text)
    assert refused.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert refused.value.span is not None
    assert text[refused.value.span.start :].startswith((NAMES[-1], f"n + {COLUMNS_MAX}"))


async def test_stars_count_too(session: Session) -> None:
    await session.run("USE DATABASE shop")
    with pytest.raises(UserError, match="columns"):
        await session.run(f"EXPLAIN SELECT {', '.join(['*'] * (COLUMNS_MAX + 1))} FROM orders")


def work_seen(loop: int, over: threading.Event) -> tuple[set[str], set[str]]:
    """The packages that the thread of the event loop, and the other threads, are found at work in until it is over."""
    on_loop: set[str] = set()
    elsewhere: set[str] = set()
    while not over.wait(0.001):
        for thread, frame in sys._current_frames().items():
            seen = on_loop if thread == loop else elsewhere
            seen.update(
                ".".join(at.f_globals["__name__"].split(".")[:2]) for at, _ in traceback.walk_stack(frame)
            )
    return on_loop, elsewhere


@pytest.mark.parametrize("text", [declared(COLUMNS_MAX), selected(COLUMNS_MAX)], ids=["create", "select"])
async def test_a_wide_statement_is_planned_beside_the_event_loop(
    session: Session, tmp_path: Path, text: str
) -> None:
    app = create_app(ServerParts(Settings(data_dir=tmp_path), session.service, lambda _token: ADMINISTRATOR))
    over = threading.Event()
    watching = asyncio.create_task(asyncio.to_thread(work_seen, threading.get_ident(), over))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://headrace", headers={"Authorization": "Bearer x"}
    ) as http:
        wide = await http.post("/v2/statements", json={"statement": text, "database": "shop", "store": "k"})
    over.set()
    on_loop, elsewhere = await watching
    assert wide.json()["sqlState"] == "00000"
    planning = {"headrace.sql", "headrace.analyzer", "headrace.planner"}
    assert planning & elsewhere
    assert not planning & on_loop
