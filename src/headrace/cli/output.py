"""Writing rows: a grid that grows with its rows, or one JSON object a line."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from rich.cells import cell_len

from headrace.client.wire import AnswerColumn
from headrace.core.internal_columns import OP
from headrace.core.resultset import Cell

_NUMERIC = re.compile(r"(TINYINT|SMALLINT|INTEGER|BIGINT|FLOAT|DOUBLE|DECIMAL)\b")
_INTEGRAL = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_NESTED = ("ARRAY", "MAP", "STRUCT")
# Escape sequences in records, names and messages must not reach the terminal.
_CONTROL = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_COLUMN_WIDTH_MIN = 6
_WORD_MAX = 40
"""Longer ones than an id are broken rather than given their width."""
_OP = AnswerColumn("op", "VARCHAR", False)
_JSON_OP = AnswerColumn("__op", "VARCHAR", False)
_DDL_COLUMNS = ("Type", "Name", "Command", "Summary", "Path")
SUMMARY = _DDL_COLUMNS.index("Summary")


Key = tuple[str, ...] | None
"""Names of the columns that identify a row of a changelog, empty if the result has none of them; None for any other result."""


class Sink(Protocol):
    """Destination of what a printer writes: a part of a text file."""

    def write(self, text: str, /) -> object:
        """Write a text."""

    def flush(self) -> None:
        """Flush what was written."""

    def isatty(self) -> bool:
        """True for a terminal."""

    def fileno(self) -> int:
        """Return the descriptor of the file."""


class Printer(Protocol):
    """Writes one result: `start`, `write` any number of times, `finish`."""

    def start(self, columns: tuple[AnswerColumn, ...], *, key: Key = None) -> None:
        """Start a new result. Each row of a changelog begins with its operation: `+I`, `+U` or `-D`."""
        ...

    def write(self, rows: Sequence[Sequence[Cell]]) -> None:
        """Print more rows; they are flushed when this returns."""
        ...

    def finish(self) -> None:
        """Finish the result."""
        ...


def plain(text: str) -> str:
    """Return `text` with control characters written out; line breaks and tabs stay."""
    return _CONTROL.sub(lambda match: match[0] if match[0] == "\t" else _escaped(match), text)


def say(text: str) -> None:
    """Print a message for the user, `plain`, on standard error."""
    print(plain(text), file=sys.stderr)


def terminal_width(out: Sink) -> int | None:
    """Return the number of columns of the terminal behind `out`; None without a terminal: lines may have any length."""
    try:
        # Some terminals report 0 when they do not know their width.
        return (os.get_terminal_size(out.fileno()).columns or None) if out.isatty() else None
    except (OSError, ValueError):
        return None


class JsonLinesPrinter:
    """Printer of one JSON object per row: numbers, booleans and nested values as JSON, everything else as text.

    The summary of a statement that changes something is no row, and is said.
    """

    def __init__(self, out: Sink) -> None:
        self._out = out
        self._columns: tuple[AnswerColumn, ...] = ()

    def start(self, columns: tuple[AnswerColumn, ...], *, key: Key = None) -> None:
        """See Printer."""
        # A column of the result may have the first name; no column can have the second.
        op = (
            replace(_JSON_OP, name=OP)
            if any(column.name == _JSON_OP.name for column in columns)
            else _JSON_OP
        )
        self._columns = columns if key is None else (op, *columns)

    def write(self, rows: Sequence[Sequence[Cell]]) -> None:
        """See Printer."""
        if is_summary(self._columns):
            for row in rows:
                say(row[SUMMARY] or "")
            return
        self._out.write("".join(json_line(line) for line in self._objects(rows)))
        self._out.flush()

    def _objects(self, rows: Sequence[Sequence[Cell]]) -> Iterator[dict[str, object]]:
        for row in rows:
            cells = zip(self._columns, row, strict=True)
            yield {column.name: _json_value(value, column.type) for column, value in cells}

    def finish(self) -> None:
        """See Printer."""


def json_line(value: object) -> str:
    """Return a line of JSON that is safe on a terminal: JSON itself escapes only some control characters."""
    text = json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def is_numeric(column: AnswerColumn) -> bool:
    """True if the values of a column are aligned to the right."""
    return _NUMERIC.match(column.type) is not None


def is_summary(columns: tuple[AnswerColumn, ...]) -> bool:
    """True for the result of a statement that changes something, whose only text for people is its summary."""
    return tuple(column.name for column in columns) == _DDL_COLUMNS


def _json_value(value: Cell, kind: str) -> object:
    """Return a value for JSON. DECIMAL stays text: a reader that parses numbers as doubles would lose digits."""
    if value is None:
        return None
    try:
        if kind.startswith(_INTEGRAL):
            return int(value)
        if kind in ("FLOAT", "DOUBLE"):
            number = float(value)
            return number if math.isfinite(number) else value
        if kind == "BOOLEAN":
            return {"true": True, "false": False}.get(value, value)
        return json.loads(value) if kind.startswith(_NESTED) else value
    except ValueError:
        return value


class TablePrinter:
    """A grid. Columns are as wide as the first rows need; if later rows need more, the grid continues with wider columns and a new header.

    No value is cut: a value that is wider than its column wraps inside its cell. If `expanded` is `on`, or if it is `auto` and wrapping
    would split words such as ids, each row is printed as a record with one line for each column. A statement that changes something
    prints only its summary.
    """

    def __init__(self, out: Sink, *, width: int | None, header: bool = True, null: str = "NULL") -> None:
        self._out = out
        self._width = width
        self._has_header = header
        self._null = null
        self._columns: tuple[AnswerColumn, ...] = ()
        self._widths: list[int] = []
        self._floors: list[int] = []
        self._to_the_right: list[bool] = []
        self._rows_written = 0
        self._is_summary = False
        self.expanded = "auto"

    @property
    def is_on_terminal(self) -> bool:
        """True if rows are written to a terminal at the moment."""
        return self._out.isatty()

    def start(self, columns: tuple[AnswerColumn, ...], *, key: Key = None) -> None:
        """See Printer."""
        self._columns = columns = columns if key is None else (_OP, *columns)
        self._widths = []
        self._floors = []
        self._to_the_right = [is_numeric(column) for column in columns]
        self._rows_written = 0
        self._is_summary = is_summary(columns)

    def write(self, rows: Sequence[Sequence[Cell]]) -> None:
        """See Printer."""
        if not self._columns:
            return
        cells = [[_lines(self._null if value is None else value) for value in row] for row in rows]
        if self._is_summary:
            lines = [line for row in cells for line in row[SUMMARY]]
        elif self._is_too_wide(cells):
            lines = self._records(cells)
        else:
            lines = [] if self._fits(cells) else self._header(cells)
            for row in cells:
                lines += self._row(row, self._to_the_right)
        self._rows_written += len(rows)
        self._out.write("".join(line + "\n" for line in lines))
        self._out.flush()

    def finish(self) -> None:
        """See Printer."""
        if self._columns and not self._is_summary:
            if not self._widths and not self._rows_written:
                self.write([])
            if self._widths:
                self._out.write(self._rule("-") + "\n")
            self._out.flush()
        self._columns = ()

    def _header(self, cells: list[list[list[str]]]) -> list[str]:
        names = [_lines(column.name) for column in self._columns]
        needed = self._needed([names, *cells])
        self._floors = self._floors or self._words([names, *cells])
        self._widths = _within(
            [max(pair) for pair in zip(needed, self._widths or needed, strict=True)],
            self._width,
            floors=self._floors,
        )
        if not self._has_header:
            return [self._rule("-")]
        return [self._rule("-"), *self._row(names, [False] * len(names)), self._rule("=")]

    def _fits(self, cells: list[list[list[str]]]) -> bool:
        if not self._widths:
            return False
        grown = [max(pair) for pair in zip(self._needed(cells), self._widths, strict=True)]
        return _within(grown, self._width, floors=self._floors) == self._widths

    def _is_too_wide(self, cells: list[list[list[str]]]) -> bool:
        """True if the first rows do not fit: a result keeps its layout."""
        if self._widths:
            return False
        if self._rows_written or self.expanded == "on":
            return bool(cells)
        if self._width is None or self.expanded == "off":
            return False
        names = [_lines(column.name) for column in self._columns]
        return bool(cells) and sum(self._words([names, *cells])) + 3 * len(names) + 1 > self._width

    def _records(self, cells: list[list[list[str]]]) -> list[str]:
        names = [_lines(column.name)[0] for column in self._columns]
        longest = max(map(cell_len, names))
        width = max((cell_len(line) for row in cells for cell in row for line in cell), default=0)
        room = width if self._width is None else max(self._width - longest - 3, _COLUMN_WIDTH_MIN)
        result = []
        for number, row in enumerate(cells, self._rows_written + 1):
            title = f"-[ {number} ]"
            result.append(title.ljust(longest + 1, "-") + "+" + "-" * (room + 1))
            for name, cell in zip(names, row, strict=True):
                label = name + " " * (longest - cell_len(name))
                for piece in (piece for line in cell for piece in _wrap(line, room)):
                    result.append(f"{label} | {piece}".rstrip())
                    label = " " * longest
        return result

    def _needed(self, cells: list[list[list[str]]]) -> list[int]:
        return [
            max((cell_len(line) for row in cells for line in row[index]), default=1)
            for index in range(len(self._columns))
        ]

    def _words(self, cells: list[list[list[str]]]) -> list[int]:
        """Return the width of each column's longest word; a very long one is broken anyhow."""
        return [
            max(
                (
                    size
                    for row in cells
                    for line in row[index]
                    for size in map(cell_len, line.split())
                    if size <= _WORD_MAX
                ),
                default=1,
            )
            for index in range(len(self._columns))
        ]

    def _rule(self, character: str) -> str:
        return "+" + "+".join(character * (width + 2) for width in self._widths) + "+"

    def _row(self, row: list[list[str]], to_the_right: list[bool]) -> list[str]:
        wrapped = [
            [piece for line in lines for piece in _wrap(line, width)]
            for lines, width in zip(row, self._widths, strict=True)
        ]
        height = max(map(len, wrapped))
        result = []
        for index in range(height):
            pieces = []
            for lines, width, right in zip(wrapped, self._widths, to_the_right, strict=True):
                piece = lines[index] if index < len(lines) else ""
                blank = " " * (width - cell_len(piece))
                pieces.append(f" {blank}{piece} " if right else f" {piece}{blank} ")
            result.append("|" + "|".join(pieces) + "|")
        return result


