"""Surroundings of a measurement: a broker, a server, and the actions of a user."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import psutil

from benchmarks.peer import FlinkPeer
from benchmarks.records import PARTITIONS, preload
from benchmarks.shapes import Source
from benchmarks.sizes import Sizes
from harness.kafka import KafkaClient
from harness.process import HeadraceProcess
from headrace.client import Client
from headrace.core.context import SessionContext
from headrace.planner.physical import SparkPlan
from headrace.runtime.kafka_broker import KafkaBroker

Figures = dict[str, float]


@dataclass
class Samples:
    """Samples of one number over time, after the warm-up."""

    values: list[float] = field(default_factory=list)

    def figures(self, name: str, end: str) -> Figures:
        """Return the maximum of each half and the growth between them; state grows and shrinks with each window."""
        middle = len(self.values) // 2
        before, after = max(self.values[:middle]), max(self.values[middle:])
        return {
            f"{name}_{end}": before,
            f"{name}_end_{end}": after,
            f"{name}_growth_percent": (after - before) / max(before, 1.0) * 100,
        }


_IN_BENCH = SessionContext("", database="bench", schema="public", store="broker")


class Rig:
    """A broker for all measurements, and a server over `folder` that is started on first use."""

    def __init__(
        self, folder: Path, broker: KafkaBroker, sizes: Sizes, peer: FlinkPeer | None = None
    ) -> None:
        self.folder = folder
        self.sizes = sizes
        self.peer = peer
        self.bootstrap = broker.bootstrap
        self.kafka = KafkaClient(broker.bootstrap)
        self._topics: set[str] = set()
        self._streams: set[str] = set()
        self._names = 0

    @cached_property
    def server(self) -> HeadraceProcess:
        """Return a server with a warm compute pool and a database."""
        process = HeadraceProcess(self.folder / "data").start()
        try:
            self.prepare(process)
        except BaseException:
            process.stop()
            raise
        return process

    def prepare(self, process: HeadraceProcess) -> None:
        """Create the database and the store on a new server, and wait until its compute pool runs."""
        self.execute("CREATE DATABASE bench;", process)
        store = f"'type' = KAFKA, 'uris' = '{self.bootstrap}', 'tls.disabled' = TRUE"
        self.execute(f"CREATE STORE broker WITH ({store});", process)
        self.until(lambda: self.pool_state(process) == "running")

    def close(self) -> None:
        """End the server and the peer."""
        if "server" in self.__dict__:
            self.server.stop()
        if self.peer:
            self.peer.close()

    def say(self, text: str) -> None:
        """A line of progress."""
        print(text, file=sys.stderr, flush=True)

    def name(self, prefix: str) -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"{prefix}_{self._names}"

    # --- statements

    def execute(self, sql: str, process: HeadraceProcess | None = None) -> list[list[str | None]]:
        """The rows of one statement's answer."""
        server = process or self.server
        return asyncio.run(_execute(server, sql))

    def first_row_seconds(self, sql: str, process: HeadraceProcess) -> float:
        """Return the seconds from the statement to the first row of its live result."""
        return asyncio.run(_first_row(process, sql))

    def pool_state(self, process: HeadraceProcess) -> str:
        """Return the state of the only compute pool."""
        return str(self.execute("LIST COMPUTE_POOLS;", process)[0][3])

    def facts(self, query: str, process: HeadraceProcess | None = None) -> dict[str, str | None]:
        """DESCRIBE QUERY."""
        return {str(name): value for name, value in self.execute(f"DESCRIBE QUERY {query};", process)}

    def plan(self, query: str) -> SparkPlan:
        """Return the plan as the server keeps it: DESCRIBE QUERY shows a text for people."""
        catalog = f"file:{self.folder / 'data' / 'catalog.db'}?mode=ro"
        with closing(sqlite3.connect(catalog, uri=True)) as database:
            (plan,) = database.execute("SELECT plan FROM queries WHERE id = ?", [query]).fetchone()
        return SparkPlan.from_json(plan)

    def terminate(self, query: str) -> None:
        """Ends a query and waits until it has ended."""
        self.execute(f"TERMINATE QUERY {query};")
        self.until(lambda: self.facts(query)["state"] == "terminated")

    def check(self, query: str, process: HeadraceProcess | None = None) -> None:
        """Raises RuntimeError when a query has failed."""
        facts = self.facts(query, process)
        if facts["state"] in ("errored", "restarting"):
            raise RuntimeError(f"the query is {facts['state']}: {facts['message']}\n{facts['query']}")

    def until(self, condition: Callable[[], bool], *, within: float = 120) -> None:
        """Returns when `condition` holds."""
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {within:.0f} s")
            time.sleep(0.05)

    # --- topics and queries

    def topic(self, name: str, fill: Callable[[str], None] = lambda _name: None) -> str:
        """Create and fill a topic of two partitions, once."""
        if name not in self._topics:
            self.kafka.create(name, partitions=PARTITIONS)
            self.say(f"    filling {name}")
            fill(name)
            self._topics.add(name)
        return name

    def filled(self, source: Source) -> str:
        """The topic of a source, with its rows."""
        rows = source.rows
        return self.topic(
            f"bench_{source.name}", lambda name: preload(self.bootstrap, name, rows(self.sizes))
        )

    def relation(self, name: str, definition: str) -> None:
        """Runs a CREATE STREAM or CREATE CHANGELOG once."""
        if name not in self._streams:
            self.execute(definition)
            self._streams.add(name)

    def checkpoint(self, query: str, process: HeadraceProcess | None = None) -> Path:
        """Return the folder of a continuous query's progress."""
        return (process or self.server).data_dir / "checkpoints" / query

    def running(self, sql: str, **properties: str) -> str:
        """Create a continuous query, wait until it runs, and return its id."""
        query = self.start(sql, **properties)
        self.until(lambda: self._runs(query))
        return query

    def start(self, sql: str, process: HeadraceProcess | None = None, **properties: str) -> str:
        """Create a continuous query and return its id. `properties` are the query's, with _ for each dot."""
        name = self.name("query")
        pairs = {"query_name": name, **properties}.items()
        written = ", ".join(f"'{key.replace('_', '.')}' = {value}" for key, value in pairs)
        self.execute(f"{sql} QUERY WITH ({written});", process)
        return str(self.facts(name, process)["id"])

    def driver_cpu_s(self, process: HeadraceProcess | None = None) -> float:
        """Return the processor time of the compute pool's processes so far; other load on the machine hardly changes it."""
        times = [each.cpu_times() for each in (process or self.server).descendants()]
        return float(sum(time.user + time.system for time in times))

    def driver_mb(self, process: HeadraceProcess | None = None) -> float:
        """Resident memory of the compute pool's processes."""
        return sum(each.memory_info().rss for each in (process or self.server).descendants()) / 2**20

    def _runs(self, query: str) -> bool:
        self.check(query)
        return self.facts(query)["state"] == "running"


