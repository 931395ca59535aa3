"""The text of a `.slt` file: its records, and the comparison of what they expect with what was received."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

SEPARATOR = "----"
ANY = "<any>"


class ExpectationError(AssertionError):
    """A record whose expectation was not met, or that cannot be read."""


@dataclass
class Record:
    """A record of a file: its first line's number and words, the lines that follow, and those after `----`."""

    line: int
    words: list[str]
    body: list[str]
    expected: list[str] | None
    actions: list[Record] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return the lines that follow the first."""
        return "\n".join(self.body)

    def option(self, name: str) -> str | None:
        """Return the value of `name=value`, or None."""
        return next((word.split("=", 1)[1] for word in self.words if word.startswith(name + "=")), None)

    def word(self, number: int, meaning: str) -> str:
        """Return a word of the first line; raise ExpectationError if there is none."""
        if number >= len(self.words):
            raise ExpectationError(f"expected {meaning} after {' '.join(self.words)}")
        return self.words[number]


def read(text: str, filled: Callable[[str], str] = str) -> Iterator[Record]:
    """Return the records of a file's text; `filled` replaces variables when a record runs."""
    for start, lines in _blocks(text):
        block = filled("\n".join(lines)).splitlines()
        words = block[0].removeprefix("$").split() or [""]
        rest = block[1:]
        expected: list[str] | None = None
        if SEPARATOR in rest:
            cut = rest.index(SEPARATOR)
            rest, expected = rest[:cut], rest[cut + 1 :]
        actions: list[Record] = []
        if words[0] == "stream":
            marks = [number for number, line in enumerate(rest) if line.startswith("$ ")]
            ends = [*marks[1:], len(rest)][: len(marks)]
            for mark, end in zip(marks, ends, strict=True):
                actions.append(
                    Record(start + mark, rest[mark].removeprefix("$").split(), rest[mark + 1 : end], None)
                )
            rest = rest[: marks[0]] if marks else rest
        yield Record(start, words, rest, expected, actions)


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    block: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            if not block:
                start = number
            block.append(line)
        elif block:
            yield start, block
            block = []


def with_expected(text: str, line: int, expected: Sequence[str]) -> str:
    """Return a file's text in which the record that begins at `line` expects the lines `expected`."""
    lines = text.splitlines()
    end = next((number for number in range(line, len(lines)) if not lines[number].strip()), len(lines))
    cut = next((number for number in range(line, end) if lines[number] == SEPARATOR), end)
    return "\n".join([*lines[:cut], SEPARATOR, *expected, *lines[end:], ""])


def compare(record: Record, received: list[str]) -> None:
    """Raise ExpectationError with the difference if the rows are not those that the record expects."""
    if record.expected is None:
        raise ExpectationError(f"expected {SEPARATOR} and the rows after the statement")
    expected = list(record.expected)
    if "rowsort" in record.words or "bykey" in record.words:
        expected, received = sorted(expected), sorted(received)
    same = len(expected) == len(received) and all(map(_same, expected, received))
    if not same:
        raise ExpectationError(difference(expected, received))


def difference(expected: Sequence[str], received: Sequence[str]) -> str:
    """Return all lines of both, `-` before one that is missing and `+` before one that was not expected."""
    unmatched = list(received)
    matching: list[str] = []
    for line in expected:
        match = next((other for other in unmatched if _same(line, other)), None)
        if match is not None:
            unmatched.remove(match)
        matching.append(line if match is None else match)
    lines = [line for line in difflib.ndiff(matching, list(received)) if not line.startswith("?")]
    return "\n".join(["rows differ (- expected, + received):", *(f"  {line}" for line in lines)])


def _same(expected: str, received: str) -> bool:
    if ANY not in expected:
        return expected == received
    left, right = expected.split("\t"), received.split("\t")
    return len(left) == len(right) and all(a in (ANY, b) for a, b in zip(left, right, strict=True))


def row_text(row: Sequence[str | None]) -> str:
    """Return a row as the files have it: cells between tabs, NULL, and `\\n` for a line break."""
    return "\t".join("NULL" if cell is None else cell.replace("\n", "\\n") for cell in row)


def canonical(value: str | None) -> str:
    """Return a JSON object with sorted keys and without spaces, any other text as it is."""
    if value is None or not value.startswith("{"):
        return value or ""
    return json.dumps(json.loads(value), sort_keys=True, separators=(",", ":"))
