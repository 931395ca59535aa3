"""Limits on continuous queries, of the organization, of a role and of a compute pool."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.session import Session, open_session
from headrace.catalog.objects import QueryState
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

COPY = "INSERT INTO shop.public.orders SELECT n FROM lab.tests.orders QUERY WITH ('query.name' = {})"


async def refused(session: Session, text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        await session.run(text)
    assert caught.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    return caught.value


async def test_a_query_too_many_is_refused_until_another_one_ends(tmp_path: Path) -> None:
    async with open_session(tmp_path, queries_max=2) as session:
        await session.run(COPY.format("a"))
        await session.run(COPY.format("b"))
        error = await refused(session, COPY.format("c"))
        assert "the organization has 2 running queries, expected at most 2" in error.message
        assert "HEADRACE_QUERIES_MAX" in (error.hint or "")
        assert len(session.catalog.unfinished_queries()) == 2
        await session.run("TERMINATE QUERY a")
        await session.run(COPY.format("c"))
        await refused(session, "RESTART QUERY a")


async def test_a_restart_of_a_query_that_runs_does_not_count_twice(tmp_path: Path) -> None:
    async with open_session(tmp_path, queries_max=1) as session:
        await session.run(COPY.format("a"))
        await session.run("RESTART QUERY a")


async def test_a_role_has_a_limit_of_its_own(tmp_path: Path) -> None:
    async with open_session(tmp_path, queries_per_role_max=1) as session:
        await session.run(COPY.format("a"))
        assert "the role 'sysadmin' has 1 running" in (await refused(session, COPY.format("b"))).message
        (query,) = session.catalog.unfinished_queries()
        session.catalog.create_role("other", "sysadmin")
        session.catalog.change_owner(query, "other")
        await session.run(COPY.format("b"))


async def test_a_pool_has_a_limit_by_its_slots(tmp_path: Path) -> None:
    async with open_session(tmp_path, queries_per_slot_max=1, spark_master="local[2]") as session:
        await session.run(COPY.format("a"))
        await session.run(COPY.format("b"))
        error = await refused(session, COPY.format("c"))
        assert "'default_pool' with 2 slots has 2 running queries, expected at most 2" in error.message
        assert "HEADRACE_QUERIES_PER_SLOT_MAX" in (error.hint or "")
        await session.run("CREATE COMPUTE_POOL other; USE COMPUTE_POOL other")
        await session.run(COPY.format("c"))


async def test_a_pool_with_a_queue_refuses_no_query(tmp_path: Path) -> None:
    settings = {"queries_per_slot_max": 1, "queue_queries": True, "spark_master": "local[1]"}
    async with open_session(tmp_path, **settings) as session:
        for name in "ab":
            await session.run(COPY.format(name))
        assert [query.actual_state for query in session.catalog.unfinished_queries()] == [
            QueryState.QUEUED
        ] * 2
        (row,) = (await session.run("DESCRIBE QUERY b WHERE property = 'message'")).rows
        assert "position 2 of 2 in the queue of the compute pool 'default_pool' with 1 slot" in row[1]
        (row,) = (await session.run("EXPLAIN WHY b")).rows
        assert row[0] == "queued"
