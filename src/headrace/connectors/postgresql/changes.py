"""Changes of a table's rows by a transaction, in Debezium's terms; pure.

A change has an `op` (r read in the snapshot, c created, u updated, d deleted, t truncated) and the row before and after it. As
in Debezium, an UPDATE of the primary key is a deletion of the old row and a creation of the new row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.connectors.postgresql.pgoutput import (
    UNCHANGED,
    Begin,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
    Values,
)
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

Row = tuple[str | None, ...]
START_ANEW = (
    "Terminate the query, drop the slot, and create the query again: it reads the tables from the start."
)


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A position in the log: after the first `changes` changes of the transaction whose commit is at `lsn`.

    Transactions are ordered by their commits, so that positions only grow; a repeated read of a log returns the same positions.
    """

    lsn: int
    changes: int = 0

    def __str__(self) -> str:
        return f"{lsn_text(self.lsn)}+{self.changes}"


@dataclass(frozen=True, slots=True)
class Change:
    """A change; `position` is behind it. Values are PostgreSQL's texts, in the order of `table.columns`."""

    op: str
    table: Table
    before: Row | None
    after: Row | None
    lsn: int
    xid: int
    committed_us: int
    position: Position


@dataclass(frozen=True)
class Table:
    """A table whose changes are read: the columns to read, and its primary key.

    `key` may be empty: then an UPDATE is always one change. For a `whole` table, all columns at the time of the change are read: the
    columns and the oids of their types are only known from the change. With an `oid`, another table of the same name is refused.
    """

    schema: str
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    whole: bool = False
    type_oids: tuple[int, ...] = ()
    oid: int | None = None

    @property
    def path(self) -> tuple[str, str]:
        """The table's path as pgoutput names it."""
        return (self.schema, self.name)


class Transactions:
    """Converts messages of transactions to changes of `tables`; messages of other tables are skipped."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables: Mapping[tuple[str, str], Table] = {table.path: table for table in tables}
        self._places: dict[int, tuple[Relation, Table, tuple[int, ...]]] = {}
        self._begin = Begin(0, 0, 0)
        self._count = 0

    def begin(self, begin: Begin) -> None:
        """Start a transaction: the changes that follow belong to it."""
        self._begin = begin
        self._count = 0

    def changes(self, message: Insert | Update | Delete | Truncate, lsn: int) -> Iterator[Change]:
        """Yield the changes of a message that starts at `lsn`.

        Raises UserError 42703 if a column to read was dropped, 22000 if a value was not sent, or if the table or its key was replaced.
        """
        for relation in message.relations if isinstance(message, Truncate) else (message.relation,):
            watched = self._tables.get((relation.schema, relation.name))
            if watched is not None:
                table, places = self._places_of(watched, relation)
                for op, before, after in _images(message, table, places):
                    self._count += 1
                    position = Position(self._begin.commit_lsn, self._count)
                    yield Change(
                        op, table, before, after, lsn, self._begin.xid, self._begin.committed_us, position
                    )

    def _places_of(self, table: Table, relation: Relation) -> tuple[Table, tuple[int, ...]]:
        known, selected, places = self._places.get(relation.oid, (None, table, ()))
        if known is not relation:
            selected, places = _places(table, relation)
            self._places[relation.oid] = relation, selected, places
        return selected, places


def missing_column(table: Table, name: str) -> UserError:
    """Return the error for a column to read that a table does not have any more."""
    return UserError(
        SqlState.UNDEFINED_COLUMN,
        f"the table {table.schema}.{table.name} has no column {name} any more",
        hint="Drop the relation and create it again with the columns that the table has now.",
    )


def _places(table: Table, relation: Relation) -> tuple[Table, tuple[int, ...]]:
    """Return the places of the read columns in a relation's rows."""
    if table.oid not in (None, relation.oid):
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"changes may be missing: the table {table.schema}.{table.name} was dropped and created again",
            hint=START_ANEW,
        )
    columns = {column.name: column for column in relation.columns}
    names = tuple(columns) if table.whole else table.columns
    for name in (*names, *table.key):
        if name not in columns:
            raise missing_column(table, name)
    if not all(columns[name].in_identity for name in table.key):
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"the replica identity of {table.schema}.{table.name} is not its primary key ({', '.join(table.key)}) any more",
            hint="ALTER TABLE … REPLICA IDENTITY DEFAULT or FULL. If the key has changed, drop the relation and create it again.",
        )
    selected = replace(table, columns=names, type_oids=tuple(columns[name].type_oid for name in names))
    return selected, tuple(list(columns).index(name) for name in names)


def _images(
    message: Insert | Update | Delete | Truncate, table: Table, places: tuple[int, ...]
) -> Iterator[tuple[str, Row | None, Row | None]]:
    match message:
        case Insert(_, new):
            yield "c", None, _row(new, places, table)
        case Delete(_, old):
            yield "d", _row(old, places, table), None
        case Update(_, old, new):
            after = _row(new, places, table, old)
            before = None if old is None else _row(old, places, table)
            key = [table.columns.index(name) for name in table.key]
            if before is not None and key and any(before[place] != after[place] for place in key):
                yield "d", before, None
                yield "c", None, after
            else:
                yield "u", before, after
        case Truncate():
            yield "t", None, None


def lsn_text(lsn: int) -> str:
    """Return a position as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """Return the opposite of `lsn_text`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def _row(values: Values, places: tuple[int, ...], table: Table, old: Values | None = None) -> Row:
    return tuple(
        value if (value := values[place]) is not UNCHANGED else _unsent(place, name, table, old)
        for place, name in zip(places, table.columns, strict=True)
    )


def _unsent(place: int, name: str, table: Table, old: Values | None) -> str | None:
    before = UNCHANGED if old is None else old[place]
    # Of an old row that is only a key the rest is NULL, and NULL is never stored apart.
    if before is UNCHANGED or before is None:
        where = f"{table.schema}.{table.name}"
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"PostgreSQL did not send the value of column {name} of {where}: it is large and an UPDATE did not change it",
            hint=f"ALTER TABLE {where} REPLICA IDENTITY FULL, or leave the column out of the relation.",
        )
    return before