def _lines(text: str) -> list[str]:
    return [_CONTROL.sub(_escaped, line) for line in text.split("\n")]


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _wrap(line: str, width: int) -> list[str]:
    """Return `line` in pieces of at most `width` terminal cells, broken after spaces where there are some."""
    pieces = []
    while cell_len(line) > width:
        length, end, space = 0, 0, 0
        while end < len(line):
            length += cell_len(line[end])
            if length > width and end:
                break
            end += 1
            if line[end - 1] == " ":
                space = end
        cut = space if line[:space].strip() and end < len(line) else end
        pieces.append(line[:cut])
        line = line[cut:]
    return [*pieces, line] if line or not pieces else pieces


def _within(widths: list[int], total: int | None, *, floors: list[int]) -> list[int]:
    """Return `widths`, the widest reduced until the grid is at most `total` wide, if `floors` allow it.

    No column gets narrower than its floor while another can.
    """
    widths = [max(width, 1) for width in widths]
    if total is None:
        return widths
    room = total - 3 * len(widths) - 1
    widths = [min(width, max(room, _COLUMN_WIDTH_MIN)) for width in widths]
    for least in (floors, [_COLUMN_WIDTH_MIN] * len(widths)):
        while sum(widths) > room:
            able = [index for index, width in enumerate(widths) if width > least[index]]
            if not able:
                break
            widest = max(able, key=lambda index: (widths[index], -index))
            widths[widest] -= 1
    return widths
