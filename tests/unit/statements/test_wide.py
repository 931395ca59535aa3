"""Wide statements: how wide they may be, and that nobody waits for one but who sent it."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from pathlib import Path

import httpx
import pytest

from harness.patience import PATIENCE_S
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


PLANNING = ("headrace.sql.", "headrace.analyzer.", "headrace.planner.")


def planning_seen(loop: int, over: threading.Event) -> tuple[int, int]:
    """Return how often the thread of the event loop, and any other thread, was seen planning until it is over."""
    on_loop = elsewhere = 0
    while not over.wait(0.001):
        for thread, frame in sys._current_frames().items():
            if any(at.f_globals["__name__"].startswith(PLANNING) for at, _ in traceback.walk_stack(frame)):
                on_loop, elsewhere = on_loop + (thread == loop), elsewhere + (thread != loop)
    return on_loop, elsewhere


@pytest.mark.parametrize("text", [declared(COLUMNS_MAX), selected(COLUMNS_MAX)], ids=["create", "select"])
async def test_a_wide_statement_is_planned_beside_the_event_loop(
    session: Session, tmp_path: Path, text: str
) -> None:
    settings = Settings(data_dir=tmp_path, statement_timeout_ms=int(PATIENCE_S * 1000))
    app = create_app(ServerParts(settings, session.service, lambda _token: ADMINISTRATOR))
    over = threading.Event()
    watching = asyncio.create_task(asyncio.to_thread(planning_seen, threading.get_ident(), over))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://headrace", headers={"Authorization": "Bearer x"}
    ) as http:
        wide = await http.post("/v2/statements", json={"statement": text, "database": "shop", "store": "k"})
    over.set()
    on_loop, elsewhere = await watching
    assert wide.json()["sqlState"] == "00000"
    assert elsewhere
    # The loop may look at the finished statement for a moment, as the log and the audit do: longer on a busy machine.
    assert on_loop * 4 <= elsewhere
