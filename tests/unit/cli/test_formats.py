"""Output formats: what a program reads back, and what people see."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

import pytest

from headrace.cli.choices import Output
from headrace.cli.formats import Style, printer
from headrace.cli.output import Key
from headrace.client import AnswerColumn
from headrace.core.resultset import Cell

COLUMNS = (AnswerColumn("n", "BIGINT", True), AnswerColumn("t", "VARCHAR", True))
ROWS: list[list[Cell]] = [["1", 'a"b, c'], ["2", None], [None, ""], ["3", "two\nlines\tand|bar \\"]]


def written(
    output: str, rows: Sequence[Sequence[Cell]] = ROWS, style: Style | None = None, *, key: Key = None
) -> str:
    out = io.StringIO()
    shown = printer(output, out, style)
    shown.start(COLUMNS, key=key)
    for row in rows:
        shown.write([row])
    shown.finish()
    return out.getvalue()


def test_json_is_one_array() -> None:
    rows = json.loads(written("json"))
    assert rows[0] == {"n": 1, "t": 'a"b, c'}
    assert rows[1:3] == [{"n": 2, "t": None}, {"n": None, "t": ""}]
    assert json.loads(written("json", [])) == []


def test_csv_is_read_back_and_keeps_null_apart_from_the_empty_text() -> None:
    text = written("csv")
    assert list(csv.reader(io.StringIO(text)))[1] == ["1", 'a"b, c']
    assert text.splitlines()[2:4] == ["2,", ',""']
    assert written("csv", style=Style(header=False, null="\\N")).splitlines()[1] == "2,\\N"


def test_a_row_of_tsv_is_one_line() -> None:
    lines = written("tsv").splitlines()
    assert lines[0] == "n\tt"
    assert lines[4] == "3\ttwo\\nlines\\tand|bar \\\\"


def test_markdown_is_a_table() -> None:
    lines = written("markdown").splitlines()
    assert lines[:2] == ["| n | t |", "|---|---|"]
    assert lines[3] == "| 2 | NULL |"
    assert lines[5] == "| 3 | two<br>lines\tand\\|bar \\ |"


def test_expanded_shows_each_row_as_a_record_and_null_as_asked() -> None:
    lines = written("expanded", [["1", None]], Style(null="-")).splitlines()
    assert [line.split("|")[0].strip() for line in lines[1:]] == ["n", "t"]
    assert lines[2].endswith("| -")
    assert "| n |" not in written("table", style=Style(header=False))


@pytest.mark.parametrize("output", list(Output))
def test_changes_of_a_changelog_come_first(output: Output) -> None:
    assert "+I" in written(output, [["+I", "1", "x"]], key=("id",))


@pytest.mark.parametrize("output", [Output.JSON, Output.NDJSON, Output.CSV, Output.TSV, Output.MARKDOWN])
def test_the_summary_of_a_statement_is_no_row(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    shown = printer(output, out)
    names = ("Type", "Name", "Command", "Summary", "Path")
    shown.start(tuple(AnswerColumn(name, "VARCHAR", True) for name in names))
    shown.write([["database", "d", "CREATE", "created d", "[]"]])
    shown.finish()
    assert out.getvalue() == ""
    assert capsys.readouterr().err == "created d\n"
