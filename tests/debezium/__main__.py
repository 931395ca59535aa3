"""`make debezium`: see the package."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from harness.postgresql import PASSWORD, USER, PostgresServer
from harness.process import HeadraceProcess
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.testing.door import RestDoor
from tests.debezium.cases import COLUMNS, NOT_SENT, STATEMENTS, TABLES, plain
from tests.debezium.engine import Engine

_SOURCE = '"source" STRUCT<db VARCHAR, "schema" VARCHAR, "table" VARCHAR, lsn BIGINT>'
_INTO = "'store' = 'broker', 'topic.partitions' = 1, 'topic.replicas' = 1"
_PER_TRANSACTION = 100

# Reasons why a field may differ; docs/guides/postgresql.md documents them for users.
_DOCUMENTED = {
    ("r", "ts_ms"): "of rows that were there it is the time of the query's beginning",
    ("r", "lsn"): "rows that were there are read in chunks, behind the place where the slot begins",
}


def main() -> int:
    """Returns the exit code: 1 when a field differs without a documented reason."""
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="headrace-debezium-"))
    folder.chmod(0o755)
    try:
        with _scene(folder) as (postgresql, door, kafka):
            lines, differs = _compared(postgresql, door, kafka, folder)
            figures = _measured(postgresql, door, kafka, folder, options.changes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write("\n".join([*lines, json.dumps(figures, indent=2), ""]))
    return 1 if differs else 0


def _compared(
    postgresql: PostgresServer, door: RestDoor, kafka: KafkaClient, folder: Path
) -> tuple[list[str], bool]:
    """A line for each field of each kind of change; and whether one differs that should not."""
    theirs, ours = _read_both(postgresql, door, kafka, folder)
    (unsent,) = filter(_is_unsent, theirs)
    theirs.remove(unsent)
    lines = [
        f"documented a value that was not sent: Debezium tells {unsent['after']['body']!r}, our query ends"
    ]
    changes: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for their, our in zip(_in_order(theirs, ours=False), _in_order(ours, ours=True), strict=True):
        for name in their.keys() | our.keys():
            changes.setdefault((their["op"], name), []).append((their.get(name), our.get(name)))
    differs = False
    for (op, name), values in sorted(changes.items()):
        unlike = [pair for pair in values if pair[0] != pair[1]]
        if not unlike:
            lines.append(f"same       {op} {name} ({len(values)} changes)")
        elif reason := _DOCUMENTED.get((op, name)):
            lines.append(f"documented {op} {name}: {reason}")
        else:
            differs = True
            lines.append(f"different  {op} {name}: Debezium has {unlike[0][0]!r}, Headrace {unlike[0][1]!r}")
    return lines, differs


def _read_both(
    postgresql: PostgresServer, door: RestDoor, kafka: KafkaClient, folder: Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return Debezium's and our changes of the same statements."""
    postgresql.execute(*TABLES)
    rows = {
        "items": ", ".join(f"{column.name} {column.ours}" for column in COLUMNS),
        "whole": "id INT, n INT, body VARCHAR",
        "apart": "id INT, n INT, body VARCHAR",
    }
    for table, columns in rows.items():
        door.execute(
            f'CREATE STREAM {table} (op VARCHAR, ts_ms BIGINT, "before" STRUCT<{columns}>, "after" STRUCT<{columns}>, {_SOURCE}) '
            "WITH ('store' = 'pg', 'value.format' = JSON, 'postgresql.schema.name' = 'shop');"
            f"CREATE STREAM ours_{table} WITH ({_INTO}) AS SELECT * FROM {table} "
            f"WITH ('postgresql.slot.name' = 'ours_{table}') QUERY WITH ('query.name' = '{table}');"
        )

    def ours(count: int) -> list[dict[str, Any]]:
        until(
            lambda: len(_ours(kafka, *rows)) >= count,
            lambda: f"{count} changes, found {len(_ours(kafka, *rows))}: {door.execute('LIST QUERIES;')}",
        )
        return _ours(kafka, *rows)

    with Engine(postgresql, folder, "oracle", [f"shop.{table}" for table in rows]) as engine:
        until(lambda: engine.count() >= 4, lambda: f"4 rows that were there, found {engine.count()}")
        ours(4)
        for statement in (*STATEMENTS, NOT_SENT):
            postgresql.execute(*statement.split("; "))
        until(lambda: _is_unsent(engine.changes()[-1]), "Debezium's last change")
        theirs = engine.changes()
    until(lambda: _state(door, "apart") == "errored", "a value that was not sent ends the query")
    changes = ours(len(theirs) - 1)
    for table in ("items", "whole"):
        door.execute(f"TERMINATE QUERY {table};")
    return theirs, changes


def _is_unsent(change: dict[str, Any]) -> bool:
    return bool(change["op"] == "u" and change["source"]["table"] == "apart")


def _ours(kafka: KafkaClient, *tables: str) -> list[dict[str, Any]]:
    topics = [f"ours_{table}" for table in tables]
    records = [record for topic in topics for record in kafka.consume(topic)]
    return [json.loads(value or "", parse_float=Decimal) for _, value in records]


