"""A table's rows and changes, read and written exactly once while drivers are killed: before, during and after the read of the rows."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator

import pytest

from harness.kafka import KafkaClient
from harness.patience import until
from harness.postgresql import PASSWORD, USER, PostgresServer
from harness.process import HeadraceProcess
from headrace.connectors.postgresql import replication
from headrace.testing.door import RestDoor

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.parametrize("postgresql", [18], indirect=True),
]

ROWS = 90_000
"""Some batches of them."""
STORED_ROWS = 450_000
"""Three batches: at most 200,000 rows each."""
COPIES_FROM = 1_000_000
"""Copies of rows in their own table have ids from here on."""


@pytest.fixture
def slot(postgresql: PostgresServer, seed: str) -> Iterator[str]:
    name = f"s_{seed}"
    yield name
    active = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}' AND active"
    until(lambda: not postgresql.execute(active), "nobody reads the slot")
    with postgresql.connect() as connection:
        replication.drop(connection, name)


def write(postgresql: PostgresServer, table: str, chance: random.Random, stop: threading.Event) -> None:
    """Small transactions until `stop`: each version of a row has the next `n`."""
    with postgresql.connect() as connection:
        while not stop.wait(0.01):
            a = chance.randrange(ROWS + 1000)
            statement = chance.choice(
                (
                    f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {a} AND {a + 5}",
                    f"DELETE FROM {table} WHERE id = {a}",
                    f"INSERT INTO {table} VALUES ({a}, 0) ON CONFLICT (id) DO UPDATE SET n = {table}.n + 1",
                )
            )
            connection.execute(statement.encode())


def applied(changes: list[dict[str, int | str | None]]) -> dict[int, int]:
    """The table after all changes, for a strict reader: a lost or duplicate change does not fit."""
    rows: dict[int, int] = {}
    for change in changes:
        old, new, n = change["old"], change["id"], change["n"]
        match change["op"]:
            case "r" | "c":
                assert new not in rows, change
                rows[new] = n  # type: ignore[index, assignment]
            case "u":
                assert rows[new] == n - 1, (change, rows[new])  # type: ignore[index, operator]
                rows[new] = n  # type: ignore[index, assignment]
            case "d":
                del rows[old]  # type: ignore[arg-type]
            case other:
                raise AssertionError(other)
    return rows


@pytest.mark.faults  # tests/postgresql/test_reader.py is killed everywhere in `make test`
def test_no_change_is_lost_or_reported_twice(
    postgresql: PostgresServer,
    server: HeadraceProcess,
    door: RestDoor,
    kafka: KafkaClient,
    slot: str,
    seed: str,
    random_source: random.Random,
) -> None:
    table, topic, password = f"t_{seed}", f"changes_{seed}", PASSWORD.replace("'", "''")
    postgresql.execute(
        f"CREATE TABLE {table} (id int PRIMARY KEY, n int)",
        f"INSERT INTO {table} SELECT id, 0 FROM generate_series(0, {ROWS - 1}) AS id",
    )
    door.execute(
        f"CREATE STORE pg{seed} WITH ('type' = POSTGRESQL, 'uris' = '{postgresql.uri}', "
        f"'postgres.username' = '{USER}', 'postgres.password' = '{password}', 'tls.disabled' = TRUE);"
        f'CREATE STREAM {table} (op VARCHAR, "before" STRUCT<id INT>, "after" STRUCT<id INT, n INT>) '
        f"WITH ('store' = 'pg{seed}', 'value.format' = 'json');"
        f"CREATE STREAM {topic} WITH ('store' = 'broker', 'topic.partitions' = 1, 'topic.replicas' = 1, "
        "'delivery.guarantee' = 'exactly_once') AS "
        'SELECT op, "before"->id AS old, "after"->id AS id, "after"->n AS n '
        f"FROM {table} WITH ('postgresql.slot.name' = '{slot}');"
    )
    (query,) = [
        row[0] for row in door.execute("LIST QUERIES;") if topic in str(row[5]) and row[3] == "running"
    ]

    def changes() -> list[dict[str, int | str | None]]:
        return [json.loads(value or "") for _, value in kafka.consume(topic)]

    stop = threading.Event()
    writer = threading.Thread(target=write, args=(postgresql, table, random_source, stop))
    writer.start()
    try:
        for least in (1, ROWS // 2, ROWS + 1):
            until(lambda least=least: len(changes()) >= least, lambda: f"more changes than {len(changes())}")  # type: ignore[misc]
            server.kill_driver()
    finally:
        stop.set()
        writer.join()
    rows = dict(postgresql.execute(f"SELECT id, n FROM {table}"))

    until(lambda: applied(changes()) == rows, lambda: f"the table, after {len(changes())} changes")
    door.execute(f"TERMINATE QUERY {query};")


@pytest.mark.faults
@pytest.mark.parametrize("place", ["after_sink_before_commit", "inside_transaction"])
def test_no_row_is_lost_or_written_twice(
    place: str,
    postgresql: PostgresServer,
    server: HeadraceProcess,
    door: RestDoor,
    kafka: KafkaClient,
    seed: str,
) -> None:
    """A batch kills its driver before its transaction commits, or after; a server without the fail point takes over."""
    numbers, table, password = f"numbers_{seed}", f"written_{seed}", PASSWORD.replace("'", "''")
    door.execute(
        f"CREATE STORE sink{seed} WITH ('type' = POSTGRESQL, 'uris' = '{postgresql.uri}', "
        f"'postgres.username' = '{USER}', 'postgres.password' = '{password}', 'tls.disabled' = TRUE);"
        f"CREATE STREAM {numbers} (n BIGINT) WITH ('topic' = '{numbers}', 'topic.partitions' = 2, "
        "'topic.replicas' = 1, 'value.format' = 'json');"
        f"CREATE TABLE {table} WITH ('store' = 'sink{seed}', 'delivery.guarantee' = 'exactly_once', 'query.name' = '{table}') AS "
        f"SELECT n FROM {numbers} WITH ('starting.position' = 'earliest');"
    )

    def fact(name: str) -> str:
        return {str(row[0]): row[1] or "" for row in door.execute(f"DESCRIBE QUERY {table};")}[name]

    def written() -> list[int]:
        return sorted(n for (n,) in postgresql.execute(f"SELECT n FROM {table}"))

    kafka.produce(numbers, [(None, json.dumps({"n": n})) for n in range(100)])
    until(lambda: written() == list(range(100)), written)
    server.stop()
    server.start(HEADRACE_FAIL_POINT=place, HEADRACE_RESTART_BACKOFF_MAX_MS="4000")
    restarts = int(fact("restarts"))
    kafka.produce(numbers, [(None, json.dumps({"n": n})) for n in range(100, 2000)])
    until(lambda: int(fact("restarts")) > restarts, "the driver has died")
    server.stop()
    server.start()
    until(lambda: len(written()) >= 2000, lambda: f"2000 rows, found {len(written())}")
    # What follows shows that nothing of before comes again.
    kafka.produce(numbers, [(None, '{"n": 2000}')])
    until(lambda: written()[-1] == 2000, written)
    assert written() == list(range(2001))
    door.execute(f"TERMINATE QUERY {table};")


@pytest.mark.faults
@pytest.mark.parametrize("sink", ["kafka", "postgresql", "itself"])
def test_a_stored_table_is_written_once_though_the_driver_dies_between_its_batches(
    sink: str,
    postgresql: PostgresServer,
    server: HeadraceProcess,
    door: RestDoor,
    kafka: KafkaClient,
    seed: str,
    random_source: random.Random,
) -> None:
    """The table changes after the first death, when its rows are stored: a batch that is repeated has the rows of the first read."""
    table, copy, password = f"stored_{seed}", f"copy_{seed}", PASSWORD.replace("'", "''")
    postgresql.execute(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, n bigint)",
        f"INSERT INTO {table} SELECT id, id * 2 FROM generate_series(0, {STORED_ROWS - 1}) AS id",
    )
    door.execute(
        f"CREATE STORE stored{seed} WITH ('type' = POSTGRESQL, 'uris' = '{postgresql.uri}', "
        f"'postgres.username' = '{USER}', 'postgres.password' = '{password}', 'tls.disabled' = TRUE);"
        f"CREATE TABLE {table} (id BIGINT, n BIGINT) WITH ('store' = 'stored{seed}');"
    )
    options = f"'delivery.guarantee' = 'exactly_once', 'query.name' = '{copy}'"
    statement = {
        "kafka": f"CREATE STREAM {copy} WITH ('store' = 'broker', 'topic.partitions' = 2, 'topic.replicas' = 1, {options}) AS "
        f"SELECT id, n FROM {table};",
        "postgresql": f"CREATE TABLE {copy} WITH ('store' = 'stored{seed}', {options}) AS SELECT id, n FROM {table};",
        "itself": f"INSERT INTO {table} WITH ({options}) SELECT id + {COPIES_FROM} AS id, n FROM {table};",
    }[sink]

    def fact(name: str) -> str:
        return {str(row[0]): row[1] or "" for row in door.execute(f"DESCRIBE QUERY {copy};")}[name]

    def written() -> list[tuple[int, int]]:
        if sink == "postgresql":
            return sorted(postgresql.execute(f"SELECT id, n FROM {copy}"))
        if sink == "itself":
            copies = f"SELECT id - {COPIES_FROM}, n FROM {table} WHERE id >= {COPIES_FROM}"
            return sorted(postgresql.execute(copies))
        rows = (json.loads(value or "") for _, value in kafka.consume(copy))
        return sorted((row["id"], row["n"]) for row in rows)

    # The driver dies when a batch is delivered and before Spark knows: the next start repeats it.
    place = f"after_sink_before_commit:{random_source.randrange(1, 4)}"
    server.stop()
    server.start(HEADRACE_FAIL_POINT=place, HEADRACE_RESTART_BACKOFF_MAX_MS="4000")
    door.execute(statement)
    until(lambda: int(fact("restarts")) > 0, "the driver has died")
    postgresql.execute(
        f"UPDATE {table} SET n = -1 WHERE id % 2 = 0 AND id < {COPIES_FROM}",
        f"DELETE FROM {table} WHERE id % 3 = 0 AND id < {COPIES_FROM}",
        f"INSERT INTO {table} SELECT -id, 0 FROM generate_series(1, 1000) AS id",
    )
    server.stop()
    server.start()
    until(lambda: fact("state") == "terminated", lambda: fact("state"))
    assert written() == [(number, 2 * number) for number in range(STORED_ROWS)]


@pytest.mark.faults
def test_lookups_wait_for_their_store_and_see_what_changes(
    postgresql: PostgresServer, door: RestDoor, kafka: KafkaClient, seed: str
) -> None:
    """The first table is looked up by key, the second is cached whole and read again each second; their server stops and starts again."""
    events, met, password = f"events_{seed}", f"met_{seed}", PASSWORD.replace("'", "''")
    postgresql.execute(
        f"CREATE TABLE names_{seed} (id bigint PRIMARY KEY, name text)",
        f"INSERT INTO names_{seed} SELECT id, 'name ' || id FROM generate_series(0, 99) AS id",
        f"CREATE TABLE kinds_{seed} (kind bigint, label text)",
        f"INSERT INTO kinds_{seed} VALUES (0, 'even'), (1, 'odd')",
    )
    door.execute(
        f"CREATE STORE looked{seed} WITH ('type' = POSTGRESQL, 'uris' = '{postgresql.uri}', "
        f"'postgres.username' = '{USER}', 'postgres.password' = '{password}', 'tls.disabled' = TRUE);"
        f"CREATE STREAM {events} (n BIGINT) WITH ('topic' = '{events}', 'topic.partitions' = 1, "
        "'topic.replicas' = 1, 'value.format' = 'json');"
        f"CREATE TABLE names_{seed} (id BIGINT, name VARCHAR) WITH ('store' = 'looked{seed}');"
        f"CREATE TABLE kinds_{seed} (kind BIGINT, label VARCHAR) WITH ('store' = 'looked{seed}');"
        f"CREATE STREAM {met} WITH ('topic.partitions' = 1, 'topic.replicas' = 1, 'delivery.guarantee' = 'exactly_once', "
        f"'query.name' = '{met}') AS SELECT e.n, t.name, k.label FROM {events} e WITH ('starting.position' = 'earliest') "
        f"LEFT JOIN names_{seed} t ON t.id = e.n "
        f"LEFT JOIN kinds_{seed} k WITH ('lookup.refresh.millis' = 1000) ON k.kind = e.n % 2;"
    )

    def fact(name: str) -> str:
        return {str(row[0]): row[1] or "" for row in door.execute(f"DESCRIBE QUERY {met};")}[name]

    def rows() -> list[tuple[int, str | None, str | None]]:
        messages = [json.loads(value or "") for _, value in kafka.consume(met)]
        return [(row["n"], row["name"], row["label"]) for row in messages]

    def expected(count: int) -> list[tuple[int, str | None, str | None]]:
        return [(n, f"name {n}", ("even", "odd")[n % 2]) for n in range(count)]

    kafka.produce(events, [(None, json.dumps({"n": n})) for n in range(50)])
    until(lambda: rows() == expected(50), rows)
    postgresql.stop()
    kafka.produce(events, [(None, json.dumps({"n": n})) for n in range(50, 100)])
    until(lambda: fact("state") == "restarting", lambda: fact("state"))
    assert str(postgresql.port) in fact("message")
    postgresql.start()
    until(lambda: len(rows()) >= 100, rows)
    assert rows() == expected(100)

    postgresql.execute(f"UPDATE kinds_{seed} SET label = 'straight' WHERE kind = 0")

    def meets_the_change() -> bool:
        kafka.produce(events, [(None, '{"n": 1000}')])
        return (1000, None, "straight") in rows()

    until(meets_the_change, rows)
    door.execute(f"TERMINATE QUERY {met};")
