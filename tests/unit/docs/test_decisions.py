"""The records of decisions: one form of title and status, an index with each of them, and references in both directions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.docs.test_docs import DOCS

RECORDS = sorted((DOCS / "adr").glob("[0-9]*.md"))


def _title(record: Path) -> str:
    return record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _status(record: Path) -> str:
    """Return the paragraph of the status, on one line."""
    match = re.search(r"^Status: .*?(?=\n\n)", record.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert match is not None, f"{record.name} has no status"
    return match[0].replace("\n", " ")


def _related(record: Path, relation: str) -> set[str]:
    """Return the files of the records that the status names as extended, replaced, and so on."""
    sentences = re.findall(rf"\b{relation} (.*?\.)(?= [A-Z\[]|$)", _status(record))
    return {name for sentence in sentences for name in re.findall(r"\]\(([^)]*)\)", sentence)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_a_record_has_a_title_and_a_status(record: Path) -> None:
    assert _title(record).startswith(f"{int(record.name[:4])}. ")
    assert _status(record).startswith("Status: accepted")


def test_the_index_has_each_record_with_its_title() -> None:
    index = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    listed = {name: title for title, name in re.findall(r"^- \[(.*)\]\((.*)\)$", index, re.MULTILINE)}
    assert listed == {record.name: _title(record) for record in RECORDS}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_a_record_that_is_extended_or_replaced_names_its_successor(record: Path) -> None:
    for name in _related(record, "(?:Extends|Replaces|supersedes)"):
        assert record.name in _status(DOCS / "adr" / name), f"{name} does not name {record.name}"
    for name in _related(record, "Extended by"):
        assert record.name in _status(DOCS / "adr" / name), f"{name} does not name {record.name}"