def first_batch_s(checkpoint: Path) -> float:
    """Return when Spark planned the first micro-batch of a query (seconds since 1970)."""
    return (checkpoint / "offsets" / "0").stat().st_mtime


def batch_ends_s(checkpoint: Path) -> list[float]:
    """Return when each micro-batch was committed, in order (seconds since 1970)."""
    commits = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    return [path.stat().st_mtime for path in sorted(commits, key=lambda path: int(path.name))]


def batch_seconds(checkpoint: Path) -> list[float]:
    """Return the seconds from the planning of each micro-batch to its commit, in order."""
    planned = {path.name: path.stat().st_mtime for path in (checkpoint / "offsets").iterdir()}
    commits = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    ordered = sorted(commits, key=lambda path: int(path.name))
    return [path.stat().st_mtime - planned[path.name] for path in ordered if path.name in planned]


def resident_mb(pid: int) -> float:
    """Resident memory of one process."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


async def _execute(server: HeadraceProcess, sql: str) -> list[list[str | None]]:
    async with Client(server.url, server.token, context=_IN_BENCH) as client:
        return [list(row) for row in (await client.execute(sql)).rows]


async def _first_row(server: HeadraceProcess, sql: str) -> float:
    async with Client(server.url, server.token, context=_IN_BENCH) as client:
        await client.version()
        began = time.monotonic()
        rows = (await client.execute(sql)).stream()
        await anext(rows)
        took = time.monotonic() - began
        await rows.aclose()
        return took
