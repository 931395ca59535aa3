"""The embedded broker against a real JVM: it starts, keeps its topics, and leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from harness.kafka import KafkaClient, brokers_of
from harness.patience import PATIENCE_S, until
from headrace.connectors.kafka import admin
from headrace.core.errors import ExternalError
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.server.process import kafka_broker

pytestmark = pytest.mark.kafka


def _topics(bootstrap: str, timeout: float = PATIENCE_S) -> set[str]:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return set(client.list_topics(timeout=timeout).topics)


def _create_topic(bootstrap: str, name: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(name, 2, 1)])[name].result(PATIENCE_S)


def _wait_until_gone(folder: Path) -> None:
    until(lambda: not brokers_of(folder), "the broker ends after its parent was killed")


def test_a_broker_started_again_has_the_same_topics_at_the_same_address_unless_its_ports_are_taken(
    tmp_path: Path,
) -> None:
    with KafkaBroker(tmp_path) as broker:
        first = broker.bootstrap
        _create_topic(first, "orders")
    assert not brokers_of(tmp_path)
    ports = tuple(map(int, (tmp_path / "ports").read_text().split()))
    # The system gives ports of its own range to connections, and so the broker's, while it starts or is restarted.
    assert all(port < 32_768 for port in ports)
    with KafkaBroker(tmp_path) as broker:
        assert broker.bootstrap == first
        assert "orders" in _topics(broker.bootstrap)
    with ExitStack() as others:
        for port in ports:
            other = others.enter_context(socket.socket())
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
        broker = others.enter_context(KafkaBroker(tmp_path))
        assert broker.bootstrap != first
        assert "orders" in _topics(broker.bootstrap)


async def test_the_servers_broker_is_started_again_with_its_topics_at_the_same_address(
    tmp_path: Path,
) -> None:
    async with kafka_broker(tmp_path, 0) as broker:
        first = broker.bootstrap
        await asyncio.to_thread(_create_topic, first, "orders")
        for process in brokers_of(tmp_path):
            process.kill()
        topics: set[str] = set()
        async with asyncio.timeout(PATIENCE_S):
            while "orders" not in topics:
                with suppress(KafkaException):
                    topics = await asyncio.to_thread(_topics, first, 1)
        assert broker.bootstrap == first
    assert not brokers_of(tmp_path)


_STARTS_AND_WAITS = """
import sys, threading, time
from pathlib import Path
from headrace.runtime.kafka_broker import KafkaBroker
broker = KafkaBroker(Path(sys.argv[1]))
starter = threading.Thread(target=broker.start)   # a thread that ends: the broker must not end with it
starter.start()
starter.join()
time.sleep(1)
print("running" if broker.running else "gone", flush=True)
sys.stdin.read()   # until it is killed, or until a test that failed closes the pipe
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
def test_a_broker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STARTS_AND_WAITS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().strip() == "running"
        assert len(brokers_of(tmp_path)) == 1
        parent.kill()
    _wait_until_gone(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death is Linux's own")
@pytest.mark.prove
def test_a_broker_ends_when_its_guard_is_killed(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path) as broker:
        (java,) = brokers_of(tmp_path)
        os.kill(java.ppid(), signal.SIGKILL)
        _wait_until_gone(tmp_path)
        deadline = time.monotonic() + PATIENCE_S
        while broker.running:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_broker_that_cannot_start_says_why(kafka: KafkaClient, tmp_path: Path) -> None:
    port = int(kafka.bootstrap.rpartition(":")[2])
    second = KafkaBroker(tmp_path, port=port)
    with pytest.raises(ExternalError) as caught:
        second.start()
    assert str(port) in caught.value.text()
    assert not brokers_of(tmp_path)


def test_a_topic_that_the_broker_reports_late_is_waited_for(kafka: KafkaClient, seed: str) -> None:
    store = {"uris": kafka.bootstrap, "tls.disabled": "TRUE"}
    late = threading.Timer(1, _create_topic, (kafka.bootstrap, f"late_{seed}"))
    late.start()
    assert admin.KafkaClient().await_entity(store, (f"late_{seed}",)).layout["partitions"] == 2
    late.join()
