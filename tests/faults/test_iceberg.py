"""A table of Iceberg holds each row once: when the driver dies between its commit and Spark's, and beside whatever else changes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pyarrow
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from harness.iceberg import Lake
from harness.iceberg_front import CLIENT, SECRET, VENDED, CatalogFront
from harness.kafka import KafkaClient
from harness.kinesis import REGION
from harness.patience import until
from harness.process import HeadraceProcess
from harness.s3 import S3Client
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.xdist_group("tests/faults/test_iceberg.py"),  # one lake for all
]

ROWS = 50
"""In each of two batches."""


@pytest.fixture
def door(headrace_server: HeadraceProcess, lake: Lake, seed: str) -> Iterator[RestDoor]:
    """Yield a door to a database, with the catalog as the store `l<seed>` with a namespace `s<seed>`."""
    door = RestDoor(headrace_server)
    door.execute(
        f"CREATE DATABASE d{seed}; USE DATABASE d{seed}; {lake.rest(f'l{seed}')} CREATE ENTITY s{seed} IN STORE l{seed}; USE STORE l{seed};"
    )
    yield door
    door.close()


def append(lake: Lake, table: str, *numbers: int, glue: bool = False) -> None:
    """Append a commit of another writer."""
    rows = pyarrow.table({"n": pyarrow.array(numbers, pyarrow.int64())})
    lake.table(table, glue=glue).append(rows)


@pytest.mark.faults
def test_files_are_put_together_and_snapshots_removed(door: RestDoor, lake: Lake, seed: str) -> None:
    table = f"s{seed}.t"
    door.execute(f"CREATE ENTITY {table} WITH ('iceberg.columns' = 'n BIGINT');")
    assert door.execute(f"OPTIMIZE ENTITY {table};") == [["0", "0", "0", "0", "0", "0"]]
    for n in range(4):
        append(lake, table, n)
    assert door.execute(f"OPTIMIZE ENTITY {table};") == [["4", "1", "0", "0", "0", "0"]]
    # What is in order already is left alone.
    assert door.execute(f"OPTIMIZE ENTITY {table};") == [["1", "1", "0", "0", "0", "0"]]
    day = "WITH ('iceberg.snapshot.retention.ms' = 86400000)"
    assert door.execute(f"OPTIMIZE ENTITY {table} {day};") == [["1", "1", "0", "0", "0", "0"]]
    none = "WITH ('iceberg.snapshot.retention.ms' = 0)"
    assert door.execute(f"OPTIMIZE ENTITY {table} {none};") == [["1", "1", "0", "0", "4", "0"]]
    assert sorted(row["n"] for row in lake.rows(table)) == [0, 1, 2, 3]
    door.execute(f"CREATE STREAM t WITH ('store' = 'l{seed}', 'iceberg.namespace.name' = 's{seed}');")
    with pytest.raises(StatementError, match=r"0A000: the first snapshots of .* have been removed"):
        door.stream("SELECT n FROM t;", count=1, when_live=lambda: None)


@pytest.fixture
def door_in_s3(s3: S3Client, lake: Lake, seed: str, tmp_path: Path) -> Iterator[RestDoor]:
    """Yield a door as `door` does, of a server of its own, whose compute pool `far` has its checkpoints in S3."""
    process = HeadraceProcess(tmp_path / "far", environment=s3.checkpoints("headrace")).start()
    try:
        door = RestDoor(process)
        door.execute(
            f"CREATE COMPUTE_POOL far WITH ('compute_pool.checkpoints' = 's3://{s3.bucket}/headrace/iceberg_{seed}');"
            f"CREATE DATABASE d{seed}; USE DATABASE d{seed}; {lake.rest(f'l{seed}')} CREATE ENTITY s{seed} IN STORE l{seed}; "
            f"USE STORE l{seed}; USE COMPUTE_POOL far;"
        )
        yield door
        door.close()
    finally:
        process.stop()


@pytest.mark.faults
def test_what_running_queries_need_is_kept(door: RestDoor, kafka: KafkaClient, lake: Lake, seed: str) -> None:
    check_kept(door, "default_pool", kafka, lake, seed)


@pytest.mark.faults
def test_what_queries_with_checkpoints_in_s3_need_is_kept_by_a_driver_without_a_login(
    door_in_s3: RestDoor, kafka: KafkaClient, lake: Lake, seed: str
) -> None:
    check_kept(door_in_s3, "far", kafka, lake, seed)


def check_kept(door: RestDoor, pool: str, kafka: KafkaClient, lake: Lake, seed: str) -> None:
    """Let queries of a pool write and read a table, and remove as many of its snapshots as may be, in the default pool."""
    table, topic, copy = f"s{seed}.t", f"n_{seed}", f"copy_{seed}"
    kafka.create(topic)
    kafka.create(copy)
    relation = f"'iceberg.namespace.name' = 's{seed}', 'iceberg.table.name' = 't'"
    door.execute(
        f"CREATE ENTITY {table} WITH ('iceberg.columns' = 'n BIGINT');"
        f"CREATE STORE k{seed} WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE);"
        f"CREATE STREAM n (n BIGINT) WITH ('store' = 'k{seed}', 'topic' = '{topic}', 'value.format' = 'json');"
        f"CREATE STREAM followed WITH ('store' = 'l{seed}', {relation}, 'iceberg.monitor.interval.ms' = 100);"
        f"CREATE STREAM copied WITH ('store' = 'k{seed}', 'topic' = '{copy}', 'value.format' = 'json', "
        "'delivery.guarantee' = 'exactly_once') AS SELECT n FROM followed;"
    )
    door.execute(
        f"CREATE TABLE t WITH ('store' = 'l{seed}', {relation}, 'iceberg.commit.interval.ms' = 0, 'delivery.guarantee' = 'exactly_once')"
        " AS SELECT n FROM n WITH ('starting.position' = 'earliest');"
    )
    (query,) = [
        row[0]
        for row in door.execute("LIST QUERIES;")
        if "FROM n WITH" in str(row[5]) and f"s{seed}" in str(row[5])
    ]

    def expect(*numbers: int) -> None:
        def copied() -> list[str]:
            return sorted(str(value) for _, value in kafka.consume(copy))

        until(lambda: len(copied()) >= len(numbers), lambda: f"{numbers} in the copy; it has {copied()}")
        assert copied() == [f'{{"n":{n}}}' for n in numbers]
        assert sorted(row["n"] for row in lake.rows(table)) == list(numbers)

    def optimize() -> list[str | None]:
        door.execute("USE COMPUTE_POOL default_pool;")
        (row,) = door.execute(f"OPTIMIZE ENTITY {table} WITH ('iceberg.snapshot.retention.ms' = 0);")
        door.execute(f"USE COMPUTE_POOL {pool};")
        return row

    def snapshots() -> set[int]:
        return {one.snapshot_id for one in lake.table(table).metadata.snapshots}

    kafka.produce(topic, [(None, '{"n": 1}')])
    expect(1)
    (own,) = lake.table(table).metadata.snapshots
    append(lake, table, 2)
    append(lake, table, 3)
    expect(1, 2, 3)
    assert optimize() == ["3", "1", "0", "0", "0", "3"]
    assert own.snapshot_id in snapshots()
    kafka.produce(topic, [(None, '{"n": 4}')])
    expect(1, 2, 3, 4)
    # A writer that is stopped may be started again, and is to know then what it wrote last.
    last = lake.table(table).current_snapshot()
    assert last is not None
    door.execute("STOP TABLE t;")
    append(lake, table, 5)
    expect(1, 2, 3, 4, 5)
    append(lake, table, 6)
    expect(1, 2, 3, 4, 5, 6)
    optimize()
    assert last.snapshot_id in snapshots()
    # Without the writer the reader's place is what is kept.
    door.execute(f"TERMINATE QUERY {query};")
    until(lambda: optimize() and last.snapshot_id not in snapshots(), "the writer's snapshot to go")
    append(lake, table, 7)
    expect(1, 2, 3, 4, 5, 6, 7)


@pytest.mark.faults
def test_several_may_commit_at_once(door: RestDoor, kafka: KafkaClient, lake: Lake, seed: str) -> None:
    table, topics = f"s{seed}.t", (f"a_{seed}", f"b_{seed}")
    relation = f"'iceberg.namespace.name' = 's{seed}', 'iceberg.commit.interval.ms' = 0, 'delivery.guarantee' = 'exactly_once'"
    door.execute(
        f"CREATE STORE k{seed} WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE);"
        f"CREATE ENTITY {table} WITH ('iceberg.columns' = 'n BIGINT');"
    )
    for topic in topics:
        kafka.create(topic)
        door.execute(
            f"CREATE STREAM {topic} (n BIGINT) WITH ('store' = 'k{seed}', 'topic' = '{topic}', 'value.format' = 'json');"
        )
    door.execute(
        f"CREATE TABLE t WITH ('store' = 'l{seed}', {relation}) AS SELECT n FROM {topics[0]} WITH ('starting.position' = 'earliest');"
        f"INSERT INTO t SELECT n FROM {topics[1]} WITH ('starting.position' = 'earliest');"
    )
    written = []
    for n in range(0, 30, 3):
        for offset, topic in enumerate(topics):
            kafka.produce(topic, [(None, f'{{"n": {n + offset}}}')])
        # PyIceberg does not try again by itself.
        with suppress(CommitFailedException):
            append(lake, table, n + 2)
            written.append(n + 2)
    door.execute(f"OPTIMIZE ENTITY {table};")

    def held() -> list[int]:
        return sorted(row["n"] for row in lake.rows(table))

    expected = sorted([n for n in range(30) if n % 3 < 2] + written)
    until(lambda: len(held()) >= len(expected), lambda: f"{expected}; the table has {held()}")
    assert held() == expected


@pytest.mark.faults
def test_a_catalog_may_ask_for_tokens_be_away_and_refuse(
    door: RestDoor, kafka: KafkaClient, lake: Lake, seed: str
) -> None:
    table, topic = f"s{seed}.t", f"n_{seed}"
    kafka.create(topic)
    vended = {"s3.access-key-id": VENDED, "s3.secret-access-key": "vended", "s3.session-token": "vended"}
    with CatalogFront(lake.catalog, lake.aws.uri, vended) as front:

        def store(secret: str) -> str:
            quoted = secret.replace("'", "''")
            return (
                f"CREATE STORE o{seed} WITH ('type' = ICEBERG_REST, 'uris' = '{front.catalog}', 'tls.disabled' = TRUE, "
                f"'iceberg.s3.endpoint' = '{front.bucket}', 'aws.region' = '{REGION}', 'iceberg.rest.client_id' = '{CLIENT}', "
                f"'iceberg.rest.client_secret' = '{quoted}');"
            )

        def held() -> list[int]:
            return sorted(row["n"] for row in lake.rows(table))

        def produce(*numbers: int) -> None:
            kafka.produce(topic, [(None, f'{{"n": {n}}}') for n in numbers])

        def state() -> tuple[str, str]:
            (row,) = [row for row in door.execute("LIST QUERIES;") if f"o{seed}" in str(row[5])]
            return str(row[3]), str(row)

        def until_waiting(what: str) -> None:
            until(lambda: re.search(what, state()[1]), lambda: f"{what}; found {state()}")

        with pytest.raises(
            StatementError, match="57015: authentication: the catalog refused the credentials"
        ):
            door.execute(store("hunter2"))
        door.execute(
            f"{store(SECRET)} CREATE STORE k{seed} WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE);"
            f"CREATE STREAM n (n BIGINT) WITH ('store' = 'k{seed}', 'topic' = '{topic}', 'value.format' = 'json');"
            f"CREATE TABLE t WITH ('store' = 'o{seed}', 'iceberg.namespace.name' = 's{seed}', 'iceberg.commit.interval.ms' = 0, "
            "'delivery.guarantee' = 'exactly_once') AS SELECT n FROM n WITH ('starting.position' = 'earliest');"
        )
        produce(1)
        until(lambda: held() == [1], lambda: f"the first row; found {held()}, {state()}")
        assert front.keys == {VENDED}
        front.refused = lambda _method, _path: 503
        produce(2)
        until_waiting(r"restarting.*(does not answer|catalog, or S3)")
        front.refused = lambda _method, _path: None
        until(lambda: held() == [1, 2], lambda: f"both rows; found {held()}, {state()}")
        front.refused = lambda method, path: 403 if method == "POST" and path.endswith("/tables/t") else None
        produce(3)
        until_waiting("authorization: the catalog does not allow this")
        front.refused = lambda method, _path: 403 if method == "PUT" else None
        until_waiting("authorization: AWS does not allow this to the store's keys")
        front.refused = lambda _method, _path: None
        until(lambda: held() == [1, 2, 3], lambda: f"all rows; found {held()}, {state()}")
        assert len(front.tokens) > 1
        assert SECRET not in door_texts(door)


class Copies:
    """Queries that copy a table, or write one, each by the table's name; `l<seed>` and `g<seed>` are the catalogs."""

    def __init__(self, door: RestDoor, kafka: KafkaClient, lake: Lake, seed: str) -> None:
        self._door, self._kafka, self._lake, self._seed = door, kafka, lake, seed
        door.execute(
            f"CREATE STORE k{seed} WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE);"
            f"{lake.glue(f'g{seed}')} CREATE ENTITY s{seed} IN STORE g{seed};"
        )

    def follow(self, name: str, *, glue: bool = False, position: str = "earliest") -> None:
        """A table with the row 1, and a query that copies it into a topic."""
        seed, store = self._seed, f"{'g' if glue else 'l'}{self._seed}"
        self._kafka.create(f"{name}_{seed}")
        self._door.execute(
            f"CREATE ENTITY s{seed}.{name} IN STORE {store} WITH ('iceberg.columns' = 'n BIGINT');"
        )
        self.append(name, 1, glue=glue)
        self._door.execute(
            f"CREATE STREAM {name} WITH ('store' = '{store}', 'iceberg.namespace.name' = 's{seed}', 'iceberg.monitor.interval.ms' = 100);"
            f"CREATE STREAM of_{name} WITH ('store' = 'k{seed}', 'topic' = '{name}_{seed}', 'value.format' = 'json')"
            f" AS SELECT n FROM {name} WITH ('starting.position' = '{position}');"
        )

    def write(self, name: str) -> None:
        """A table, and a query that copies a topic into it, exactly once."""
        seed = self._seed
        self._kafka.create(f"{name}_{seed}")
        self._door.execute(
            f"CREATE STREAM {name} (n BIGINT) WITH ('store' = 'k{seed}', 'topic' = '{name}_{seed}', 'value.format' = 'json');"
            f"CREATE TABLE of_{name} WITH ('store' = 'l{seed}', 'iceberg.namespace.name' = 's{seed}', 'iceberg.commit.interval.ms' = 0, "
            f"'delivery.guarantee' = 'exactly_once') AS SELECT n FROM {name} WITH ('starting.position' = 'earliest');"
        )

    def table(self, name: str, *, glue: bool = False) -> Table:
        """The table as it is now."""
        return self._lake.table(f"s{self._seed}.{name}", glue=glue)

    def append(self, name: str, *numbers: int, glue: bool = False) -> None:
        """A commit of another writer for each number."""
        for n in numbers:
            append(self._lake, f"s{self._seed}.{name}", n, glue=glue)

    def produce(self, name: str, n: int) -> None:
        """A record for a query that writes."""
        self._kafka.produce(f"{name}_{self._seed}", [(None, f'{{"n": {n}}}')])

    def recreate(self, name: str, *, glue: bool = False) -> None:
        """Another table of the name, with as many commits and more."""
        table = self.table(name, glue=glue)
        table.catalog.drop_table(table.name())
        table.catalog.create_table(table.name(), table.schema(), location=f"{table.location()}-again")
        self.append(name, 7, 8, glue=glue)

    def expect(self, name: str, *numbers: int) -> None:
        """Wait for the copies of exactly these rows."""

        def copied() -> list[str]:
            return sorted(str(value) for _, value in self._kafka.consume(f"{name}_{self._seed}"))

        until(
            lambda: copied() == [f'{{"n":{n}}}' for n in numbers],
            lambda: f"{numbers} of {name}; found {copied()}, {self.query(name)}",
        )

    def query(self, name: str) -> list[str]:
        """The row of LIST QUERIES."""
        rows = self._door.execute("LIST QUERIES;")
        (row,) = [row for row in rows if f"FROM {name} WITH" in str(row[5]) and self._seed in str(row[5])]
        return [str(cell) for cell in row]

    def stop(self, name: str, kind: str) -> None:
        """Stop a relation, and wait until its query writes nothing any more: until then it may finish a batch."""
        self._door.execute(f"STOP {kind} of_{name};")
        until(
            lambda: self.query(name)[4] == "terminated", lambda: f"{name} to stop; found {self.query(name)}"
        )

    def expect_end(self, name: str, message: str) -> None:
        """Wait for the query's error."""
        until(
            lambda: self.query(name)[4] == "errored", lambda: f"the end of {name}; found {self.query(name)}"
        )
        assert re.search(message, self.query(name)[9])


