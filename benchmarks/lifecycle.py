"""Starting, first rows, memory; and coming back after kill -9."""

# ruff: noqa: S608 - the names in these statements are made here

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import psutil

from benchmarks.records import PARTITIONS, Receiver, SteadyProducer, preload
from benchmarks.rig import Figures, Rig, resident_mb
from benchmarks.shapes import orders, orders_definition
from harness.process import HeadraceProcess
from headrace.testing.processes import running_after

RATE = 200
BUSY_RATE = 1000
BUSY_PROCESSES = 2
KILLS = 5
RESTART = ("driver_ended", "driver_started", "driver_ready", "query_state")
"""Events of the server's log, in the order of a restart."""


def start_up(rig: Rig) -> Figures:
    """Start a server on an empty data directory; measure the times until it answers, its pool is warm and a SELECT returns rows, and the
    memory."""
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
    """Kill a real-time query under load; measure the time until the first output of a record that was sent after the kill."""
    topic = rig.topic("bench_steady")
    rig.relation(
        "steady",
        f"CREATE STREAM steady (sent BIGINT, id BIGINT, note VARCHAR) WITH ('topic' = '{topic}', 'value.format' = JSON);",
    )
    sink = rig.name("survivor")
    query = rig.running(f"CREATE STREAM {sink} AS SELECT sent, id, note FROM steady")

    with SteadyProducer(rig.bootstrap, topic, rate=RATE):
        driver = outage_s(rig, sink, lambda: _kill_driver(rig.server))
        server = outage_s(rig, sink, rig.server.kill, revive=rig.server.start)
    rig.terminate(query)
    return {"driver_killed_s": driver, "server_killed_s": server}


def recovery_busy(rig: Rig) -> Figures:
    """An exactly-once query under load beside processes that take all cores; five kills of its driver, then five of the JVM."""
    topic = rig.topic("bench_steady_busy")
    rig.relation(
        "steady_busy",
        f"CREATE STREAM steady_busy (sent BIGINT, id BIGINT, note VARCHAR) WITH ('topic' = '{topic}', 'value.format' = JSON);",
    )
    sink = rig.name("survivor")
    query = rig.running(
        f"CREATE STREAM {sink} WITH ('delivery.guarantee' = exactly_once) AS SELECT sent, id, note FROM steady_busy"
    )
    figures: Figures = {}
    with SteadyProducer(rig.bootstrap, topic, rate=BUSY_RATE), _busy(BUSY_PROCESSES):
        for name, kill in (("driver", rig.server.kill_driver), ("jvm", rig.server.kill_jvm)):
            outages = []
            for _ in range(KILLS):
                outages.append(outage_s(rig, sink, kill))
                steps = _steps(rig.server, since=time.time() - outages[-1])
                rig.say(
                    f"    {name}: {outages[-1]:.1f} s, of the new driver {rig.driver_cpu_s():.1f} s of processor time: {steps}"
                )
            figures[f"{name}_killed_s"] = statistics.median(outages)
            figures[f"{name}_killed_longest_s"] = max(outages)
    rig.terminate(query)
    return figures


def recovery_standby(rig: Rig) -> Figures:
    """Kill the driver of an exactly-once query under load five times, without and with a process on standby."""
    topic = rig.topic("bench_standby")
    figures: Figures = {}
    with SteadyProducer(rig.bootstrap, topic, rate=RATE):
        for name, count in (("without", 0), ("with", 1)):
            server = HeadraceProcess(
                rig.folder / rig.name(name), environment={"HEADRACE_POOLS_STANDBY": str(count)}
            )
            server.start()
            try:
                outages = _outages_s(rig, server, topic, standbys=count)
            finally:
                server.stop()
            figures[f"{name}_standby_driver_killed_s"] = statistics.median(outages)
            figures[f"{name}_standby_driver_killed_longest_s"] = max(outages)
    return figures


def _outages_s(rig: Rig, server: HeadraceProcess, topic: str, *, standbys: int) -> list[float]:
    rig.prepare(server)
    rig.execute(
        f"CREATE STREAM steady (sent BIGINT, id BIGINT, note VARCHAR) WITH ('topic' = '{topic}', 'value.format' = JSON);",
        server,
    )
    sink = rig.name("survivor")
    rig.execute(
        f"CREATE STREAM {sink} WITH ('delivery.guarantee' = exactly_once) AS SELECT sent, id, note FROM steady;",
        server,
    )
    outages: list[float] = []
    for kill in range(1, KILLS + 1):
        rig.until(lambda kill=kill: _logged(server, "standby_ready") >= kill * standbys)  # type: ignore[misc]
        outages.append(outage_s(rig, sink, lambda: _kill_driver(server)))
        steps = _steps(server, since=time.time() - outages[-1])
        rig.say(f"    {standbys} on standby: {outages[-1]:.1f} s: {steps}")
    return outages


def _logged(server: HeadraceProcess, event: str) -> int:
    return (server.data_dir / "server.log").read_text().count(f'"{event}"')


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """Let `count` processes compute without end."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _steps(server: HeadraceProcess, *, since: float) -> str:
    """Return what the server logged of a restart, each event with the seconds from `since`."""
    steps = []
    for line in (server.data_dir / "server.log").read_text().splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") in RESTART:
            after = datetime.fromisoformat(event["time"]).timestamp() - since
            if after > 0:
                steps.append(f"{event.get('state', event['event'])} {after:.1f}")
    return ", ".join(steps)


def outage_s(
    rig: Rig, sink: str, kill: Callable[[], None], *, revive: Callable[[], object] = lambda: None
) -> float:
    """Measure from the kill, but count only records sent after all processes ended: an orphaned query may write for a moment."""
    receiver = Receiver(rig.bootstrap, sink, PARTITIONS, latest=True)
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
    """kill -9 of the driver's Python process and of its JVM: of the oldest driver, since one on standby is younger."""
    jvms = [process for process in server.descendants() if process.name() == "java"]
    java = min(jvms, key=psutil.Process.create_time)
    driver = java.parent()
    killed = [java] if driver is None else [driver, java]
    for process in killed:
        process.kill()
    running_after(killed, 10)


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
