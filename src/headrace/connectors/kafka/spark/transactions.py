"""Exactly-once output to Kafka. ADR 0007 gives the reasons.

A running query has one transactional producer. A transaction contains all records of one epoch (Spark's word for a batch) and the
epoch's marker, stored as a consumer group's offset; both appear together or not at all. A repeated epoch finds the
marker and writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.runtime.fail_points import fail_point

_TRANSACTION_TIMEOUT_MS = 60_000
# For each step of a transaction, also for abort: if a topic was dropped, two steps take this long to report it.
_STEP_TIMEOUT_MS = 30_000
_CLOSE_TIMEOUT_S = 2
_BYTES_OUT = "org.apache.kafka.common.serialization.ByteArraySerializer"
_BYTES_IN = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
MARKER_LIFETIME_S = 7 * 24 * 3600.0
"""Brokers forget a group's offsets after `offsets.retention.minutes`, which is 7 days unless it was changed."""


class TransactionalOutput:
    """Writes of one start of a query to one topic; `close` it when the query has ended.

    `options` are the options of Java's Kafka clients, with secrets. Raises Java's exceptions, as py4j wraps them, and
    UserError if it is unknown whether an epoch was written: a retry would not help.
    """

    def __init__(
        self, session: SparkSession, *, query_id: str, topic: str, options: Mapping[str, str], checkpoint: str
    ) -> None:
        self._jvm: Any = session._jvm
        self._name = f"headrace-{query_id}"
        self._topic = topic
        self._options = options
        self._checkpoint = checkpoint
        self._producer: Any = None
        self._next_epoch: int | None = None

    def write(self, records: DataFrame, epoch: int) -> None:
        """Write the records (columns key, value and perhaps headers) of an epoch in one transaction, unless an earlier attempt has."""
        if self._producer is None:
            self._open(epoch)
        # Spark repeats the last batch after a stop between the commit in Kafka and its own: the same epoch with the same offsets, and so
        # the same records, which are in the topic already.
        if self._next_epoch is not None and epoch < self._next_epoch:
            return
        producer = self._producer
        producer.beginTransaction()
        try:
            rows = self._jvm.io.headrace.spark.KafkaOutput.send(records._jdf, producer, self._topic)
            if not rows:  # nothing to make exactly once, and nothing to mark
                producer.abortTransaction()
                return
            fail_point("inside_transaction")
            # The marker must share the fate of the records. Offsets of a consumer group are the only thing besides records that a
            # Kafka transaction covers, and unlike a record in the topic they are invisible to readers.
            producer.sendOffsetsToTransaction(self._marker(epoch + 1), self._group())
            producer.commitTransaction()
        except BaseException:
            # Readers of committed records wait at an open transaction, so abort it. The first error matters, not one of the abort.
            with suppress(Py4JJavaError):
                producer.abortTransaction()
            raise
        fail_point("after_sink_before_commit")

    def close(self) -> None:
        """Give the connections back."""
        if self._producer is not None:
            self._producer.close(self._jvm.java.time.Duration.ofSeconds(_CLOSE_TIMEOUT_S))

    def _open(self, epoch: int) -> None:
        producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(
            self._map(
                {
                    **self._options,
                    "transactional.id": self._name,
                    "transaction.timeout.ms": str(_TRANSACTION_TIMEOUT_MS),
                    "max.block.ms": str(_STEP_TIMEOUT_MS),
                    "enable.idempotence": "true",
                    "acks": "all",
                    "key.serializer": _BYTES_OUT,
                    "value.serializer": _BYTES_OUT,
                }
            )
        )
        self._producer = producer
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

    def _committed(self) -> int | None:
        """Return the epoch after the last written one; None without a marker."""
        consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
            self._map(
                {
                    **self._options,
                    "group.id": self._name,
                    "isolation.level": "read_committed",
                    "key.deserializer": _BYTES_IN,
                    "value.deserializer": _BYTES_IN,
                }
            )
        )
        try:
            committed = consumer.committed(self._jvm.java.util.Set.of(self._place())).get(self._place())
            return None if committed is None else int(committed.offset())
        finally:
            consumer.close()

    def _marker(self, next_epoch: int) -> Any:
        offset = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(next_epoch)
        return self._jvm.java.util.Map.of(self._place(), offset)

    def _place(self) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(self._topic, 0)

    def _group(self) -> Any:
        return self._jvm.org.apache.kafka.clients.consumer.ConsumerGroupMetadata(self._name)

    def _map(self, options: Mapping[str, str]) -> Any:
        java = self._jvm.java.util.HashMap()
        for name, value in options.items():
            java.put(name, value)
        return java


def _marker_is_conclusive(checkpoint: str, epoch: int) -> bool:
    """True if the absence of a marker proves that an epoch was not written.

    It does unless an attempt at the epoch began so long ago that the broker may have forgotten the marker: Spark writes
    `offsets/<epoch>` in the checkpoint before the first attempt, and never again.
    """
    planned = Path(checkpoint, "offsets", str(epoch))
    return not planned.is_file() or time.time() - planned.stat().st_mtime < MARKER_LIFETIME_S
