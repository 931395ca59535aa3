"""Reads a statement of PostgreSQL word by word."""

from __future__ import annotations

import re

from headrace.server.postgres.errors import PostgresError
from headrace.sql.splitting import PIECE

_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NUMBER_DIGITS_MAX = 18


def tokens(text: str) -> list[re.Match[str]]:
    """Return the words and symbols of a text, without comments."""
    return [match for match in PIECE.finditer(text) if match.lastgroup not in ("space", "comment")]


class WordReader:
    """Reads words and symbols in order; raises PostgresError 42601 for others than expected."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0

    @property
    def next(self) -> str:
        """The next word in upper case, or the next symbol; empty at the end."""
        return self._tokens[self._at].group().upper() if self._at < len(self._tokens) else ""

    @property
    def left(self) -> int:
        """The number of words and symbols that are left."""
        return len(self._tokens) - self._at

    @property
    def offset(self) -> int:
        """The offset of the next word in the text."""
        return self._tokens[self._at].start() if self.left else len(self._text)

    @property
    def end_offset(self) -> int:
        """The offset at which the last word that was read ends."""
        return self._tokens[self._at - 1].end()

    def take(self, *words: str) -> bool:
        """Read these words if they are next."""
        following = self._tokens[self._at : self._at + len(words)]
        if tuple(match.group().upper() for match in following) != words:
            return False
        self._at += len(words)
        return True

    def expect(self, word: str) -> None:
        """Read this word."""
        if not self.take(word):
            raise self.unexpected(word)

    def end(self) -> None:
        """Raise PostgresError 42601 if words are left."""
        if self.left:
            raise self.unexpected("the end of the statement")

    def name(self) -> str:
        """Read a name; without quotes it is in lower case."""
        if not self.left or self._tokens[self._at].lastgroup not in ("word", "quoted"):
            raise self.unexpected("a name")
        name = self._tokens[self._at].group()
        self._at += 1
        return name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '"`' else name.lower()

    def number(self) -> int | None:
        """Read a whole number with or without a sign; None if another word is next."""
        is_signed = self.next in ("-", "+")
        sign = -1 if self.next == "-" else 1
        digits = self._tokens[self._at + is_signed].group() if self.left > is_signed else ""
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _NUMBER_DIGITS_MAX):
            return None
        self._at += 1 + is_signed
        return sign * int(digits)

    def string(self) -> str:
        """Read a string; in one of the form E'…', a backslash escapes the next character."""
        has_escapes = self.take("E")
        if not self.left or self._tokens[self._at].lastgroup != "string":
            raise self.unexpected("a string in single quotes")
        value = self._tokens[self._at].group()[1:-1].replace("''", "'")
        self._at += 1
        if has_escapes:
            value = re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), value, flags=re.DOTALL)
        return value

    def brackets(self) -> None:
        """Read from an opening bracket to the one that closes it."""
        self.expect("(")
        depth = 1
        while depth:
            if not self.left:
                raise self.unexpected(")")
            depth += {"(": 1, ")": -1}.get(self.next, 0)
            self._at += 1

    def unexpected(self, expected: str) -> PostgresError:
        """Return the error of another word than expected."""
        received = self._tokens[self._at].group()[:100] if self.left else "the end"
        return PostgresError("42601", f"expected {expected}, found {received}", position=self.offset + 1)
