"""Input records and the times of output records: preloaded topics, a steady producer, and the times of a topic's first and last record."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

PARTITIONS = 2
Record = tuple[bytes | None, bytes]
_NEVER = float("inf")
_MARKERS_MAX = 16
_SETTLED_S = 6.0
_LOST_S = 120.0


def preload(bootstrap: str, topic: str, partitions: Sequence[Iterable[bytes | Record]]) -> None:
    """Writes encoded values, or pairs of key and value, partition by partition; returns when the broker has them all."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    for number, records in enumerate(partitions):
        for record in records:
            key, value = (None, record) if isinstance(record, bytes) else record
            while True:
                try:
                    producer.produce(topic, value, key, partition=number)
                    break
                except BufferError:
                    producer.poll(0.05)
    if producer.flush(120):
        raise RuntimeError(f"the broker did not take all records of {topic}")


@dataclass(frozen=True)
class Output:
    """Content of a topic: the number of offsets, and the records' own first and last timestamp (seconds since 1970)."""

    offsets: int
    first_s: float
    last_s: float


class Sink:
    """A topic that a query writes, looked at from outside without reading its records."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"benchmark-{topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._places = [TopicPartition(topic, number) for number in range(partitions)]

    def offsets(self) -> int:
        """Committed records, and the markers of transactions."""
        bounds = [self._consumer.get_watermark_offsets(place, timeout=10) for place in self._places]
        return sum(high - low for low, high in bounds)

    def wait(self, count: int, *, within: float, every: Callable[[], None] = lambda: None) -> Output:
        """Wait until there are `count` offsets; `every` is called each second, and may raise."""
        self._until(lambda offsets: offsets >= count, f"{count} records", within, every)
        return self._output()

    def settle(self, *, within: float, every: Callable[[], None] = lambda: None) -> Output:
        """Wait until there are records and none has been added for `_SETTLED_S`; `every` as above."""
        last, since = 0, time.monotonic()

        def settled(offsets: int) -> bool:
            nonlocal last, since
            if offsets != last:
                last, since = offsets, time.monotonic()
            return offsets > 0 and time.monotonic() - since > _SETTLED_S

        self._until(settled, "no more records", within, every)
        return self._output()

    def records(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Key and value of every committed record up to the present end, by partition."""
        for place in self._places:
            low, high = self._consumer.get_watermark_offsets(place, timeout=10)
            self._consumer.assign([TopicPartition(place.topic, place.partition, low)])
            while self._position(place, low) < high:
                for message in self._consumer.consume(10_000, 0.5):
                    if message.error() is None:
                        yield message.key(), message.value()

    def _until(
        self, condition: Callable[[int], bool], what: str, within: float, every: Callable[[], None]
    ) -> None:
        deadline = time.monotonic() + within
        looks = 0
        while not condition(offsets := self.offsets()):
            looks += 1
            if looks % 10 == 0:
                every()
            if time.monotonic() > deadline:
                raise TimeoutError(f"expected {what} within {within:.0f} s, found {offsets}")
            time.sleep(0.1)

    def _output(self) -> Output:
        offsets = self.offsets()
        times = [self._time(place, at) for place in self._places for at in self._ends(place)]
        return Output(offsets, min(times), max(times))

    def close(self) -> None:
        """Give the connection back."""
        self._consumer.close()

    def _position(self, place: TopicPartition, low: int) -> int:
        """The next offset to read: markers of transactions are passed over, so counting records would not do."""
        (position,) = self._consumer.position([place])
        return max(low, position.offset)

    def _ends(self, place: TopicPartition) -> list[int]:
        low, high = self._consumer.get_watermark_offsets(place, timeout=10)
        # The last offsets may be markers of transactions, which are no records.
        return [] if high == low else [low, max(low, high - _MARKERS_MAX)]

    def _time(self, place: TopicPartition, offset: int) -> float:
        self._consumer.assign([TopicPartition(place.topic, place.partition, offset)])
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            message = self._consumer.poll(1.0)
            if message is not None and message.error() is None:
                return float(message.timestamp()[1]) / 1000
        raise TimeoutError(f"no record at offset {offset} of {place.topic}")


class SteadyProducer:
    """Writes `rate` records a second with the wall clock in them, from a thread, while it is entered."""

    def __init__(self, bootstrap: str, topic: str, *, rate: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._topic = topic
        self._interval = 1 / rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(10)

    def _run(self) -> None:
        due, number = time.monotonic(), 0
        while not self._stop.is_set():
            now = time.time_ns()
            record = {"sent": now // 1000, "at": now // 1_000_000, "id": number, "note": "x" * 60}
            value = json.dumps(record).encode()
            self._producer.produce(self._topic, value, partition=number % 2)
            self._producer.poll(0)
            number += 1
            due += self._interval
            time.sleep(max(0.0, due - time.monotonic()))


class Receiver:
    """Reader of a sink's committed records, from the first record or from the `latest` position.

    It yields when each record was sent and received (seconds since 1970).
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, latest: bool = False) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"benchmark-{topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
            }
        )
        start = OFFSET_END if latest else 0
        self._consumer.assign([TopicPartition(topic, number, start) for number in range(partitions)])

    def latencies(self, *, since: float, until: float) -> list[float]:
        """Milliseconds on the way, of the records sent between two times; reads until two seconds after `until`."""
        latencies = []
        while time.time() < until + 2:
            for sent, received in self._take(0.2):
                if since <= sent < until:
                    latencies.append((received - sent) * 1000)
        return sorted(latencies)

    def first_sent_after(self, moment: float, *, within: float = 300) -> float:
        """Return when the first record arrived that was sent after `moment`."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            arrived = min((received for sent, received in self._take(0.2) if sent > moment), default=_NEVER)
            if arrived < _NEVER:
                return arrived
        raise TimeoutError(f"no new record within {within:.0f} s")

    def longest_gap(self, seconds: float) -> float:
        """Return the longest time between two records that arrive in the next `seconds`; waits for the end of a gap that has begun."""
        began = last = time.time()
        longest = 0.0
        while (now := time.time()) - began < seconds or now - last > longest:
            if now - last > _LOST_S:
                raise TimeoutError(f"no record within {_LOST_S:.0f} s")
            for _, received in self._take(0.2):
                longest, last = max(longest, received - last), received
        return longest

    def close(self) -> None:
        """Give the connection back."""
        self._consumer.close()

    def _take(self, wait: float) -> list[tuple[float, float]]:
        message = self._consumer.poll(wait)
        if message is None or message.error() is not None:
            return []
        received = time.time()
        return [(json.loads(message.value() or b"")["sent"] / 1e6, received)]
