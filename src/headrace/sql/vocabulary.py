"""The words of the language, read from the grammar's own source: each word that a parser compares with is a constant of a module here.

A list by hand would drift: the grammar learns a word with each statement.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from headrace.sql.expression_parser import INTERVAL_UNITS
from headrace.sql.grammar import GRAMMAR
from headrace.sql.lexer import KEYWORDS

_WORDS = re.compile(r"[A-Z][A-Z_]+(?: [A-Z_]+)*\Z")
_REFUSED = "catalogue.py"
"""Its words are those of statements that do not exist."""


@cache
def words() -> tuple[str, ...]:
    """Return all keywords, sorted."""
    phrases = [word for start in GRAMMAR for word in start if word.isidentifier()] + list(KEYWORDS.values())
    # The parser removes the S instead of comparing with it.
    phrases += [f"{unit}S" for unit in INTERVAL_UNITS]
    for module in _modules(files("headrace.sql")):
        phrases += _constants(module.read_text(encoding="utf-8"))
    return tuple(sorted({word for phrase in phrases for word in phrase.split()}))


def _modules(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry)
        elif entry.name.endswith(".py") and entry.name != _REFUSED:
            yield entry


def _constants(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    # The constants of an f-string are pieces of words.
    pieces = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in pieces and _WORDS.match(str(node.value)):
            yield str(node.value)
