"""Statements for the audit log: without comments, and without values that are or may be secret.

Works on the characters, so that statements of every kind are masked alike, those of tomorrow too. What is shown is what is known to be
harmless: a property that nobody declares may be a password under a name that was mistyped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

from headrace.core.properties import MASKED
from headrace.sql.catalogue import NOT_SUPPORTED
from headrace.sql.grammar import GRAMMAR
from headrace.sql.splitting import PIECE

Shows = Callable[[str, bool], bool]
_IN_ADDRESSES = (
    (re.compile(r"(://)[^\s'\"]*@"), rf"\1{MASKED}@"),
    (re.compile(r"(://[^\s'\"?]*\?)[^\s'\"]+"), rf"\1{MASKED}"),
)
"""Credentials in an address: `postgresql://user:password@host/database?password=…`."""
_WORDS_MAX = 4


def masked(text: str, *, shows: Shows, length_max: int) -> str:
    """Return the text of a statement that was parsed, cut off after `length_max` characters.

    `shows` says of a property's name, and whether it stands in CREATE or UPDATE SECRET, that its value is known to be no secret.
    """
    pieces = [(match.lastgroup or "", match.group()) for match in PIECE.finditer(text[:length_max])]
    cut = len(text) > length_max
    # Of what is half there nobody can tell what it is.
    text_masked = _Masking(pieces[:-1] if cut else pieces, shows).text().strip()
    return f"{text_masked} …" if cut else text_masked


def leading_words(text: str) -> str:
    """Return the leading words of an unparsed text, up to the first word that is not among the leading words of a statement."""
    known = {word for words in GRAMMAR for word in words}
    known |= {word for words in NOT_SUPPORTED for word in words.split()} | {"SHOW"}
    leading: list[str] = []
    for match in islice(PIECE.finditer(text), 4 * _WORDS_MAX):
        if match.lastgroup in ("space", "comment"):
            continue
        word = match.group().upper()
        if match.lastgroup != "word" or word not in known or len(leading) == _WORDS_MAX:
            break
        leading.append(word)
    return " ".join([*leading, "…"])


class _Masking:
    """Masking of a text: `_at` is the index of its next piece."""

    def __init__(self, pieces: list[tuple[str, str]], shows: Shows) -> None:
        self._given = [("space", " ") if kind == "comment" else (kind, text) for kind, text in pieces]
        self._shows = shows
        self._at = 0
        self._parts: list[str] = []

    def text(self) -> str:
        """Return all of it, masked."""
        before, of_secret = "", False
        while self._at < len(self._given):
            kind, text = piece = self._given[self._at]
            self._at += 1
            if kind == "space":
                self._show([piece])
                continue
            if kind == "string" and before == "PASSWORD":
                self._hide()
            elif kind == "dollars":
                # The code of a function is long, and may contain anything.
                self._parts.append("$$ … $$")
            elif text == "(" and before == "WITH":
                self._properties(of_secret)
            else:
                self._show([piece])
            word = text.upper() if kind == "word" else text
            of_secret = (of_secret or (word == "SECRET" and before in ("CREATE", "UPDATE"))) and text != ";"
            before = word
        return "".join(self._parts)

    def _properties(self, of_secret: bool) -> None:
        """Mask the properties behind `WITH (`, up to the end."""
        self._parts.append("(")
        while True:
            name = self._take("=", ",", ")")
            self._show(name)
            if self._next() == "=":
                self._at += 1
                self._parts.append("=")
                value = self._take(",", ")")
                key = "".join(text for kind, text in name if kind != "space").strip("'\"`")
                if self._shows(key, of_secret) or _names(value):
                    self._show(value)
                else:
                    self._hide(" ")
            closing = self._next()
            self._at += 1
            self._parts.append(closing)
            if closing != ",":
                return

    def _take(self, *ends: str) -> list[tuple[str, str]]:
        """Return the pieces up to one of some symbols, which is not inside parentheses that begin here."""
        start, depth = self._at, 0
        while self._at < len(self._given):
            text = self._given[self._at][1]
            if depth == 0 and text in ends:
                break
            depth += (text == "(") - (text == ")")
            self._at += 1
        return self._given[start : self._at]

    def _next(self) -> str:
        return self._given[self._at][1] if self._at < len(self._given) else ""

    def _show(self, pieces: list[tuple[str, str]]) -> None:
        for kind, text in pieces:
            shown = text
            if kind == "string":
                for pattern, instead in _IN_ADDRESSES:
                    shown = pattern.sub(instead, shown)
            self._parts.append(shown)

    def _hide(self, space: str = "") -> None:
        self._parts.append(f"{space}'{MASKED}'")


def _names(value: list[tuple[str, str]]) -> bool:
    """True if a property's value is NULL, or the name of a secret."""
    words = [text.upper() for kind, text in value if kind != "space"]
    return words == ["NULL"] or (len(words) == 2 and words[0] == "SECRET")
