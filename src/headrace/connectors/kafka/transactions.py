"""Exactly-once output to Kafka: the part that runs in Spark's Python workers. ADR 0007 says why it is as it is.

Each output task of a query has a transactional producer of its own. Its transaction holds the task's records of one epoch and,
as a consumer group's offset, a marker that says so; both appear together or not at all. An epoch that is run again finds the
marker and writes nothing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.core.errors import InternalError
from headrace.runtime.fail_points import fail_point

if TYPE_CHECKING:
    import pyarrow

_TIMEOUT_S = 30.0
_TRANSACTION_TIMEOUT_MS = 60_000
_POLL_EVERY = 1024
# The default forgets a broker that goes away, and with it the coordinator; a transaction then waits for ever, whatever its timeout
# (librdkafka's issues 5456 and 5511). Like this it goes on when the broker is back.
_KEEP_BROKERS = {"metadata.recovery.strategy": "none"}
_COORDINATOR_MOVES = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
MARKER_LIFETIME_S = 7 * 24 * 3600.0
"""Brokers forget a group's offsets after `offsets.retention.minutes`, which is 7 days unless it was changed."""


@dataclass(frozen=True)
class OutputTask:
    """Where a query writes; `client` holds librdkafka's options, secrets included."""

    query_id: str
    topic: str
    client: Mapping[str, str | int] = field(repr=False)


@dataclass(frozen=True)
class Marker:
    """Whether the absence of a marker proves that an epoch was not written.

    It does unless an attempt at the epoch began so long ago that the broker may have forgotten the marker.
    """

    conclusive: bool = True

    @staticmethod
    def before(checkpoint: str, epoch: int) -> Marker:
        """Spark writes `offsets/<epoch>` in the checkpoint before the first attempt at an epoch, and never again."""
        planned = Path(checkpoint, "offsets", str(epoch))
        if not planned.is_file():
            return Marker()
        return Marker(conclusive=time.time() - planned.stat().st_mtime < MARKER_LIFETIME_S)


@dataclass(frozen=True)
class WrittenBatch:
    """What a task did: `rows` records were written, or had been by an earlier attempt (`skipped`)."""

    rows: int
    skipped: bool


@dataclass
class _Open:
    """The producer of one task, kept by the worker for the next epoch."""

    producer: Producer
    consumer: Consumer
    last_epoch: int


_open: dict[str, _Open] = {}


def write_partition(
    task: OutputTask, rows_of: str, batches: Iterator[pyarrow.RecordBatch], *, epoch: int, marker: Marker
) -> WrittenBatch:
    """Write one task's records (columns key and value) of an epoch, in one transaction, once.

    `rows_of` names what the rows are of: every attempt at the epoch must give the same rows under the same name.

    Raises KafkaException, or InternalError when an earlier attempt at the epoch wrote another number of records (then the
    query is not deterministic) or its marker may have expired.
    """
    name = f"headrace-{task.query_id}-{rows_of}"
    place = TopicPartition(task.topic, 0)
    kept = _opened(task, name, epoch)
    try:
        # Only now: opening the producer has ended any transaction that a dead attempt left, one way or the other.
        found = _committed(kept.consumer, place)
        if found.offset > epoch:
            kept.last_epoch = epoch
            return _already_written(batches, found, epoch)
        if found.offset < 0 and not marker.conclusive:
            raise InternalError(
                f"cannot tell whether batch {epoch} was written before the query stopped: its marker may have expired",
                hint="RESTART does not help. Create the query again, from the position where its output ends.",
            )
        rows = _write(task, kept, batches, place=place, epoch=epoch)
    except BaseException:
        _open.pop(name, None)
        raise
    kept.last_epoch = epoch
    return WrittenBatch(rows, skipped=False)


def _opened(task: OutputTask, name: str, epoch: int) -> _Open:
    """The kept producer if this worker wrote the epoch before, else a new one, which fences every older one."""
    kept = _open.get(name)
    if kept is not None and kept.last_epoch == epoch - 1:
        return kept
    producer = Producer(
        {
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            # As Java's producer: the same key goes to the same partition, whoever writes it.
            "partitioner": "murmur2_random",
            **task.client,
            **_KEEP_BROKERS,
            "transactional.id": name,
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            "enable.idempotence": True,
            "acks": "all",
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    consumer = kept.consumer if kept else Consumer(_consumer_options(task, name))
    _open[name] = _Open(producer, consumer, epoch - 1)
    return _open[name]


def _committed(consumer: Consumer, place: TopicPartition) -> TopicPartition:
    """The group's offset; a coordinator that is moving or starting is asked again."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return consumer.committed([place], timeout=_TIMEOUT_S)[0]
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR_MOVES or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _consumer_options(task: OutputTask, name: str) -> dict[str, str | int | bool]:
    producer_only = ("linger.ms", "batch.size", "compression.type", "delivery.timeout.ms", "max.request.size")
    options = {key: value for key, value in task.client.items() if key not in producer_only}
    return {
        **options,
        **_KEEP_BROKERS,
        "group.id": name,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }


def _write(
    task: OutputTask,
    kept: _Open,
    batches: Iterator[pyarrow.RecordBatch],
    *,
    place: TopicPartition,
    epoch: int,
) -> int:
    producer, topic, rows = kept.producer, task.topic, 0
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return 0  # nothing to make exactly once, and nothing to mark: a second attempt has no rows either
    producer.begin_transaction()
    for batch in itertools.chain([first], batches):
        for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.05)
            rows += 1
            if not rows % _POLL_EVERY:
                producer.poll(0)
    fail_point("inside_transaction")
    written = TopicPartition(place.topic, place.partition, epoch + 1, metadata=str(rows))
    producer.send_offsets_to_transaction([written], kept.consumer.consumer_group_metadata(), _TIMEOUT_S)
    producer.commit_transaction(2 * _TIMEOUT_S)
    fail_point("after_sink_before_commit")
    return rows


def _already_written(
    batches: Iterator[pyarrow.RecordBatch], found: TopicPartition, epoch: int
) -> WrittenBatch:
    rows = sum(batch.num_rows for batch in batches)
    before = str(found.metadata or "")
    if found.offset == epoch + 1 and before.isdigit() and int(before) != rows:
        raise InternalError(
            f"batch {epoch} gave {before} records when it was written and {rows} now: the query is not deterministic",
            hint="An exactly-once query must give the same rows for the same input; remove what differs (RAND(), UUID()).",
        )
    return WrittenBatch(rows, skipped=True)


__all__ = ["KafkaException", "Marker", "OutputTask", "WrittenBatch", "write_partition"]
