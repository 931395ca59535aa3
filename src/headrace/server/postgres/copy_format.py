"""Rows of COPY in PostgreSQL's text and CSV formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.server.postgres.errors import PostgresError

_CONTROLS = {b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\v": b"\\v"}

Line = Callable[[Sequence[bytes | None]], bytes]


@dataclass(frozen=True)
class CopyFormat:
    """Format of the rows. `forced` are the columns that CSV always quotes, None for all."""

    is_csv: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    has_header: bool = False
    forced: frozenset[str] | None = frozenset()

    def lines(self, columns: Sequence[str]) -> Line:
        """Return the encoder of rows, whose cells are in PostgreSQL's text format, as lines. Raises PostgresError 42703 for a name in
        FORCE_QUOTE that is not a column."""
        unknown = sorted((self.forced or frozenset()) - set(columns))
        if unknown:
            raise PostgresError(
                "42703", f"FORCE_QUOTE names {unknown[0][:100]!r}, which is not a column of the query"
            )
        if not self.is_csv:
            return self._text_line
        forced = [self.forced is None or name in self.forced for name in columns]
        return self._csv_lines(forced)

    def header(self, columns: Sequence[str]) -> bytes:
        """Return the line with the names of the columns."""
        names = [name.encode("utf-8", "replace") for name in columns]
        return self._csv_lines([False] * len(names))(names) if self.is_csv else self._text_line(names)

    @property
    def _text_line(self) -> Line:
        delimiter, null = self.delimiter.encode(), self.null.encode()
        special = re.compile(rb"[\\\x08\f\n\r\t\v" + re.escape(delimiter) + rb"]")

        def escaped(match: re.Match[bytes]) -> bytes:
            return _CONTROLS.get(match[0], b"\\" + match[0])

        def line(cells: Sequence[bytes | None]) -> bytes:
            return (
                delimiter.join(null if cell is None else special.sub(escaped, cell) for cell in cells) + b"\n"
            )

        return line

    def _csv_lines(self, forced: Sequence[bool]) -> Line:
        delimiter, null = self.delimiter.encode(), self.null.encode()
        quote, escape = self.quote.encode(), self.escape.encode()
        requires_quotes = re.compile(rb"[\n\r" + re.escape(delimiter + quote) + rb"]").search
        special = re.compile(rb"[" + re.escape(quote + escape) + rb"]")
        is_single = len(forced) == 1

        def field(cell: bytes | None, is_forced: bool) -> bytes:
            if cell is None:
                return null
            # The line \. alone is the end of the data for older clients.
            if is_forced or cell == null or requires_quotes(cell) or (is_single and cell == b"\\."):
                return quote + special.sub(lambda match: escape + match[0], cell) + quote
            return cell

        return lambda cells: delimiter.join(map(field, cells, forced)) + b"\n"
