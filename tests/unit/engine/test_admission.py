"""Queries that wait until their compute pool runs fewer queries."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.catalog.objects import ComputePool, DesiredState, PoolIntent, QueryState
from headrace.core.settings import Settings
from headrace.engine.admission import Places, places, queued
from headrace.engine.pool_properties import CORES, EXECUTORS_MAX, MASTER
from headrace.engine.protocol import PoolSlots
from tests.unit.engine.conftest import NOW

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

S = QueryState
POOL = ComputePool("p", "small", "sysadmin", NOW, NOW)
SETTINGS = Settings(data_dir=Path("unused"), queries_per_slot_max=2, spark_master="local[2]")


def test_the_places_of_a_pool() -> None:
    assert places(POOL, SETTINGS, None) == Places(2, False, 4, True)
    assert places(POOL, SETTINGS.model_copy(update={"queries_per_slot_max": 0}), None).queries_max is None
    elastic = {MASTER.name: "spark://m:7077", EXECUTORS_MAX.name: "3", CORES.name: "2"}
    assert places(replace(POOL, properties=elastic), SETTINGS, None) == Places(6, True, 12, True)


def test_a_pool_that_takes_a_whole_cluster_has_places_when_its_executors_are_there() -> None:
    cluster = SETTINGS.model_copy(update={"spark_master": "spark://m:7077"})
    assert places(POOL, cluster, None) == Places(None, False, None, False)
    present = PoolSlots(executors=3, slots=3, used=1)
    assert places(POOL, cluster, present) == Places(3, False, 6, True)
    unlimited = SETTINGS.model_copy(update={"spark_master": "local[*]"})
    assert places(POOL, unlimited, None) == Places(None, False, None, True)


def test_positions_are_by_the_time_since_which_queries_wait(bench: Bench) -> None:
    query = bench.stored_query(bench.query("runs"))
    first, second = (
        replace(query, id=name, actual_state=S.QUEUED, updated_at=NOW + timedelta(seconds=seconds))
        for name, seconds in (("first", 1), ("second", 2))
    )
    ending = replace(
        query, id="ending", desired_state=DesiredState.TERMINATED, actual_state=S.TERMINATE_REQUESTED
    )
    others = [
        replace(query, id="elsewhere", compute_pool="other"),
        replace(query, id="bad", actual_state=S.ERRORED),
    ]
    ended = replace(first, id="ended", desired_state=DesiredState.TERMINATED)
    limit = Places(2, False, 2, True)
    position = queued(second, [second, first, ending, ended, *others], limit)
    assert (position.position, position.length, position.running, position.is_admitted) == (2, 2, 1, False)
    assert queued(first, [second, first, ending], limit).is_admitted
    assert not queued(first, [first, ending, replace(query, actual_state=S.STOPPED)], limit).is_admitted
    assert position.text == (
        f"the query is at position 2 of 2 in the queue of the compute pool {query.compute_pool!r} with 2 slots, "
        "which runs 1 query of at most 2"
    )


async def test_queries_wait_in_order_and_start_when_others_end_also_after_a_restart(bench: Bench) -> None:
    bench.settings = bench.settings.model_copy(
        update={"queries_per_slot_max": 1, "spark_master": "local[1]", "queue_queries": True}
    )
    bench.engine.views.close()
    bench.engine = bench.new_engine()
    await bench.engine.start()
    first, second, third = (
        bench.query("runs", state=S.QUEUED, since=NOW + timedelta(seconds=seconds)) for seconds in range(3)
    )
    await bench.until_state(first, S.RUNNING)
    await bench.until(lambda: bench.history(first) == [S.QUEUED, S.STARTING, S.RUNNING])
    assert "position 2 of 2" in str(bench.engine.notice(third))
    (finding,) = bench.engine.findings(bench.stored_query(second))
    assert finding.code == "queued"
    assert "position 1 of 2 in the queue of the compute pool 'default_pool' with 1 slot" in finding.sentence
    await bench.engine.stop()
    bench.engine = bench.new_engine()
    await bench.engine.start()
    await bench.until(lambda: len(bench.journal("start", first)) == 2)
    await bench.until_state(first, S.RUNNING)
    assert bench.stored_query(second).actual_state is S.QUEUED

    bench.catalog.set_desired_state(second, DesiredState.TERMINATED)
    bench.engine.wake()
    await bench.until_state(second, S.TERMINATED)
    assert bench.journal("start", second) == []
    bench.want("default_pool", PoolIntent.STOPPED)
    await bench.until_pool("default_pool", "stopped")
    assert "which is stopped" in str(bench.engine.notice(third))
    bench.catalog.set_desired_state(first, DesiredState.TERMINATED)
    bench.want("default_pool", PoolIntent.RUNNING)
    await bench.until_state(third, S.RUNNING)
    bench.catalog.request_restart(second, queues=True)
    bench.catalog.request_restart(third, queues=True)
    assert bench.stored_query(second).actual_state is S.QUEUED
    assert bench.stored_query(third).actual_state is S.STARTING
