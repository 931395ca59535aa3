"""Compute pools: processes that start and end as the catalog requires, and the states of their queries."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from structlog.testing import capture_logs

from harness.patience import PATIENCE_S
from headrace.catalog.objects import ComputePool, DesiredState, PoolIntent, QueryState
from headrace.core.errors import HeadraceError, UserError
from headrace.core.resultset import ResultColumn
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine import launch
from headrace.engine.engine import Engine
from headrace.engine.pool_properties import CORES, EXECUTORS, MASTER, Place
from headrace.engine.pools import DriverProcess, PoolState
from headrace.engine.protocol import TaskTime
from headrace.engine.sizes import Resources, memory_mb, refuse_beyond_memory, resources
from headrace.planner.target import Target
from tests.unit.engine.conftest import FAKE_DRIVER, NOW, plan

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

S = QueryState
COLUMNS = (ResultColumn("n"),)
SETTINGS = Settings(data_dir=Path("unused"), driver_memory_mb=1000)


async def test_each_pool_that_is_to_run_has_a_process_of_its_size(bench: Bench) -> None:
    bench.pool("idle", desired_state=PoolIntent.STOPPED)
    await bench.engine.start()
    bench.pool("reports")
    bench.catalog.update_compute_pool(replace(bench.stored_pool("reports"), size="large"))
    await bench.until_pool("reports", "running")
    await bench.until_pool("default_pool", "running")
    given = {line["options"]["pool"]: line["options"] for line in bench.journal("ready")}
    sizes = {name: (options["spark_master"], options["driver_memory_mb"]) for name, options in given.items()}
    assert sizes == {"default_pool": ("local[32]", 2048), "reports": ("local[128]", 8192)}
    assert bench.engine.pool_state("idle") == ("stopped", None)
    query = bench.query("runs", pool="reports")
    await bench.until_state(query, S.RUNNING)
    (started,) = bench.journal("start", query)
    assert started["pid"] == next(
        line["pid"] for line in bench.journal("ready") if line["options"]["pool"] == "reports"
    )


async def test_the_slots_of_a_pool_are_kept_while_its_process_runs(bench: Bench) -> None:
    bench.configure(metrics_interval_s=0.05)
    idle = bench.pool("idle", desired_state=PoolIntent.STOPPED)
    await bench.engine.start()
    medium = bench.pool("reports")
    bench.catalog.update_compute_pool(replace(medium, size="medium"))
    history = bench.engine.history
    await bench.until(lambda: list(history.pool_rows({medium.id})))
    samples = [sample for _, _, sample in history.pool_rows({medium.id, idle.id})]
    assert {(sample.pool_id, sample.slots, sample.used) for sample in samples} == {(medium.id, 64, None)}
    assert all(0 < sample.length_s <= 0.1 for sample in samples)


async def test_the_time_of_tasks_is_kept_by_query_and_pool(bench: Bench) -> None:
    bench.configure(metrics_interval_s=0.05)
    await bench.engine.start()
    pool, query = bench.stored_pool("default_pool"), bench.query("busy")
    both = TaskTime(slot_ms=3000, cpu_ms=1400)
    await bench.until(lambda: (metrics := bench.engine.progress(query)) and metrics.tasks == both)
    history = bench.engine.history

    def kept() -> TaskTime:
        return sum((hour.time for hour in history.task_hours({query})), TaskTime())

    await bench.until(lambda: kept() == both)
    # In the samples of the pool, the tasks of its readers are added.
    busy = [sample.busy_ms for _, _, sample in history.pool_rows({pool.id})]
    assert sum(ms or 0 for ms in busy) == 3600
    assert {hour.pool_id for hour in history.task_hours({query})} == {pool.id}
    assert list(history.task_hours({"reader", ""})) == []


async def test_a_start_with_heaps_beyond_memory_says_so(bench: Bench) -> None:
    bench.configure(driver_memory_mb=memory_mb())
    bench.pool("reports")
    with capture_logs() as logged:
        await bench.engine.start()
    [line] = [entry for entry in logged if entry["event"] == "pools_beyond_memory"]
    assert f"default_pool {memory_mb()} MiB, reports {memory_mb()} MiB" in line["reason"]
    assert "HEADRACE_DRIVER_MEMORY_MB" in line["hint"]


def pids(bench: Bench, name: str) -> list[int]:
    """The processes that were started under a name, whatever they do now."""
    return [line["pid"] for line in bench.journal("ready") if line["options"]["pool"] == name]


async def with_standby(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the engine with a process on standby, and wait until it is warm."""
    monkeypatch.setattr("headrace.engine.standby.DELAY_S", 0.1)
    bench.configure(pools_standby=1, restart_backoff_ms=60_000, restart_backoff_max_ms=60_000)
    await bench.engine.start()
    await bench.until_pool("default_pool", "running")
    await bench.until(lambda: pids(bench, "standby-1"))


