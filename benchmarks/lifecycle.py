"""Starting, first rows, memory; and coming back after kill -9."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import psutil

from benchmarks.records import PARTITIONS, Receiver, SteadyProducer, preload
from benchmarks.rig import Figures, Rig, resident_mb
from benchmarks.shapes import orders, orders_definition
from harness.process import HeadraceProcess

RATE = 200


def start_up(rig: Rig) -> Figures:
    """A server over an empty data directory: until it answers, until its pool is warm, until rows of a SELECT come; memory."""
    topic = rig.topic("bench_small", lambda name: preload(rig.bootstrap, name, orders(1000)))
    server = HeadraceProcess(rig.folder / rig.name("fresh"))
    began = time.monotonic()
    server.start()
    try:
        ready = time.monotonic() - began
        rig.until(lambda: rig.pool_state(server) == "running")
        warm = time.monotonic() - began
        rig.prepare(server)
        rig.execute(orders_definition("small", topic), server)
        select = "SELECT id, item FROM small WITH ('starting.position' = 'earliest') WHERE id >= 0;"
        rows = [rig.first_row_seconds(select, server) for _ in range(rig.sizes.interactive_queries)]
        return {
            "ready_s": ready,
            "pool_warm_s": warm,
            "first_interactive_row_s": statistics.median(rows),
            "first_interactive_row_cold_s": rows[0],
            **_memory(server),
        }
    finally:
        server.stop()


def recovery(rig: Rig) -> Figures:
    """A real-time query under load; from the kill until there is output for a record that was sent after it."""
    topic = rig.topic("bench_steady")
    rig.relation(
        "steady",
        f"CREATE STREAM steady (sent BIGINT, id BIGINT, note VARCHAR) WITH ('topic' = '{topic}', 'value.format' = JSON);",
    )
    sink = rig.name("survivor")
    query = rig.running(f"CREATE STREAM {sink} AS SELECT sent, id, note FROM steady")

    with SteadyProducer(rig.bootstrap, topic, rate=RATE):
        driver = _outage_s(rig, sink, lambda: _kill_driver(rig.server))
        server = _outage_s(rig, sink, rig.server.kill, revive=rig.server.start)
    rig.terminate(query)
    return {"driver_killed_s": driver, "server_killed_s": server}


def _outage_s(
    rig: Rig, sink: str, kill: Callable[[], None], *, revive: Callable[[], object] = lambda: None
) -> float:
    """Counts from the kill, but only what was sent when everything was gone: an orphaned query may write for a moment."""
    receiver = Receiver(rig.bootstrap, sink, PARTITIONS)
    try:
        receiver.first_sent_after(time.time())
        time.sleep(2)
        killed = time.time()
        kill()
        gone = time.time()
        revive()
        return receiver.first_sent_after(gone) - killed
    finally:
        receiver.close()


def _kill_driver(server: HeadraceProcess) -> None:
    """kill -9 of the driver's Python process and of its JVM."""
    java = next(process for process in server.descendants() if process.name() == "java")
    driver = java.parent()
    killed = [java] if driver is None else [driver, java]
    for process in killed:
        process.kill()
    psutil.wait_procs(killed, timeout=10)


def _memory(server: HeadraceProcess) -> Figures:
    java = next(process for process in server.descendants() if process.name() == "java")
    driver = java.parent()
    workers = [child for child in driver.children() if child.pid != java.pid] if driver else []
    return {
        "server_rss_mb": resident_mb(server.pid),
        "driver_rss_mb": resident_mb(driver.pid) if driver else 0.0,
        "jvm_rss_mb": resident_mb(java.pid),
        "other_driver_processes_rss_mb": sum(_resident(process) for process in workers),
    }


def _resident(process: psutil.Process) -> float:
    try:
        return resident_mb(process.pid)
    except psutil.NoSuchProcess:
        return 0.0
