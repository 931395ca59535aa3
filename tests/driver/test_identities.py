"""A topic that was deleted and created again is another topic, even with the same name: its unread records are never skipped silently."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.driver.checkpoint_damage import IDENTITIES
from headrace.engine.driver.identities import Identities
from headrace.engine.driver.stores import Store, StoreWatch
from headrace.engine.protocol import StartQuery
from headrace.planner.physical import SparkPlan
from tests.driver.control import DriverControl
from tests.driver.plans import plan, read, results, write

Stores = dict[str, dict[str, str]]
Topic = Callable[..., str]


@pytest.fixture
def begin(stores: Stores, checkpoint: Path) -> Callable[[SparkPlan], Identities]:
    """Start like a query of the checkpoint."""

    def begun(steps: SparkPlan) -> Identities:
        start = StartQuery(query_id="q", generation=1, plan=steps, checkpoint=str(checkpoint), stores=stores)
        identities = Identities(start, LocalFolder(checkpoint))
        identities.begin()
        identities.keep()
        return identities

    return begun


def _read(checkpoint: Path) -> None:
    """Leave the traces of a query that has read a record."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / "0").touch()


@pytest.mark.kafka
def test_a_source_is_compared_once_something_was_read(
    begin: Callable[[SparkPlan], Identities], kafka: KafkaClient, topic: Topic, checkpoint: Path
) -> None:
    source = topic()
    steps = plan(*read(source, "v BIGINT"), results("a", "v BIGINT"))
    begin(steps)
    kafka.recreate(source)
    begin(steps)
    _read(checkpoint)
    begin(steps)
    kafka.recreate(source)
    with pytest.raises(UserError, match="deleted and created again") as refused:
        begin(steps)
    assert refused.value.state is SqlState.DATA_EXCEPTION
    assert source in refused.value.message
    assert "TERMINATE" in (refused.value.hint or "")


@pytest.mark.kafka
def test_a_checkpoint_without_identities_takes_those_of_now(
    begin: Callable[[SparkPlan], Identities], kafka: KafkaClient, topic: Topic, checkpoint: Path
) -> None:
    source = topic()
    _read(checkpoint)
    steps = plan(*read(source, "v BIGINT"), results("a", "v BIGINT"))
    begin(steps)
    assert json.loads((checkpoint / IDENTITIES).read_text()).keys() == {"a0"}
    kafka.recreate(source)
    with pytest.raises(UserError, match="deleted and created again"):
        begin(steps)


@pytest.mark.kafka
def test_topics_of_a_pattern_are_compared_one_by_one(
    begin: Callable[[SparkPlan], Identities], kafka: KafkaClient, topic: Topic, checkpoint: Path
) -> None:
    source = topic()
    steps = plan(*read(f"{source}*", "v BIGINT"), results("a", "v BIGINT"))
    begin(steps)
    _read(checkpoint)
    kafka.create(f"{source}-later")
    begin(steps)
    kafka.recreate(f"{source}-later")
    with pytest.raises(UserError, match=f"'{source}-later' was deleted"):
        begin(steps)


@pytest.mark.kafka
@pytest.mark.parametrize(("guarantee", "refused"), [("exactly_once", True), ("at_least_once", False)])
def test_a_sink_is_compared_if_it_is_to_hold_every_record(
    begin: Callable[[SparkPlan], Identities],
    kafka: KafkaClient,
    topic: Topic,
    checkpoint: Path,
    guarantee: str,
    refused: bool,
) -> None:
    source, target = topic(), topic()
    steps = plan(*read(source, "v BIGINT"), *write(target, "a", "v BIGINT", guarantee=guarantee))
    begin(steps)
    _read(checkpoint)
    kafka.recreate(target)
    if not refused:
        begin(steps)
        return
    with pytest.raises(UserError, match=f"output may be missing: '{target}'"):
        begin(steps)


@pytest.mark.kafka
def test_the_watch_over_stores_compares_while_a_query_runs(
    begin: Callable[[SparkPlan], Identities],
    kafka: KafkaClient,
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.engine.driver.stores._INTERVAL_S", 0.1)
    monkeypatch.setattr("headrace.engine.driver.stores.IDENTIFIED_S", 0.2)
    source = topic()
    steps = plan(*read(source, "v BIGINT"), results("a", "v BIGINT"))
    earlier, watch = begin(steps), StoreWatch()
    kafka.recreate(source)
    later = begin(steps)

    def differs(identities: Identities) -> bool:
        try:
            identities.compare(watch)
        except UserError:
            return True
        return False

    until(lambda: differs(earlier), "the query that began before sees it")
    assert not differs(later)


@pytest.mark.kafka
def test_a_store_is_asked_only_while_a_query_uses_it(
    kafka: KafkaClient, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.driver.stores._INTERVAL_S", 0.05)
    watch, name = StoreWatch(), f"unused_{seed}"
    store = Store(name, "kafka", (("tls.disabled", "TRUE"), ("uris", kafka.bootstrap)))

    def is_asked() -> bool:
        return any(thread.name == f"store-{name}" for thread in threading.enumerate())

    for _ in range(2):  # the second time by a query that comes after the first was gone
        monkeypatch.setattr("headrace.engine.driver.stores._UNUSED_S", PATIENCE_S)
        assert watch.silence([store]) is None
        assert is_asked()
        monkeypatch.setattr("headrace.engine.driver.stores._UNUSED_S", 0.2)
        until(lambda: not is_asked(), "no more requests")


@pytest.mark.spark
@pytest.mark.kafka
def test_a_query_ends_when_its_topic_is_another_one(
    driver: DriverControl, stores: Stores, kafka: KafkaClient, topic: Topic, checkpoint: Path
) -> None:
    """The query ends while it runs, and at each later start: a micro-batch query would continue at its old offset."""
    source = topic()
    kafka.produce(source, [(None, '{"v":1}'), (None, '{"v":2}')])
    steps = plan(*read(source, "v BIGINT"), results("a", "v BIGINT"))
    query = driver.start(steps, checkpoint=checkpoint, stores=stores)
    assert driver.rows(query, 2) == [["1"], ["2"]]
    kafka.recreate(source)
    kafka.produce(source, [(None, '{"v":3}'), (None, '{"v":4}'), (None, '{"v":5}')])
    while_running = driver.ended(query)
    assert (while_running.sqlstate, while_running.domain) == ("22000", "user")
    driver.messages.clear()
    at_start = driver.ended(driver.start(steps, checkpoint=checkpoint, stores=stores))
    assert at_start.sqlstate == "22000"
    assert f"{source!r} was deleted and created again" in (at_start.error or "")
    assert "TERMINATE" in (at_start.hint or "")
