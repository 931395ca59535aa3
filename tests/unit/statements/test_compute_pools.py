"""COMPUTE_POOL, over an engine without drivers: `tests/unit/engine/test_pools.py` tests the processes."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, QueryState
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

LISTED = ("Name", "Size", "IntendedState", "ActualState", "Timeout")


async def test_a_pool_is_made_changed_stopped_started_and_dropped(session: Session) -> None:
    made = "CREATE COMPUTE_POOL Reports WITH ('compute_pool.size' = 'SMALL', 'compute_pool.timeout_min' = 5)"
    (row,) = await session.rows(made)
    assert row == ("compute_pool", "reports", "CREATE", "compute pool reports was created", '["reports"]')
    assert await session.rows("DESCRIBE COMPUTE_POOL reports", *LISTED) == [
        ("reports", "small", "running", "stopped", "5")
    ]
    again = await session.rows("CREATE COMPUTE_POOL IF NOT EXISTS reports", "Summary")
    assert again == [("compute pool reports already exists",)]
    await session.run("UPDATE COMPUTE_POOL reports WITH ('compute_pool.size' = medium)")
    await session.run("STOP COMPUTE_POOL reports; STOP COMPUTE_POOL reports")
    assert await session.rows("LIST COMPUTE_POOLS WHERE name = 'reports'", *LISTED) == [
        ("reports", "medium", "stopped", "stopped", "5")
    ]
    await session.run("UPDATE COMPUTE_POOL reports WITH ('compute_pool.timeout_min' = NULL)")
    await session.run("START COMPUTE_POOL reports; START COMPUTE_POOL reports")
    system = (
        "SELECT name, size, intended_state, timeout FROM deltastream.sys.compute_pools WHERE name = 'reports'"
    )
    assert await session.rows(system) == [("reports", "medium", "running", "0")]
    await session.run("USE COMPUTE_POOL reports; ALTER COMPUTE_POOL reports RENAME TO evening")
    assert session.context.compute_pool == "evening"
    await session.run("DROP COMPUTE_POOL evening")
    assert session.context.compute_pool is None
    summary = await session.rows("DROP COMPUTE_POOL IF EXISTS evening", "Summary")
    assert (summary[0][0] or "").startswith("nothing was dropped")


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        ("CREATE COMPUTE_POOL default_pool", SqlState.DUPLICATE_COMPUTE_POOL, "already exists"),
        (
            "CREATE COMPUTE_POOL p WITH ('compute_pool.size' = huge)",
            SqlState.INVALID_PARAMETER,
            "must be small or medium or large",
        ),
        (
            "CREATE COMPUTE_POOL p WITH ('compute_pool.timeout_min' = '5 minutes')",
            SqlState.INVALID_PARAMETER,
            "must be minutes, 0 to 10080",
        ),
        ("CREATE COMPUTE_POOL p WITH ('min.units' = '1')", SqlState.INVALID_PARAMETER, "no property"),
        (
            "UPDATE COMPUTE_POOL default_pool WITH ('size' = 'small')",
            SqlState.INVALID_PARAMETER,
            "no property",
        ),
        (
            "UPDATE COMPUTE_POOL nothing WITH ('compute_pool.size' = small)",
            SqlState.COMPUTE_POOL_NOT_FOUND,
            "nothing",
        ),
        ("STOP COMPUTE_POOL nothing", SqlState.COMPUTE_POOL_NOT_FOUND, "nothing"),
        ("START COMPUTE_POOL nothing", SqlState.COMPUTE_POOL_NOT_FOUND, "nothing"),
        ("DROP COMPUTE_POOL nothing", SqlState.COMPUTE_POOL_NOT_FOUND, "nothing"),
    ],
)
async def test_what_it_refuses(session: Session, text: str, state: SqlState, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        await session.run(text)
    assert (refused.value.state, refused.value.span is None) == (state, False)


async def test_a_pool_for_which_there_is_no_memory_is_refused_where_it_would_run(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.statements.compute_pool.memory_mb", lambda: 6 * 1024)
    with pytest.raises(UserError) as large:
        await session.run("CREATE COMPUTE_POOL p WITH ('compute_pool.size' = large)")
    assert (large.value.state, large.value.span is None) == (SqlState.CONFIGURATION_LIMIT_EXCEEDED, False)
    assert session.catalog.compute_pool("p") is None
    await session.run("CREATE COMPUTE_POOL p WITH ('compute_pool.size' = medium); STOP COMPUTE_POOL p")
    await session.run("CREATE COMPUTE_POOL q; UPDATE COMPUTE_POOL p WITH ('compute_pool.size' = large)")
    for text in ("START COMPUTE_POOL p", "UPDATE COMPUTE_POOL q WITH ('compute_pool.size' = large)"):
        with pytest.raises(UserError) as refused:
            await session.run(text)
        assert refused.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert await session.rows("LIST COMPUTE_POOLS WHERE name = 'p'", "IntendedState") == [("stopped",)]


async def test_what_needs_a_stopped_pool_is_refused_and_makes_nothing(session: Session) -> None:
    await session.run("USE DATABASE shop; CREATE COMPUTE_POOL p; USE COMPUTE_POOL p")
    await session.run("CREATE MATERIALIZED VIEW v AS SELECT n FROM orders QUERY WITH ('query.name' = q)")
    await session.run("STOP COMPUTE_POOL p")
    for text in (
        "SELECT n FROM orders",
        "CREATE MATERIALIZED VIEW w AS SELECT n FROM orders",
        "INSERT INTO orders SELECT n FROM lab.tests.orders",
        "RESTART QUERY q",
    ):
        with pytest.raises(UserError) as refused:
            await session.run(text)
        assert refused.value.state is SqlState.COMPUTE_POOL_NOT_READY, text
        assert "START COMPUTE_POOL p" in (refused.value.hint or "")
    assert await session.rows("LIST RELATIONS WHERE name = 'w'") == []
    assert await session.rows("SELECT n FROM v") == []
    await session.run("EXPLAIN SELECT n FROM orders")


async def test_drop_counts_the_queries_that_run_in_it_and_rename_takes_them_along(session: Session) -> None:
    await session.run("USE DATABASE shop; CREATE COMPUTE_POOL p; USE COMPUTE_POOL p")
    await session.run("CREATE MATERIALIZED VIEW v AS SELECT n FROM orders QUERY WITH ('query.name' = q)")
    await session.run("ALTER COMPUTE_POOL p RENAME TO evening; USE COMPUTE_POOL default_pool")
    assert dict(await session.rows("DESCRIBE QUERY q"))["compute_pool"] == "evening"
    query = session.catalog.query_by_name("q")
    assert query is not None
    with pytest.raises(UserError) as refused:
        await session.run("DROP COMPUTE_POOL evening")
    assert refused.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert refused.value.message == f"the compute pool evening is referenced by the running query {query.id}"
    session.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)
    await session.run("DROP COMPUTE_POOL evening")
    with pytest.raises(UserError) as gone:
        await session.run("RESTART QUERY q")
    assert gone.value.state is SqlState.COMPUTE_POOL_NOT_FOUND


async def test_who_may_use_a_pool_and_who_may_change_it(session: Session) -> None:
    await session.run("CREATE COMPUTE_POOL p; USE ROLE public")
    for text in (
        "USE COMPUTE_POOL p",
        "DESCRIBE COMPUTE_POOL p",
        "STOP COMPUTE_POOL p",
        "DROP COMPUTE_POOL p",
    ):
        with pytest.raises(UserError) as hidden:
            await session.run(text)
        assert hidden.value.state is SqlState.COMPUTE_POOL_NOT_FOUND, text
    with pytest.raises(UserError) as refused:
        await session.run("CREATE COMPUTE_POOL q")
    assert refused.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    assert [name for (name,) in await session.rows("LIST COMPUTE_POOLS", "Name")] == ["default_pool"]
    session.grant("public", Privilege.CREATE_COMPUTE_POOL)
    await session.run("USE ROLE sysadmin; GRANT USAGE ON COMPUTE_POOL p TO ROLE public; USE ROLE public")
    await session.run("USE COMPUTE_POOL p; CREATE COMPUTE_POOL q; STOP COMPUTE_POOL q")
    with pytest.raises(UserError) as used:
        await session.run("STOP COMPUTE_POOL p")
    assert used.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    await session.run("USE ROLE sysadmin; GRANT OWNERSHIP ON COMPUTE_POOL p TO ROLE public; USE ROLE public")
    await session.run("STOP COMPUTE_POOL p; DROP COMPUTE_POOL p")
