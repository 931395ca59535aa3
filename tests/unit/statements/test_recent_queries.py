"""Repeated texts: a query is parsed and bound once for a state of the catalog, and its privileges and rows are those of each moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from harness.session import Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Principal
from headrace.catalog.policy import Requirement
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError
from headrace.planner.physical import Column
from headrace.session import recent_queries, service
from headrace.statements import continuous_query, select
from headrace.statements.base import Execution

SELECT_BEST = 'SELECT n FROM shop.public."Best" ORDER BY n'
READER = Principal("reader@x.org", ("reader",), "reader")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The numbers of calls that parse, bind and compile."""
    counts: Counter[str] = Counter()

    def counted(owner: object, name: str) -> None:
        real: Callable[..., object] = getattr(owner, name)

        def call(*positional: object, **named: object) -> object:
            counts[name] += 1
            return real(*positional, **named)

        monkeypatch.setattr(owner, name, call)

    counted(service, "parse")
    counted(continuous_query, "bind")
    counted(select, "compile_snapshot")
    return counts


@pytest.fixture
def view(session: Session) -> Callable[[int], None]:
    """Fill the view with no row, and return a function that inserts one."""
    state = session.catalog.snapshot()
    relation = next(each for each in state.relations("shop") if each.name.name == "Best")
    views = session.engine.views
    views.create(relation.id, [Column(name="n", type="BIGINT")], ["n"])

    def insert(number: int) -> None:
        views._database.execute(f'INSERT INTO "{relation.id}" VALUES ({number})')  # type: ignore[attr-defined] # DuckDB's

    return insert


async def rows(session: Session, text: str) -> list[tuple[str | None, ...]]:
    return list((await session.run(text)).rows)


async def test_a_repeated_text_is_bound_once_and_reads_the_current_rows(
    session: Session, calls: Counter[str], view: Callable[[int], None]
) -> None:
    for count in range(3):
        assert await rows(session, SELECT_BEST) == [(str(number),) for number in range(count)]
        view(count)
    assert calls == {"parse": 1, "bind": 1, "compile_snapshot": 1}


async def test_a_commit_of_the_catalog_ends_the_reuse(
    session: Session, calls: Counter[str], view: Callable[[int], None]
) -> None:
    view(1)
    await rows(session, SELECT_BEST)
    await session.run("CREATE DATABASE another;")
    calls.clear()
    assert await rows(session, SELECT_BEST) == [("1",)]
    assert calls == {"parse": 1, "bind": 1, "compile_snapshot": 1}
    relation = next(each for each in session.catalog.relations("shop") if each.name.name == "Best")
    session.catalog.drop(relation)
    with pytest.raises(HeadraceError) as missing:
        await rows(session, SELECT_BEST)
    assert missing.value.state.value == "3D020"


async def test_a_commit_during_the_query_prevents_the_reuse(
    session: Session, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = session.engine.read_views

    async def read_views(user: str, read: Callable[[], object]) -> object:
        session.catalog.create_database(f"d{calls['bind']}", "sysadmin")
        return await real(user, read)

    monkeypatch.setattr(session.engine, "read_views", read_views)
    for _ in range(2):
        await rows(session, "SELECT 1 AS a")
    assert calls["bind"] == 2


async def test_privileges_are_checked_each_time(
    session: Session, calls: Counter[str], view: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    view(1)
    session.catalog.create_role("reader", "sysadmin", [])
    session.grant("reader", Privilege.USAGE, "shop")
    session.grant("reader", Privilege.USAGE, "shop", "public")
    session.grant("reader", Privilege.SELECT, "shop", "public", "Best")
    checked: list[tuple[str, list[Requirement]]] = []
    real = Execution.check

    def check(run: Execution, requirements: object) -> list[Requirement]:
        fulfilled = real(run, requirements)  # type: ignore[arg-type] # of the caller
        checked.append((run.role, fulfilled))
        return fulfilled

    monkeypatch.setattr(Execution, "check", check)
    for _ in range(2):
        assert await session.answer(SELECT_BEST, READER) == [("1",)]
    assert calls["bind"] == 1
    assert [(role, [each.privilege for each in needs]) for role, needs in checked] == 2 * [
        ("reader", [Privilege.SELECT])
    ]
    # The administrator's query is not the reader's.
    await rows(session, SELECT_BEST)
    assert calls["bind"] == 2
    await session.run('REVOKE SELECT ON RELATION shop.public."Best" FROM ROLE reader;')
    with pytest.raises(HeadraceError) as refused:
        await session.answer(SELECT_BEST, READER)
    assert refused.value.state.value in ("42501", "3D020")


async def test_a_role_that_a_user_lost_cannot_reuse_a_query(session: Session) -> None:
    text = "SELECT 1 AS a"
    session.catalog.create_role("reader", "sysadmin", [])
    context = SessionContext("", role="reader")
    executed = await session.service.execute(text, principal=READER, context=context)
    assert executed.context.role == "reader"
    with pytest.raises(HeadraceError) as refused:
        await session.service.execute(text, principal=Principal("x", ("public",), "public"), context=context)
    assert refused.value.state.value == "42501"


async def test_contexts_have_queries_of_their_own(session: Session, calls: Counter[str]) -> None:
    text = "SELECT CURRENT_DATABASE() AS d"
    for _ in range(2):
        for database in ("shop", "lab"):
            await session.run(f"USE DATABASE {database};")
            assert await rows(session, text) == [(database,)]
    assert calls["bind"] == 2


async def test_errors_and_other_statements_are_not_kept(session: Session, calls: Counter[str]) -> None:
    for _ in range(2):
        with pytest.raises(HeadraceError) as failed:
            await rows(session, "SELECT 1 / (n - n) AS a FROM (VALUES (1)) AS t (n)")
        assert failed.value.state.value == "22012"
        await rows(session, "LIST DATABASES;")
        await rows(session, "SELECT 1 AS a; SELECT 2 AS b;")
    assert calls["parse"] == 6


async def test_few_texts_are_kept(
    session: Session, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_queries, "TEXTS_MAX", 2)
    monkeypatch.setattr(recent_queries, "TEXT_LENGTH_MAX", 20)
    for number in (1, 2, 1, 3, 1, 2):
        await rows(session, f"SELECT {number} AS a")
    # The third text replaced the second, which was used longest ago.
    assert calls["bind"] == 4
    calls.clear()
    for _ in range(2):
        await rows(session, "SELECT 1 AS a_longer_name")
    assert calls["bind"] == 2
