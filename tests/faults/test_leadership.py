"""Two servers on one catalog: the leader is killed, paused, and stopped, and its query continues on the other one with each record once."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from harness.postgresql import PostgresServer
from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from headrace.testing.processes import running_after
from headrace.testing.runner import StatementError
from tests.faults.workload import ONCE, PARTITIONS, SELECTS, SteadyProducer

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]

END_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
TAKEOVER_S = PATIENCE_S / 18
RECORDS = 2000


class Member(HeadraceProcess):
    """A server that leads or stands by."""

    @property
    def leads(self) -> bool:
        """True if the server leads and answers."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).text == "ok\n"
        except httpx.TransportError:
            return False

    def exit_code(self) -> int:
        """Wait until the server has ended."""
        self._ended([])
        return self._running().returncode

    def drivers(self) -> list[psutil.Process]:
        """The processes of its drivers, with their guards and JVMs."""
        return [
            child for child in self.descendants() if "headrace.engine.driver" in " ".join(child.cmdline())
        ]

    def end(self) -> None:
        """Kill what is left."""
        if self._running().poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            self.kill()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[PostgresServer]:
    (tmp_path / "database").mkdir()
    with PostgresServer(tmp_path / "database", 16, wal_level="replica") as database:
        yield database


@pytest.fixture
def pair(tmp_path: Path, database: PostgresServer) -> Iterator[tuple[Member, Member]]:
    """Two servers with the same settings, and their catalog in `database`. The first leads."""
    (tmp_path / "shared").mkdir()
    environment = {
        "HEADRACE_CATALOG_URL": database.catalog_url(),
        "HEADRACE_CATALOG_KEY": base64.b64encode(bytes(32)).decode(),
        "HEADRACE_SHARED_DIR": str(tmp_path / "shared"),
    }
    servers = tuple(Member(tmp_path / name, environment=environment) for name in "ab")
    try:
        for server in servers:
            server.start()
        yield servers[0], servers[1]
    finally:
        for server in servers:
            server.end()


def taken_over(struck: Member, other: Member, number: int) -> None:
    """Send a signal to the server that leads, and wait until the other one leads."""
    drivers = struck.drivers()
    began = time.monotonic()
    os.kill(struck.pid, number)
    while not other.leads:
        assert time.monotonic() < began + PATIENCE_S, other.log()
        time.sleep(0.05)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{signal.Signals(number).name}: the other server leads after {seconds:.1f} s\n")
    # Two sets of drivers would write the same checkpoints.
    assert drivers
    assert not running_after(drivers, 0)
    if number != signal.SIGTERM:
        assert seconds < TAKEOVER_S
    if number == signal.SIGSTOP:
        os.kill(struck.pid, signal.SIGCONT)
        assert struck.exit_code() == 1
        assert "another server leads" in struck.log()
    struck.exit_code()


def test_a_query_continues_on_the_server_that_takes_over(
    pair: tuple[Member, Member], kafka: KafkaClient, seed: str
) -> None:
    leader, other = pair
    assert leader.leads
    assert not other.leads
    reader = RestDoor(other)
    with pytest.raises(StatementError, match="this server does not lead"):
        reader.execute("CREATE DATABASE faults;")
    door = RestDoor(leader)
    door.execute(
        f"""
        CREATE DATABASE faults; USE DATABASE faults;
        CREATE STORE broker WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); USE STORE broker;
        CREATE STREAM numbers (n BIGINT, g BIGINT, t BIGINT) WITH ('topic' = 'numbers_{seed}',
            'topic.partitions' = {PARTITIONS}, 'topic.replicas' = 1, 'value.format' = JSON, 'timestamp' = 't');
        CREATE STREAM once WITH ('topic' = 'once_{seed}', {ONCE}) AS {SELECTS["once"]};
        """
    )
    with pytest.raises(StatementError, match="materialized views in DuckDB"):
        door.execute("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS c FROM numbers GROUP BY g;")
    door.close()
    until(
        lambda: reader.execute("SELECT current_state FROM deltastream.sys.queries;") == [["running"]],
        other.log,
    )
    reader.close()
    producer = SteadyProducer(kafka.bootstrap, f"numbers_{seed}")

    def written() -> Counter[int]:
        return Counter(json.loads(value or "")["n"] for _, value in kafka.consume(f"once_{seed}"))

    producer.produce(100, meanwhile=lambda: None)
    until(lambda: written() == Counter(range(producer.count)), lambda: str(len(written())))
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
        producer.produce(
            RECORDS,
            meanwhile=lambda leader=leader, other=other, number=number: taken_over(leader, other, number),
        )
        led = time.monotonic()
        until(lambda: written() == Counter(range(producer.count)), lambda: str(len(written())))
        sys.stdout.write(f"each record once, {time.monotonic() - led:.1f} s after that\n")
        leader.start()
        leader, other = other, leader
        assert not other.leads


def test_a_leader_without_its_database_ends_and_the_other_server_leads_when_it_is_back(
    pair: tuple[Member, Member], database: PostgresServer
) -> None:
    leader, other = pair
    drivers = leader.drivers()
    began = time.monotonic()
    database.execute(END_OTHERS)
    database.stop()
    assert leader.exit_code() == 1
    sys.stdout.write(f"the leader ends {time.monotonic() - began:.1f} s after its database\n")
    running_after(drivers, PATIENCE_S)
    assert not any(process.is_running() for process in drivers)
    assert not other.leads
    database.start()
    began = time.monotonic()
    until(lambda: other.leads, other.log)
    sys.stdout.write(f"the other server leads {time.monotonic() - began:.1f} s after the database is back\n")
    assert time.monotonic() - began < TAKEOVER_S
    leader.start()
    assert not leader.leads
