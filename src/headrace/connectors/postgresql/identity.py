"""Identity of a position in the log: a server, its history, a publication and tables.

A position alone is a number. On another server, or after a table was created again, it refers to another log, and continuing there would
silently lose changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL

from headrace.connectors.postgresql import publication
from headrace.connectors.postgresql.changes import START_ANEW, Table, lsn_of, lsn_text
from headrace.connectors.postgresql.connection import Connection, connect_replication
from headrace.connectors.postgresql.publication import Published
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState


@dataclass(frozen=True)
class Identity:
    """A database system by its identifier, the timeline of its log, and what is published to the reader."""

    system: str
    timeline: int
    published: Published

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "system": self.system,
            "timeline": self.timeline,
            "publication": self.published.version,
            "tables": self.published.tables,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Identity:
        """Return the opposite of `to_json`."""
        tables = tuple((oid, tuple(members)) for oid, members in data["tables"])
        return cls(data["system"], data["timeline"], Published(data["publication"], tables))


def read(connection: Connection, name: str, tables: Sequence[Table]) -> Identity:
    """Return the current identity; `name` is the publication's name. Raises the UserErrors of `publication.read`."""
    system, timeline = connection.execute(
        "SELECT (SELECT system_identifier::text FROM pg_control_system()), left(pg_walfile_name(pg_current_wal_lsn()), 8)"
    ).fetchone() or ("", "0")
    return Identity(system, int(timeline, 16), publication.read(connection, name, tables))


def check(
    store: Mapping[str, str],
    connection: Connection,
    name: str,
    tables: Sequence[Table],
    expected: Identity,
    lsn: int,
) -> Identity:
    """Return the current identity if a reader at `lsn` of the `expected` identity can continue without a loss.

    Raises UserError 22000 with the cause if changes may be missing; `psycopg.Error`.
    """
    try:
        current = read(connection, name, tables)
    except UserError as error:
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"changes may be missing: {error.message}",
            hint=f"{error.hint} Then: {START_ANEW}",
        ) from None
    if current.system != expected.system:
        raise _missing("the store's address leads to another database system than the query has read from")
    if current.timeline != expected.timeline:
        left_at = end_of_timeline(_history(store, current.timeline), expected.timeline)
        if left_at is None or left_at < lsn:
            raise _missing(
                f"the server was restored or replaced by its standby: it left timeline {expected.timeline} at "
                f"{'an unknown place' if left_at is None else lsn_text(left_at)}, and the query had read it to {lsn_text(lsn)}"
            )
    _check_published(name, tables, expected.published, current.published)
    return current


def _history(store: Mapping[str, str], timeline: int) -> bytes:
    with connect_replication(store) as connection:
        result = connection.execute(SQL("TIMELINE_HISTORY {}").format(timeline)).pgresult
    # The file as it is: psycopg would take it for the text of a bytea.
    return (result.get_value(0, 1) if result is not None else None) or b""


def end_of_timeline(history: bytes, timeline: int) -> int | None:
    """Return where a server's history left a timeline, by the text of its history file; None if it was never on it."""
    for line in history.decode(errors="replace").splitlines():
        number, _, rest = line.strip().partition("\t")
        if number == str(timeline):
            return lsn_of(rest.split()[0])
    return None


def _check_published(name: str, tables: Sequence[Table], expected: Published, current: Published) -> None:
    if current.version != expected.version:
        raise _missing(f"the publication {name} was altered, or dropped and created again")
    for table, (old_oid, before), (oid, now) in zip(tables, expected.tables, current.tables, strict=True):
        where = f"{table.schema}.{table.name}"
        if oid != old_oid:
            raise _missing(
                f"the table {where} was dropped and created again, or another table has its name now"
            )
        if not set(before) & set(now):
            raise _missing(
                f"the table {where} was taken out of the publication {name} and put back, or published in another way"
            )


def _missing(what: str) -> UserError:
    return UserError(SqlState.DATA_EXCEPTION, f"changes may be missing: {what}", hint=START_ANEW)
