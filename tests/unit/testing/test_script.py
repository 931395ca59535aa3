"""The text of `.slt` files, and the differences that a failure shows."""

from __future__ import annotations

import pytest

from headrace.testing.script import (
    ExpectationError,
    Record,
    canonical,
    compare,
    difference,
    read,
    row_text,
    with_expected,
)

FILE = """\
# a comment
statement ok
CREATE DATABASE d;

stream rowsort ops
SELECT 1;
$ produce t
{"a": 1}
$ produce u
b|
----
+I\t1

$ wait t errored
"""


def test_a_file_is_a_list_of_records() -> None:
    first, stream, wait = read(FILE)
    assert (first.line, first.words, first.body) == (2, ["statement", "ok"], ["CREATE DATABASE d;"])
    assert first.expected is None
    assert stream.expected == ["+I\t1"]
    assert [(action.words, action.body) for action in stream.actions] == [
        (["produce", "t"], ['{"a": 1}']),
        (["produce", "u"], ["b|"]),
    ]
    assert wait.words == ["wait", "t", "errored"]


def record(*expected: str, words: str = "query") -> Record:
    return Record(1, words.split(), [], list(expected))


def test_equal_rows_pass() -> None:
    compare(record("1\ta", "2\t<any>"), ["1\ta", "2\tb"])
    compare(record("b", "a", words="query rowsort"), ["a", "b"])


@pytest.mark.parametrize("received", [["b", "a"], ["a"], ["a", "b", "c"], []])
def test_other_rows_fail(received: list[str]) -> None:
    with pytest.raises(ExpectationError, match="rows differ"):
        compare(record("a", "b"), received)


def test_any_is_one_cell() -> None:
    with pytest.raises(ExpectationError):
        compare(record("<any>"), ["1\t2"])


def test_a_record_without_expected_rows_is_refused() -> None:
    with pytest.raises(ExpectationError, match="----"):
        compare(Record(1, ["query"], [], None), [])


def test_a_difference_shows_all_rows_and_marks_those_that_differ() -> None:
    text = difference(["a\t1", "b\t<any>", "c\t3"], ["a\t1", "b\t7", "c\t4"])
    assert text.splitlines() == [
        "rows differ (- expected, + received):",
        "    a\t1",
        "    b\t7",
        "  - c\t3",
        "  + c\t4",
    ]


@pytest.mark.parametrize(
    ("text", "updated"),
    [
        ("explain\nSELECT 1;\n\nquery\n", "explain\nSELECT 1;\n----\nx\ny\n\nquery\n"),
        ("explain\nSELECT 1;\n----\nold\n\nquery\n", "explain\nSELECT 1;\n----\nx\ny\n\nquery\n"),
        ("explain\nSELECT 1;", "explain\nSELECT 1;\n----\nx\ny\n"),
    ],
)
def test_a_plan_is_written_where_it_is_expected(text: str, updated: str) -> None:
    assert with_expected(text, 1, ["x", "y"]) == updated
    assert with_expected(updated, 1, ["x", "y"]) == updated


def test_cells_are_written_in_one_line() -> None:
    assert row_text([None, "a\nb", ""]) == "NULL\ta\\nb\t"
    assert canonical('{"b": 1, "a": [2, 3]}') == '{"a":[2,3],"b":1}'
    assert canonical("7") == "7"
    assert canonical(None) == ""
