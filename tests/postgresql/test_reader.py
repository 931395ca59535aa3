"""Rows, then changes: while others write, and from wherever a reader was killed."""

from __future__ import annotations

import json
import random
import threading

import pytest

from harness.patience import until
from harness.postgresql import PostgresServer
from headrace.connectors.postgresql import reader
from headrace.connectors.postgresql.changes import Change, Row, Table
from headrace.connectors.postgresql.reader import TableReader
from headrace.connectors.postgresql.snapshot import Progress, Visible
from headrace.core.errors import UserError

Store = dict[str, str]
Rows = dict[tuple[str, ...], tuple[str | None, ...]]


def write(postgresql: PostgresServer, schema: str, chance: random.Random, stop: threading.Event) -> None:
    """Transactions of all kinds, of which some are long and some are rolled back, until `stop`: from a hundred to a thousand statements."""
    count = 0
    with postgresql.connect() as one, postgresql.connect() as other:
        while count < 100 or (count < 1000 and not stop.is_set()):
            count += 1
            connection = chance.choice((one, other))
            inside = connection.info.transaction_status.name == "INTRANS"
            if not inside and chance.random() < 0.3:
                connection.execute("BEGIN")
            elif inside and chance.random() < 0.4:
                connection.execute("COMMIT" if chance.random() < 0.8 else "ROLLBACK")
            # Each connection has keys of its own, so that none waits for the other.
            name = "one" if connection is one else "other"
            a, b = chance.randint(0, 300), chance.randint(0, 300)
            statement = chance.choice(
                (
                    f"INSERT INTO t VALUES ('{name}', {a}, 1) ON CONFLICT (kind, id) DO UPDATE SET n = t.n + 1",
                    f"UPDATE t SET n = n + 1 WHERE kind = '{name}' AND id BETWEEN {a} AND {a + 20}",
                    f"DELETE FROM t WHERE kind = '{name}' AND id = {a}",
                    f"UPDATE t SET id = {b} WHERE kind = '{name}' AND id = {a} "
                    f"AND NOT EXISTS (SELECT FROM t WHERE kind = '{name}' AND id = {b})",
                )
            )
            connection.execute(statement.replace(" t ", f' "{schema}".t ').replace("t.n", "t.n").encode())
        for connection in (one, other):
            connection.execute(
                "COMMIT" if connection.info.transaction_status.name == "INTRANS" else "SELECT 1"
            )


def apply(rows: Rows, changes: list[Change]) -> None:
    """Apply changes strictly: an inserted row must be new, an updated or deleted one must exist."""
    for change in changes:
        match change.op, change.before, change.after:
            case "r" | "c", None, after:
                assert after is not None
                assert after[:2] not in rows, change
                rows[after[:2]] = after  # type: ignore[index]
            case "u", None, after:
                assert after is not None
                assert after[:2] in rows, change
                rows[after[:2]] = after  # type: ignore[index]
            case "d", before, None:
                assert before is not None
                del rows[before[:2]]  # type: ignore[arg-type]
            case _:
                raise AssertionError(change)


