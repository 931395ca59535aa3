"""Cursors in SQL: DECLARE, FETCH, MOVE and CLOSE read a result part by part."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.server.postgres.answer import HELD_ROWS_MAX, QUERIES, Answer
from headrace.server.postgres.errors import PostgresError
from headrace.server.postgres.types import Cell
from headrace.server.postgres.word_reader import WordReader

CURSORS_MAX = 64
"""Open cursors of a connection."""

_OTHER_DIRECTIONS = frozenset({"PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "BACKWARD"})


@dataclass(frozen=True)
class Declaration:
    """A DECLARE; its query starts at `offset` of the statement. With `is_held`, the cursor outlives its transaction."""

    name: str
    query: str
    offset: int
    is_held: bool


@dataclass(frozen=True)
class Fetch:
    """A FETCH or MOVE: the next `count` rows of a cursor, None for all."""

    name: str
    count: int | None


@dataclass
class Cursor:
    """An open cursor. `is_committed` once its transaction was committed; `is_broken` if reading its result failed or was cancelled."""

    name: str
    statement: str
    answer: Answer = field(repr=False)
    is_held: bool
    created: datetime.datetime
    is_committed: bool = False
    is_broken: bool = False


@dataclass(kw_only=True)
class Fetched(Answer):
    """The rows of a FETCH, which are read from the cursor as the client receives them."""

    cursor: Cursor
    left: int | None

    @property
    def is_over(self) -> bool:
        """True if no row is left of those that were asked for."""
        return self.left == 0 or self.cursor.answer.is_over

    async def more(self, most: int | None = None) -> Sequence[Sequence[Cell]]:
        """Return the next rows; none at the end. Raises HeadraceError."""
        limits = [limit for limit in (most, self.left) if limit is not None]
        try:
            rows = await self.cursor.answer.more(min(limits, default=None))
        except BaseException:
            # Rows may be lost, and a result that ends early would look complete.
            self.cursor.is_broken = True
            raise
        if self.left is not None:
            self.left -= len(rows)
        return rows

    def lost(self) -> str | None:
        """Return why the user may no longer read the cursor's result; None while the user may."""
        return self.cursor.answer.lost()


class Cursors:
    """The open cursors of a connection."""

    def __init__(self) -> None:
        self._open: dict[str, Cursor] = {}

    def __iter__(self) -> Iterator[Cursor]:
        """Yield the cursors."""
        yield from self._open.values()

    @property
    def rows(self) -> int:
        """The number of rows that the cursors hold in memory."""
        return sum(cursor.answer.held for cursor in self)

    def find(self, name: str) -> Cursor | None:
        """Return a cursor; None if there is none with this name."""
        return self._open.get(name)

    def get(self, name: str) -> Cursor:
        """Return a cursor whose rows can be read. Raises PostgresError 34000 for an unknown name, and 24000 for a broken cursor."""
        cursor = self._known(name)
        if cursor.is_broken:
            raise PostgresError(
                "24000",
                f"reading the cursor {name[:100]!r} failed before",
                hint="Close it and declare it again.",
            )
        return cursor

    def check(self, declaration: Declaration, transaction: str) -> None:
        """Raise PostgresError if a cursor cannot be declared now."""
        if transaction != "T" and not declaration.is_held:
            raise PostgresError(
                "25P01",
                "a cursor WITHOUT HOLD exists only in a transaction",
                hint="Send BEGIN first, or declare the cursor WITH HOLD.",
            )
        if declaration.name in self._open:
            raise PostgresError("42P03", f"the cursor {declaration.name[:100]!r} already exists")
        if len(self._open) >= CURSORS_MAX:
            raise PostgresError("53000", f"a connection has at most {CURSORS_MAX} cursors")

    async def open(self, cursor: Cursor) -> None:
        """Add a cursor. Raises PostgresError 53000 if the connection then holds too many rows."""
        self._open[cursor.name] = cursor
        if self.rows > HELD_ROWS_MAX:
            await self.close(cursor.name)
            raise PostgresError(
                "53000",
                f"the cursors of a connection hold at most {HELD_ROWS_MAX} rows",
                hint="Add a condition or LIMIT to the query, or use COPY.",
            )

    async def close(self, *names: str) -> None:
        """Close cursors. Raises PostgresError 34000 for a name that does not exist."""
        for name in names:
            answer = self._known(name).answer
            del self._open[name]
            await answer.close()

    async def close_all(self) -> None:
        """Close every cursor."""
        await self.close(*self._open)

    async def end_transaction(self, *, is_committed: bool) -> None:
        """Close the cursors that do not outlive the transaction that ends."""
        for cursor in list(self):
            cursor.is_committed = cursor.is_committed or (is_committed and cursor.is_held)
            if not cursor.is_committed:
                await self.close(cursor.name)

    def _known(self, name: str) -> Cursor:
        if name not in self._open:
            raise PostgresError("34000", f"the cursor {name[:100]!r} does not exist")
        return self._open[name]


async def moved(cursor: Cursor, count: int | None) -> int:
    """Skip the next rows of a cursor, None for all, and return how many there were."""
    skipped = Fetched("MOVE", cursor=cursor, left=count)
    number = 0
    while rows := await skipped.more():
        number += len(rows)
    return number


def declaration_of(text: str) -> Declaration:
    """Return a DECLARE. Raises PostgresError 42601, and 0A000 for a cursor that scrolls or is binary."""
    words = WordReader(text)
    words.expect("DECLARE")
    name = words.name()
    while not words.take("CURSOR"):
        if words.next in ("SCROLL", "BINARY"):
            raise PostgresError(
                "0A000",
                f"{words.next} cursors are not supported",
                hint="Declare a cursor with NO SCROLL, and fetch its rows in order.",
                position=words.offset + 1,
            )
        if not (words.take("NO", "SCROLL") or words.take("INSENSITIVE") or words.take("ASENSITIVE")):
            raise words.unexpected("CURSOR")
    is_held = words.take("WITH", "HOLD")
    if not is_held:
        words.take("WITHOUT", "HOLD")
    words.expect("FOR")
    if words.next not in QUERIES:
        raise words.unexpected("a query")
    return Declaration(name, text[words.offset :], words.offset, is_held)


def fetch_of(text: str) -> Fetch:
    """Return a FETCH or MOVE. Raises PostgresError 42601, and 55000 for another direction than forward."""
    words = WordReader(text)
    if not words.take("MOVE"):
        words.expect("FETCH")
    count = _count(words) if words.left > 1 else 1
    if not words.take("FROM"):
        words.take("IN")
    name = words.name()
    words.end()
    return Fetch(name, count)


def _count(words: WordReader) -> int | None:
    if words.take("NEXT"):
        return 1
    start, direction = words.offset, words.next
    is_forward = words.take("FORWARD")
    if words.take("ALL"):
        return None
    number = words.number()
    if direction in _OTHER_DIRECTIONS or (number is not None and number < 1):
        raise PostgresError(
            "55000",
            "the cursor can only scan forward",
            hint="Write NEXT, FORWARD with a number of at least 1, or ALL.",
            position=start + 1,
        )
    if number is None and not is_forward and words.next not in ("FROM", "IN"):
        raise words.unexpected("NEXT, FORWARD, ALL, a number, or FROM")
    return number or 1


def closed_name(text: str) -> str | None:
    """Return the name of the cursor that a CLOSE closes, None for all. Raises PostgresError 42601."""
    words = WordReader(text)
    words.expect("CLOSE")
    name = None if words.take("ALL") else words.name()
    words.end()
    return name
