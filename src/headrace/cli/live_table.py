"""A live result as one table on the terminal, which is drawn again as its rows change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.output import Key, is_numeric, plain
from headrace.client.wire import AnswerColumn
from headrace.core.resultset import Cell
from headrace.core.wording import counted

ROWS_MAX = 10_000
"""Rows that are kept, as many as the page keeps."""
_INTERVAL_S = 0.2
_DELETE = "-D"
_FRAME_LINES = 6
"""Lines of the terminal that are not rows: the table's frame and header, the line below it, and the cursor's."""


class LiveTable:
    """Printer of the current rows: of a changelog the newest row of each key, of another result the newest rows.

    As many are shown as the terminal has lines for. Each row is one line: what is wider than its column ends with an ellipsis.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._columns: tuple[AnswerColumn, ...] = ()
        self._key: list[int] = []
        self._rows: dict[tuple[Cell, ...], tuple[Cell, ...]] = {}
        self._changes = 0
        self._screen: Live | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, columns: tuple[AnswerColumn, ...], *, key: Key = None) -> None:
        """See Printer."""
        names = [column.name for column in columns]
        # A changelog whose key is not selected has no current rows: its newest changes are shown, with what they do.
        self._key = [names.index(name) + 1 for name in key or ()]
        has_op = key is not None and not self._key
        self._columns = (AnswerColumn("op", "VARCHAR", False), *columns) if has_op else columns
        self._screen = Live(
            self._table(), console=self._console, auto_refresh=False, vertical_overflow="ellipsis"
        )
        self._screen.start(refresh=True)

    def write(self, rows: Sequence[Sequence[Cell]]) -> None:
        """See Printer. The table is drawn at most five times a second."""
        for row in rows:
            self._keep(tuple(row))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL_S, self._draw)

    def finish(self) -> None:
        """See Printer. The last table stays on the terminal."""
        if self._screen is not None:
            self._draw()
            self._screen.stop()
            self._screen = None

    def _keep(self, row: tuple[Cell, ...]) -> None:
        self._changes += 1
        if not self._key:
            self._rows[(str(self._changes),)] = row
        else:
            identity = tuple(row[place] for place in self._key)
            if row[0] == _DELETE:
                self._rows.pop(identity, None)
            else:
                self._rows[identity] = row[1:]
        if len(self._rows) > ROWS_MAX:
            del self._rows[next(iter(self._rows))]

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._screen is not None:
            self._screen.update(self._table(), refresh=True)

    def _table(self) -> Group:
        rows = list(self._rows.values())
        room = max(self._console.height - _FRAME_LINES, 1)
        # Of rows without a key, the newest ones are of interest; rows with a key keep their places.
        shown = rows[:room] if self._key else rows[-room:]
        table = Table(box=box.SQUARE, pad_edge=True)
        for column in self._columns:
            table.add_column(
                Text(plain(column.name)),
                justify="right" if is_numeric(column) else "left",
                no_wrap=True,
                overflow="ellipsis",
            )
        for row in shown:
            table.add_row(*(Text("NULL" if cell is None else _line(cell)) for cell in row))
        hidden = f", {len(shown)} shown" if len(shown) < len(rows) else ""
        number = counted(len(rows), "current row" if self._key else "row")
        return Group(table, Text(f"({number}{hidden}; {counted(self._changes, 'change')})"))


def _line(text: str) -> str:
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")
