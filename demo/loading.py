"""Records into topics, at once or as fast as they happened."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from demo import data


def load(
    bootstrap: str, records: dict[str, list[data.Record]], console: Console, speed: float | None = None
) -> None:
    """Topic by topic; with `speed`, seconds of event time per second, the flights by their own time."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 3}
    )
    columns = (TextColumn("  {task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=speed is not None) as progress:
        for topic, rows in records.items():
            task = progress.add_task(topic, total=len(rows))
            began = time.monotonic()
            for due, batch in data.batches(rows, speed=speed if topic == "flights" else None):
                time.sleep(max(0.0, began + due - time.monotonic()))
                for record in batch:
                    _produce(producer, topic, record)
                    progress.advance(task)
            producer.flush()


def _produce(producer: Producer, topic: str, record: data.Record) -> None:
    while True:
        try:
            producer.produce(
                topic,
                record.encoded(),
                record.key.encode(),
                partition=record.partition,
                timestamp=record.time_ms,
            )
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
