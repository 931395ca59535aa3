"""Drivers that outlive their server: the next server takes them over with their queries, or ends them; never are there two writers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
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
from headrace.engine.driver_port import DriverPort, PortIdentity
from headrace.engine.handshake import Handshake
from headrace.engine.kubernetes import kept as keeping
from headrace.engine.kubernetes import launch as launching
from headrace.engine.kubernetes import removal
from headrace.engine.launch import read_frame
from headrace.engine.pool_properties import EXECUTORS, MASTER
from headrace.engine.protocol import (
    SERVER_NAME,
    Authenticate,
    CopyCheckpoint,
    Message,
    Refused,
    TakeOver,
    encode_frame,
)
from headrace.engine.sizes import resources
from tests.driver.kubelet import Kubelet, served_api
from tests.outliving.bench import DRIVER, POOL, STANDALONE, OutlivingBench, PodBench, lives
from tests.unit.engine.conftest import plan

S = QueryState
SERVER = Path(__file__).with_name("server.py")


@pytest.fixture(params=("process", "pod"))
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OutlivingBench]:
    """A pool whose driver is a process on the server's machine, and one whose driver is a pod."""
    with ExitStack() as stack:
        if request.param == "pod":
            for module in (launching, removal):
                monkeypatch.setattr(module, "POLL_S", 0.05)
            api = stack.enter_context(served_api(tmp_path))
            driver = (str(DRIVER), "--journal", str(tmp_path / "journal"))
            folder = tmp_path / "pods"
            kubelet = stack.enter_context(Kubelet(api, folder, driver=driver))
            bench: OutlivingBench = PodBench(tmp_path, api, kubelet)
        else:
            bench = OutlivingBench(tmp_path)
        yield bench
        await bench.engine.stop()
        bench.catalog.close()
        bench.kill_drivers()


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
    assert not bench.is_there()


async def test_a_killed_server_leaves_its_driver_to_the_next_one(bench: OutlivingBench) -> None:
    bench.engine.views.close()
    bench.stop_default_pool()
    bench.pool(POOL, properties=bench.properties)
    query = bench.query("runs", pool=POOL)
    bench.catalog.close()
    settings = json.dumps(bench.more, default=str)
    server = subprocess.Popen(
        [sys.executable, str(SERVER), str(bench.folder), str(bench.journal_file), settings]
    )
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
    bench.assert_each_batch_once(query)


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
    bench.assert_each_batch_once(query)


@pytest.mark.parametrize("bench", ["process"], indirect=True)
async def test_a_driver_follows_only_a_later_server_and_a_server_only_its_driver(
    bench: OutlivingBench,
) -> None:
    await bench.first_engine()
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    kept = bench.folder_of_driver.kept()
    assert kept is not None
    # A stranger.
    for greeting in (encode_frame(Authenticate(token="wrong")), b"\0\0\0\2\0\0\0\0{}", b"\xff" * 8):
        reader, writer = await asyncio.open_unix_connection(kept.socket)
        writer.write(greeting)
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
    token = bench.token()
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
    assert (later := bench.folder_of_driver.kept()) is not None
    assert later.epoch == kept.epoch + 1
    logs = bench.logs()
    assert f"refused a server with epoch {kept.epoch}" in logs
    assert token not in logs


@pytest.mark.parametrize("bench", ["pod"], indirect=True)
async def test_a_pod_follows_only_a_later_server_and_a_server_only_its_pod(bench: PodBench) -> None:
    await bench.first_engine()
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    kept, epoch, number = bench.kept(), bench.epoch(), bench.settings.driver_port
    assert number is not None
    await bench.engine.stop()
    await bench.until_batches(query)

    # A stranger without the token.
    await bench.next_engine()
    context = ssl.create_default_context(cadata=kept.identity.certificate)
    for greeting in (encode_frame(Authenticate(token="wrong")), b"\0\0\0\2\0\0\0\0{}", b"\xff" * 8):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", number, ssl=context, server_hostname=SERVER_NAME
        )
        writer.write(greeting)
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
    await bench.until(lambda: bench.engine.progress(query))
    assert bench.epoch() == epoch + 1
    await bench.engine.stop()

    # An earlier server, with the right key and token; and a server with the token and another key, which does not get it.
    for identity in (kept.identity, PortIdentity.create()):
        earlier, port = (
            Handshake(POOL, kept.token, epoch=epoch, returns=True),
            DriverPort("127.0.0.1", number),
        )
        port.open(identity)
        port.expect(earlier)
        if identity == kept.identity:
            assert "follows a later server" in await asyncio.wait_for(earlier.failed, PATIENCE_S)
            assert earlier.is_refused
        else:
            await bench.until_batches(query, 30)
            assert not earlier.failed.done()
        assert not earlier.connected.done()
        await port.close()

    await bench.next_engine()
    await bench.until(lambda: bench.engine.progress(query))
    assert len(bench.pids()) == len(bench.journal("start", query)) == 1
    assert f"refused a server with epoch {epoch}" in bench.logs()
    # The token and the key are in the secret of the pod, and encrypted in the catalog.
    await bench.engine.stop()
    secrets = [kept.token.encode(), kept.identity.key.splitlines()[1].encode()]
    files = [path for path in bench.folder.rglob("*") if path.is_file() and path.parent.name != "credentials"]
    assert not [path for path in files for secret in secrets if secret in path.read_bytes()]