@pytest.mark.faults  # a place that is gone takes a minute to provoke
def test_a_stream_ends_where_its_place_in_the_table_is_gone(
    door: RestDoor, kafka: KafkaClient, lake: Lake, seed: str
) -> None:
    """Check other tables of the name, a roll-back and removed snapshots, while the query runs and at its start."""
    copies = Copies(door, kafka, lake, seed)
    names = ("stopped", "stopped_glue", "running", "rolled", "expired")
    for name in names:
        copies.follow(name, glue=name == "stopped_glue")
    copies.follow("late", position="latest")
    for name in names:
        copies.expect(name, 1)
    until(lambda: copies.query("late")[4] == "running", "the last query to run")
    stopped = ("stopped", "stopped_glue", "expired", "late")
    for name in stopped:
        copies.stop(name, "STREAM")
    copies.recreate("stopped")
    copies.recreate("stopped_glue", glue=True)
    copies.append("expired", 2, 3)
    one, two, _ = copies.table("expired").snapshots()
    copies.table("expired").maintenance.expire_snapshots().by_ids([one.snapshot_id, two.snapshot_id]).commit()
    copies.append("late", 2)
    for name in stopped:
        door.execute(f"START STREAM of_{name};")
    copies.recreate("running")
    copies.append("rolled", 2)
    copies.expect("rolled", 1, 2)
    rolled = copies.table("rolled")
    rolled.manage_snapshots().set_current_snapshot(rolled.snapshots()[0].snapshot_id).commit()
    copies.append("rolled", 3)
    for name in ("stopped", "stopped_glue", "running"):
        copies.expect_end(
            name,
            "rows? may be missing: .* deleted and created again|records may be missing: .* created again",
        )
    for name in ("rolled", "expired"):
        copies.expect_end(
            name,
            "rows may be missing: the snapshot up to which the query has read .*\nHint: The table was rolled back",
        )
    # The position of what has read nothing yet is the time of its first start, not of the last one.
    copies.expect("late", 2)


