"""Boundaries of the statements of a text: quotes, comments and semicolons, without the grammar.

Without sqlglot, which takes a third of a second to import: `headrace sql -c` splits its text and needs nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

PIECE = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<comment>--[^\r\n]*|/\*.*?\*/)"
    r"|(?P<unclosed>/\*.*\Z)"
    r"|(?P<dollars>\$\$.*?(?:\$\$|\Z))"
    r"|(?P<string>'[^']*(?:''[^']*)*(?:'|\Z))"
    r'|(?P<quoted>"[^"]*(?:""[^"]*)*(?:"|\Z)|`[^`]*(?:``[^`]*)*(?:`|\Z))'
    r"|(?P<word>\w+)"
    r"|(?P<semicolon>;)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_PLANS = ("EXPLAIN", "VERBOSE", "DESCRIBE")
_END = ("END", "APPLICATION")


def split(text: str) -> list[tuple[int, int]]:
    """Return the statements of `text` as (start, end) offsets, without semicolons, comments around them and blank ones.

    A `BEGIN APPLICATION … END APPLICATION` is one statement. Unclosed quotes and comments run to the end of the text.
    """
    return [(start, end) for start, end, _ in _statements(text)]


def is_complete(text: str) -> bool:
    """True when nothing, or only blanks and comments, follows the last semicolon: a console may send `text`."""
    return all(closed for _, _, closed in _statements(text))


def _statements(text: str) -> Iterator[tuple[int, int, bool]]:
    start, end = -1, -1
    words: list[str] = []
    for match in PIECE.finditer(text):
        kind = match.lastgroup
        if kind in ("space", "comment"):
            continue
        if kind == "semicolon" and not _inside_application(words):
            if start >= 0:
                yield start, end, True
            start, words = -1, []
            continue
        if start < 0:
            start = match.start()
        end = match.end()
        words.append(match.group().upper() if kind == "word" and match.group().isascii() else "")
    if start >= 0:
        yield start, end, False


def _inside_application(words: list[str]) -> bool:
    begin = next((index for index, word in enumerate(words[:3]) if word not in _PLANS), 0)
    if words[begin : begin + 2] != ["BEGIN", "APPLICATION"]:
        return False
    # `END application` may also be the end of a CASE with an alias, which does not end an application.
    after = (words[index + 2 : index + 3] for index, pair in enumerate(pairwise(words)) if pair == _END)
    return not any(following in ([], ["WITH"]) for following in after)
