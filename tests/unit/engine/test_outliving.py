"""Drivers that outlive their server: the next server takes them over with their queries, or ends them; never are there two writers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr

from harness.patience import PATIENCE_S
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import DesiredState, PoolIntent, QueryState
from headrace.core.resultset import ResultColumn
from headrace.core.settings import Settings
from headrace.engine import outliving
from headrace.engine.driver_folder import DriverFolder
from headrace.engine.engine import Engine
from headrace.engine.launch import read_frame
from headrace.engine.pool_properties import EXECUTORS, MASTER
from headrace.engine.protocol import (
    Authenticate,
    CopyCheckpoint,
    Message,
    Refused,
    TakeOver,
    encode_frame,
)
from headrace.engine.sizes import resources
from tests.unit.engine.conftest import Bench, plan

S = QueryState
DRIVER, SERVER = (Path(__file__).with_name(f"outliving_{name}.py") for name in ("driver", "server"))
POOL = "far"
CLUSTER = {MASTER.name: "spark://127.0.0.1:7077", EXECUTORS.name: "1"}


class OutlivingBench(Bench):
    """Engines whose pool is on a cluster, one after the other over one catalog."""

    def new_engine(self) -> Engine:
        command = (sys.executable, str(DRIVER), "--journal", str(self.journal_file))
        return Engine(self.catalog, self.settings, driver_command=command)

    async def first_engine(self, **settings: object) -> None:
        """Start the first engine, and its pool."""
        self.settings = self.settings.model_copy(update={"driver_orphan_s": 600, **settings})
        self.engine.views.close()
        self.engine = self.new_engine()
        default = self.stored_pool("default_pool")
        self.catalog.update_compute_pool(replace(default, desired_state=PoolIntent.STOPPED))
        await self.engine.start()
        self.pool(POOL, properties=CLUSTER)
        await self.until_pool(POOL, "running")

    async def next_engine(self, **settings: object) -> None:
        """Start another engine after one that was stopped."""
        self.settings = self.settings.model_copy(update=settings)
        self.engine = self.new_engine()
        await self.engine.start()

    @property
    def driver_folder(self) -> DriverFolder:
        return DriverFolder(self.folder / "drivers" / self.stored_pool(POOL).id)

    def pids(self) -> list[int]:
        """The drivers that were started."""
        return [line["pid"] for line in self.journal("ready")]

    def batches(self, query_id: str) -> int:
        """The batches that a query has finished."""
        file = self.folder / f"batches-{query_id}"
        return len(file.read_text().splitlines()) if file.exists() else 0

    async def until_batches(self, query_id: str, more: int = 3) -> None:
        """Wait for some more batches."""
        before = self.batches(query_id)
        await self.until(lambda: self.batches(query_id) >= before + more)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[OutlivingBench]:
    bench = OutlivingBench(tmp_path)
    yield bench
    await bench.engine.stop()
    bench.catalog.close()
    for pid in bench.pids():
        with suppress(ProcessLookupError):
            # The group of its guard.
            os.killpg(os.getpgid(pid), signal.SIGKILL)


async def test_the_next_server_takes_the_driver_over_with_its_queries(bench: OutlivingBench) -> None:
    await bench.first_engine()
    runs, fails = bench.query("runs", pool=POOL), bench.query("fails", pool=POOL)
    for query in (runs, fails):
        await bench.until_state(query, S.RUNNING)
    reader = await bench.engine.run_interactive(
        plan("reads", sink="results"), (ResultColumn("n"),), compute_pool=POOL, user="u"
    )
    await bench.until(lambda: len(bench.journal("start")) == 3)
    history = bench.history(runs)

    await bench.engine.stop()
    assert reader.query_id not in (runs, fails)
    await bench.until(lambda: bench.journal("end", reader.query_id))
    await bench.until_batches(runs)
    (bench.folder / "fails").touch()
    await bench.until(lambda: bench.journal("end", fails))

    await bench.next_engine()
    await bench.until_pool(POOL, "running")
    await bench.until(lambda: bench.engine.progress(runs))
    assert len(bench.pids()) == 1
    assert [line["id"] for line in bench.journal("start")].count(runs) == 1
    assert bench.history(runs) == history
    # What nobody has heard is reported now.
    await bench.until_state(fails, S.ERRORED)
    assert bench.stored_query(fails).message == "a user error"

    missing = bench.query("runs", pool=POOL)
    await bench.until_state(missing, S.RUNNING)
    for query in (runs, missing):
        bench.catalog.set_desired_state(query, DesiredState.TERMINATED)
    bench.engine.wake()
    await bench.until_state(runs, S.TERMINATED)
    await bench.until_state(missing, S.TERMINATED)
    bench.want(POOL, PoolIntent.STOPPED)
    await bench.until_pool(POOL, "stopped")
    await bench.until(lambda: not psutil.pid_exists(bench.pids()[0]))
    assert not bench.driver_folder.path.exists()


async def test_a_killed_server_leaves_its_driver_to_the_next_one(bench: OutlivingBench) -> None:
    bench.engine.views.close()
    default = bench.stored_pool("default_pool")
    bench.catalog.update_compute_pool(replace(default, desired_state=PoolIntent.STOPPED))
    bench.pool(POOL, properties=CLUSTER)
    query = bench.query("runs", pool=POOL)
    bench.catalog.close()
    server = subprocess.Popen([sys.executable, str(SERVER), str(bench.folder), str(bench.journal_file)])
    try:
        await bench.until(lambda: bench.batches(query) > 3)
    finally:
        server.kill()
        server.wait()
    await bench.until_batches(query)
    bench.catalog = Catalog.open(bench.folder)
    killed = bench.stored_query(query)
    await bench.next_engine(driver_orphan_s=600)
    began = time.monotonic()
    await bench.until(lambda: bench.engine.progress(query))
    sys.stdout.write(f"taken over in {time.monotonic() - began:.2f} s\n")
    await bench.until_state(query, S.RUNNING)
    assert len(bench.pids()) == len(bench.journal("start", query)) == 1
    assert bench.stored_query(query).restarts == killed.restarts == 0
    lines = (bench.folder / f"batches-{query}").read_text().split()
    assert [int(line) for line in lines] == list(range(len(lines)))


async def test_queries_that_must_not_run_so_any_more_are_stopped_before_they_start_again(
    bench: OutlivingBench,
) -> None:
    await bench.first_engine()
    dropped, changed, held, kept = (bench.query("runs", pool=POOL) for _ in range(4))
    for query in (dropped, changed, held, kept):
        await bench.until_state(query, S.RUNNING)
    driver = bench.engine._drivers.find(POOL)
    assert driver is not None
    driver.send(CopyCheckpoint(sequence=1, query_id=held, target=str(bench.folder / "copy"), hold=True))
    await bench.until(lambda: bench.journal("held", held))
    await bench.engine.stop()
    bench.catalog.set_desired_state(dropped, DesiredState.TERMINATED)
    bench.catalog.request_restart(changed)
    # Its next version may have been stored with a copy of its checkpoint.
    await bench.until(lambda: bench.journal("end", held))
    assert not bench.journal("end", changed)

    await bench.next_engine()
    await bench.until_state(dropped, S.TERMINATED)
    await bench.until(lambda: len(bench.journal("start", changed)) == 2)
    await bench.until(lambda: len(bench.journal("start", held)) == 2)
    for query in (changed, held, kept):
        await bench.until_state(query, S.RUNNING)
    assert len(bench.journal("start", dropped)) == len(bench.journal("start", kept)) == 1
    assert len(bench.pids()) == 1
    for query in (dropped, changed):
        (ended,), starts = bench.journal("end", query), bench.journal("start", query)
        assert all(later["at"] > ended["at"] for later in starts[1:])
    assert [line["generation"] for line in bench.journal("start", changed)] == [
        1,
        bench.stored_query(changed).generation,
    ]


async def test_an_epoch_of_a_view_waits_for_the_next_server(bench: OutlivingBench) -> None:
    await bench.first_engine()
    relation = bench.relation("totals")
    query = bench.query("view", pool=POOL, sink="view", view=relation.id)
    await bench.until_batches(query)
    await bench.engine.stop()
    waits = bench.batches(query)
    await asyncio.sleep(0.3)
    assert bench.batches(query) <= waits + 1
    await bench.next_engine()
    await bench.until_batches(query)
    assert len(bench.journal("start", query)) == 1
    # Each once, in order.
    lines = (bench.folder / f"batches-{query}").read_text().split()
    assert [int(line) for line in lines] == list(range(len(lines)))


async def test_a_driver_follows_only_a_later_server_and_a_server_only_its_driver(
    bench: OutlivingBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.first_engine()
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    kept = bench.driver_folder.kept()
    assert kept is not None
    # A stranger.
    for greeting in (encode_frame(Authenticate(token="wrong")), b"\0\0\0\2\0\0\0\0{}", b"\xff" * 8):
        reader, writer = await asyncio.open_unix_connection(kept.socket)
        writer.write(greeting)
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
    token = bench.driver_folder.token
    commands = [
        " ".join(process.cmdline()) for process in psutil.process_iter() if process.pid in bench.pids()
    ]
    assert commands
    assert not any(token in command for command in commands)
    await bench.engine.stop()

    # An earlier server, with the right token.
    replies: asyncio.Queue[Message] = asyncio.Queue()

    async def earlier(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting, _ = await read_frame(reader)
        assert isinstance(greeting, Authenticate)
        writer.write(encode_frame(TakeOver(epoch=kept.epoch)))
        replies.put_nowait((await read_frame(reader))[0])
        writer.close()

    kept.socket.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(earlier, path=kept.socket)
    assert await asyncio.wait_for(replies.get(), PATIENCE_S) == Refused(epoch=kept.epoch)
    server.close()
    await bench.until_batches(query)

    await bench.next_engine()
    await bench.until(lambda: bench.engine.progress(query))
    assert len(bench.pids()) == 1
    assert (later := bench.driver_folder.kept()) is not None
    assert later.epoch == kept.epoch + 1
    logs = "".join(path.read_text() for path in (bench.folder / "logs").iterdir())
    assert f"refused a server with epoch {kept.epoch}" in logs
    assert token not in logs

    # It does not answer.
    monkeypatch.setattr(outliving, "RETURN_TIMEOUT_S", 0.5)
    await bench.engine.stop()
    os.kill(bench.pids()[0], signal.SIGSTOP)
    await bench.next_engine()
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    first, second = bench.pids()
    assert not _lives(first)
    assert _lives(second)
    await bench.until_state(query, S.RUNNING)


async def test_a_driver_of_another_version_ends_in_order_before_the_next_one_starts(
    bench: OutlivingBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.first_engine()
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    await bench.engine.stop()
    monkeypatch.setattr(outliving, "__version__", "another")
    await bench.next_engine()
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    (ended,), (_, started) = bench.journal("end", query), bench.journal("start", query)
    assert ended["at"] < started["at"]
    assert not _lives(bench.pids()[0])
    await bench.until_state(query, S.RUNNING)
    # Nor does one with which the server would not start it now.
    await bench.engine.stop()
    await bench.next_engine(driver_orphan_s=0, spark_master="local[2]")
    assert not _lives(bench.pids()[1])


async def test_a_driver_that_no_server_takes_over_stops_its_queries_and_ends(bench: OutlivingBench) -> None:
    await bench.first_engine(driver_orphan_s=1)
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    folder = bench.driver_folder
    await bench.engine.stop()
    assert folder.is_held()
    await bench.until(lambda: bench.journal("exit") and not folder.is_held())
    assert bench.journal("end", query)
    await bench.next_engine()
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    await bench.until_state(query, S.RUNNING)


async def test_a_pool_waits_for_a_driver_that_may_live_on_another_machine(bench: OutlivingBench) -> None:
    await bench.first_engine()
    query = bench.query("runs", pool=POOL)
    await bench.until_state(query, S.RUNNING)
    bench.want(POOL, PoolIntent.STOPPED)
    await bench.until_pool(POOL, "stopped")
    pool = bench.stored_pool(POOL)
    assert bench.catalog.pool_drivers.all()[pool.id].outlives_s == 0
    await bench.engine.stop()
    bench.catalog.pool_drivers.claim(pool.id, "elsewhere", "host-a", 6000)
    bench.catalog.update_compute_pool(replace(pool, desired_state=PoolIntent.RUNNING))
    await bench.next_engine()
    await bench.until_pool(POOL, "errored")
    assert "may still run on host-a" in str(bench.engine.pool_state(POOL)[1])
    assert len(bench.pids()) == 1
    await bench.engine.stop()
    bench.catalog.pool_drivers.claim(pool.id, "elsewhere", "host-a", 1)
    await bench.next_engine()
    await bench.until_pool(POOL, "running")
    await bench.until(lambda: len(bench.journal("start", query)) == 2)


def test_only_drivers_of_standalone_clusters_outlive_a_server_that_shares_nothing(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    far = resources("small", settings, CLUSTER)
    assert outliving.outlives_s(settings, far) == settings.driver_orphan_s == 60
    near = resources("small", settings)
    pods = resources("small", settings, {MASTER.name: "k8s://in-cluster"})
    shared = settings.model_copy(update={"shared_dir": tmp_path})
    assert not any(
        outliving.outlives_s(*case) for case in ((settings, near), (settings, pods), (shared, far))
    )
    others = [
        ("u", settings, far),
        ("t", settings.model_copy(update={"spark_secret": SecretStr("another")}), far),
        ("t", settings, replace(far, heap_mb=1)),
    ]
    digests = {outliving.digest(*case) for case in (("t", settings, far), *others)}
    assert len(digests) == 4
    assert outliving.digest("t", settings, far) in digests


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