def test_rows_then_changes_without_gap_or_repeat_from_wherever_it_was_killed(
    postgresql: PostgresServer, store: Store, schema: str, slot: str, seed: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (kind text, id int, n int, PRIMARY KEY (id, kind))',
        f"""INSERT INTO "{schema}".t SELECT kind, id, 0 FROM generate_series(0, 250) AS id, (VALUES ('one'), ('other')) AS k(kind)""",
    )
    table = Table(schema, "t", ("kind", "id", "n"), ("id", "kind"))
    chance = random.Random(seed)
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(postgresql, schema, random.Random(seed), stop))
    writer.start()
    rows: Rows = {}
    try:
        saved = json.dumps(reader.begin(store, None, slot, [table]).to_json())
        for _ in range(12):
            progress = Progress.from_json(json.loads(saved))
            with TableReader(store, None, slot, [table], progress) as reading:
                for _ in range(chance.randint(1, 3)):
                    apply(rows, reading.read(at_most=chance.randint(1, 60), wait_s=0.05))
                    saved = json.dumps(reading.progress.to_json())
                    if chance.random() < 0.5:
                        reading.confirm(reading.progress)
                lost = dict(rows)
                # What comes of this one is lost with the reader.
                apply(lost, reading.read(at_most=30, wait_s=0.05))
    finally:
        stop.set()
        writer.join()
    assert len(Progress.from_json(json.loads(saved)).parts) > 1, "several runs read the table"
    with TableReader(store, None, slot, [table], Progress.from_json(json.loads(saved))) as reading:
        expected = {
            (kind, str(number)): (kind, str(number), str(n))
            for kind, number, n in postgresql.execute(f'SELECT * FROM "{schema}".t')
        }

        def caught_up() -> bool:
            apply(rows, reading.read(at_most=5000, wait_s=0.1))
            return rows == expected

        until(caught_up, "the rows of the table")
        assert reading.read(at_most=1, wait_s=0.3) == []


def test_several_tables_are_read_one_after_the_other(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".a (id int PRIMARY KEY)',
        f'CREATE TABLE "{schema}".b (id text PRIMARY KEY, "Flag" bool)',
        f'INSERT INTO "{schema}".a VALUES (1), (2)',
        f"""INSERT INTO "{schema}".b VALUES ('a''b	\\', true), ('c', NULL)""",
    )
    tables = [Table(schema, "a", ("id",), ("id",)), Table(schema, "b", ("Flag", "id"), ("id",))]
    changes: list[Change] = []
    with TableReader(store, None, slot, tables, reader.begin(store, None, slot, tables)) as reading:
        while not reading.progress.is_whole:
            changes += reading.read(at_most=1, wait_s=0)
        postgresql.execute(
            f"""INSERT INTO "{schema}".b VALUES ('d', false)""", f'DELETE FROM "{schema}".a WHERE id = 1'
        )

        def enough() -> bool:
            changes.extend(reading.read(at_most=9, wait_s=0.1))
            return len(changes) >= 6

        until(enough, lambda: f"six changes, found {changes}")
    assert [(change.op, change.table.name, change.after or change.before) for change in changes] == [
        ("r", "a", ("1",)),
        ("r", "a", ("2",)),
        ("r", "b", ("t", "a'b\t\\")),
        ("r", "b", (None, "c")),
        ("c", "b", ("f", "d")),
        ("d", "a", ("1",)),
    ]


