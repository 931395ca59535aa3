"""A position in a text of statements: the statement around it, and the name or string that is being typed there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.sql.splitting import PIECE, split

_REST = {
    "": re.compile(r"\w*"),
    **{quote: re.compile(rf"(?:[\w.-]*{quote})?") for quote in ("'", '"', "`")},
}
"""The rest of a name or of a simple string behind the position, by its quote: it is replaced together with what is before."""


@dataclass(frozen=True)
class Position:
    """A position in one statement.

    `before` is the statement's text up to the name or string that is being typed, `after` its text behind the position. `typed` is what
    is typed of the name so far, `start` and `end` its place in the whole text, and `qualifier` the parts before it: in `a.b.c`, `a` and
    `b`. `quote` is the quote that is open, or empty.
    """

    before: str
    after: str
    typed: str
    start: int
    end: int
    qualifier: tuple[str, ...] = ()
    quote: str = ""


def position_of(text: str, offset: int) -> Position | None:
    """Return the position at `offset` of `text`; None in a comment."""
    begin, finish = _statement(text, offset)
    pieces = [
        (match.lastgroup or "", match.group(), match.start()) for match in PIECE.finditer(text, begin, offset)
    ]
    kind, last, start = pieces[-1] if pieces else ("space", "", offset)
    if kind in ("unclosed", "dollars") or (kind == "comment" and last.startswith("--")):
        return None
    quote = ""
    if kind in ("string", "quoted") and last.count(last[0]) % 2:
        quote, typed = last[0], last[1:].replace(last[0] * 2, last[0])
    elif kind == "word":
        typed = last
    else:
        typed, start = "", offset
    if quote or kind == "word":
        pieces.pop()
    qualifier, begin_of_name = _qualifier(pieces, start)
    end = _REST[quote].match(text, offset).end() if quote or kind == "word" else offset  # type: ignore[union-attr]
    return Position(
        text[begin:begin_of_name], text[end : max(end, finish)], typed, start, end, qualifier, quote
    )


def _statement(text: str, offset: int) -> tuple[int, int]:
    """Return the start and end of the statement at `offset`; a place between two statements starts a new one."""
    begin = 0
    for start, end in split(text):
        if start > offset:
            break
        if offset <= end:
            return start, end
        between = PIECE.finditer(text, end, offset)
        semicolon = next((match for match in between if match.lastgroup == "semicolon"), None)
        if semicolon is None:
            return start, end
        begin = semicolon.end()
    return begin, offset


def _qualifier(pieces: list[tuple[str, str, int]], start: int) -> tuple[tuple[str, ...], int]:
    """Return the names before a last dot, and where the first of them starts; `start` without a dot."""
    names: list[str] = []
    while len(pieces) >= 2 and pieces[-1][1] == "." and pieces[-2][0] in ("word", "quoted"):
        kind, name, start = pieces[-2]
        names.append(name[1:-1].replace(name[0] * 2, name[0]) if kind == "quoted" else name.lower())
        del pieces[-2:]
    return tuple(reversed(names)), start