async def test_a_driver_that_does_not_follow_is_killed_before_the_next_one_starts(
    bench: OutlivingBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (outliving, keeping):
        monkeypatch.setattr(module, "RETURN_TIMEOUT_S", 0.5)
    await bench.first_engine()
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    await bench.engine.stop()
    os.kill(bench.pids()[0], signal.SIGSTOP)
    if isinstance(bench, PodBench):
        bench.kubelet.grace_s = 0.5
    await bench.next_engine()
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    first, second = bench.pids()
    assert not lives(first)
    assert lives(second)
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
    assert not lives(bench.pids()[0])
    await bench.until_state(query, S.RUNNING)
    # Nor does one with which the server would not start it now.
    await bench.engine.stop()
    await bench.next_engine(driver_orphan_s=0, spark_master="local[2]")
    await bench.until(lambda: not bench.engine._drivers.is_awaiting)
    assert not lives(bench.pids()[1])


async def test_a_driver_that_no_server_takes_over_stops_its_queries_and_ends(bench: OutlivingBench) -> None:
    await bench.first_engine(driver_orphan_s=1)
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    left = time.monotonic()
    await bench.engine.stop()
    [first] = bench.pids()
    await bench.until(lambda: bench.journal("exit") and not lives(first))
    [ended] = bench.journal("end", query)
    assert ended["at"] > left + 1
    await bench.next_engine()
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    await bench.until_state(query, S.RUNNING)


@pytest.mark.parametrize("bench", ["pod"], indirect=True)
async def test_pods_whose_pools_are_stopped_or_dropped_end_before_a_server_does_anything(
    bench: PodBench,
) -> None:
    await bench.first_engine()
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    await bench.engine.stop()
    # The server dies between the transaction and the request to the API.
    pool = bench.stored_pool(POOL)
    bench.catalog.update_compute_pool(replace(pool, desired_state=PoolIntent.STOPPED))
    await bench.next_engine()
    await bench.until(lambda: not bench.engine._drivers.is_awaiting)
    assert bench.journal("end", query)
    assert not bench.is_there()
    assert bench.catalog.pool_drivers.kept() == {}
    assert not lives(bench.pids()[0])

    bench.want(POOL, PoolIntent.RUNNING)
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    await bench.until_batches(query)
    await bench.engine.stop()
    bench.catalog.set_desired_state(query, DesiredState.TERMINATED)
    bench.catalog.record_query_state(query, S.TERMINATED)
    bench.catalog.drop(pool)
    await bench.next_engine()
    await bench.until(lambda: not bench.engine._drivers.is_awaiting)
    assert len(bench.journal("end", query)) == 2
    assert not bench.is_there()


@pytest.mark.parametrize("bench", ["pod"], indirect=True)
async def test_a_pod_that_is_gone_is_not_awaited_and_one_that_the_api_hides_returns(bench: PodBench) -> None:
    await bench.first_engine()
    query = bench.query("runs", pool=POOL)
    await bench.until_batches(query)
    identity = bench.kept().identity
    await bench.engine.stop()
    bench.api.refusal = (500, "etcd is away")
    await bench.next_engine()
    await bench.until(lambda: bench.engine.progress(query))
    assert len(bench.pids()) == 1
    bench.api.refusal = None
    await bench.engine.stop()

    os.kill(bench.pids()[0], signal.SIGKILL)
    [name] = bench.api.objects["pods"]
    await bench.until(lambda: bench.api.objects["pods"][name]["status"]["phase"] == "Failed")
    await bench.next_engine()
    awaited = bench.engine._drivers.find(POOL)
    assert awaited is None or not awaited.is_returning
    await bench.until(lambda: len(bench.journal("start", query)) == 2)
    await bench.until_state(query, S.RUNNING)
    # Drivers that live, if there are any, trust the port as it was.
    assert bench.kept().identity == identity


@pytest.mark.parametrize("bench", ["process"], indirect=True)
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


def test_drivers_of_clusters_outlive_a_server_that_shares_nothing(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    far = resources("small", settings, STANDALONE)
    assert outliving.outlives_s(settings, far) == settings.driver_orphan_s == 60
    near = resources("small", settings)
    pods = resources("small", settings, {MASTER.name: "k8s://in-cluster", EXECUTORS.name: "1"})
    assert outliving.outlives_s(settings, pods) == 60
    shared = settings.model_copy(update={"shared_dir": tmp_path})
    assert not any(outliving.outlives_s(*case) for case in ((settings, near), (shared, pods), (shared, far)))
    others = [
        ("u", settings, far),
        ("t", settings.model_copy(update={"spark_secret": SecretStr("another")}), far),
        ("t", settings, replace(far, heap_mb=1)),
    ]
    digests = {outliving.digest(*case) for case in (("t", settings, far), *others)}
    assert len(digests) == 4
    assert outliving.digest("t", settings, far) in digests


def test_a_pod_of_another_image_or_volume_is_another_driver(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, kubernetes_image="headrace:1", kubernetes_claim="shared")
    pods = resources("small", settings, {MASTER.name: "k8s://in-cluster", EXECUTORS.name: "1"})
    changes = ("kubernetes_image", "kubernetes_claim", "kubernetes_service_account", "driver_server")
    others = [settings.model_copy(update={name: "other:1"}) for name in changes]
    digests = {keeping.pod_digest("t", each, pods) for each in (settings, *others)}
    assert len(digests) == 5
    # What a driver does not see.
    assert keeping.pod_digest("t", settings.model_copy(update={"token": SecretStr("t")}), pods) in digests
