"""Output formats: each is a printer of rows, written as they come."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cli.choices import Output
from headrace.cli.output import (
    SUMMARY,
    JsonLinesPrinter,
    Key,
    Printer,
    Sink,
    TablePrinter,
    is_summary,
    json_line,
    plain,
    say,
    terminal_width,
)
from headrace.client.wire import AnswerColumn
from headrace.core.resultset import Cell

_OP = "op"


@dataclass(frozen=True)
class Style:
    """Options of a format: whether names of columns are printed, and the text of NULL (None: the format's own)."""

    header: bool = True
    null: str | None = None


def printer(output: str, out: Sink, style: Style | None = None) -> Printer:
    """Return the printer of an output format."""
    style = style or Style()
    match Output(output):
        case Output.TABLE | Output.EXPANDED as grid:
            table = TablePrinter(
                out,
                width=terminal_width(out),
                header=style.header,
                null="NULL" if style.null is None else style.null,
            )
            table.expanded = "on" if grid is Output.EXPANDED else "auto"
            return table
        case Output.JSON:
            return JsonPrinter(out)
        case Output.NDJSON:
            return JsonLinesPrinter(out)
        case Output.CSV:
            return CsvPrinter(out, style)
        case Output.TSV:
            return TsvPrinter(out, style)
        case Output.MARKDOWN:
            return MarkdownPrinter(out, style)


class JsonPrinter(JsonLinesPrinter):
    """Printer of one JSON array for each result."""

    _count = 0

    def start(self, columns: tuple[AnswerColumn, ...], *, key: Key = None) -> None:
        """See Printer."""
        super().start(columns, key=key)
        self._count = 0

    def write(self, rows: Sequence[Sequence[Cell]]) -> None:
        """See Printer."""
        if is_summary(self._columns):
            super().write(rows)
            return
        for line in self._objects(rows):
            self._out.write(("[\n" if not self._count else ",\n") + json_line(line).rstrip("\n"))
            self._count += 1
        self._out.flush()

    def finish(self) -> None:
        """See Printer."""
        if self._columns and not is_summary(self._columns):
            self._out.write("\n]\n" if self._count else "[]\n")
            self._out.flush()


class LinePrinter:
    """Base of formats with one line for each row. The summary of a statement that changes something is printed on standard error."""

    own_null = ""

    def __init__(self, out: Sink, style: Style) -> None:
        self._out = out
        self._style = style
        self._null = self.own_null if style.null is None else style.null
        self._is_summary = False
        # A file keeps each character; on a terminal, escape sequences in records must not act.
        self._is_terminal = out.isatty()

    def start(self, columns: tuple[AnswerColumn, ...], *, key: Key = None) -> None:
        """See Printer."""
        self._is_summary = is_summary(columns)
        names = [*([] if key is None else [_OP]), *(column.name for column in columns)]
        if names and self._style.header and not self._is_summary:
            self._out.write(self.header(names))

    def write(self, rows: Sequence[Sequence[Cell]]) -> None:
        """See Printer."""
        if self._is_summary:
            for row in rows:
                say(row[SUMMARY] or "")
            return
        for row in rows:
            cells = [
                self._null if cell is None else plain(cell) if self._is_terminal else cell for cell in row
            ]
            self._out.write(self.line(cells))
        self._out.flush()

    def finish(self) -> None:
        """See Printer."""
        self._out.flush()

    def header(self, names: list[str]) -> str:
        """Return the lines above the rows."""
        return self.line(names)

    def line(self, cells: list[str]) -> str:
        """Return the line of a row."""
        raise NotImplementedError


class CsvPrinter(LinePrinter):
    """Printer of CSV as RFC 4180 has it. An empty text is quoted, so that it differs from NULL."""

    def write(self, rows: Sequence[Sequence[Cell]]) -> None:
        """See Printer."""
        super().write([[_EMPTY if cell == "" else cell for cell in row] for row in rows])

    def line(self, cells: list[str]) -> str:
        """See LinePrinter."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue().replace(_EMPTY, '""')


_EMPTY = "\ue000headrace-empty\ue000"
"""Stands for an empty text until the line is written: `csv` writes it as it writes NULL."""


class TsvPrinter(LinePrinter):
    """Printer of tab-separated values with the escapes of PostgreSQL's COPY: a row is always one line."""

    _ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

    def line(self, cells: list[str]) -> str:
        """See LinePrinter."""
        return "\t".join(cell.translate(self._ESCAPES) for cell in cells) + "\n"


class MarkdownPrinter(LinePrinter):
    """Printer of a table of Markdown."""

    own_null = "NULL"

    def header(self, names: list[str]) -> str:
        """See LinePrinter."""
        return self.line(names) + "|" + "---|" * len(names) + "\n"

    def line(self, cells: list[str]) -> str:
        """See LinePrinter."""
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |\n"