@pytest.mark.faults
def test_a_writer_fails_if_its_progress_is_unknown(
    door: RestDoor, kafka: KafkaClient, lake: Lake, seed: str, headrace_server: HeadraceProcess
) -> None:
    copies = Copies(door, kafka, lake, seed)
    numbers = count(1)

    def held(name: str) -> list[int]:
        return sorted(row["n"] for row in lake.rows(f"s{seed}.of_{name}"))

    for name in ("recreated", "forgotten"):
        copies.write(name)
        copies.produce(name, 1)
    until(
        lambda: held("recreated") == [1] == held("forgotten"),
        lambda: f"a row in each; found {copies.query('recreated')}, {copies.query('forgotten')}",
    )
    copies.stop("forgotten", "TABLE")
    # As if the driver had died between the table's commit and Spark's, and others had committed since.
    checkpoint = headrace_server.data_dir / "checkpoints" / copies.query("forgotten")[0]
    epoch = max(int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*"))
    (checkpoint / "commits" / str(epoch)).unlink(missing_ok=True)
    (own,) = copies.table("of_forgotten").snapshots()
    copies.append("of_forgotten", 2)
    copies.table("of_forgotten").maintenance.expire_snapshots().by_id(own.snapshot_id).commit()
    door.execute("START TABLE of_forgotten;")
    copies.expect_end(
        "forgotten",
        f"cannot determine whether batch {epoch} was written: the query's mark in the snapshots of",
    )
    copies.recreate("of_recreated")

    def ends() -> bool:
        copies.produce("recreated", next(numbers))
        return copies.query("recreated")[4] == "errored"

    until(ends, lambda: f"the end of the query; found {copies.query('recreated')}")
    refusal = f"output may be missing: 's{seed}.of_recreated'"
    copies.expect_end("recreated", refusal)
    door.execute(f"RESTART QUERY {copies.query('recreated')[0]};")
    copies.expect_end("recreated", refusal)


def door_texts(door: RestDoor) -> str:
    """Return the texts that users see of stores and queries."""
    return str(door.execute("LIST STORES;")) + str(door.execute("LIST QUERIES;"))


@pytest.mark.faults
def test_a_role_may_be_assumed(door: RestDoor, lake: Lake, seed: str) -> None:
    with CatalogFront(lake.catalog, lake.aws.uri, {}) as front:
        door.execute(
            f"CREATE STORE r{seed} WITH ('type' = ICEBERG_GLUE, 'uris' = '{front.bucket}', 'tls.disabled' = TRUE, {lake.keys}, "
            f"'iceberg.warehouse.default_path' = 's3://lake/glue', 'aws.iam_role_arn' = 'arn:aws:iam::123456789012:role/writer', "
            f"'aws.iam_external_id' = 'ours'); CREATE ENTITY s{seed} IN STORE r{seed};"
            f"CREATE ENTITY s{seed}.t IN STORE r{seed} WITH ('iceberg.columns' = 'n BIGINT');"
        )
        for n in range(2):
            append(lake, f"s{seed}.t", n, glue=True)
        assert door.execute(f"OPTIMIZE ENTITY s{seed}.t IN STORE r{seed};") == [
            ["2", "1", "0", "0", "0", "0"]
        ]
        # Those of the role, here and in the driver, and never the store's own.
        assert front.keys
        assert all(key.startswith("ASIA") for key in front.keys)


@pytest.mark.faults  # tests/stores/test_exactly_once.py repeats a batch in `make test`
def test_a_batch_that_comes_again_is_left_out(
    kafka: KafkaClient, lake: Lake, seed: str, tmp_path: Path
) -> None:
    table, topic = f"s{seed}.t", f"n_{seed}"
    kafka.create(topic)

    def write(first: int) -> None:
        kafka.produce(topic, [(None, f'{{"n": {first + n}}}') for n in range(ROWS)])

    def held() -> list[int]:
        return sorted(row["n"] for row in lake.rows(table))

    write(0)
    # Of its own: each of its drivers dies when it has committed to a table for the first time.
    server = HeadraceProcess(tmp_path).start(HEADRACE_FAIL_POINT="after_sink_before_commit")
    try:
        door = RestDoor(server)
        door.execute(
            f"CREATE DATABASE d; USE DATABASE d; {lake.rest('lake')} CREATE ENTITY s{seed} IN STORE lake;"
            f"CREATE STORE k WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE);"
            f"CREATE STREAM n (n BIGINT) WITH ('store' = 'k', 'topic' = '{topic}', 'value.format' = 'json');"
            f"CREATE TABLE t WITH ('store' = 'lake', 'iceberg.namespace.name' = 's{seed}', 'iceberg.commit.interval.ms' = 0, "
            "'delivery.guarantee' = 'exactly_once') AS SELECT n FROM n WITH ('starting.position' = 'earliest');"
        )
        door.close()
        until(lambda: held() == list(range(ROWS)), lambda: f"the first rows; the table has {held()}")
        (first,) = lake.table(table).metadata.snapshots
        server.stop()
        write(ROWS)
        server.start()
        until(lambda: len(held()) >= 2 * ROWS, lambda: f"all rows; the table has {held()}")
        assert held() == list(range(2 * ROWS))
        # The same batch was given again, and the next one has the next number.
        epochs = [
            one.summary["headrace.epoch"] for one in lake.table(table).metadata.snapshots if one.summary
        ]
        assert first.summary is not None
        assert epochs == [first.summary["headrace.epoch"], str(int(first.summary["headrace.epoch"] or 0) + 1)]
    finally:
        server.stop()
