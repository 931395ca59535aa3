"""headrace top: its statements over the real catalog, and its rows and screen."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from harness.session import open_session
from headrace.cli import top
from headrace.cli.choices import Order
from headrace.core.context import SessionContext
from headrace.core.resultset import result
from headrace.core.types import BIGINT, DOUBLE, VARCHAR
from tests.unit.cli.test_command_line import headrace
from tests.unit.server.scripted import ScriptedStatements

_TITLES = ("id", "name", "sink_fqn", "current_state", "compute_pool_name", "message")
_FIGURES = ("output_rows_total", "watermark_lag_ms", "backlog_bytes", "batch_duration_ms", "state_bytes")
_COLUMNS = [
    *((title, VARCHAR) for title in _TITLES),
    ("input_rows_per_second", DOUBLE),
    *((title, BIGINT) for title in _FIGURES),
]


async def test_its_statements_are_valid(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        for text in (top._QUERIES, top._FINDINGS):
            checked = await session.service.check(
                text, principal=session.principal, context=SessionContext(""), files={}
            )
            assert checked.diagnostics == ()


async def test_queries_are_ordered_by_what_the_user_asks_for(
    address: str, statements: ScriptedStatements
) -> None:
    statements.answer(
        top._QUERIES,
        result(
            _COLUMNS,
            [
                ("1", "a", '"d"."s"."a"', "running", "p", None, 5.26, 10, 7, 0, 3, 400),
                (
                    "2",
                    None,
                    '"d"."s"."b"',
                    "errored",
                    "p",
                    "the topic is gone",
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                ),
                ("3", "c", '"d"."s"."c"', "running", "p", None, 0.5, 99, 70, 1, 3, 40),
            ],
        ),
    )
    statements.answer(
        top._FINDINGS, result([("query_id", VARCHAR), ("code", VARCHAR)], [("3", "IDLE"), ("3", "LATE")])
    )
    ended = await headrace(address, "top", "-n", "2", "--interval", "0.5")
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert [row["query"] for row in rows] == ["c", "a", '"d"."s"."b"'] * 2
    assert (rows[0]["findings"], rows[0]["lag_ms"], rows[0]["out_per_s"]) == ("IDLE, LATE", 70, None)
    # The sums did not grow between the two looks.
    assert (rows[3]["out_per_s"], rows[5]["findings"]) == (0.0, "the topic is gone")
    by_state = await headrace(address, "top", "--order", "state", "-o", "csv")
    assert [line.split(",")[0] for line in by_state.out.splitlines()] == [
        "query",
        "a",
        "c",
        '"""d"".""s"".""b"""',
    ]


def test_the_screen_shows_no_control_characters() -> None:
    row = ("evil\x1b[2J", "running", *(["1"] * 8), "id")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(top._screen([row], "http://h", Order.LAG))
    shown = console.export_text()
    assert "1 query, 1 running, by lag; q ends" in shown
    assert "\x1b[2J" not in shown
    assert "evil\\x1b[2J" in shown
