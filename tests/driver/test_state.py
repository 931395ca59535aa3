"""State from batch to batch, and over a change of how it is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from headrace.engine.driver.checkpoint_damage import damaged_file
from headrace.planner.physical import SparkPlan
from headrace.testing.topics import Pair
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, plan, read, sql, write

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

VERSION_3 = Path(__file__).parents[1] / "plans/version_3"
SPARKS_OWN = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
}
"""How state was kept by releases up to 0.1."""


def test_a_checkpoint_of_sparks_own_snapshots_goes_on_with_changelogs(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: dict[str, dict[str, str]],
    topic: Callable[..., str],
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
    tmp_path: Path,
) -> None:
    source, target = topic(2), topic(1)
    grouped = _counts(source, target)
    kafka.produce(source, _records("a", "b", "a"))
    earlier = DriverControl(tmp_path / "earlier", spark_options=SPARKS_OWN, warm_up=False)
    try:
        query = earlier.start(grouped, checkpoint=checkpoint, stores=stores)
        consumed(target, 2)
        # A batch that has written may not be committed yet; then it would be written again.
        earlier.until(lambda: bool(earlier.progress(query)))
        assert earlier.stop(query).error is None
    finally:
        earlier.close()
    assert not list(checkpoint.glob("state/**/*.changelog"))

    kafka.produce(source, _records("a", "c"))
    query = driver.start(grouped, checkpoint=checkpoint, stores=stores)
    messages = consumed(target, 4)
    driver.until(lambda: [progress.state_rows for progress in driver.progress(query)][-1:] == [3])
    assert driver.stop(query).error is None
    assert sorted((row["k"], row["n"]) for row in (json.loads(value or "") for _, value in messages)) == [
        ("a", 2),
        ("a", 3),
        ("b", 1),
        ("c", 1),
    ]
    assert list(checkpoint.glob("state/**/*.changelog"))


def test_a_query_killed_while_its_first_batch_was_logged_starts_again(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: dict[str, dict[str, str]],
    topic: Callable[..., str],
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    source, target = topic(2), topic(1)
    kafka.produce(source, _records("a", "b"))
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir(parents=True)
        (checkpoint / log / ".0.68b0fc30-8629-4fc5-85d4-ffae37024a84.tmp").touch()
    query = driver.start(_counts(source, target), checkpoint=checkpoint, stores=stores)
    consumed(target, 2)
    assert driver.stop(query).error is None


def test_state_has_the_partitions_that_the_statement_names(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: dict[str, dict[str, str]],
    topic: Callable[..., str],
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    source, target = topic(2), topic(1)
    grouped = _counts(source, target).model_copy(update={"state_partitions": 5})
    kafka.produce(source, _records("a", "b", "a"))
    query = driver.start(grouped, checkpoint=checkpoint, stores=stores)
    consumed(target, 2)
    driver.until(lambda: bool(driver.progress(query)))
    assert driver.stop(query).error is None
    assert _numbered(checkpoint / "state/0") == set(range(5))

    # The checkpoint knows the number from now on.
    kafka.produce(source, _records("a"))
    query = driver.start(_counts(source, target), checkpoint=checkpoint, stores=stores)
    messages = consumed(target, 3)
    driver.until(lambda: bool(driver.progress(query)))
    assert driver.stop(query).error is None
    assert {"k": "a", "n": 3} in [json.loads(value or "") for _, value in messages]

    # A copy of it ends between two batches, and continues with another number.
    for batch in _numbered(checkpoint / "offsets") - _numbered(checkpoint / "commits"):
        (checkpoint / "offsets" / str(batch)).unlink()
    kafka.produce(source, _records("a", "b", "c"))
    query = driver.start(
        grouped.model_copy(update={"state_partitions": 3}), checkpoint=checkpoint, stores=stores
    )
    messages = consumed(target, 6)
    assert driver.stop(query).error is None
    assert _numbered(checkpoint / "state/0") == set(range(3))
    assert sorted(value or "" for _, value in messages[3:]) == [
        '{"k":"a","n":4}',
        '{"k":"b","n":2}',
        '{"k":"c","n":1}',
    ]


def test_a_plan_of_before_version_4_runs_with_the_names_that_its_state_has(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: dict[str, dict[str, str]],
    topic: Callable[..., str],
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    source, target = topic(1), topic(1)
    stored = json.loads((VERSION_3 / "changelog_group_by.json").read_text())
    for step in stored["steps"]:
        if "entity" in step:
            step["entity"] = [source if step["step"] == "read_entity" else target]
            step.update(
                {"store": STORE}
                | ({"starting_position": "earliest"} if step["step"] == "read_entity" else {})
            )
    grouped = SparkPlan.from_json(json.dumps(stored))
    plane = '{{"tailnum":"{0}","maker":"m","seats":20,"built":{1}}}'.format
    kafka.produce(source, [("a", plane("a", 1)), ("b", plane("b", 2))])
    query = driver.start(grouped, checkpoint=checkpoint, stores=stores)
    consumed(target, 1)
    driver.until(lambda: bool(driver.progress(query)))
    assert driver.stop(query).error is None
    kafka.produce(source, [("c", plane("c", 3)), ("a", None), ("b", None)])
    query = driver.start(grouped, checkpoint=checkpoint, stores=stores)
    (_, first), (_, last) = consumed(target, 2)[:2]
    assert json.loads(first or "")["n"] == 2
    assert last is None
    assert driver.stop(query).error is None


def test_a_damaged_checkpoint_ends_the_query_with_the_name_of_the_file(
    driver: DriverControl,
    kafka: KafkaClient,
    stores: dict[str, dict[str, str]],
    topic: Callable[..., str],
    checkpoint: Path,
    consumed: Callable[..., list[Pair]],
) -> None:
    source, target = topic(1), topic(1)
    grouped = _counts(source, target)
    kafka.produce(source, _records("a", "b"))
    query = driver.start(grouped, checkpoint=checkpoint, stores=stores)
    consumed(target, 2)
    driver.until(lambda: bool(driver.progress(query)))
    assert driver.stop(query).error is None
    assert damaged_file(checkpoint) is None
    last = sorted(checkpoint.glob("commits/[0-9]*"))[-1].name
    changes = sorted(checkpoint.glob("state/0/*/*.changelog"))
    # State is read by the batch of a new record.
    kafka.produce(source, _records("a", "b"))
    for name, files, length in (
        ("metadata", [checkpoint / "metadata"], 0),
        (f"commits/{last}", [checkpoint / "commits" / last], 0),
        (f"offsets/{last}", [checkpoint / "offsets" / last], 4),
        (str(changes[0].relative_to(checkpoint)), changes, 10),
    ):
        whole = {file: file.read_bytes() for file in files}
        for file, content in whole.items():
            file.write_bytes(content[:length])
            # Spark's checksum of the file, where it has one, would only hide what is tried here.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        ended = driver.ended(driver.start(grouped, checkpoint=checkpoint, stores=stores))
        assert (ended.sqlstate, ended.domain) == ("XX001", "user"), (name, ended.error)
        assert f" {name} of the query's checkpoint is damaged" in (ended.error or "")
        for file, content in whole.items():
            file.write_bytes(content)


def _counts(source: str, target: str) -> SparkPlan:
    return plan(
        *read(source, "k VARCHAR"),
        sql("counted", ["a"], "SELECT k, count(*) AS n FROM a GROUP BY k"),
        *write(target, "counted", "k VARCHAR; n BIGINT"),
        output_mode="update",
    )


def _numbered(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()}


def _records(*keys: str) -> list[Pair]:
    return [(None, json.dumps({"k": key})) for key in keys]
