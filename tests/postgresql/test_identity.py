"""Changes between two readings, such as a new table, end the reading: it never continues without the changes between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg
import pytest

from harness.patience import until
from harness.postgresql import PostgresServer
from headrace.connectors.postgresql import reader, replication
from headrace.connectors.postgresql.changes import Change, Table
from headrace.connectors.postgresql.connection import Connection
from headrace.connectors.postgresql.identity import end_of_timeline
from headrace.connectors.postgresql.reader import TableReader
from headrace.connectors.postgresql.snapshot import Progress
from headrace.core.errors import UserError
from tests.postgresql.conftest import store_of

Store = dict[str, str]


def whole(store: Store, slot: str, table: Table) -> Progress:
    """The progress of a reader that has read the rows of a table, and was stopped."""
    with TableReader(store, None, slot, [table], reader.begin(store, None, slot, [table])) as reading:
        while not reading.progress.is_whole:
            reading.read(at_most=100, wait_s=0)
        return reading.progress


def read_on(store: Store, slot: str, table: Table, progress: Progress, count: int) -> list[Change]:
    """The next `count` changes."""
    changes: list[Change] = []
    with TableReader(
        store, None, slot, [table], Progress.from_json(json.loads(json.dumps(progress.to_json())))
    ) as reading:
        until(
            lambda: changes.extend(reading.read(at_most=10, wait_s=0.1)) or len(changes) >= count,
            lambda: f"{count} changes, found {changes}",
        )
    return changes


def refusal(store: Store, slot: str, table: Table, progress: Progress) -> UserError:
    """Return the error of a reader that continues from this position."""
    with TableReader(store, None, slot, [table], progress) as reading, pytest.raises(UserError) as caught:
        reading.read(at_most=10, wait_s=0)
    assert caught.value.state.value == "22000"
    assert "create the query again" in str(caught.value.hint)
    return caught.value


def made(postgresql: PostgresServer, schema: str, name: str) -> Table:
    postgresql.execute(
        f'CREATE TABLE "{schema}".{name} (id int PRIMARY KEY, n int)',
        f'INSERT INTO "{schema}".{name} VALUES (1, 1)',
    )
    return Table(schema, name, ("id", "n"), ("id",))


@contextmanager
def slots(postgresql: PostgresServer, *names: str) -> Iterator[None]:
    """Drops slots and publications at the end."""
    try:
        yield
    finally:
        with postgresql.connect() as connection:
            for name in names:
                until(partial(_dropped, connection, name), f"the end of the reader of the slot {name}")


def _dropped(connection: Connection, name: str) -> bool:
    try:
        replication.drop(connection, name)
    except psycopg.errors.ObjectInUse:
        # The reader is closed, which a busy server notices later.
        return False
    return True


def test_a_slot_that_was_moved_between_reads(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    table = made(postgresql, schema, "t")
    insert = f'INSERT INTO "{schema}".t VALUES ((SELECT max(id) + 1 FROM "{schema}".t), 1)'
    progress = whole(store, slot, table)
    postgresql.execute(insert, f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    assert f"the replication slot {slot} is at" in refusal(store, slot, table, progress).message

    other = whole(store, slot, table)  # A second query, which takes the slot for its own.
    assert "read by another query" in refusal(store, slot, table, progress).message
    postgresql.execute(insert)
    assert [change.op for change in read_on(store, slot, table, other, 1)] == ["c"]

    postgresql.execute(
        f"SELECT pg_drop_replication_slot('{slot}')",
        f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
    )
    assert "dropped and created again" in refusal(store, slot, table, other).message
    ahead = replace(other, log=replace(other.log, lsn=other.log.lsn + 2**40))
    assert "restored from a backup" in refusal(store, slot, table, ahead).message


ALTERED = {
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, n int)": "does not publish the table .* under its own name",
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, n int); ALTER PUBLICATION {p} ADD TABLE {t}": "dropped and created again",
    "ALTER TABLE {t} RENAME TO gone": "does not exist",
    "ALTER PUBLICATION {p} DROP TABLE {t}": "does not publish the table .* under its own name",
    "ALTER PUBLICATION {p} DROP TABLE {t}; ALTER PUBLICATION {p} ADD TABLE {t}": "taken out of the publication .* and put back",
    "ALTER PUBLICATION {p} SET TABLE {t} WHERE (id > 3)": "its row filter is",
    "DROP PUBLICATION {p}": "the publication .* does not exist",
    "DROP PUBLICATION {p}; CREATE PUBLICATION {p} FOR TABLE {t}": "was altered, or dropped and created again",
    "ALTER PUBLICATION {p} SET (publish = insert)": "does not publish update, delete, truncate",
    "ALTER PUBLICATION {p} SET (publish = insert); ALTER PUBLICATION {p} SET (publish = 'insert, update, delete, truncate')": "was altered",
    "CREATE TABLE {t}_child () INHERITS ({t})": "tables inherit from",
}


def test_a_table_or_publication_that_is_another_now(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    """The error is raised at the start, and during reading, when nothing else would report it."""
    for number, (statements, message) in enumerate(ALTERED.items()):
        table = made(postgresql, schema, f"t{number}")
        name = f"{slot}_{number}"
        with slots(postgresql, name):
            progress = whole(store, name, table)
            with TableReader(store, None, name, [table], progress, check_interval_s=0) as running:
                assert running.read(at_most=10, wait_s=0) == []
                text = statements.format(t=f'"{schema}".t{number}', p=name)
                postgresql.execute(*text.split("; "))
                with pytest.raises(UserError, match=message) as caught:
                    running.read(at_most=10, wait_s=0)
            assert caught.value.state.value == "22000"
            assert caught.value.message == refusal(store, name, table, progress).message
        postgresql.execute(f'DROP TABLE IF EXISTS "{schema}".t{number}, "{schema}".gone CASCADE')


def test_a_table_that_is_made_anew_under_a_publication_of_all_tables(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    """The change itself identifies its table, before the next check."""
    table = made(postgresql, schema, "t")
    postgresql.execute(f'CREATE PUBLICATION {slot} FOR TABLES IN SCHEMA "{schema}"')
    with TableReader(store, None, slot, [table], whole(store, slot, table)) as running:
        running.read(at_most=10, wait_s=0)
        postgresql.execute(f'DROP TABLE "{schema}".t')
        made(postgresql, schema, "t")
        with pytest.raises(UserError, match="was dropped and created again"):
            until(lambda: running.read(at_most=10, wait_s=0.1), "changes")


def test_what_others_write_moves_the_reader_and_then_the_slot(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    table = made(postgresql, schema, "t")
    with TableReader(store, None, slot, [table], whole(store, slot, table)) as reading:
        before = reading.progress

        postgresql.execute(f'CREATE TABLE "{schema}".busy (n int)')

        def moved() -> bool:
            postgresql.execute(f'INSERT INTO "{schema}".busy VALUES (1)', "SELECT pg_switch_wal()")
            assert reading.read(at_most=10, wait_s=0.1) == []
            return reading.progress != before

        until(moved, "the reader goes on past what others write")
        after = reading.progress
        assert after.log.lsn - before.log.lsn >= 16 * 2**20
    with TableReader(store, None, slot, [table], before) as again:
        assert [change for changes in again.read_to(after) for change in changes] == []
        again.confirm(after)
    postgresql.execute(f'INSERT INTO "{schema}".t VALUES (2, 2)')
    assert [change.after for change in read_on(store, slot, table, after, 1)] == [("2", "2")]


def test_progress_of_before_there_was_an_identity_is_read_on(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    """Also when its slot is further, to where such versions moved it while only others wrote."""
    table = made(postgresql, schema, "t")
    old = Progress.from_json(
        {name: value for name, value in whole(store, slot, table).to_json().items() if name != "identity"}
    )
    assert old.identity is None
    assert "identity" not in old.to_json()
    postgresql.execute(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    with TableReader(store, None, slot, [table], old) as reading:
        assert reading.read(at_most=10, wait_s=0) == []
        adopted = reading.progress
    assert adopted.identity is not None
    postgresql.execute(f'INSERT INTO "{schema}".t VALUES (2, 2)')
    assert [change.after for change in read_on(store, slot, table, adopted, 1)] == [("2", "2")]


def test_another_server_and_another_timeline(tmp_path: Path) -> None:
    """A promoted standby continues at the reader's position, and is refused if it lacks changes that the reader has read."""
    with PostgresServer(tmp_path, 18) as server:
        store = store_of(uris=server.uri)
        server.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        table = Table("public", "t", ("id", "n"), ("id",))
        progress = whole(store, "s", table)
        assert progress.identity is not None
        elsewhere = replace(progress, identity=replace(progress.identity, system="1"))
        assert "leads to another database system" in refusal(store, "s", table, elsewhere).message
        server.stop()
        (tmp_path / "data" / "recovery.signal").touch()
        server.settings["restore_command"] = "false"
        server.start()
        # It accepts connections, which may only read, before its recovery has ended.
        until(lambda: server.execute("SELECT pg_is_in_recovery()") == [(False,)], "the end of the recovery")
        server.execute("INSERT INTO t VALUES (2, 2)")
        with TableReader(store, None, "s", [table], progress) as reading:
            until(lambda: reading.read(at_most=10, wait_s=0.1), "a change of the next timeline")
            assert reading.progress.identity is not None
            assert reading.progress.identity.timeline == 2
            diverged = replace(reading.progress, identity=progress.identity)
        assert "it left timeline 1 at" in refusal(store, "s", table, diverged).message


def test_where_a_server_left_a_timeline_is_in_its_history() -> None:
    history = b"1\t0/3000060\tno recovery target specified\n\n2\t1/A0\tbefore 2026-01-01\n"
    assert [end_of_timeline(history, number) for number in (1, 2, 3)] == [0x3000060, 2**32 + 0xA0, None]
