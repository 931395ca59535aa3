"""Outcome of a statement by this door, and the first words of a statement, which decide who answers it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from headrace.core.resultset import LiveRows
from headrace.server.ports import LiveResult
from headrace.server.postgres.types import Cell, Column
from headrace.sql.splitting import PIECE

READING = frozenset(
    {"SELECT", "WITH", "VALUES", "(", "LIST", "SHOW", "DESCRIBE", "EXPLAIN", "CAN", "PRINT", "TEST"}
)
"""First words of statements that change nothing: they can be cancelled, and run to describe their results."""

QUERIES = frozenset({"SELECT", "WITH", "VALUES", "("})
"""First words of queries, among them of PostgreSQL's catalog."""

_WORDS = 6


@dataclass
class Answer:
    """Outcome of a statement: its tag, and its columns and rows if it returns any; the rows of `live` come while it runs."""

    tag: str
    columns: tuple[Column, ...] | None = None
    rows: Sequence[Sequence[Cell]] = ()
    live: LiveResult | None = None
    notice: str | None = None
    _batches: AsyncIterator[LiveRows] | None = field(default=None, repr=False)

    async def more(self) -> Sequence[Sequence[Cell]]:
        """Return the next rows; none at the end. Raises HeadraceError."""
        rows, self.rows = self.rows, ()
        if rows or self.live is None:
            return rows
        if self._batches is None:
            await self.live.started()
            self._batches = aiter(self.live)
        batch = await anext(self._batches, None)
        return batch.cells if batch is not None else ()

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


def reads(text: str) -> bool:
    """True for a statement that changes nothing."""
    return first_words(text)[0] in READING
