"""The watermark follows every partition: nothing that Flink would keep is lost."""

from __future__ import annotations

import time

import pytest

from tests.watermarks.streams import WINDOW_S, Lab, Watermarks, counted, dropped, wait_for, windowed

# py4j leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HOUR = 3600
AHEAD = range(0, 6000, 10)
BEHIND = range(-HOUR, 6000 - HOUR, 10)
SHORT = range(0, 600, 10)


def send_three(lab: Lab, topic: str) -> None:
    """Fill three partitions: far ahead, an hour behind, and ended early."""
    lab.kafka.create(topic, partitions=3)
    for partition, seconds in enumerate((AHEAD, BEHIND, SHORT)):
        lab.send(topic, partition, seconds)


def test_a_replay_with_a_partition_an_hour_behind_counts_as_a_batch_does(lab: Lab, seed: str) -> None:
    topic = f"hour-{seed}"
    send_three(lab, topic)
    frame = lab.assign(lab.read([topic], per_batch=150), {topic: 3}, Watermarks(delay=10, all_idle="flush"))
    query = lab.start(windowed(frame), f"hour_{seed}", bounded=True)
    query.awaitTermination()
    assert len(query.recentProgress) > 8, "the replay must take several batches to prove anything"
    assert lab.counts(f"hour_{seed}") == counted(AHEAD, BEHIND, SHORT)
    assert dropped(query) == 0


@pytest.mark.prove
def test_without_the_extension_spark_loses_the_rows_of_the_same_replay(lab: Lab, seed: str) -> None:
    """The control: once Spark passes this as well, ours can go."""
    topic = f"control-{seed}"
    send_three(lab, topic)
    frame = lab.read([topic], per_batch=150).withWatermark("ts", "10 seconds")
    query = lab.start(windowed(frame), f"control_{seed}", bounded=True)
    query.awaitTermination()
    counts, expected = lab.counts(f"control_{seed}"), counted(AHEAD, BEHIND, SHORT)
    assert dropped(query) > 0
    assert any(rows < expected[start] for start, rows in counts.items())


def test_before_its_end_a_replay_has_let_out_only_what_every_partition_has_passed(
    lab: Lab, seed: str
) -> None:
    topic = f"due-{seed}"
    send_three(lab, topic)
    frame = lab.assign(lab.read([topic]), {topic: 3}, Watermarks(delay=10))
    query = lab.start(windowed(frame), f"due_{seed}")
    query.processAllAvailable()
    watermark = SHORT[-1] - 10
    due = {s: n for s, n in counted(AHEAD, BEHIND, SHORT).items() if s + WINDOW_S <= watermark}
    assert lab.counts(f"due_{seed}") == due


def test_a_partition_that_falls_idle_is_left_out_and_holds_again_when_it_is_back(lab: Lab, seed: str) -> None:
    topic, name = f"idle-{seed}", f"idle_{seed}"
    lab.kafka.create(topic, partitions=2)
    for partition in (0, 1):
        lab.send(topic, partition, [0, 1])
    idle_s = 5
    frame = lab.assign(lab.read([topic]), {topic: 2}, Watermarks(idle=idle_s))
    query = lab.start(windowed(frame), name)
    query.processAllAvailable()
    step = 100

    def speak() -> bool:
        nonlocal step
        step += 10
        lab.send(topic, 0, [step])
        query.processAllAvailable()
        return 0 in lab.counts(name)

    wait_for(speak, "the window to close without the silent partition")
    lab.send(topic, 1, [step])
    query.processAllAvailable()

    def holds() -> bool:
        """Return False if it was silent for long enough while the batches ran, which a busy machine does to it."""
        nonlocal step
        step += 2000
        sent = time.monotonic()
        lab.send(topic, 1, [step])
        lab.send(topic, 0, [step + 1000])
        query.processAllAvailable()
        if time.monotonic() - sent >= idle_s:
            return False
        assert max(lab.counts(name)) + WINDOW_S <= step
        return True

    wait_for(holds, "batches that take less time than the silence that makes a partition idle")
    assert dropped(query) == 0