def test_texts_of_rows_are_what_they_are(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    """The texts are the same, special in CSV or not, in a row of several columns and in one of a single column."""
    texts = [
        "",
        " x ",
        "NULL",
        "\\N",
        "\\.",
        ",",
        '"',
        '""',
        "a\nb",
        "a\r\nb",
        "\r",
        "\n",
        "ü€😀",
        "x" * 2_000_000,
    ]
    postgresql.execute(
        f'CREATE TABLE "{schema}".one (id text PRIMARY KEY)',
        f'CREATE TABLE "{schema}".two (id int PRIMARY KEY, t text)',
        f'INSERT INTO "{schema}".two VALUES (-1, NULL)',
    )
    with postgresql.connect() as connection:
        for number, text in enumerate(texts):
            connection.execute(f'INSERT INTO "{schema}".two VALUES (%s, %s)'.encode(), (number, text))
        # A key cannot be as long as the last.
        for text in texts[:-1]:
            connection.execute(f'INSERT INTO "{schema}".one VALUES (%s)'.encode(), (text,))
    tables = [Table(schema, "one", ("id",), ("id",)), Table(schema, "two", ("id", "t"), ("id",))]
    with TableReader(store, None, slot, tables, reader.begin(store, None, slot, tables)) as reading:
        one = [change.after for change in reading.read(at_most=100, wait_s=0)]
        two = [change.after for change in reading.read(at_most=100, wait_s=0)]
    assert sorted(map(str, one)) == sorted(str((text,)) for text in texts[:-1])
    assert two == [("-1", None), *((str(number), text) for number, text in enumerate(texts))]


def test_a_table_without_a_key_is_refused(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(f'CREATE TABLE "{schema}".t (id int)')
    with pytest.raises(UserError, match="has no primary key"):
        reader.begin(store, None, slot, [Table(schema, "t", ("id",))])


def test_a_truncate_while_rows_are_read_is_reported_if_possible(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    """The truncate follows the rows that it ended, and is left out if they were never reported; but rows of both kinds have no order
    with it."""
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)', f'INSERT INTO "{schema}".t VALUES (1), (2), (3)'
    )
    table = Table(schema, "t", ("id",), ("id",))
    started = reader.begin(store, None, slot, [table])
    postgresql.execute(f'TRUNCATE "{schema}".t', f'INSERT INTO "{schema}".t VALUES (4), (5), (6)')

    def read_changes(progress: Progress, count: int) -> tuple[list[tuple[str, Row | None]], Progress]:
        gathered: list[tuple[str, Row | None]] = []
        with TableReader(store, None, slot, [table], progress) as reading:

            def enough() -> bool:
                changes = reading.read(at_most=2, wait_s=0.1)
                gathered.extend((change.op, change.after) for change in changes)
                return len(gathered) >= count

            until(enough, lambda: f"{count} changes, found {gathered}")
            return gathered, reading.progress

    before, whole = read_changes(started, 3)
    assert before == [("r", ("4",)), ("r", ("5",)), ("r", ("6",))]
    postgresql.execute(f'INSERT INTO "{schema}".t VALUES (7)')
    assert read_changes(whole, 1)[0] == [("c", ("7",))]

    _, half = read_changes(started, 2)
    postgresql.execute(f'TRUNCATE "{schema}".t', f'INSERT INTO "{schema}".t VALUES (8)')
    with pytest.raises(UserError, match="was truncated while its rows were read"):
        read_changes(half, 9)


def test_without_rows_a_slot_that_was_there_gives_what_it_has_kept(
    postgresql: PostgresServer, store: Store, schema: str, slot: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (id int PRIMARY KEY)', f'INSERT INTO "{schema}".t VALUES (1)'
    )
    table = Table(schema, "t", ("id",), ("id",))
    reader.begin(store, None, slot, [table], rows=False)
    postgresql.execute(f'INSERT INTO "{schema}".t VALUES (2)')

    def first(*, rows: bool) -> list[tuple[str, Row | None]]:
        changes: list[Change] = []
        with TableReader(
            store, None, slot, [table], reader.begin(store, None, slot, [table], rows=rows)
        ) as reading:
            until(lambda: changes.extend(reading.read(at_most=9, wait_s=0.1)) or changes, "changes")
        return [(change.op, change.after) for change in changes]

    assert first(rows=False) == [("c", ("2",))]
    assert first(rows=True) == [("r", ("1",)), ("r", ("2",))]


@pytest.mark.parametrize(
    ("text", "held", "not_held"),
    [
        ("10:20:12,15", [1, 9, 10, 11, 13, 19], [12, 15, 20, 21, 4_000]),
        ("10:10:", [9], [10]),
        # The log has 32 bits of a number: these are over 2**32, and before and after it.
        ("4294967300:4294967310:4294967305", [2, 4, 7, 4_294_967_290], [9, 14, 15, 5_000]),
        ("4294967290:4294967294:", [4_294_967_293], [4_294_967_294, 4_294_967_295, 0, 7, 5_000_000]),
    ],
)
def test_a_snapshot_holds_the_transactions_that_had_ended(
    text: str, held: list[int], not_held: list[int]
) -> None:
    visible = Visible(text)
    assert [xid for xid in (*held, *not_held) if visible.holds(xid)] == held
