"""The messages of pgoutput, PostgreSQL's own plugin of logical decoding, protocol version 1; pure.

Values are PostgreSQL's text.

A value that a change does not contain (a large value in separate storage that an UPDATE did not change) is `UNCHANGED`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

POSTGRESQL_EPOCH_US = 946_684_800_000_000
"""2000-01-01, from which PostgreSQL counts, in microseconds since 1970."""


class Absent(Enum):
    """Stands where a value is that was not sent."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Absent.UNCHANGED
Values = tuple[str | Absent | None, ...]


@dataclass(frozen=True)
class RelationColumn:
    """A column of a table as the log knows it; `type_oid` and `modifier` as in pg_attribute."""

    name: str
    type_oid: int
    modifier: int
    in_identity: bool


@dataclass(frozen=True)
class Relation:
    """A table's description, sent before its first change and after each alteration; `identity` is d, n, f or i, as in pg_class."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True)
class Begin:
    """A transaction that committed at `commit_lsn`, in microseconds since 1970."""

    commit_lsn: int
    committed_us: int
    xid: int


@dataclass(frozen=True)
class Commit:
    """The end of the transaction; the log continues at `end_lsn`."""

    commit_lsn: int
    end_lsn: int
    committed_us: int


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row."""

    relation: Relation
    new: Values


@dataclass(frozen=True, slots=True)
class Update:
    """`old` is the whole row with REPLICA IDENTITY FULL, else the old key where it changed (NULL elsewhere), else None."""

    relation: Relation
    old: Values | None
    new: Values


@dataclass(frozen=True, slots=True)
class Delete:
    """`old` is the whole row with REPLICA IDENTITY FULL, else the key with NULL elsewhere."""

    relation: Relation
    old: Values


@dataclass(frozen=True)
class Truncate:
    """Message: all rows of these tables were removed."""

    relations: tuple[Relation, ...]


Message = Relation | Begin | Commit | Insert | Update | Delete | Truncate

_BEGIN = struct.Struct(">QQI")
_COMMIT = struct.Struct(">xQQQ")
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_TYPE = struct.Struct(">Ii")
_NULL, _UNSENT, _TEXT = b"nut"
_KEY, _OLD, _NEW = b"KON"


class Decoder:
    """Parser of the messages of one stream, in order; it remembers the described tables."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}

    def decode(self, data: bytes) -> Message | None:
        """Decode a message, None for a kind without rows (types, origins, logical messages).

        Raises ValueError for bytes that are none.
        """
        try:
            match data[:1]:
                case b"I":
                    return self._insert(data)
                case b"U":
                    return self._update(data)
                case b"D":
                    old, _ = _values(data, 6)
                    return Delete(self._relation(data, 1), old)
                case b"B":
                    lsn, moment, xid = _BEGIN.unpack_from(data, 1)
                    return Begin(lsn, POSTGRESQL_EPOCH_US + moment, xid)
                case b"C":
                    lsn, end, moment = _COMMIT.unpack_from(data, 1)
                    return Commit(lsn, end, POSTGRESQL_EPOCH_US + moment)
                case b"R":
                    relation = _relation(data)
                    self._relations[relation.oid] = relation
                    return relation
                case b"T":
                    (count,) = _U32.unpack_from(data, 1)
                    return Truncate(tuple(self._relation(data, 6 + 4 * index) for index in range(count)))
                case b"Y" | b"O" | b"M":
                    return None
        except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
            raise ValueError(f"not a whole message of pgoutput: {error!r}") from None
        raise ValueError(f"not a message of pgoutput, version 1: its first byte is {data[:1]!r}")

    def _insert(self, data: bytes) -> Insert:
        new, _ = _values(data, 6)
        return Insert(self._relation(data, 1), new)

    def _update(self, data: bytes) -> Update:
        old: Values | None = None
        place = 5
        if data[place] in (_KEY, _OLD):
            old, place = _values(data, place + 1)
        new, _ = _values(data, place + 1)
        return Update(self._relation(data, 1), old, new)

    def _relation(self, data: bytes, place: int) -> Relation:
        return self._relations[_U32.unpack_from(data, place)[0]]


def _values(data: bytes, place: int) -> tuple[Values, int]:
    (count,) = _U16.unpack_from(data, place)
    place += 2
    values: list[str | Absent | None] = []
    for _ in range(count):
        kind = data[place]
        place += 1
        if kind == _TEXT:
            end = place + 4 + _U32.unpack_from(data, place)[0]
            if end > len(data):
                raise IndexError("a value ends after the message")
            values.append(data[place + 4 : end].decode())
            place = end
        elif kind == _NULL:
            values.append(None)
        elif kind == _UNSENT:
            values.append(UNCHANGED)
        else:
            raise KeyError(kind)
    return tuple(values), place


def _relation(data: bytes) -> Relation:
    (oid,) = _U32.unpack_from(data, 1)
    schema, place = _text(data, 5)
    name, place = _text(data, place)
    identity = chr(data[place])
    (count,) = _U16.unpack_from(data, place + 1)
    place += 3
    columns = []
    for _ in range(count):
        in_identity = bool(data[place] & 1)
        column, place = _text(data, place + 1)
        type_oid, modifier = _TYPE.unpack_from(data, place)
        columns.append(RelationColumn(column, type_oid, modifier, in_identity))
        place += _TYPE.size
    # An empty schema is pg_catalog's way to write its own.
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _text(data: bytes, place: int) -> tuple[str, int]:
    end = data.find(b"\0", place)
    if end < 0:
        raise IndexError("a text ends after the message")
    return data[place:end].decode(), end + 1
