"""A query that is replaced while it runs: the driver gets the new plan, and a version that fails gives its place back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.catalog.objects import QueryState
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.connectors.marks import writer_of
from tests.unit.engine.conftest import plan

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

S = QueryState


async def replaced(bench: Bench, behaviour: str) -> str:
    """Return a query that ran, and that now has a plan with another behaviour of the fake driver."""
    await bench.engine.start()
    query = bench.query("runs")
    await bench.until(lambda: bench.engine.progress(query) is not None)
    stored = bench.stored_query(query)
    bench.catalog.versions.replace(replace(stored, sql="changed", plan=plan(behaviour).to_json()))
    bench.engine.wake()
    return query


async def test_a_query_runs_with_the_new_plan_and_keeps_it_after_a_batch(bench: Bench) -> None:
    query = await replaced(bench, "late")
    await bench.until(lambda: bench.stored_query(query).is_settled)
    stored = bench.stored_query(query)
    assert (stored.version, stored.sql, stored.actual_state) == (2, "changed", S.RUNNING)
    first, second = bench.journal("start", query)
    assert (first["generation"], second["generation"]) == (1, 2)
    assert second["checkpoint"] == first["checkpoint"]


@pytest.mark.parametrize("domain", ["user", "internal"])
async def test_a_version_that_fails_before_a_batch_gives_its_place_back(bench: Bench, domain: str) -> None:
    query = await replaced(bench, domain)
    await bench.until(lambda: bench.stored_query(query).version == 3)
    await bench.until_state(query, S.RUNNING)
    stored = bench.stored_query(query)
    assert (stored.sql, stored.is_settled) == (bench.catalog.versions.of(stored)[0].sql, True)
    failed = bench.catalog.versions.of(stored)[1]
    assert (failed.sql, failed.reason) == ("changed", f"an {domain} error\nHint: do something")


async def test_a_version_that_fails_at_its_first_rows_after_idle_triggers_gives_its_place_back(
    bench: Bench,
) -> None:
    query = await replaced(bench, "idle")
    await bench.until(lambda: bench.stored_query(query).version == 3)
    assert bench.catalog.versions.of(bench.stored_query(query))[1].reason == "a user error"


async def test_a_version_whose_store_is_away_is_tried_again(bench: Bench) -> None:
    query = await replaced(bench, "once")
    await bench.until(lambda: bench.stored_query(query).is_settled)
    stored = bench.stored_query(query)
    assert (stored.version, stored.sql) == (2, "changed")
    assert stored.restarts == 1


async def test_a_version_that_starts_anew_is_another_writer_in_another_checkpoint(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("runs")
    await bench.until(lambda: bench.engine.progress(query) is not None)
    stored = bench.stored_query(query)
    plan_of = plan("late").to_json()
    bench.catalog.versions.replace(replace(stored, sql="changed", plan=plan_of, incarnation=2))
    bench.engine.wake()
    await bench.until(lambda: bench.stored_query(query).is_settled)
    first, second = (Path(start["checkpoint"]) for start in bench.journal("start", query))
    assert second.name == f"{first.name}.2"
    assert writer_of(query, LocalFolder(first)) == query
    # Not the name of a bucket of the first incarnation, which ends with a number.
    assert writer_of(query, LocalFolder(second)) == f"{query}-v2"
