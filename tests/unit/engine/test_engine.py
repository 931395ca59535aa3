from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from structlog.testing import capture_logs

from headrace.catalog.objects import DesiredState, PoolIntent, QueryState
from headrace.core.errors import HeadraceError, UserError
from headrace.core.resultset import ResultColumn
from headrace.core.sqlstate import SqlState
from headrace.engine import findings
from headrace.engine.protocol import DRIVER_REFUSED
from headrace.planner.physical import PLAN_VERSION, SparkPlan, WriteView
from headrace.planner.view_reads import ViewRead
from tests.unit.engine.conftest import plan

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

S = QueryState
COLUMNS = (ResultColumn("n"),)


async def test_a_query_is_started_with_the_properties_of_its_stores_and_runs(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("runs")
    await bench.until_state(query, S.RUNNING)
    await bench.until(lambda: bench.engine.progress(query) and bench.engine.progress(query).batch_id == 1)  # type: ignore[union-attr]
    progress = bench.engine.progress(query)
    assert progress is not None
    assert progress.input_rows_total == 20
    assert bench.journal("start")[0]["stores"] == {"store_1": {"uris": "localhost:1"}}
    assert bench.engine.pool_state(bench.catalog.default_compute_pool) == ("running", None)


async def test_a_query_reports_that_nearly_all_rows_are_late(bench: Bench) -> None:
    await bench.engine.start()
    query, other = bench.query("late"), bench.query("runs")
    await bench.until(lambda: bench.engine.notice(query))
    assert "98% of the last" in (bench.engine.notice(query) or "")
    assert "were behind the watermark (2100-01-01 00:00:00)" in (bench.engine.notice(query) or "")
    await bench.until_state(other, S.RUNNING)
    assert bench.engine.notice(other) is None


async def test_an_error_of_the_user_ends_a_query_until_it_is_restarted(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("user")
    await bench.until_state(query, S.ERRORED)
    await asyncio.sleep(0.3)
    stored = bench.stored_query(query)
    assert (stored.actual_state, stored.sqlstate, stored.restarts) == (S.ERRORED, "22P02", 0)
    assert stored.message == "an user error\nHint: do something"
    assert len(bench.journal("start", query)) == 1
    bench.catalog.request_restart(query)
    bench.engine.wake()
    await bench.until(lambda: len(bench.journal("start", query)) == 2)


async def test_a_query_whose_state_is_too_large_is_stopped_until_it_is_restarted(bench: Bench) -> None:
    bench.configure(query_state_mb_max=1)
    await bench.engine.start()
    large, other = bench.query("large"), bench.query("runs")
    await bench.until_state(large, S.ERRORED)
    stopped = bench.stored_query(large)
    assert stopped.sqlstate == "53000"
    assert "the state of the query has 2.0 MiB, expected at most 1 MiB" in (stopped.message or "")
    assert "HEADRACE_QUERY_STATE_MB_MAX" in (stopped.message or "")
    await bench.until_state(other, S.RUNNING)
    bench.catalog.request_restart(large)
    bench.engine.wake()
    await bench.until(lambda: len(bench.journal("start", large)) == 2)
    await bench.until_state(large, S.ERRORED)


async def test_an_error_of_a_store_restarts_a_query_after_growing_delays(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("external")
    await bench.until(lambda: bench.stored_query(query).restarts >= 3)
    await bench.until_state(query, S.RESTARTING)
    first, second, third = [start["at"] for start in bench.journal("start", query)][:3]
    assert second - first > 0.1
    assert third - second > 0.2
    assert bench.stored_query(query).message == "an external error\nHint: do something"


async def test_a_query_that_waits_for_its_store_says_so_and_is_not_started_anew(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("waits")
    await bench.until_state(query, S.RESTARTING)
    bench.end_silence()
    await bench.until(lambda: len(bench.history(query)) >= 3 and bench.history(query)[-1] is S.RUNNING)
    assert bench.engine.silent_store("store_1") is None
    events = [(state, message) for _, state, message in bench.catalog.query_events(query)]
    assert events[-2:] == [(S.RESTARTING, "the store is silent"), (S.RUNNING, None)]
    stored = bench.stored_query(query)
    assert (stored.restarts, stored.message, stored.sqlstate) == (0, None, None)
    assert len(bench.journal("start", query)) == 1


async def test_a_store_is_silent_while_a_query_waits_for_it(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("waits")
    await bench.until(lambda: bench.engine.silent_store("store_1") == "the store is silent")
    assert bench.engine.silent_store("store_2") is None
    bench.end_silence()
    await bench.until(lambda: bench.engine.silent_store("store_1") is None)
    await bench.until_state(query, S.RUNNING)


async def test_a_query_that_has_no_batch_after_a_while_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "FIRST_BATCH_S", 0.0)
    await bench.engine.start()
    query, other = bench.query("runs"), bench.query("waits")
    bench.end_silence()
    await bench.until(lambda: bench.engine.notice(other))
    assert "no batch has ended in the 0 s since the query was started" in (bench.engine.notice(other) or "")
    await bench.until(lambda: bench.engine.progress(query))
    assert bench.engine.notice(query) is None


async def test_a_query_that_recovers_forgets_its_error(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("once")
    await bench.until_state(query, S.RUNNING)
    stored = bench.stored_query(query)
    assert (stored.message, stored.restarts) == (None, 1)
    assert bench.history(query)[-2:] == [S.RESTARTING, S.RUNNING]


async def test_a_query_that_ends_by_itself_counts_as_failed(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("ends")
    await bench.until(lambda: bench.stored_query(query).restarts >= 1)


async def test_terminate_stops_a_query_for_good(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("runs")
    await bench.until_state(query, S.RUNNING)
    bench.catalog.set_desired_state(query, DesiredState.TERMINATED)
    bench.engine.wake()
    await bench.until_state(query, S.TERMINATED)
    assert bench.history(query)[-2:] == [S.TERMINATE_REQUESTED, S.TERMINATED]
    assert len(bench.journal("stop", query)) == 1


async def test_restart_of_a_running_query_stops_it_and_starts_the_next_generation(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("runs")
    await bench.until_state(query, S.RUNNING)
    bench.catalog.request_restart(query)
    bench.engine.wake()
    await bench.until(lambda: [line["generation"] for line in bench.journal("start", query)] == [1, 2])
    await bench.until_state(query, S.RUNNING)
    assert len(bench.journal("stop", query)) == 1


async def test_a_late_answer_to_a_stop_does_not_end_the_next_run(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("races")
    await bench.until_state(query, S.RUNNING)
    bench.catalog.request_restart(query)
    bench.engine.wake()
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    await bench.until_state(query, S.RUNNING)
    await bench.until(lambda: bench.journal("late", query))
    await asyncio.sleep(0.2)
    assert bench.stored_query(query).actual_state is S.RUNNING
    assert [line["generation"] for line in bench.journal("start", query)] == [1, 2]


async def test_a_killed_driver_is_started_again_with_its_queries(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("runs")
    await bench.until_state(query, S.RUNNING)
    os.kill(bench.journal("ready")[0]["pid"], signal.SIGKILL)
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    await bench.until_state(query, S.RUNNING)
    assert bench.stored_query(query).restarts == 1
    pids = [line["pid"] for line in bench.journal("ready")]
    assert len(set(pids)) == 2


def _rows_read(bench: Bench, query: str) -> int:
    progress = bench.engine.progress(query)
    return progress.input_rows_total if progress else 0


async def test_kills_of_a_driver_that_works_do_not_add_up_to_longer_delays(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("runs")
    with capture_logs() as logged:
        for kills in range(1, 4):
            await bench.until_state(query, S.RUNNING)
            # Two batches of ten rows in each run.
            await bench.until(lambda rows=20 * kills: _rows_read(bench, query) == rows)
            os.kill(bench.journal("ready")[-1]["pid"], signal.SIGKILL)
            await bench.until(lambda starts=kills + 1: len(bench.journal("start", query)) == starts)
    delays = [entry["restart_in_ms"] for entry in logged if entry["event"] == "driver_ended"]
    assert delays == [bench.settings.restart_backoff_ms] * 3


async def test_a_stopped_engine_leaves_no_process_and_the_next_one_goes_on(bench: Bench) -> None:
    await bench.engine.start()
    running, failed = bench.query("runs"), bench.query("user")
    await bench.until_state(running, S.RUNNING)
    await bench.until_state(failed, S.ERRORED)
    await bench.engine.stop()
    assert not psutil.pid_exists(bench.journal("ready")[0]["pid"])
    assert bench.stored_query(running).actual_state is S.RUNNING
    bench.engine = bench.new_engine()
    await bench.engine.start()
    await bench.until(lambda: len(bench.journal("start", running)) == 2)
    await bench.until_state(running, S.RUNNING)
    assert bench.stored_query(failed).actual_state is S.ERRORED
    assert len(bench.journal("start", failed)) == 1


async def test_an_orderly_stop_is_neither_a_failure_nor_the_end_of_a_bounded_query(bench: Bench) -> None:
    await bench.engine.start()
    endless, bounded = bench.query("runs"), bench.query("runs", bounded=True)
    await bench.until_state(endless, S.RUNNING)
    await bench.until_state(bounded, S.RUNNING)
    await bench.engine.stop()
    for query in map(bench.stored_query, (endless, bounded)):
        assert (query.desired_state, query.restarts, query.message) == (DesiredState.RUNNING, 0, None)
    bench.engine = bench.new_engine()
    await bench.engine.start()
    await bench.until(lambda: len(bench.journal("start", bounded)) == 2)


async def test_a_bounded_query_that_has_ended_is_complete_and_stays_so(bench: Bench) -> None:
    await bench.engine.start()
    query = bench.query("ends", bounded=True)
    await bench.until_state(query, S.TERMINATED)
    stored = bench.stored_query(query)
    assert (stored.desired_state, stored.restarts) == (DesiredState.TERMINATED, 0)
    assert stored.message == "it is complete: all rows of its tables are written"


async def test_a_query_that_does_not_end_is_ended_with_its_driver(bench: Bench) -> None:
    bench.configure(stop_timeout_ms=500)
    await bench.engine.start()
    deaf, other = bench.query("deaf"), bench.query("runs")
    await bench.until_state(deaf, S.RUNNING)
    await bench.until_state(other, S.RUNNING)
    bench.catalog.set_desired_state(deaf, DesiredState.TERMINATED)
    bench.engine.wake()
    await bench.until_state(deaf, S.TERMINATED)
    await bench.until(lambda: len(bench.journal("start", other)) == 2)
    await bench.until_state(other, S.RUNNING)
    reason = f"the driver was killed: the query {deaf} had not ended 500 ms after the request to stop"
    assert bench.stored_query(deaf).message == reason
    assert bench.stored_query(other).restarts == 1
    assert reason in [message for _, _, message in bench.catalog.query_events(other)]
    assert len(bench.journal("start", deaf)) == 1


@pytest.mark.parametrize("what", ["deaf", "stubborn"])
async def test_a_driver_that_does_not_end_when_asked_is_ended_and_its_folder_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    for module in ("pools", "launch"):
        monkeypatch.setattr(f"headrace.engine.{module}.KILL_TIMEOUT_S", 0.5)
    monkeypatch.setattr("headrace.engine.pools.STOP_TIMEOUT_S", 0.7)
    await bench.engine.start()
    query = bench.query(what)
    await bench.until_state(query, S.RUNNING)
    await bench.engine.stop()
    assert not psutil.pid_exists(bench.journal("ready")[0]["pid"])
    assert [*(bench.folder / "work").iterdir(), *(bench.folder / "run").iterdir()] == []


async def test_the_checkpoint_of_a_query_is_kept_until_the_query_is_forgotten(bench: Bench) -> None:
    query, kept = bench.folder / "checkpoints" / "q-1", bench.folder / "checkpoints" / "q-2"
    for checkpoint in (query, kept):
        (checkpoint / "offsets").mkdir(parents=True)
    await bench.engine.forget(["q-1", "q-3"])
    assert not query.exists()
    assert kept.exists()


async def test_a_start_removes_the_checkpoints_that_a_killed_server_has_left(bench: Bench) -> None:
    """A query that cannot be restarted, since its sink was dropped, and an interactive one leave checkpoints."""
    sink = bench.relation("dropped")
    goes_on, dropped = bench.query("runs"), bench.query("runs", writes=sink.name)
    bench.catalog.set_desired_state(dropped, DesiredState.TERMINATED)
    bench.catalog.record_query_state(dropped, S.TERMINATED)
    bench.catalog.drop(sink)
    folders = {name: bench.folder / "checkpoints" / name for name in (goes_on, dropped, "interactive-1")}
    for folder in folders.values():
        (folder / "offsets").mkdir(parents=True)
    await bench.engine.start()
    assert [name for name, folder in folders.items() if folder.exists()] == [goes_on]


async def test_a_query_terminated_while_no_server_ran_is_terminated_at_the_next_start(bench: Bench) -> None:
    query = bench.query("runs")
    bench.catalog.record_query_state(query, S.RUNNING)
    bench.catalog.set_desired_state(query, DesiredState.TERMINATED)
    await bench.engine.start()
    await bench.until_state(query, S.TERMINATED)
    assert bench.journal("start", query) == []


async def test_rows_wait_for_their_reader(bench: Bench) -> None:
    await bench.engine.start()
    pool = bench.catalog.default_compute_pool
    channel = await bench.engine.run_interactive(
        plan("rows", sink="results"), COLUMNS, compute_pool=pool, user="admin"
    )
    await channel.started()
    await bench.until(lambda: len(bench.journal("ack")) == 3)
    await asyncio.sleep(0.3)
    assert len(bench.journal("ack")) == 3  # thirty rows are held; the fourth batch is not answered
    read: list[str | None] = []
    async for rows in channel:
        read += [row[0] for row in rows.cells]
        if len(read) >= 200:
            break
    assert read == [str(number) for number in range(len(read))]
    await channel.close()
    await bench.until(lambda: bench.journal("stop", channel.query_id))


async def test_an_error_of_an_interactive_query_reaches_its_reader(bench: Bench) -> None:
    await bench.engine.start()
    pool = bench.catalog.default_compute_pool
    channel = await bench.engine.run_interactive(
        plan("user", sink="results"), COLUMNS, compute_pool=pool, user="admin"
    )
    with pytest.raises(UserError) as caught:
        await channel.started()
    assert (caught.value.state, caught.value.hint) == (SqlState.INVALID_RECORD, "do something")


async def test_interactive_queries_are_limited_and_a_closed_one_frees_its_place(bench: Bench) -> None:
    await bench.engine.start()
    pool = bench.catalog.default_compute_pool
    channels = [
        await bench.engine.run_interactive(
            plan("rows", sink="results"), COLUMNS, compute_pool=pool, user="admin"
        )
        for _ in range(2)
    ]
    with pytest.raises(UserError) as caught:
        await bench.engine.run_interactive(
            plan("rows", sink="results"), COLUMNS, compute_pool=pool, user="admin"
        )
    assert caught.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    await channels[0].started()
    await channels[0].close()
    # Its place is free when the driver has answered.
    await bench.until(lambda: not bench.engine._interactive.knows(channels[0].query_id))
    await bench.engine.run_interactive(plan("rows", sink="results"), COLUMNS, compute_pool=pool, user="admin")


async def test_readers_of_a_killed_driver_get_an_error(bench: Bench) -> None:
    await bench.engine.start()
    pool = bench.catalog.default_compute_pool
    channel = await bench.engine.run_interactive(
        plan("rows", sink="results"), COLUMNS, compute_pool=pool, user="admin"
    )
    await channel.started()
    os.kill(bench.journal("ready")[0]["pid"], signal.SIGKILL)
    with pytest.raises(HeadraceError) as caught:
        async for _ in channel:
            pass
    assert caught.value.state is SqlState.COMPUTE_POOL_NOT_READY


async def test_a_view_is_applied_before_its_query_gets_the_confirmation(bench: Bench) -> None:
    view = str(uuid.uuid4())
    await bench.engine.start()
    sink = plan("view", sink="view", view=view).steps[-1]
    assert isinstance(sink, WriteView)
    bench.engine.views.create(view, sink.columns, sink.key_columns)
    bench.query("view", sink="view", view=view)
    await bench.until(lambda: bench.journal("ack"))
    assert bench.journal("ack")[0]["error"] is None
    sql = f'SELECT k, n FROM "{view}" ORDER BY k'
    assert bench.engine.views.query(sql, reads=[ViewRead(view)])[1] == [("a", 1), ("b", 2)]


async def test_an_answer_goes_to_the_driver_that_asked_or_to_none(bench: Bench) -> None:
    view = str(uuid.uuid4())
    await bench.engine.start()
    sink = plan("view", sink="view", view=view).steps[-1]
    assert isinstance(sink, WriteView)
    bench.engine.views.create(view, sink.columns, sink.key_columns)
    held = threading.Event()
    bench.engine.views.writer.submit(held.wait)
    try:
        query = bench.query("view", sink="view", view=view)
        await bench.until(lambda: len(bench.journal("ask")) == 1)
        os.kill(bench.journal("ready")[0]["pid"], signal.SIGKILL)
        await bench.until(lambda: len(bench.journal("ask")) == 2)
        assert [line["sequence"] for line in bench.journal("ask")] == [1, 1]
        assert len(bench.journal("start", query)) == 2
    finally:
        held.set()
    await bench.until(lambda: bench.journal("ack"))
    await asyncio.sleep(0.2)
    assert [line["pid"] for line in bench.journal("ack")] == [bench.journal("ready")[1]["pid"]]


async def test_a_plan_of_another_version_is_an_error_that_says_so(bench: Bench) -> None:
    query = bench.query("runs")
    other = bench.stored_query(query)
    bench.catalog.create_query(
        type(other)(
            **{
                **other.__dict__,
                "id": str(uuid.uuid4()),
                "plan": SparkPlan(steps=[], outputs=[])
                .to_json()
                .replace(f'"version": {PLAN_VERSION}', '"version": 99'),
            }
        )
    )
    await bench.engine.start()
    broken = next(item for item in bench.catalog.queries() if item.id != query)
    await bench.until_state(broken.id, S.ERRORED)
    await bench.until_state(query, S.RUNNING)


async def test_a_driver_that_cannot_start_is_reported(bench: Bench) -> None:
    engine = type(bench.engine)
    bench.engine.views.close()
    command = (sys.executable, "-c", "import sys; sys.exit('x: the driver failed: no Java')")
    bench.engine = engine(bench.catalog, bench.settings, driver_command=command)
    await bench.engine.start()
    pool = bench.catalog.default_compute_pool
    await bench.until(lambda: bench.engine.pool_state(pool)[0] == "errored")
    assert bench.engine.pool_state(pool)[1] == "no Java"
    query = bench.query("runs")
    await bench.until(lambda: bench.stored_query(query).message == "no Java")


async def test_a_driver_that_refuses_the_settings_is_not_tried_again(bench: Bench) -> None:
    bench.engine.views.close()
    tries = bench.folder / "tries"
    script = f"""
import sys
open({str(tries)!r}, "a").write(".")
print("x: the driver failed: no Java.", file=sys.stderr)
sys.exit({DRIVER_REFUSED})
"""
    bench.engine = type(bench.engine)(
        bench.catalog, bench.settings, driver_command=(sys.executable, "-c", script)
    )
    await bench.engine.start()
    query, pool = bench.query("runs"), bench.catalog.default_compute_pool
    said = "no Java. STOP and START COMPUTE_POOL to try again, or restart the server."
    await bench.until(lambda: bench.stored_query(query).message == said)
    assert bench.engine.pool_state(pool) == ("errored", said)
    channel = await bench.engine.run_interactive(
        plan("rows", sink="results"), COLUMNS, compute_pool=pool, user="admin"
    )
    with pytest.raises(HeadraceError, match="no Java"):
        await channel.started()
    await asyncio.sleep(3 * bench.settings.restart_backoff_ms / 1000)
    assert tries.read_text() == "."
    bench.want(pool, PoolIntent.STOPPED)
    await bench.until_state(query, S.STOPPED)
    bench.want(pool, PoolIntent.RUNNING)
    await bench.until(lambda: tries.read_text() == "..")


_SERVER = """
import asyncio, sys
from pathlib import Path
from headrace.catalog.catalog import Catalog
from headrace.core.settings import Settings
from headrace.engine.engine import Engine

async def main():
    folder = Path(sys.argv[1])
    engine = Engine(Catalog.open(folder), Settings(data_dir=folder), driver_command=sys.argv[2:])
    await engine.start()
    await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_a_killed_server_leaves_no_driver(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    fake = Path(__file__).with_name("fake_driver.py")
    command = [
        sys.executable,
        "-c",
        _SERVER,
        str(folder),
        sys.executable,
        str(fake),
        "--journal",
        str(bench.journal_file),
    ]
    server = subprocess.Popen(command)
    try:
        await bench.until(lambda: bench.journal("ready"))
        driver = bench.journal("ready")[0]["pid"]
    finally:
        server.kill()
        server.wait()
    await bench.until(lambda: not psutil.pid_exists(driver))


async def test_one_user_does_not_take_all_interactive_queries(bench: Bench) -> None:
    bench.configure(interactive_queries_max=6)
    await bench.engine.start()
    pool, rows = bench.catalog.default_compute_pool, plan("rows", sink="results")
    for _ in range(3):
        await bench.engine.run_interactive(rows, COLUMNS, compute_pool=pool, user="greedy")
    with pytest.raises(UserError) as refusal:
        await bench.engine.run_interactive(rows, COLUMNS, compute_pool=pool, user="greedy")
    assert refusal.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert "the user 'greedy' runs 3 interactive queries" in refusal.value.message
    await bench.engine.run_interactive(rows, COLUMNS, compute_pool=pool, user="other")
