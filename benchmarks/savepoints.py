"""Savepoints of a million keys: how long they take, how long the query pauses, and how soon another query continues from one."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.records import PARTITIONS, Receiver, Sink, SteadyProducer, preload
from benchmarks.rig import Figures, Rig

RATE = 200
LISTENED_S = 30.0
"""Seconds of output around a change: more than any batch takes."""

_SELECT = "SELECT id, COUNT(*) AS n, MAX(sent) AS sent FROM keyed"


def savepoints(rig: Rig) -> Figures:
    """Take a savepoint of a GROUP BY under load, replace its query compatibly, and continue another query from the savepoint.

    A gap is the longest time between two records of the output: `usual_gap_s` without any change, the others around one.
    """
    topic = rig.topic("bench_savepoints", lambda name: preload(rig.bootstrap, name, _keys(rig)))
    rig.relation(
        "keyed",
        f"CREATE STREAM keyed (sent BIGINT, id BIGINT) WITH ('topic' = '{topic}', 'value.format' = JSON, "
        "'starting.position' = 'earliest');",
    )
    sink, savepoint = rig.name("counts"), rig.name("savepoint")
    query = rig.running(
        f"CREATE CHANGELOG {sink} WITH ('delivery.guarantee' = exactly_once) AS {_SELECT} GROUP BY id"
    )
    written = Sink(rig.bootstrap, sink, PARTITIONS)
    written.wait(rig.sizes.keys_many, within=600, every=lambda: rig.check(query))
    written.close()
    with SteadyProducer(rig.bootstrap, topic, rate=RATE):
        _, usual = _gap(rig, sink, lambda: None)
        taken, pause = _gap(rig, sink, lambda: rig.execute(f"CREATE SAVEPOINT {savepoint} ON QUERY {query};"))
        # Over the same aggregates, so that the state is kept.
        select = f"{_SELECT.replace('COUNT(*)', 'COUNT(*) + 0')} GROUP BY id"
        _, stopped = _gap(rig, sink, lambda: rig.execute(f"ALTER QUERY {query} AS {select};"))
        rig.check(query)
        rig.terminate(query)
        restored = _restored_s(rig, savepoint)
    return {
        "savepoint_s": taken,
        "usual_gap_s": usual,
        "savepoint_gap_s": pause,
        "replacement_gap_s": stopped,
        "restore_s": restored,
    }


def _keys(rig: Rig) -> list[list[bytes]]:
    """Return one record of each key, in the partition in which `SteadyProducer` writes it."""
    count = rig.sizes.keys_many
    return [
        [b'{"sent":0,"id":%d}' % number for number in range(first, count, PARTITIONS)]
        for first in range(PARTITIONS)
    ]


def _gap(rig: Rig, sink: str, change: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of `change`, and the longest time between two records of the sink from its start on."""
    receiver = Receiver(rig.bootstrap, sink, PARTITIONS, latest=True)
    try:
        receiver.first_sent_after(time.time())
        with ThreadPoolExecutor(1) as thread:
            began = time.monotonic()
            ended = thread.submit(lambda: (change(), time.monotonic()))
            longest = receiver.longest_gap(LISTENED_S)
            return ended.result()[1] - began, longest
    finally:
        receiver.close()


def _restored_s(rig: Rig, savepoint: str) -> float:
    """Return the seconds from the statement to the output for a record that was sent after it."""
    sink = rig.name("restored")
    began = time.time()
    query = rig.start(
        f"CREATE CHANGELOG {sink} WITH ('delivery.guarantee' = exactly_once) AS {_SELECT} GROUP BY id",
        resume_from_savepoint=f"'{savepoint}'",
    )
    receiver = Receiver(rig.bootstrap, sink, PARTITIONS)
    try:
        return receiver.first_sent_after(began) - began
    finally:
        receiver.close()
        rig.terminate(query)
