"""Exactly-once output to Kafka. ADRs 7 and 68 give the reasons.

In a local pool a running query has one transactional producer. A transaction contains all records of one epoch (Spark's word for a
batch) and the epoch's marker, stored as a consumer group's offset; both appear together or not at all. A repeated epoch finds the
marker and writes nothing. On a cluster an epoch is divided into buckets, each with a producer and a marker of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from headrace.connectors.checkpoint_store import CheckpointStore, has_offsets
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.runtime.fail_points import fail_point

logger = logging.getLogger(__name__)

_PREFIX = "headrace-"
_BUCKETS = "buckets"
"""The file in a checkpoint with the number of buckets of the output, if there are several."""
_PRODUCER = {
    "transaction.timeout.ms": "60000",
    # For each step of a transaction, also for abort: if a topic was dropped, two steps take this long to report it.
    "max.block.ms": "30000",
    "enable.idempotence": "true",
    "acks": "all",
}
_CLOSE_TIMEOUT_S = 2
_BYTES_OUT = "org.apache.kafka.common.serialization.ByteArraySerializer"
_BYTES_IN = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
MARKER_LIFETIME_S = 7 * 24 * 3600.0
"""Brokers forget a group's offsets after `offsets.retention.minutes`, which is 7 days unless it was changed."""


class TransactionalOutput:
    """Writes of one start of a query to one topic by tasks in this process; `close` it when the query has ended.

    `options` are the options of Java's Kafka clients, with secrets. Raises Java's exceptions, as py4j wraps them, and
    UserError if it is unknown whether an epoch was written: a retry would not help.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        query_id: str,
        topic: str,
        options: Mapping[str, str],
        checkpoint: CheckpointStore,
    ) -> None:
        self._jvm: Any = session._jvm
        self._topic = topic
        self._writer = _Writer(session, f"{_PREFIX}{query_id}", topic, options, checkpoint)

    def write(self, records: DataFrame, epoch: int) -> None:
        """Write the records (columns key, value and perhaps headers) of an epoch in one transaction, unless an earlier attempt has."""
        writer = self._writer
        if writer.producer is None:
            writer.open(epoch)
        # Spark repeats the last batch after a stop between the commit in Kafka and its own: the same epoch with the same offsets, and so
        # the same records, which are in the topic already.
        if writer.is_written(epoch):
            _log_repeated(self._topic, epoch)
            return
        producer = writer.producer
        producer.beginTransaction()
        try:
            rows = self._jvm.io.headrace.spark.KafkaOutput.send(records._jdf, producer, self._topic)
            if not rows:  # nothing to make exactly once, and nothing to mark
                producer.abortTransaction()
                return
            fail_point("inside_transaction")
            # The marker must share the fate of the records. Offsets of a consumer group are the only thing besides records that a
            # Kafka transaction covers, and unlike a record in the topic they are invisible to readers.
            producer.sendOffsetsToTransaction(writer.marker(epoch + 1), writer.group())
            producer.commitTransaction()
        except BaseException:
            # Readers of committed records wait at an open transaction, so abort it. The first error matters, not one of the abort.
            with suppress(Py4JJavaError):
                producer.abortTransaction()
            raise
        fail_point("after_sink_before_commit")

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()


class BucketedOutput:
    """Writes of one start of a query to one topic by tasks in any process, each bucket of an epoch in its own transaction: see ADR 68.

    Raises as `TransactionalOutput` does.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        query_id: str,
        topic: str,
        options: Mapping[str, str],
        checkpoint: CheckpointStore,
        buckets: int,
    ) -> None:
        # With one bucket the names are those of `TransactionalOutput`: a query may move between a local pool and a cluster.
        name = f"{_PREFIX}{query_id}"
        names = [name] if buckets == 1 else [f"{name}-{bucket}" for bucket in range(buckets)]
        self._writers = [_Writer(session, name, topic, options, checkpoint) for name in names]
        self._topic = topic
        java: Any = session._jvm
        listed = java.java.util.ArrayList()
        for name in names:
            listed.add(name)
        self._buckets = java.io.headrace.spark.KafkaBuckets(
            topic, listed, _java_map(java, {**options, **_PRODUCER})
        )
        self._is_checked = False

    def write(self, records: DataFrame, epoch: int) -> None:
        """Write the records of an epoch, but for the buckets that an earlier attempt has written."""
        if not self._is_checked:
            # Tasks read their markers themselves. Whether a marker fits the checkpoint is known here.
            for writer in self._writers:
                try:
                    writer.open(epoch)
                finally:
                    writer.close()
            self._is_checked = True
        if all(writer.is_written(epoch) for writer in self._writers):
            _log_repeated(self._topic, epoch)
            return
        self._buckets.write(records._jdf, epoch)
        fail_point("after_sink_before_commit")


