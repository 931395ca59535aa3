"""Parts of the prompt that need no terminal: variables, commands, help, questions."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from headrace.cli import backslash
from headrace.cli.describing import full_name, is_name
from headrace.cli.running import destroys
from headrace.cli.screen import Screen
from headrace.cli.shell import split_command
from headrace.cli.statement_help import help_for, hint_for, titles
from headrace.cli.variables import substituted
from headrace.core.context import SessionContext


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("SELECT :x", "SELECT 5"),
        ("SELECT :'name'", "SELECT 'it''s'"),
        ('SELECT :"name"', 'SELECT "it\'s"'),
        ("SELECT a::x, ':x', \":x\" -- :x", "SELECT a::x, ':x', \":x\" -- :x"),
        ("SELECT :other, x", "SELECT :other, x"),
    ],
)
def test_variables_are_substituted_outside_of_quotes(text: str, result: str) -> None:
    assert substituted(text, {"x": "5", "name": "it's"}) == result


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SELECT 1;", ("SELECT 1;", "")),
        ("\\d orders", ("", "\\d orders")),
        ("SELECT 1\n\\x", ("SELECT 1", "\\x")),
        ("SELECT 1 \\g out.csv", ("SELECT 1", "\\g out.csv")),
        ("SELECT 1; \\watch 5", ("SELECT 1;", "\\watch 5")),
        ("SELECT ' \\g '", ("SELECT ' \\g '", "")),
    ],
)
def test_a_command_may_follow_a_statement(text: str, parts: tuple[str, str]) -> None:
    assert split_command(text) == parts


def test_only_what_cannot_be_undone_is_asked_for() -> None:
    for text in (
        "DROP STREAM y CASCADE",
        "-- x\ndrop store s",
        "TERMINATE QUERY q",
        "REVOKE ALL ON STORE s FROM ROLE r CASCADE",
    ):
        assert destroys(text), text
    for text in ("SELECT 'DROP'", "CREATE STREAM s AS SELECT * FROM x", "LIST STORES", ""):
        assert not destroys(text), text


def test_commands_run_the_sql_of_one_name_only() -> None:
    assert backslash.sql_of("\\ds") == "LIST STORES;"
    assert backslash.sql_of("\\de k") == "LIST ENTITIES IN STORE k;"
    assert backslash.sql_of('\\d shop."Public".orders') == 'DESCRIBE RELATION COLUMNS shop."Public".orders;'
    assert backslash.sql_of("\\d orders; DROP DATABASE d") is None
    assert not is_name("a.b.c.d")


def test_a_name_is_completed_by_the_session() -> None:
    context = SessionContext("", database="shop", schema=None)
    assert full_name("Orders", context) == '"shop"."public"."orders"'
    assert full_name('lab."T".x', context) == '"lab"."T"."x"'


def test_every_statement_of_the_reference_has_help() -> None:
    assert len(titles()) > 100
    text = help_for("create store") or ""
    assert text.startswith("CREATE STORE")
    assert "](" not in text
    assert "```" not in text
    assert "LIST STORES" in (help_for("list sto") or "")
    assert help_for("frobnicate") is None


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("create strm", "Did you mean \\h CREATE STREAM?"),
        ("LIST QUEREIS", "Did you mean \\h LIST QUERIES?"),
        ("xyz", "The statements are: USE, "),
    ],
)
def test_help_for_a_misspelt_statement_names_the_nearest(typed: str, hint: str) -> None:
    assert hint_for(typed).startswith(hint)


def test_rows_go_to_the_terminal_or_to_a_file(tmp_path: Path) -> None:
    terminal = io.StringIO()
    screen = Screen(terminal)
    screen.write("a")
    with screen.redirected(tmp_path / "one"):
        screen.write("b")
    screen.redirect(tmp_path / "two")
    screen.write("c")
    screen.redirect(None)
    screen.write("d")
    assert terminal.getvalue() == "ad"
    assert ((tmp_path / "one").read_text(), (tmp_path / "two").read_text()) == ("b", "c")
    with pytest.raises(OSError, match="No such file"):
        screen.redirect(tmp_path / "none" / "x")
