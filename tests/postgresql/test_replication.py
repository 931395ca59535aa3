"""Changes of a real server's tables: their content, none lost or duplicate, and unsupported tables."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from harness.patience import until
from harness.postgresql import PostgresServer
from headrace.connectors.postgresql import replication
from headrace.connectors.postgresql.changes import Change, Position, Table
from headrace.connectors.postgresql.connection import connect
from headrace.connectors.postgresql.replication import ChangeStream
from headrace.core.errors import ExternalError, UserError
from tests.postgresql.conftest import store_of

Store = dict[str, str]
START = Position(0)


def prepare(store: Store, slot: str, *tables: Table) -> int | None:
    with connect(store) as connection:
        return replication.prepare(connection, slot, tables)


def take(stream: ChangeStream, count: int) -> list[Change]:
    """Return the next `count` changes, from any number of messages."""
    changes: list[Change] = []

    def enough() -> bool:
        changes.extend(stream.read(at_most=count - len(changes), wait_s=0.2))
        return len(changes) >= count

    until(enough, lambda: f"{count} changes, found {changes}")
    return changes


def facts(changes: list[Change]) -> list[tuple[object, ...]]:
    return [(change.op, change.before, change.after) for change in changes]


def test_every_kind_of_change_is_reported_as_in_debezium(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (skipped int, id int PRIMARY KEY, name text)')
    table = Table(schema, "t", ("id", "name"), ("id",))
    assert prepare(store, slot, table)
    assert prepare(store, slot, table) is None
    postgresql.execute(
        f"""INSERT INTO "{schema}".t (id, name) VALUES (1, 'a'), (2, NULL)""",
        f"""UPDATE "{schema}".t SET name = 'ü"\\' WHERE id = 1""",
        f'UPDATE "{schema}".t SET id = 3 WHERE id = 2',
        f'DELETE FROM "{schema}".t WHERE id = 1',
        f'CREATE TABLE "{schema}".other (x int)',
        f'INSERT INTO "{schema}".other VALUES (1)',
        f'TRUNCATE "{schema}".t, "{schema}".other',
    )
    with ChangeStream(store, None, slot, [table], START) as stream:
        changes = take(stream, 7)
    assert facts(changes) == [
        ("c", None, ("1", "a")),
        ("c", None, ("2", None)),
        ("u", None, ("1", 'ü"\\')),
        ("d", ("2", None), None),
        ("c", None, ("3", None)),
        ("d", ("1", None), None),
        ("t", None, None),
    ]
    assert changes[0].xid == changes[1].xid != changes[2].xid
    assert [change.position for change in changes] == sorted({change.position for change in changes})
    assert all(change.lsn for change in changes[:-1])


def test_with_the_whole_old_row(postgresql: PostgresServer, store: Store, schema: str, slot: str) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, name text)',
        f'ALTER TABLE "{schema}".t REPLICA IDENTITY FULL',
    )
    table = Table(schema, "t", ("id", "name"), ("id",))
    prepare(store, slot, table)
    postgresql.execute(
        f"""INSERT INTO "{schema}".t VALUES (1, 'a')""",
        f"""UPDATE "{schema}".t SET name = 'b'""",
        f'UPDATE "{schema}".t SET id = 2',
        f'DELETE FROM "{schema}".t',
    )
    with ChangeStream(store, None, slot, [table], START) as stream:
        assert facts(take(stream, 5))[1:] == [
            ("u", ("1", "a"), ("1", "b")),
            ("d", ("1", "b"), None),
            ("c", None, ("2", "b")),
            ("d", ("2", "b"), None),
        ]


def test_a_stream_that_is_broken_anywhere_goes_on_without_gap_or_repeat(
    postgresql: PostgresServer, store: Store, schema: str, slot: str, seed: str
) -> None:
    """Also within a transaction, and whether what was read was confirmed or not."""
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)')
    table = Table(schema, "t", ("id",), ("id",))
    prepare(store, slot, table)
    chance = random.Random(seed)
    written = 0
    with postgresql.connect() as writer:
        while written < 400:
            size = chance.randint(1, 60)
            writer.execute(
                f'INSERT INTO "{schema}".t SELECT n FROM generate_series({written}, {written + size - 1}) AS n'.encode()
            )
            written += size
    changes: list[Change] = []
    while len(changes) < written:
        start = changes[-1].position if changes else START
        with ChangeStream(store, None, slot, [table], start) as stream:
            for _ in range(chance.randint(1, 3)):
                changes += take(stream, min(chance.randint(1, 70), written - len(changes)))
                if chance.random() < 0.5:
                    stream.confirm(changes[chance.randrange(len(changes))].position)
                if len(changes) == written:
                    break
    assert [change.after for change in changes] == [(str(number),) for number in range(written)]


def test_what_others_write_does_not_make_the_server_keep_its_log(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".quiet (id int PRIMARY KEY)', f'CREATE TABLE "{schema}".busy (x text)'
    )
    table = Table(schema, "quiet", ("id",), ("id",))
    prepare(store, slot, table)
    flushed = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
    with ChangeStream(store, None, slot, [table], START) as stream, postgresql.connect() as writer:
        before = writer.execute(flushed.encode(), (slot,)).fetchone()

        def moved() -> bool:
            writer.execute(f"""INSERT INTO "{schema}".busy VALUES ('x')""".encode())
            assert stream.read(at_most=1, wait_s=0.1) == []
            stream.confirm(Position(stream.idle_at))
            return writer.execute(flushed.encode(), (slot,)).fetchone() != before

        until(moved, "the slot moves on")
        lag = replication.lag_bytes(writer, slot)
        assert lag is not None
        assert lag >= 0
        assert replication.lag_bytes(writer, "none") is None
        writer.execute(f'INSERT INTO "{schema}".quiet VALUES (1)'.encode())
        assert facts(take(stream, 1)) == [("c", None, ("1",))]


def test_an_added_column_does_not_stop_reading_and_a_dropped_one_is_reported(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, name text)')
    table = Table(schema, "t", ("id", "name"), ("id",))
    prepare(store, slot, table)
    postgresql.execute(
        f"""INSERT INTO "{schema}".t VALUES (1, 'a')""",
        f'ALTER TABLE "{schema}".t ADD COLUMN more int',
        f"""INSERT INTO "{schema}".t VALUES (2, 'b', 7)""",
    )
    with ChangeStream(store, None, slot, [table], START) as stream:
        assert facts(take(stream, 2)) == [("c", None, ("1", "a")), ("c", None, ("2", "b"))]
        postgresql.execute(
            f'ALTER TABLE "{schema}".t DROP COLUMN name', f'INSERT INTO "{schema}".t VALUES (3, 8)'
        )
        with pytest.raises(UserError, match="has no column name any more"):
            take(stream, 1)


def test_a_large_value_that_was_not_sent_is_taken_from_the_old_row_or_reported(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, big text, n int)',
        f'ALTER TABLE "{schema}".t ALTER big SET STORAGE EXTERNAL',
        f"""INSERT INTO "{schema}".t VALUES (1, repeat('x', 20000), 1)""",
        f'ALTER TABLE "{schema}".t REPLICA IDENTITY FULL',
    )
    table = Table(schema, "t", ("id", "big", "n"), ("id",))
    without = Table(schema, "t", ("id", "n"), ("id",))
    prepare(store, slot, table)
    postgresql.execute(
        f'UPDATE "{schema}".t SET n = 2',
        f'ALTER TABLE "{schema}".t REPLICA IDENTITY DEFAULT',
        f'UPDATE "{schema}".t SET n = 3',
    )
    with ChangeStream(store, None, slot, [table], START) as stream:
        assert take(stream, 1)[0].after == ("1", "x" * 20000, "2")
        with pytest.raises(UserError, match="did not send the value of column big") as caught:
            take(stream, 1)
        assert "REPLICA IDENTITY FULL" in str(caught.value.hint)
    with ChangeStream(store, None, slot, [without], START) as stream:
        assert [change.after for change in take(stream, 2)] == [("1", "2"), ("1", "3")]


def test_a_slot_is_read_by_one_at_a_time(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)')
    table = Table(schema, "t", ("id",))
    prepare(store, slot, table)
    with (
        ChangeStream(store, None, slot, [table], START),
        pytest.raises(ExternalError, match="the replication slot is in use"),
    ):
        ChangeStream(store, None, slot, [table], START)


def test_a_broken_connection_is_an_error_of_the_store_and_may_be_opened_again(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)', f'INSERT INTO "{schema}".t VALUES (0)'
    )
    table = Table(schema, "t", ("id",))
    prepare(store, slot, table)
    end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{}' AND active_pid IS NOT NULL"
    with ChangeStream(store, None, slot, [table], START) as stream:
        until(lambda: postgresql.execute(end.format(slot)), "the slot is read")
        with pytest.raises(ExternalError) as caught:
            until(lambda: stream.read(at_most=1, wait_s=1), "the stream ends")
    assert caught.value.state.value == "57015"
    postgresql.execute(f'INSERT INTO "{schema}".t VALUES (1)')
    with ChangeStream(store, None, slot, [table], START) as stream:
        assert facts(take(stream, 1)) == [("c", None, ("1",))]


def test_a_table_whose_updates_would_be_refused_is_not_published(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, other int NOT NULL UNIQUE)',
        f'ALTER TABLE "{schema}".t REPLICA IDENTITY NOTHING',
    )
    table = Table(schema, "t", ("id",), ("id",))
    with pytest.raises(UserError, match="UPDATEs and DELETEs cannot be assigned to rows") as caught:
        prepare(store, slot, table)
    assert "REPLICA IDENTITY DEFAULT" in str(caught.value.hint)
    postgresql.execute(f'ALTER TABLE "{schema}".t REPLICA IDENTITY USING INDEX t_other_key')
    with pytest.raises(UserError, match="does not contain its primary key"):
        prepare(store, slot, table)
    postgresql.execute(f'ALTER TABLE "{schema}".t REPLICA IDENTITY FULL')
    assert prepare(store, slot, table)


def test_a_changed_key_is_reported(postgresql: PostgresServer, store: Store, schema: str, slot: str) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int PRIMARY KEY, other int NOT NULL)')
    table = Table(schema, "t", ("id", "other"), ("id",))
    prepare(store, slot, table)
    postgresql.execute(
        f'ALTER TABLE "{schema}".t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (other)',
        f'INSERT INTO "{schema}".t VALUES (1, 2)',
    )
    with ChangeStream(store, None, slot, [table], START) as stream, pytest.raises(UserError) as caught:
        take(stream, 1)
    assert "is not its primary key (id) any more" in caught.value.message


def test_what_the_user_may_not_do_is_told_with_who_may(
    postgresql: PostgresServer, store: Store, schema: str, slot: str, seed: str
) -> None:
    postgresql.execute(
        f"CREATE ROLE r{seed} LOGIN PASSWORD 'p'",
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)',
        f'GRANT USAGE ON SCHEMA "{schema}" TO r{seed}',
        f'GRANT SELECT ON "{schema}".t TO r{seed}',
    )
    reader = {**store, "postgres.username": f"r{seed}", "postgres.password": "p"}
    table = Table(schema, "t", ("id",), ("id",))
    with pytest.raises(ExternalError, match="lacks a right") as caught:
        prepare(reader, slot, table)
    assert f"CREATE PUBLICATION {slot} FOR TABLE" in str(caught.value.hint)
    postgresql.execute(f'CREATE PUBLICATION {slot} FOR TABLE "{schema}".t')
    with pytest.raises(ExternalError, match="lacks a right") as caught:
        prepare(reader, slot, table)
    assert "REPLICATION" in str(caught.value.hint)
    postgresql.execute(f"ALTER ROLE r{seed} REPLICATION")
    assert prepare(reader, slot, table)


def test_a_dropped_slot_is_reported(postgresql: PostgresServer, store: Store, schema: str, slot: str) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)')
    table = Table(schema, "t", ("id",), ("id",))
    with pytest.raises(UserError, match="was dropped, or the server invalidated it") as caught:
        ChangeStream(store, None, slot, [table], START)
    assert "reads the tables from the start" in str(caught.value.hint)


def test_a_reader_that_works_for_longer_than_the_servers_patience_keeps_its_connection(
    postgresql: PostgresServer, store: Store, schema: str, slot: str, seed: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)',
        f"CREATE ROLE hasty{seed} LOGIN REPLICATION PASSWORD 'p'",
        f"ALTER ROLE hasty{seed} SET wal_sender_timeout = '2s'",
    )
    table = Table(schema, "t", ("id",), ("id",))
    prepare(store, slot, table)
    hasty = {**store, "postgres.username": f"hasty{seed}", "postgres.password": "p"}
    with ChangeStream(hasty, None, slot, [table], START) as stream:
        postgresql.execute(f'INSERT INTO "{schema}".t VALUES (1)')
        take(stream, 1)
        time.sleep(5)
        postgresql.execute(f'INSERT INTO "{schema}".t VALUES (2)')
        assert facts(take(stream, 1)) == [("c", None, ("2",))]


def test_a_transaction_that_keeps_a_new_slot_waiting_is_named(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)')
    table = Table(schema, "t", ("id",), ("id",))
    with postgresql.connect() as writer, connect(store) as connection:
        writer.execute("BEGIN")
        writer.execute(f'INSERT INTO "{schema}".t VALUES (1)'.encode())
        pid = writer.info.backend_pid
        with pytest.raises(ExternalError, match=rf"is the oldest; SELECT pg_terminate_backend\({pid}\)"):
            replication.prepare(connection, slot, [table], wait_s=0.3)
        writer.execute("COMMIT")
        assert replication.prepare(connection, slot, [table])


def test_a_server_without_logical_decoding_is_reported(tmp_path: Path) -> None:
    with PostgresServer(tmp_path, 18, wal_level="replica") as server:
        server.execute("CREATE TABLE t (id int PRIMARY KEY)")
        store = store_of(uris=server.uri)
        with pytest.raises(UserError, match="its wal_level is replica") as caught:
            prepare(store, "s", Table("public", "t", ("id",), ("id",)))
    assert "wal_level = logical" in str(caught.value.hint)
