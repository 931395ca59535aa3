"""Floods: sessions take turns, no session starves, and requests beyond the queue's limit get a time for a retry."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI

from harness.patience import PATIENCE_S
from headrace.core.resultset import ResultSet
from headrace.server import turns
from tests.unit.server.scripted import ScriptedStatements, serving


class Gate:
    """Statements that wait until they are let go on."""

    def __init__(self, statements: ScriptedStatements) -> None:
        self._statements = statements
        self._open = asyncio.Event()

    def hold(self, *texts: str) -> None:
        async def step() -> ResultSet:
            await self._open.wait()
            return ResultSet()

        self._statements.steps.update(dict.fromkeys(texts, step))

    def open(self) -> None:
        self._open.set()


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.01)


async def send(http: httpx.AsyncClient, text: str, session: str | None) -> httpx.Response:
    parameters = {} if session is None else {"sessionID": session}
    return await http.post("/v2/statements", json={"statement": text, "parameters": parameters})


async def settled(http: httpx.AsyncClient, answer: httpx.Response) -> httpx.Response:
    """The answer, polled for if it was not there in time."""
    async with asyncio.timeout(PATIENCE_S):
        while answer.status_code == 202:
            answer = await http.get(f"/v2/statements/{answer.json()['statementID']}")
    return answer


@pytest.mark.parametrize("greedy", ["g", None])
async def test_a_flood_of_one_session_holds_up_no_other(
    http: httpx.AsyncClient,
    statements: ScriptedStatements,
    monkeypatch: pytest.MonkeyPatch,
    greedy: str | None,
) -> None:
    monkeypatch.setattr(turns, "WAIT_S", PATIENCE_S)
    gate = Gate(statements)
    gate.hold("GREEDY")
    flood = [asyncio.create_task(send(http, "GREEDY", greedy)) for _ in range(500)]
    refused = 500 - turns.RUNNING_PER_SESSION_MAX - turns.WAITING_PER_SESSION_MAX
    await eventually(
        lambda: sum(task.done() and task.result().status_code == 503 for task in flood) == refused
    )
    await eventually(lambda: statements.texts == ["GREEDY"] * turns.RUNNING_PER_SESSION_MAX)

    mine = await settled(http, await send(http, "MINE", "mine"))
    assert mine.status_code == 200
    assert statements.texts[-1] == "MINE"
    again = await http.get(f"/v2/statements/{mine.json()['statementID']}")
    assert again.status_code == 200

    gate.open()
    answers = await asyncio.gather(*flood)
    assert sum(answer.status_code in (200, 202) for answer in answers) == 500 - refused
    await eventually(lambda: statements.texts.count("GREEDY") == 500 - refused)
    for answer in answers:
        if answer.status_code == 503:
            assert int(answer.headers["Retry-After"]) > 0
            assert set(answer.json()) == {"message"}
    metrics = (await http.get("/metrics")).text
    assert f"headrace_statements_turned_away_total {refused}.0" in metrics


async def test_waiting_has_an_end(
    http: httpx.AsyncClient, statements: ScriptedStatements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "RUNNING_PER_SESSION_MAX", 1)
    monkeypatch.setattr(turns, "WAIT_S", 0.05)
    gate = Gate(statements)
    gate.hold("LONG")
    first = asyncio.create_task(send(http, "LONG", "s"))
    await eventually(lambda: statements.texts == ["LONG"])
    late = await settled(http, await send(http, "LATE", "s"))
    assert late.status_code == 503
    assert "Retry-After" in late.headers
    gate.open()
    assert (await first).status_code in (200, 202)
    assert (await settled(http, await send(http, "NEXT", "s"))).status_code == 200
    assert statements.texts == ["LONG", "NEXT"]


@pytest.mark.parametrize("limits", [{"statement_timeout_ms": 50}])
async def test_a_statement_that_was_answered_202_and_found_no_turn_is_a_503_when_polled(
    http: httpx.AsyncClient, statements: ScriptedStatements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "RUNNING_PER_SESSION_MAX", 1)
    monkeypatch.setattr(turns, "WAIT_S", 2)
    gate = Gate(statements)
    gate.hold("LONG")
    assert (await send(http, "LONG", "s")).status_code == 202
    waiting = await send(http, "LATE", "s")
    assert waiting.status_code == 202
    assert (await settled(http, waiting)).status_code == 503
    gate.open()


async def test_waiting_sessions_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "RUNNING_MAX", 2)
    queue = turns.Turns()
    order: list[str] = []
    leave = asyncio.Event()

    async def run(name: str, session: str) -> None:
        async with queue.turn(("user", session)):
            order.append(name)
            await leave.wait()

    names = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("a4", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")]
    tasks = []
    for name, session in names:
        tasks.append(asyncio.create_task(run(name, session)))
        await asyncio.sleep(0)
    await eventually(lambda: order == ["a1", "a2"])
    leave.set()
    await asyncio.gather(*tasks)
    assert order == ["a1", "a2", "a3", "b1", "c1", "a4", "b2"]


async def test_sessions_of_one_user_do_not_keep_another_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "RUNNING_PER_USER_MAX", 3)
    monkeypatch.setattr(turns, "WAITING_PER_USER_MAX", 17)
    queue = turns.Turns()
    order: list[str] = []
    leave = asyncio.Event()

    async def run(user: str, session: int) -> None:
        async with queue.turn((user, str(session))):
            order.append(user)
            await leave.wait()

    greedy = [asyncio.create_task(run("greedy", session)) for session in range(20)]
    await asyncio.sleep(0)
    with pytest.raises(turns.NoTurnError):
        queue.turn(("greedy", "another"))
    other = [asyncio.create_task(run("other", session)) for session in range(2)]
    await eventually(lambda: order == ["greedy"] * 3 + ["other"] * 2)
    leave.set()
    await asyncio.gather(*greedy, *other)


async def test_a_cancelled_turn_is_given_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "RUNNING_MAX", 1)
    queue = turns.Turns()
    entered: list[str] = []

    async def run(name: str) -> None:
        async with queue.turn(("user", name)):
            entered.append(name)
            await asyncio.Event().wait()

    tasks = {name: asyncio.create_task(run(name)) for name in "abc"}
    await eventually(lambda: entered == ["a"])
    tasks["b"].cancel()
    tasks["a"].cancel()
    await eventually(lambda: entered == ["a", "c"])
    tasks["c"].cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


async def test_statements_that_wait_for_a_store_leave_threads_for_others(
    app: FastAPI, statements: ScriptedStatements, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "RUNNING_PER_USER_MAX", turns.RUNNING_MAX)
    answered = threading.Event()

    async def block() -> ResultSet:
        await asyncio.to_thread(answered.wait, PATIENCE_S)
        return ResultSet()

    statements.steps["BLOCK"] = block
    async with (
        serving(app, port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=PATIENCE_S) as http,
    ):
        http.headers["Authorization"] = "Bearer good-token"
        flood = [
            asyncio.create_task(send(http, "BLOCK", f"s{number}"))
            for number in range(turns.RUNNING_MAX // turns.RUNNING_PER_SESSION_MAX)
            for _ in range(turns.RUNNING_PER_SESSION_MAX)
        ]
        await eventually(lambda: statements.texts.count("BLOCK") == turns.RUNNING_MAX)
        try:
            unknown_yet = {"Authorization": "Bearer other-token"}
            answer = await asyncio.wait_for(http.get("/v2/version", headers=unknown_yet), PATIENCE_S / 2)
            assert answer.status_code == 200
        finally:
            answered.set()
        await asyncio.gather(*flood)