def test_when_all_partitions_fall_silent_time_goes_on_to_what_was_heard_last(lab: Lab, seed: str) -> None:
    """A user who loads a topic once and looks sees its windows, even if a partition is empty."""
    topic, name = f"silent-{seed}", f"silent_{seed}"
    lab.kafka.create(topic, partitions=3)
    lab.send(topic, 0, [0, 500])
    lab.send(topic, 1, [30])
    query = lab.start(windowed(lab.assign(lab.read([topic]), {topic: 3}, Watermarks(idle=1))), name)
    wait_for(lambda: lab.counts(name) == {0: 2}, "the window to close")
    assert all(partition["idle"] for partition in lab.describe(query)["sources"][0]["partitions"])


def test_a_partition_that_never_had_a_row_holds_until_it_is_idle(lab: Lab, seed: str) -> None:
    topic = f"never-{seed}"
    lab.kafka.create(topic, partitions=2)
    lab.send(topic, 0, [0, 1, 200])
    waiting = lab.start(windowed(lab.assign(lab.read([topic]), {topic: 2}, Watermarks())), f"waiting_{seed}")
    tired = lab.start(
        windowed(lab.assign(lab.read([topic]), {topic: 2}, Watermarks(idle=2))), f"tired_{seed}"
    )
    waiting.processAllAvailable()
    tired.processAllAvailable()
    step = 200

    def speak() -> bool:
        nonlocal step
        step += 1
        lab.send(topic, 0, [step])
        tired.processAllAvailable()
        return lab.counts(f"tired_{seed}") == {0: 2}

    wait_for(speak, "the empty partition to be left out")
    waiting.processAllAvailable()
    assert not lab.counts(f"waiting_{seed}")
    assert lab.describe(waiting)["watermarkMs"] is None


def test_a_partition_that_is_added_while_the_query_runs_holds_it_back(lab: Lab, seed: str) -> None:
    topic, name = f"added-{seed}", f"added_{seed}"
    lab.kafka.create(topic, partitions=1)
    lab.send(topic, 0, [0, 90])
    query = lab.start(windowed(lab.assign(lab.read([topic]), {topic: 1}, Watermarks())), name)
    query.processAllAvailable()
    assert lab.counts(name) == {0: 1}
    lab.kafka.grow(topic, partitions=2)
    lab.send(topic, 1, [91])

    def known() -> bool:
        return len(lab.describe(query)["sources"][0]["partitions"]) == 2

    wait_for(known, "the query to read the new partition")
    lab.send(topic, 0, [1000])
    query.processAllAvailable()
    lab.send(topic, 1, [92, 130])
    query.processAllAvailable()
    assert lab.counts(name) == {0: 1, 60: 3}
    assert dropped(query) == 0


@pytest.mark.prove
def test_a_source_of_several_topics_follows_every_partition_of_each(lab: Lab, seed: str) -> None:
    east, west = f"east-{seed}", f"west-{seed}"
    lab.kafka.create(east, partitions=2)
    lab.kafka.create(west, partitions=1)
    for topic, partition, seconds in ((east, 0, AHEAD), (east, 1, SHORT), (west, 0, BEHIND)):
        lab.send(topic, partition, seconds)
    frame = lab.assign(
        lab.read([east, west], per_batch=150), {east: 2, west: 1}, Watermarks(delay=10, all_idle="flush")
    )
    query = lab.start(windowed(frame), f"topics_{seed}", bounded=True)
    query.awaitTermination()
    assert lab.counts(f"topics_{seed}") == counted(AHEAD, BEHIND, SHORT)
    assert dropped(query) == 0


def test_a_filter_does_not_hold_the_watermark_back(lab: Lab, seed: str) -> None:
    topic, name = f"filter-{seed}", f"filter_{seed}"
    lab.kafka.create(topic, partitions=2)
    lab.send(topic, 0, [0, 10, 200], text="wanted")
    lab.send(topic, 1, [0, 10, 200], text="other")
    frame = lab.assign(lab.read([topic]), {topic: 2}, Watermarks())
    lab.start(windowed(frame.where("v = 'wanted'")), name).processAllAvailable()
    assert lab.counts(name) == {0: 2}
