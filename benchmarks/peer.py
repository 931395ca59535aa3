"""Apache Flink as the peer of `--peer flink`: the same shapes over the same topics, on the same machine, one engine at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.records import PARTITIONS, Sink
from benchmarks.results import Digest, digest
from benchmarks.shapes import Shape
from benchmarks.sizes import Sizes
from harness.flink import Flink
from harness.kafka import KafkaClient

_WITHIN_S = 600.0
_MEMORY_MB = 2048


class FlinkPeer:
    """A JVM with Flink, tuned by its own documentation, and checkpointed."""

    def __init__(self, folder: Path, kafka: KafkaClient) -> None:
        """Raises `harness.flink.NotInstalledError`."""
        self.runs = 0
        self._kafka = kafka
        self._tables: set[str] = set()
        self._flink = Flink(folder, memory_mb=_MEMORY_MB, settings=_settings(folder))

    def measure(self, shape: Shape, sizes: Sizes, topics: Mapping[str, str]) -> tuple[float, float, Digest]:
        """Return records per second, processor time in µs per record, and the output; `topics` are the topics of the shape's sources."""
        self.runs += 1
        for source in shape.sources:
            if source.name not in self._tables:
                self._flink.execute(source.flink(topics[source.name], self._kafka.bootstrap))
                self._tables.add(source.name)
        name = f"flink_{shape.name}_{self.runs}"
        # Flink sets the event time of the row as a record's time; with the broker's clock, it is the time of the write.
        self._kafka.create(name, partitions=PARTITIONS, settings={"message.timestamp.type": "LogAppendTime"})
        self._flink.execute(self._sink(shape, name))
        cpu = self._flink.cpu_s()
        job = self._flink.start(f"INSERT INTO {name} {shape.flink_select}")
        sink = Sink(self._kafka.bootstrap, name, PARTITIONS)
        try:
            while self._flink.state(job) != "RUNNING":
                self._check(job)
                time.sleep(0.01)
            began = time.time()
            output = shape.finished(sink, sizes, within=_WITHIN_S, every=lambda: self._check(job))
            cpu = self._flink.cpu_s() - cpu
            count = shape.records(sizes)
            rows_digest = digest(sink.records(), changelog=bool(shape.key))
        finally:
            sink.close()
            self._flink.cancel(job)
        began = output.first_s if shape.stateless else began
        return count / (output.last_s - began), cpu / count * 1e6, rows_digest

    def close(self) -> None:
        """End the process."""
        self._flink.close()

    def _check(self, job: int) -> None:
        if (state := self._flink.state(job)) not in ("INITIALIZING", "CREATED", "RUNNING"):
            raise RuntimeError(f"Flink's job is {state}")

    def _sink(self, shape: Shape, name: str) -> str:
        declared = ", ".join(f"`{column}` {kind}" for column, kind in self._flink.columns(shape.flink_select))
        connector = "'connector' = 'kafka', 'format' = 'json'"
        if shape.key:
            declared += f", PRIMARY KEY ({shape.key}) NOT ENFORCED"
            connector = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
        return (
            f"CREATE TABLE {name} ({declared}) WITH ({connector}, 'topic' = '{name}', "
            f"'properties.bootstrap.servers' = '{self._kafka.bootstrap}')"
        )


def _settings(folder: Path) -> dict[str, str]:
    """Two slots for the two partitions, state on the heap (the fastest backend), and the first two settings of Flink's tuning guides."""
    return {
        "parallelism.default": str(PARTITIONS),
        "state.backend.type": "hashmap",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "pipeline.object-reuse": "true",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "200 ms",
        "table.exec.mini-batch.size": "5000",
        "table.exec.sink.require-on-conflict": "false",
    }
