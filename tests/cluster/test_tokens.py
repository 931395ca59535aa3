"""A store with tokens on a cluster: executors ask the driver for them, so that only the driver knows the client's secret."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.authority import Authority
from harness.issuer import SECRET, Issuer
from harness.kafka import KafkaClient
from harness.patience import until
from harness.process import HeadraceProcess
from harness.secured_kafka import SecuredBroker
from harness.spark_cluster import SparkCluster
from headrace.testing.door import RestDoor
from tests.security.conftest import authority, broker, issuer
from tests.security.test_kafka_stores import token_store

__all__ = ["authority", "broker", "issuer"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.xdist_group("tests/cluster"),
]


def test_a_query_on_a_cluster_outlives_its_tokens(
    cluster: SparkCluster,
    broker: SecuredBroker,
    issuer: Issuer,
    authority: Authority,
    tmp_path: Path,
    seed: str,
) -> None:
    issuer.lifetime_s = 6
    kafka = KafkaClient(broker.bootstrap)
    kafka.create(f"a_{seed}")
    with HeadraceProcess(tmp_path / "data", environment=cluster.environment) as server:
        door = RestDoor(server)
        door.execute(
            f"CREATE DATABASE d; USE DATABASE d; {token_store('s', broker, authority.pem, issuer)} USE STORE s; "
            f"CREATE STREAM a (x BIGINT) WITH ('topic' = 'a_{seed}', 'value.format' = JSON);"
            f"CREATE STREAM b WITH ('topic' = 'b_{seed}') AS SELECT x FROM a WITH ('starting.position' = 'earliest');"
        )
        kafka.produce(f"a_{seed}", [(None, '{"x": 1}')])
        until(lambda: kafka.consume(f"b_{seed}"), lambda: f"the first record\n{server.log()[-4000:]}")
        used, began = issuer.asked, time.monotonic()
        until(
            lambda: issuer.asked >= used + 2 and time.monotonic() > began + issuer.lifetime_s,
            "the tokens to be others",
        )
        kafka.produce(f"a_{seed}", [(None, '{"x": 2}')])
        until(lambda: (None, '{"x":2}') in kafka.consume(f"b_{seed}"), "the second record")
        door.close()
    assert SECRET not in cluster.logs()