async def test_a_pool_whose_driver_dies_continues_in_the_process_on_standby(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_standby(bench, monkeypatch)
    query = bench.query("runs")
    await bench.until_state(query, S.RUNNING)
    (first,), (standby,) = pids(bench, "default_pool"), pids(bench, "standby-1")
    assert bench.journal("start", query)[0]["pid"] == first
    os.kill(first, signal.SIGKILL)
    # Without waiting for the delay of a restart, which is a minute here.
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    await bench.until_state(query, S.RUNNING)
    assert bench.journal("start", query)[1]["pid"] == standby
    assert bench.engine.pool_state("default_pool") == ("running", None)
    logs = {path.name for path in (bench.folder / "logs").iterdir()}
    assert {"driver-default_pool.log", "driver-default_pool.log.1"} <= logs

    await bench.until(lambda: len(pids(bench, "standby-1")) == 2)
    await bench.engine.stop()
    assert not any(map(psutil.pid_exists, [first, *pids(bench, "standby-1")]))
    assert [*(bench.folder / "work").iterdir(), *(bench.folder / "run").iterdir()] == []


async def test_a_pool_that_starts_takes_the_process_on_standby_if_it_is_small(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_standby(bench, monkeypatch)
    bench.catalog.create_compute_pool(ComputePool("wide", "medium", "sysadmin", NOW, NOW))
    bench.engine.wake()
    await bench.until_pool("wide", "running")
    bench.pool("narrow")
    await bench.until_pool("narrow", "running")
    assert len(pids(bench, "wide")) == 1
    assert pids(bench, "narrow") == []


async def test_a_process_on_standby_that_dies_is_started_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.standby.backoff_ms", lambda _failures, _settings: 10)
    await with_standby(bench, monkeypatch)
    (standby,) = pids(bench, "standby-1")
    os.kill(standby, signal.SIGKILL)
    await bench.until(lambda: len(pids(bench, "standby-1")) == 2)
    assert bench.engine.pool_state("default_pool") == ("running", None)


async def test_stop_ends_the_queries_before_the_process_and_start_takes_them_on(bench: Bench) -> None:
    await bench.engine.start()
    bench.pool("reports")
    query, failed, other = (
        bench.query("runs", pool="reports"),
        bench.query("user", pool="reports"),
        bench.query("runs"),
    )
    for query_id, state in ((query, S.RUNNING), (failed, S.ERRORED), (other, S.RUNNING)):
        await bench.until_state(query_id, state)
    pid = bench.journal("start", query)[0]["pid"]
    bench.want("reports", PoolIntent.STOPPED)
    await bench.until_pool("reports", "stopped")
    assert not psutil.pid_exists(pid)
    own = [
        line["type"] for kind in ("stop", "shutdown") for line in bench.journal(kind) if line["pid"] == pid
    ]
    assert own == ["stop", "shutdown"]
    stored = bench.stored_query(query)
    assert (stored.actual_state, stored.desired_state, stored.restarts) == (
        S.STOPPED,
        DesiredState.RUNNING,
        0,
    )
    assert stored.message == (
        "the compute pool 'reports' is stopped; START COMPUTE_POOL reports starts the query too"
    )
    assert bench.stored_query(failed).actual_state is S.ERRORED
    assert (bench.stored_query(other).actual_state, len(bench.journal("start", other))) == (S.RUNNING, 1)
    bench.want("reports", PoolIntent.RUNNING)
    await bench.until_state(query, S.RUNNING)
    assert bench.history(query)[-3:] == [S.STOPPED, S.STARTING, S.RUNNING]
    assert bench.stored_query(query).message is None
    assert len(bench.journal("start", failed)) == 1


async def test_a_stopped_pool_stays_stopped_when_the_server_is_killed(bench: Bench) -> None:
    bench.pool("reports", desired_state=PoolIntent.STOPPED)
    was_running, terminated = bench.query("runs", pool="reports"), bench.query("runs", pool="reports")
    for query in (was_running, terminated):
        bench.catalog.record_query_state(query, S.RUNNING)
    bench.catalog.set_desired_state(terminated, DesiredState.TERMINATED)
    await bench.engine.start()
    await bench.until_state(was_running, S.STOPPED)
    await bench.until_state(terminated, S.TERMINATED)
    assert bench.journal("start") == []
    bench.catalog.set_desired_state(was_running, DesiredState.TERMINATED)
    bench.engine.wake()
    await bench.until_state(was_running, S.TERMINATED)


async def test_a_query_that_does_not_end_is_ended_with_the_process_of_its_pool(bench: Bench) -> None:
    bench.configure(stop_timeout_ms=500)
    await bench.engine.start()
    bench.pool("reports")
    query = bench.query("deaf", pool="reports")
    await bench.until_state(query, S.RUNNING)
    bench.want("reports", PoolIntent.STOPPED)
    await bench.until_pool("reports", "stopped")
    await bench.until_state(query, S.STOPPED)
    assert "the driver was killed" in [
        message.partition(":")[0] for _, _, message in bench.catalog.query_events(query) if message
    ]


async def test_a_process_that_dies_while_its_pool_is_stopped_is_not_started_again(bench: Bench) -> None:
    await bench.engine.start()
    bench.pool("reports")
    query = bench.query("deaf", pool="reports")
    await bench.until_state(query, S.RUNNING)
    bench.want("reports", PoolIntent.STOPPED)
    await bench.until(lambda: bench.journal("stop", query))
    os.kill(bench.journal("start", query)[0]["pid"], signal.SIGKILL)
    await bench.until_pool("reports", "stopped")
    await bench.until_state(query, S.STOPPED)
    assert len(bench.journal("start", query)) == 1


async def test_stopping_a_pool_ends_its_reader_with_an_error_and_refuses_the_next(bench: Bench) -> None:
    await bench.engine.start()
    bench.pool("reports")
    channel = await bench.engine.run_interactive(
        plan("rows", sink="results"), COLUMNS, compute_pool="reports", user="admin"
    )
    await channel.started()
    bench.want("reports", PoolIntent.STOPPED)
    with pytest.raises(HeadraceError) as caught:
        async for _ in channel:
            pass
    assert (caught.value.state, caught.value.message) == (
        SqlState.COMPUTE_POOL_NOT_READY,
        "the compute pool 'reports' cannot run the query: it was stopped",
    )
    with pytest.raises(UserError) as refused:
        await bench.engine.run_interactive(
            plan("rows", sink="results"), COLUMNS, compute_pool="reports", user="admin"
        )
    assert refused.value.state is SqlState.COMPUTE_POOL_NOT_READY
    assert "START COMPUTE_POOL reports" in (refused.value.hint or "")
    with pytest.raises(UserError) as unknown:
        await bench.engine.run_interactive(
            plan("rows", sink="results"), COLUMNS, compute_pool="nothing", user="admin"
        )
    assert unknown.value.state is SqlState.COMPUTE_POOL_NOT_FOUND


async def test_a_pool_without_work_is_suspended_after_its_timeout_and_starts_for_a_query(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute of the test is 50 ms."""
    monkeypatch.setattr("headrace.engine.drivers.MINUTE_S", 0.05)
    await bench.engine.start()
    bench.pool("reports", timeout_min=4)
    query = bench.query("runs", pool="reports")
    await bench.until_state(query, S.RUNNING)
    bench.pool("night", timeout_min=4)
    await bench.until(lambda: [line for line in bench.journal("ready") if line["options"]["pool"] == "night"])
    await bench.until_pool("night", "suspended")
    assert not bench.engine.has_process("night")
    started = len(bench.journal("ready"))
    assert bench.engine.pool_state("reports") == ("running", None)
    bench.catalog.set_desired_state(query, DesiredState.TERMINATED)
    bench.engine.wake()
    await bench.until_pool("reports", "suspended")
    assert bench.stored_pool("reports").desired_state is PoolIntent.RUNNING
    channel = await bench.engine.run_interactive(
        plan("rows", sink="results"), COLUMNS, compute_pool="reports", user="admin"
    )
    await channel.started()
    assert len(bench.journal("ready")) == started + 1
    assert bench.engine.pool_state("reports") == ("running", None)
    await channel.close()
    await bench.until_pool("reports", "suspended")
    bench.engine.rouse_pool("reports")
    await bench.until(lambda: len(bench.journal("ready")) == started + 2)
    await bench.until_pool("reports", "suspended")
    bench.want("reports", PoolIntent.STOPPED)
    assert bench.engine.pool_state("reports") == ("stopped", None)
    bench.catalog.drop(bench.stored_pool("reports"))
    bench.pool("reports")
    await bench.until(lambda: len(bench.journal("ready")) == started + 3)


async def test_a_pool_with_a_timeout_is_suspended_after_a_restart_unless_it_has_queries(bench: Bench) -> None:
    bench.pool("idle", timeout_min=4)
    bench.pool("busy", timeout_min=4)
    query = bench.query("runs", pool="busy")
    await bench.engine.start()
    await bench.until_state(query, S.RUNNING)
    assert bench.engine.pool_state("idle") == ("suspended", None)
    second = bench.query("runs", pool="idle")
    await bench.until_state(second, S.RUNNING)
    bench.pool("new", timeout_min=4)
    await bench.until_pool("new", "running")


async def test_a_suspended_pool_starts_when_its_timeout_is_removed(bench: Bench) -> None:
    pool = bench.pool("idle", timeout_min=4)
    await bench.engine.start()
    assert bench.engine.pool_state("idle") == ("suspended", None)
    bench.catalog.update_compute_pool(replace(pool, timeout_min=0))
    bench.engine.wake()
    await bench.until_pool("idle", "running")


async def test_a_query_that_comes_while_its_pool_is_being_suspended_runs_in_the_next_process(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.drivers.MINUTE_S", 0.05)
    await bench.engine.start()
    bench.pool("reports", timeout_min=4)
    await bench.until_pool("reports", "running")

    def prepare_until_it_ends(*_: object) -> None:
        while bench.engine.pool_state("reports")[0] == "running":
            time.sleep(0.001)

    monkeypatch.setattr(bench.engine.functions, "prepare", prepare_until_it_ends)
    channel = await bench.engine.run_interactive(
        plan("rows", sink="results"), COLUMNS, compute_pool="reports", user="admin"
    )
    async with asyncio.timeout(PATIENCE_S):
        await channel.started()
    assert len(pids(bench, "reports")) == 2
    await channel.close()


async def test_the_process_of_a_pool_that_was_dropped_ends(bench: Bench) -> None:
    await bench.engine.start()
    pool = bench.pool("reports")
    await bench.until_pool("reports", "running")
    bench.catalog.drop(pool)
    bench.engine.wake()
    await bench.until_pool("reports", "stopped")
    assert not psutil.pid_exists(bench.journal("shutdown")[0]["pid"])


@pytest.mark.parametrize(
    ("size", "master", "given"),
    [
        ("small", "local[32]", Resources(1000, Place("local[32]"))),
        ("medium", "local[32]", Resources(2000, Place("local[64]"))),
        ("large", "local[4,3]", Resources(4000, Place("local[16,3]"))),
        ("large", "local[*]", Resources(4000, Place("local[*]"))),
        ("medium", "spark://127.0.0.1:7077", Resources(2000, Place("spark://127.0.0.1:7077"))),
    ],
)
def test_what_a_size_gives(size: str, master: str, given: Resources) -> None:
    assert resources(size, SETTINGS.model_copy(update={"spark_master": master})) == given


def test_the_workers_of_a_cluster_have_python_if_the_operator_has_installed_it() -> None:
    installed = SETTINGS.model_copy(update={"worker_python": Path("/opt/headrace/bin/python")})
    cluster = {MASTER.name: "spark://m:7077", EXECUTORS.name: "2", CORES.name: "2"}
    assert resources("small", installed, cluster).target == Target(master="standalone", slots=4, python=True)
    assert not resources("small", SETTINGS, cluster).target.python
    assert resources("small", installed).target == Target(slots=32)
    pool = DriverProcess(
        "p", installed, resources("small", installed, cluster), on_message=print, on_death=print
    )
    assert pool.awaited is None
    pool.state = PoolState.STARTING
    assert pool.awaited == "2 executors with 2 cores and 1g each on spark://m:7077"


def test_the_heaps_of_the_pools_that_are_to_run_must_fit_into_memory() -> None:
    first, stopped = (
        ComputePool(name, "small", "sysadmin", NOW, NOW, intent)
        for name, intent in (("first", PoolIntent.RUNNING), ("stopped", PoolIntent.STOPPED))
    )
    medium = ComputePool("second", "medium", "sysadmin", NOW, NOW)
    others = [first, stopped, replace(medium, size="small")]
    refuse_beyond_memory(medium, others, SETTINGS, 3000)
    with pytest.raises(UserError) as refused:
        refuse_beyond_memory(medium, others, SETTINGS, 2999)
    assert refused.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert refused.value.message == (
        "the compute pool 'second' does not fit into the machine's memory of 2999 MiB: "
        "the heaps would be second 2000 MiB, first 1000 MiB"
    )
    assert memory_mb() * 2**20 <= psutil.virtual_memory().total


async def test_a_slow_start_of_a_driver_is_waited_for_and_one_that_stands_still_is_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "READY_IDLE_S", 2.0)
    monkeypatch.setattr(launch, "READY_IDLE_CPU_S", 0.01)
    slow = f"""
import json, runpy, sys, time
pool = json.loads(sys.argv[-1])["pool"]
while pool == "slow" and time.process_time() < 1.5:
    pass
if pool == "still":
    time.sleep(3600)
sys.argv += ["--journal", {str(bench.journal_file)!r}]
runpy.run_path({str(FAKE_DRIVER)!r}, run_name="__main__")
"""
    bench.engine = Engine(bench.catalog, bench.settings, driver_command=(sys.executable, "-c", slow))
    await bench.engine.start()
    bench.pool("still")
    bench.pool("slow")
    await bench.until(lambda: "had done nothing" in str(bench.engine.pool_state("still")[1]))
    await bench.until_pool("slow", "running")
    assert [line["options"]["pool"] for line in bench.journal("ready")].count("slow") == 1
