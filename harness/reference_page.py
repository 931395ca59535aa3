"""Answers of statements in docs/reference/statements.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/statements.md"
DDL_ROW = ["Type", "Name", "Command", "Summary", "Path"]
_COLUMN = re.compile(r"`((?!\w*_)[A-Z]\w+)`")


def kinds() -> set[str]:
    """The statement classes that have a section."""
    return set(re.findall(r"^#.*<!-- (\w+) -->$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def section(kind: str) -> str:
    """The text under a statement's heading."""
    match = re.search(
        rf"<!-- {kind} -->\n(.*?)(?=^##|\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert match, f"docs/reference/statements.md has no section {kind}"
    return match[1]


def documented(kind: str) -> list[str]:
    """Return the columns of a section's answer, in order: its own columns, the columns of the DDL row, or the columns of the list that
    contains the row."""
    answers = "".join(re.findall(r"\*[Aa]nswers\*(.*?)(?=\*[A-Z]\w+\*|```|\Z)", section(kind), re.DOTALL))
    if "DDL row" in answers:
        return DDL_ROW
    other = re.search(r"one row of (?:the list|LIST (\w+))", answers)
    if other:
        return documented("List" + kind.removeprefix("Describe") + "s")
    return _COLUMN.findall(answers) or re.findall(r"`(\w+)`", answers)


def assert_documented(kind: str, columns: Sequence[str]) -> None:
    """Fails unless the page names exactly these columns, next to each other and in this order."""
    named = documented(kind)
    places = [start for start in range(len(named)) if named[start : start + len(columns)] == [*columns]]
    assert places, f"{kind} answers {', '.join(columns)}; the page says {', '.join(named)}"