def bucket_count(records: DataFrame, checkpoint: CheckpointStore) -> int:
    """Return the number of buckets of a query's output, which never changes: a repeated epoch must have the buckets of its first attempt.

    A local pool needs one. A cluster has one for each partition of state, unless a repeated epoch may have other rows: then only
    one transaction for the whole epoch is exactly once.
    """
    known = checkpoint.read(_BUCKETS)
    if known is not None:
        return int(known)
    session: Any = records.sparkSession
    if is_local(records.sparkSession) or has_offsets(checkpoint):
        return 1
    if not session._jvm.io.headrace.spark.RepeatableRows.holds(records._jdf):
        return 1
    count = int(session.conf.get("spark.sql.shuffle.partitions"))
    if count > 1:
        checkpoint.write(_BUCKETS, str(count))
    return count


def is_local(session: SparkSession) -> bool:
    """True if tasks run in the driver's own process."""
    return bool(session._jsc.sc().isLocal())


class _Writer:
    """A transactional producer and its marker; both have the same name. `producer` is None until `open`."""

    def __init__(
        self,
        session: SparkSession,
        name: str,
        topic: str,
        options: Mapping[str, str],
        checkpoint: CheckpointStore,
    ) -> None:
        self.producer: Any = None
        self._jvm: Any = session._jvm
        self._name = name
        self._topic = topic
        self._options = options
        self._checkpoint = checkpoint
        self._next_epoch: int | None = None

    def open(self, epoch: int) -> None:
        """Fence earlier writers and read the marker. Raises UserError 22000 if the marker does not fit the epoch."""
        producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(
            _java_map(
                self._jvm,
                {
                    **self._options,
                    **_PRODUCER,
                    "transactional.id": self._name,
                    "key.serializer": _BYTES_OUT,
                    "value.serializer": _BYTES_OUT,
                },
            )
        )
        self.producer = producer
        # Fences every earlier producer of this query and ends the transaction that one may have left open.
        producer.initTransactions()
        # The marker is read after fencing, since an earlier producer could still commit, and move it, before.
        self._next_epoch = self._committed()
        if self._next_epoch is None and not _marker_is_conclusive(self._checkpoint, epoch):
            raise UserError(
                SqlState.DATA_EXCEPTION,
                f"cannot determine whether batch {epoch} was written before the query stopped: its marker may have expired",
                hint="RESTART does not help. Create the query again, from the position where its output ends.",
            )
        if self._next_epoch is not None and self._next_epoch > epoch + 1:
            raise UserError(
                SqlState.DATA_EXCEPTION,
                f"expected the output of batch {epoch} to be the last, found that of batch {self._next_epoch - 1}: "
                "the checkpoint is older than the output",
                hint="RESTART does not help. Create the query again, from the position where its output ends.",
            )

    def is_written(self, epoch: int) -> bool:
        """True if the marker that `open` read covers an epoch."""
        return self._next_epoch is not None and epoch < self._next_epoch

    def close(self) -> None:
        """Close the connections."""
        if self.producer is not None:
            self.producer.close(self._jvm.java.time.Duration.ofSeconds(_CLOSE_TIMEOUT_S))

    def marker(self, next_epoch: int) -> Any:
        """Return the offsets that are the marker."""
        offset = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(next_epoch)
        return self._jvm.java.util.Map.of(self._place(), offset)

    def group(self) -> Any:
        """Return the group of the marker."""
        return self._jvm.org.apache.kafka.clients.consumer.ConsumerGroupMetadata(self._name)

    def _committed(self) -> int | None:
        """Return the epoch after the last written one; None without a marker."""
        consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
            _java_map(
                self._jvm,
                {
                    **self._options,
                    "group.id": self._name,
                    "isolation.level": "read_committed",
                    "key.deserializer": _BYTES_IN,
                    "value.deserializer": _BYTES_IN,
                },
            )
        )
        try:
            committed = consumer.committed(self._jvm.java.util.Set.of(self._place())).get(self._place())
            return None if committed is None else int(committed.offset())
        finally:
            consumer.close()

    def _place(self) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(self._topic, 0)


def _log_repeated(topic: str, epoch: int) -> None:
    # A warning, since drivers log nothing below, and it comes only after a failure: it shows that a repetition was recognized.
    logger.warning("batch %d is in topic %s already, and is not written again", epoch, topic)


def _java_map(java: Any, options: Mapping[str, str]) -> Any:
    result = java.java.util.HashMap()
    for name, value in options.items():
        result.put(name, value)
    return result


def _marker_is_conclusive(checkpoint: CheckpointStore, epoch: int) -> bool:
    """True if the absence of a marker proves that an epoch was not written.

    It does unless an attempt at the epoch began so long ago that the broker may have forgotten the marker: Spark writes
    `offsets/<epoch>` in the checkpoint before the first attempt, and never again.
    """
    planned_at = checkpoint.written_at(f"offsets/{epoch}")
    return planned_at is None or time.time() - planned_at < MARKER_LIFETIME_S
