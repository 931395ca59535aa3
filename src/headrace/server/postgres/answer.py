"""Outcome of a statement by this door, and the first words of a statement, which decide who answers it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from headrace.core.resultset import LiveRows
from headrace.server.ports import LiveResult
from headrace.server.postgres.copy_format import CopyFormat
from headrace.server.postgres.types import Cell, Column
from headrace.sql.splitting import PIECE

READING = frozenset(
    {"SELECT", "WITH", "VALUES", "(", "LIST", "SHOW", "DESCRIBE", "EXPLAIN", "CAN", "PRINT", "TEST"}
)
"""First words of statements that change nothing: they can be cancelled, and run to describe their results."""

PARTIAL = frozenset({"DECLARE", "FETCH", "MOVE", "COPY"})
"""First words of the statements of PostgreSQL that run a query of the client, or read the rows of one; they can be cancelled too."""

QUERIES = frozenset({"SELECT", "WITH", "VALUES", "("})
"""First words of queries, among them of PostgreSQL's catalog."""

HELD_ROWS_MAX = 250_000
"""Rows of results that a connection keeps between two messages."""

_WORDS = 6


@dataclass
class Answer:
    """Outcome of a statement: its tag, and its columns and rows if it returns any; the rows of `live` come while it runs. With `copy`, the
    rows are sent as lines."""

    tag: str
    columns: tuple[Column, ...] | None = None
    rows: Sequence[Sequence[Cell]] = ()
    live: LiveResult | None = None
    notice: str | None = None
    copy: CopyFormat | None = None
    _at: int = field(default=0, repr=False)
    _batches: AsyncIterator[LiveRows] | None = field(default=None, repr=False)
    _has_ended: bool = field(default=False, repr=False)

    @property
    def held(self) -> int:
        """The number of rows in memory that were not read."""
        return len(self.rows) - self._at

    @property
    def is_over(self) -> bool:
        """True if no row is left."""
        return not self.held and (self.live is None or self._has_ended)

    async def more(self, most: int | None = None) -> Sequence[Sequence[Cell]]:
        """Return the next rows, `most` of them at most; none at the end. Raises HeadraceError."""
        if not self.held and self.live is not None and not self._has_ended:
            if self._batches is None:
                await self.live.started()
                self._batches = aiter(self.live)
            batch = await anext(self._batches, None)
            self.rows, self._at = (batch.cells if batch is not None else ()), 0
            self._has_ended = not self.rows
        start = self._at
        self._at = len(self.rows) if most is None else min(start + most, len(self.rows))
        rows = self.rows[start : self._at]
        if not self.held:
            self.rows, self._at = (), 0
        return rows

    def lost(self) -> str | None:
        """Return why the user may no longer read a result that is being produced; None while the user may."""
        return self.live.lost() if self.live is not None else None

    async def close(self) -> None:
        """End a result that is still being produced."""
        if self.live is not None:
            await self.live.close()


def first_words(text: str) -> list[str]:
    """Return the first words and symbols of a text in upper case, without comments."""
    words: list[str] = []
    for match in PIECE.finditer(text):
        if match.lastgroup not in ("space", "comment"):
            words.append(match.group().upper())
            if len(words) == _WORDS:
                break
    return words


def is_cancellable(first: Sequence[str]) -> bool:
    """True for a statement with these first words that changes nothing."""
    return first[0] in READING or first[0] in PARTIAL
