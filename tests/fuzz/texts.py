"""Texts by grammar and by mutation, and the check of each text.

By grammar: word after word, each of those that follow the one before somewhere in the corpus, from the first words of any statement. By
mutation: a statement of the corpus with words left out, doubled, swapped, put in from elsewhere, nested, or with characters changed.
"""

from __future__ import annotations

import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError
from headrace.sql import parse, parse_each
from headrace.sql.ast import Statement
from headrace.sql.grammar import GRAMMAR

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 10.0
"""Of processor time, for a text of some kilobytes. A text that takes too long takes minutes; a busy machine needs seconds for any."""

_EXAMPLES = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\w+|[^\w\s]|\s+", re.DOTALL)
_END = ";"
_ODD = [
    *"\x00\x0b\n\r\\'\"`",
    "\u00a0",
    "\u200b",
    "\u202e",
    "\u017f",
    "\u0131",
    "\U0001d4ae",
    "\ud800",
    "\ufeff",
    "\u00e9",
    "e\u0301",
]
_EDGES = [
    "0",
    "-0",
    "1e999",
    "9" * 500,
    "''",
    '""',
    "*",
    "(",
    ")",
    "((",
    "))",
    "[",
    "]",
    "<",
    ">",
    ",",
    ".",
    "..",
    ";",
    "->",
    "||",
    "=",
    "/*",
    "*/",
    "--",
    "NULL",
    "AS",
    "WITH (",
    "SELECT",
    "FROM",
    "NOT",
    "IN",
    "CASE",
    "END",
    "OVER (",
]
_NESTING = [
    ("(", ")"),
    ("(SELECT ", ")"),
    ("NOT ", ""),
    ("CAST(", " AS BIGINT)"),
    ("CASE WHEN ", " THEN 1 END"),
    ("a[", "]"),
    ("f(", ")"),
    ("- ", ""),
    ("ARRAY[", "]"),
]


def corpus() -> list[str]:
    """Statements of every kind: of the reference, of the policy's examples, and of the SQL tests."""
    texts = [
        block
        for file in sorted((ROOT / "docs/reference").glob("*.md"))
        for block in _EXAMPLES.findall(file.read_text())
    ]
    policy = (ROOT / "tests/unit/statements/requirements.txt").read_text().splitlines()
    texts += [line for line in policy if line and not line.startswith((" ", "#"))]
    for file in sorted((ROOT / "tests/slt").glob("*.slt")):
        records = file.read_text().split("\n\n")
        texts += [record.partition("\n----")[0].strip().partition("\n")[2] for record in records]
    distinct = {one.text for text in texts for one in parse_each(text) if isinstance(one, Statement)}
    return sorted(distinct)


@dataclass(frozen=True)
class Fault:
    """Fault found by a text."""

    text: str
    what: str


class Texts:
    """An endless run of texts, the same for the same `seed`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._statements = [_WORD.findall(text) for text in corpus()]
        self._pool = [word for words in self._statements for word in words if not word.isspace()]
        self._after: dict[str, list[str]] = defaultdict(list)
        for words in self._statements:
            seen = [word for word in words if not word.isspace()]
            for word, following in zip(seen, [*seen[1:], _END], strict=True):
                self._after[word.upper()].append(following)
        self._starts = [" ".join(words) for words in sorted(GRAMMAR)]

    def __iter__(self) -> Iterator[str]:
        while True:
            yield self._by_grammar() if self._random.random() < 0.4 else self._by_mutation()

    def _by_grammar(self) -> str:
        words = self._random.choice(self._starts).split()
        for _ in range(self._random.randrange(60)):
            following = self._random.choice(self._after.get(words[-1].upper()) or self._pool)
            if following == _END:
                break
            words.append(following)
        return " ".join(words)

    def _by_mutation(self) -> str:
        words = list(self._random.choice(self._statements))
        for _ in range(self._random.choice((1, 1, 1, 2, 3, 5, 8))):
            self._change(words)
        text = "".join(words)
        if self._random.random() < 0.1:
            place = self._random.randrange(len(text) + 1)
            text = text[:place] + self._random.choice(_ODD) + text[place + self._random.randrange(2) :]
        return text

    def _change(self, words: list[str]) -> None:
        place = self._random.randrange(len(words) + 1)
        match self._random.randrange(8):
            case 0:
                del words[place : place + self._random.randrange(1, 4)]
            case 1:
                words[place:place] = words[place : place + self._random.randrange(1, 9)]
            case 2 if len(words) > 1:
                one, other = self._random.sample(range(len(words)), 2)
                words[one], words[other] = words[other], words[one]
            case 3:
                words.insert(place, f" {self._random.choice(self._pool)} ")
            case 4:
                words[place : place + 1] = [self._random.choice(self._pool)]
            case 5:
                words.insert(place, f" {self._random.choice(_EDGES)} ")
            case 6:
                other = self._random.choice(self._statements)
                begin = self._random.randrange(len(other))
                words[place : place + self._random.randrange(6)] = other[
                    begin : begin + self._random.randrange(20)
                ]
            case _:
                before, after = self._random.choice(_NESTING)
                end = min(len(words), place + self._random.randrange(5))
                times = self._random.choice((1, 1, 2, 5, 300))
                words[place:end] = [before * times, *words[place:end], after * times]


def fault(text: str) -> Fault | list[Statement]:
    """Return the fault in reading a text, or its statements.

    A text must be parsed, or refused with a position inside it, within a time limit. Printing and parsing it again must not change it.
    """
    began = time.process_time()
    try:
        read = parse(text)
    except UserError as error:
        span = error.span
        if span is None or not 0 <= span.start <= span.end <= len(text):
            return Fault(text, f"refused at {span}: {error.text()}")
        read = []
    except Exception as error:  # noqa: BLE001 - what must not be
        return Fault(text, f"{type(error).__name__}: {error}")
    took = time.process_time() - began
    if took > SECONDS_MAX:
        return Fault(text, f"took {took:.1f} s")
    for statement in read:
        try:
            [again] = parse(statement.sql())
        except Exception as error:  # noqa: BLE001 - what must not be
            return Fault(text, f"printed as {statement.sql()!r}: {type(error).__name__}: {error}")
        if again != statement or again.sql() != statement.sql():
            return Fault(text, f"printed as {statement.sql()!r}, and read again as {again.sql()!r}")
    return read