def _in_order(changes: list[dict[str, Any]], *, ours: bool) -> list[dict[str, Any]]:
    """Return changes by table: rows that existed by their key, then changes in order; each as flat fields."""
    flat = [
        {
            "op": change["op"],
            **_flat("before", plain(change["before"], ours=ours)),
            **_flat("after", plain(change["after"], ours=ours)),
            "ts_ms": change["ts_ms"] if ours else change["source"]["ts_ms"],
            **{name: change["source"][name] for name in ("db", "schema", "table", "lsn")},
        }
        for change in changes
    ]
    return sorted(
        flat, key=lambda row: (row["table"], row["op"] != "r", row["after.id"] if row["op"] == "r" else 0)
    )


def _flat(image: str, row: dict[str, Any] | None) -> dict[str, Any]:
    return {image: None} if row is None else {f"{image}.{name}": value for name, value in row.items()}


def _measured(
    postgresql: PostgresServer, door: RestDoor, kafka: KafkaClient, folder: Path, count: int
) -> dict[str, Any]:
    """Read the changes of a slot, in turns: Debezium into a queue in its JVM, Headrace into a topic as JSON."""
    row = "id BIGINT, item VARCHAR, price DECIMAL(10, 2), at TIMESTAMP_LTZ(6)"
    postgresql.execute(
        "CREATE TABLE load (id bigint PRIMARY KEY, item text, price numeric(10, 2), at timestamptz)"
    )
    door.execute(
        f'CREATE STREAM load (op VARCHAR, ts_ms BIGINT, "before" STRUCT<id BIGINT>, "after" STRUCT<{row}>, {_SOURCE}) '
        "WITH ('store' = 'pg', 'value.format' = JSON);"
    )
    slots = ["debezium_0", "ours_0", "debezium_1", "ours_1"]
    for slot in slots:
        postgresql.execute(
            f"CREATE PUBLICATION {slot} FOR TABLE load",
            f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
        )
    with postgresql.connect() as writer:
        for first in range(0, count, _PER_TRANSACTION):
            last = first + _PER_TRANSACTION - 1
            writer.execute(
                f"INSERT INTO load SELECT n, 'item number ' || n, n / 7.0, now() FROM generate_series({first}, {last}) n".encode()
            )
    figures: dict[str, Any] = {"changes": count, "load": os.getloadavg()[0], "debezium": [], "headrace": []}
    for slot in slots:
        if slot.startswith("debezium"):
            figures["debezium"].append(_speed_of_debezium(postgresql, folder, slot, count))
        else:
            figures["headrace"].append(_speed_of_ours(door, kafka, slot, count))
    figures["ratio"] = [
        round(a / b, 2) for a, b in zip(figures["headrace"], figures["debezium"], strict=True)
    ]
    return figures


def _speed_of_debezium(postgresql: PostgresServer, folder: Path, slot: str, count: int) -> int:
    with Engine(postgresql, folder, slot, ["public.load"], with_rows=False) as engine:
        until(lambda: engine.count() > 0, "Debezium's first change")
        began, first = time.monotonic(), engine.count()
        while engine.count() < count:
            time.sleep(0.02)
        return round((count - first) / (time.monotonic() - began))


def _speed_of_ours(door: RestDoor, kafka: KafkaClient, slot: str, count: int) -> int:
    door.execute(
        f"CREATE STREAM {slot} WITH ({_INTO}) AS SELECT * FROM load "
        f"WITH ('postgresql.slot.name' = '{slot}', 'starting.position' = 'latest') QUERY WITH ('query.name' = '{slot}');"
    )
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": slot, "enable.auto.commit": False})
    place = TopicPartition(slot, 0, 0)
    until(
        lambda: consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1] >= count,
        f"{count} changes in the topic",
    )
    consumer.assign([place])
    stamps: list[int] = []
    while len(stamps) < count:
        stamps += [
            message.timestamp()[1] for message in consumer.consume(10_000, PATIENCE_S) if not message.error()
        ]
    consumer.close()
    door.execute(f"TERMINATE QUERY {slot};")
    # The records of the first batch have one time, nearly.
    after_first = sum(stamp > stamps[0] for stamp in stamps)
    return round(after_first / (stamps[-1] - stamps[0]) * 1000)


def _state(door: RestDoor, query: str) -> str:
    return {str(row[0]): str(row[1]) for row in door.execute(f"DESCRIBE QUERY {query};")}["state"]


@contextmanager
def _scene(folder: Path) -> Iterator[tuple[PostgresServer, RestDoor, KafkaClient]]:
    (folder / "postgresql").mkdir()
    password = PASSWORD.replace("'", "''")
    with PostgresServer(folder / "postgresql", 18) as postgresql, KafkaBroker(folder / "kafka") as broker:
        server = HeadraceProcess(folder / "headrace").start()
        door = RestDoor(server)
        try:
            door.execute(
                "CREATE DATABASE debezium; USE DATABASE debezium;"
                f"CREATE STORE broker WITH ('type' = KAFKA, 'uris' = '{broker.bootstrap}', 'tls.disabled' = TRUE);"
                f"CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = '{postgresql.uri}', 'postgres.username' = '{USER}', "
                f"'postgres.password' = '{password}', 'tls.disabled' = TRUE); USE STORE broker;"
            )
            yield postgresql, door, KafkaClient(broker.bootstrap)
        finally:
            door.close()
            server.stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests.debezium", description="Compare Headrace with Debezium's engine."
    )
    parser.add_argument(
        "--changes", type=int, default=300_000, help="how many are read for the speed (300000)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
