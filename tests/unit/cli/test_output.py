"""Grids and JSON lines."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

from headrace.cli.output import JsonLinesPrinter, TablePrinter
from headrace.client import AnswerColumn
from headrace.core.resultset import Cell


def columns(**types: str) -> tuple[AnswerColumn, ...]:
    return tuple(AnswerColumn(name, kind, True) for name, kind in types.items())


def grid(
    shown: tuple[AnswerColumn, ...], *batches: Sequence[Sequence[Cell]], width: int | None = None
) -> list[str]:
    out = io.StringIO()
    printer = TablePrinter(out, width=width)
    printer.start(shown)
    for batch in batches:
        printer.write(batch)
    printer.finish()
    return out.getvalue().splitlines()


def test_a_grid_aligns_numbers_right_and_shows_null() -> None:
    assert grid(columns(id="BIGINT", name="VARCHAR(10)"), [("7", "ada"), ("100", None)]) == [
        "+-----+------+",
        "| id  | name |",
        "+=====+======+",
        "|   7 | ada  |",
        "| 100 | NULL |",
        "+-----+------+",
    ]


def test_a_result_without_rows_has_its_header() -> None:
    assert grid(columns(id="BIGINT")) == ["+----+", "| id |", "+====+", "+----+"]


def test_a_result_without_columns_writes_nothing() -> None:
    assert grid((), []) == []


def test_a_stream_s_grid_grows_under_a_new_header() -> None:
    assert grid(columns(c="VARCHAR"), [("ab",)], [("a",)], [("abcd",)]) == [
        "+----+",
        "| c  |",
        "+====+",
        "| ab |",
        "| a  |",
        "+------+",
        "| c    |",
        "+======+",
        "| abcd |",
        "+------+",
    ]


def test_what_does_not_fit_is_wrapped_and_nothing_is_lost() -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(100))
    lines = grid(columns(id="INTEGER", text="VARCHAR"), [("1", text)], [("2", text)], width=40)
    assert {len(line) for line in lines} == {40}
    assert "".join(line.split("|")[2].strip() for line in lines if line.startswith("|"))[4:] == text * 2
    assert sum("text" in line for line in lines) == 1


def test_words_stay_whole_where_there_is_room_for_them() -> None:
    lines = grid(columns(a="VARCHAR", b="VARCHAR"), [("one two three", "four five six seven")], width=30)
    assert max(map(len, lines)) == 30
    assert lines[3:-1] == ["| one two     | four five    |", "| three       | six seven    |"]


def test_rows_whose_ids_would_be_torn_apart_are_shown_as_records() -> None:
    id_ = "203cbc93-7525-4106-8aff-57457f802b95"
    shown = columns(id="VARCHAR", owner="VARCHAR", text="VARCHAR")
    lines = grid(shown, [(id_, "sysadmin", "a\nb"), (id_, None, "c")], [(id_, "x", "y")], width=50)
    assert lines[:5] == [
        "-[ 1 ]+" + "-" * 43,
        f"id    | {id_}",
        "owner | sysadmin",
        "text  | a",
        "      | b",
    ]
    assert [line for line in lines if line.startswith("-[ 3 ]")]
    assert not [line for line in lines if len(line) > 50]


def test_a_statement_that_changes_something_answers_with_its_summary() -> None:
    shown = columns(Type="VARCHAR", Name="VARCHAR", Command="VARCHAR", Summary="VARCHAR", Path="VARCHAR")
    assert grid(shown, [("store", "s", "CREATE", "store s was created", '["s"]')]) == ["store s was created"]


def test_wide_characters_count_twice() -> None:
    assert grid(columns(c="VARCHAR"), [("水車",)])[3] == "| 水車 |"
    assert grid(columns(c="VARCHAR"), [("水車",)])[0] == "+------+"


def test_lines_of_a_cell_stay_lines_and_control_characters_reach_no_terminal() -> None:
    lines = grid(columns(c="VARCHAR"), [("a\nb",), ("\x1b[2Jx\u202e",)])
    assert lines[3:6] == ["| a              |", "| b              |", "| \\x1b[2Jx\\u202e |"]


def test_json_lines_have_json_types() -> None:
    out = io.StringIO()
    printer = JsonLinesPrinter(out)
    printer.start(
        columns(
            i="BIGINT", f="DOUBLE", b="BOOLEAN", d="DECIMAL(10, 2)", t="VARCHAR", a="ARRAY<INTEGER>", n="DATE"
        )
    )
    printer.write([("12345678901234567890", "1.5", "true", "1.10", "é", '[1,{"x":2}]', None)])
    printer.write([("x", "NaN", "false", "2", "", "not json", "2026-01-01")])
    printer.finish()
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first == {
        "i": 12345678901234567890,
        "f": 1.5,
        "b": True,
        "d": "1.10",
        "t": "é",
        "a": [1, {"x": 2}],
        "n": None,
    }
    assert second == {"i": "x", "f": "NaN", "b": False, "d": "2", "t": "", "a": "not json", "n": "2026-01-01"}


def test_what_a_row_does_has_a_name_of_its_own_beside_a_column_of_that_name() -> None:
    lines = []
    for name in ("id", "__op"):
        out = io.StringIO()
        printer = JsonLinesPrinter(out)
        printer.start(columns(**{name: "VARCHAR"}), key=("id",))
        printer.write([("+I", "c")])
        lines.append(json.loads(out.getvalue()))
    assert lines == [{"__op": "+I", "id": "c"}, {"__headrace_op": "+I", "__op": "c"}]
