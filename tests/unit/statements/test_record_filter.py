"""Filters of printed records."""

from __future__ import annotations

import pytest

from headrace.connectors.base import PrintedRecord
from headrace.statements.record_filter import record_filter

RECORD = PrintedRecord(
    "key-1",
    '{"user": {"id": 7, "name": "Ann"}, "paid": true, "tags": ["a", "b"], "odd name": null}',
    "partition 0, offset 1",
    headers='{"trace": "abc"}',
)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("key-1", True),
        ("Ann", True),
        ("ann", False),
        ("abc", True),
        ("offset", False),
        ("$.user.id = 7", True),
        ("$.user.id=7", True),
        ("$.user.id = '7'", False),
        ("$.user.id <> 8", True),
        ("$.user.id >= 7", True),
        ("$.user.id > 7", False),
        ("$.user.id < 7.5", True),
        ("$.user.name = 'Ann'", True),
        ("$.user.name = Ann", True),
        ("$.user.name > 'Al'", True),
        ("$.user.name > 3", False),
        ("$.user.name ~ nn", True),
        ("$.user ~ Ann", True),
        ("$.paid = true", True),
        ("$.paid = 1", False),
        ("$.tags[1] = 'b'", True),
        ("$.tags[2] = 'b'", False),
        ("$.tags.x = 1", False),
        ('$."odd name" = null', True),
        ("$.missing <> 1", False),
        ("$.user", True),
        ("$.missing", False),
    ],
)
def test_a_record_matches(text: str, matches: bool) -> None:
    assert record_filter(text)(RECORD) is matches


@pytest.mark.parametrize("value", [None, "", "no JSON", "[" * 100_000, "7"])
def test_a_record_without_the_field_does_not_match(value: str | None) -> None:
    assert not record_filter("$.a = 1")(PrintedRecord(None, value, ""))


@pytest.mark.parametrize("text", ["", "$a", "$.a[", "$.a[*] = 1", "$.* = 1", "$. = 1"])
def test_a_filter_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        record_filter(text)
