"""README's statements, which are also the page's first text, run as written and return rows, from a cold start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S, until
from harness.process import HeadraceProcess
from headrace.server.quick_start import USUAL_BROKER
from headrace.sql import parse
from headrace.sql.statements.query import SelectStatement
from headrace.testing.door import RestDoor

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def answer_of(server: HeadraceProcess, statement: str) -> dict[str, object]:
    body: dict[str, object] = httpx.post(
        f"{server.url}/v2/statements",
        json={"statement": statement},
        headers={"Authorization": f"Bearer {server.token}"},
        trust_env=False,
        timeout=PATIENCE_S,
    ).json()
    return body


def test_a_new_user_sees_rows(headrace_server: HeadraceProcess, kafka: KafkaClient, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {headrace_server.token}"}
    answer = httpx.get(
        f"{headrace_server.url}/v2/quick-start", headers=headers, trust_env=False, timeout=PATIENCE_S
    )
    # The server of the tests has no broker of its own, and names the usual address.
    statements = parse(answer.text.replace(USUAL_BROKER, kafka.bootstrap))
    live, snapshot = [statement for statement in statements if isinstance(statement, SelectStatement)]
    door = RestDoor(headrace_server)
    try:
        for statement in statements[: statements.index(live)]:
            door.execute(statement.text)
        rows = door.stream(live.text, count=2, when_live=lambda: None)
        assert sorted(tuple(row.cells[2:]) for row in rows) == [
            ("chair", "1", "120.00"),
            ("lamp", "2", "61.40"),
        ]
        # Who reads from now on only is told so, and nobody else.
        latest = answer_of(headrace_server, "SELECT * FROM shop.public.orders")
        assert "from now on" in str(latest["message"])
        assert "message" not in answer_of(headrace_server, live.text.replace("FROM ", "FROM shop.public."))
        until(lambda: door.execute(snapshot.text) == [["lamp", "3"], ["chair", "1"]], "the view's rows")
        for statement in statements[statements.index(snapshot) :]:
            assert door.execute(statement.text), statement.text
        exported = command(headrace_server, "export", "shop", "--to", str(tmp_path / "shop"))
        planned = command(headrace_server, "plan", str(tmp_path / "shop"), "--detailed-exitcode")
        assert planned.splitlines()[-1].startswith("No changes: ")
        drop_all(door)
        applied = command(headrace_server, "apply", str(tmp_path / "shop"), "--yes")
        assert applied.splitlines()[-1] == "Applied 5 steps."
        again = command(headrace_server, "apply", str(tmp_path / "shop"), "--yes")
        assert again.splitlines()[-1].startswith("No changes: ")
        command(headrace_server, "export", "shop", "--to", str(tmp_path / "again"))
        assert contents(tmp_path / "again") == contents(tmp_path / "shop") != {}
        assert exported == ""
    finally:
        drop_all(door)
        door.close()


def drop_all(door: RestDoor) -> None:
    for name in ("MATERIALIZED VIEW shop.public.best_sellers", "CHANGELOG shop.public.sales_per_minute"):
        door.execute(f"DROP {name} CASCADE;")
    door.execute("DROP DATABASE shop CASCADE; DROP STORE broker CASCADE;")


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def command(server: HeadraceProcess, *arguments: str) -> str:
    """Standard output of the command line, which must succeed."""
    options = ("--url", server.url, "--token", server.token)
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
