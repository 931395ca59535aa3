"""The table of a live result: what it holds, and what it shows of that."""

from __future__ import annotations

import asyncio
import io

from rich.console import Console

from headrace.cli.live_table import LiveTable
from headrace.cli.output import Key
from headrace.client.wire import AnswerColumn
from headrace.core.resultset import Cell

COLUMNS = (AnswerColumn("city", "VARCHAR", True), AnswerColumn("n", "BIGINT", True))


async def last_table(
    rows: list[tuple[Cell, ...]], *, key: Key, height: int = 20, width: int = 60
) -> list[str]:
    """Return the lines that stay on the terminal after the result has ended."""
    out = io.StringIO()
    table = LiveTable(Console(file=out, width=width, height=height, force_terminal=False))
    table.start(COLUMNS, key=key)
    for row in rows:
        table.write([row])
    table.finish()
    return [line.rstrip() for line in out.getvalue().splitlines()]


async def test_a_changelog_has_the_newest_row_of_each_key() -> None:
    changes: list[tuple[Cell, ...]] = [
        ("+I", "Bern", "1"),
        ("+I", "Oslo", "1"),
        ("+U", "Bern", "20"),
        ("+I", None, "3"),
        ("-D", "Oslo", "1"),
    ]
    assert await last_table(changes, key=("city",)) == [
        "┌──────┬────┐",
        "│ city │  n │",
        "├──────┼────┤",
        "│ Bern │ 20 │",
        "│ NULL │  3 │",
        "└──────┴────┘",
        "(2 current rows; 5 changes)",
    ]


async def test_a_stream_has_as_many_of_its_newest_rows_as_the_terminal_has_lines_for() -> None:
    rows: list[tuple[Cell, ...]] = [("Bern", str(number)) for number in range(9)]
    lines = await last_table(rows, key=None, height=8)
    assert [line.split() for line in lines[3:5]] == [
        ["│", "Bern", "│", "7", "│"],
        ["│", "Bern", "│", "8", "│"],
    ]
    assert lines[-1] == "(9 rows, 2 shown; 9 changes)"


async def test_a_changelog_without_its_key_shows_what_each_row_does() -> None:
    lines = await last_table([("+I", "Bern", "1"), ("-D", "Bern", "1")], key=())
    assert [line.split() for line in lines[3:5]] == [
        ["│", "+I", "│", "Bern", "│", "1", "│"],
        ["│", "-D", "│", "Bern", "│", "1", "│"],
    ]


async def test_values_neither_break_lines_nor_reach_the_terminal_as_escape_sequences() -> None:
    lines = await last_table([("a\nb\x1b[2J[red]" + "x" * 80, "1")], key=None)
    assert "a\\nb\\x1b[2J[red]xxx" in lines[3]
    assert lines[3].split()[-3].endswith("…")


async def test_rows_that_come_at_once_are_drawn_together() -> None:
    out = io.StringIO()
    table = LiveTable(Console(file=out, width=60, height=20, force_terminal=True))
    table.start(COLUMNS, key=("city",))
    for number in range(100):
        table.write([("+U", "Bern", str(number))])
    await asyncio.sleep(0)
    drawn = out.getvalue().count("city")
    table.finish()
    assert drawn == 1
    assert "99" in out.getvalue()
