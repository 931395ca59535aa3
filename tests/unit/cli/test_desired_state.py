"""headrace plan and apply against the real statements, over HTTP: nothing is scripted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.session import Session, open_session
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.cli.test_command_line import headrace
from tests.unit.pipeline import PIPELINE
from tests.unit.server.scripted import TOKENS, download, serving


@asynccontextmanager
async def served(folder: Path, port: int) -> AsyncIterator[Session]:
    """A server at a port, with the objects of `open_session`."""
    async with open_session(folder) as session:
        settings = Settings(data_dir=folder)
        parts = ServerParts(settings, session.service, TOKENS.get, ended={}.get, download=download)
        async with serving(create_app(parts), port):
            yield session


async def test_only_prune_drops_and_only_a_confirmed_plan_runs(tmp_path: Path, unused_tcp_port: int) -> None:
    server, file = f"127.0.0.1:{unused_tcp_port}", tmp_path / "web.sql"
    async with served(tmp_path / "a", unused_tcp_port) as session:
        await session.run(PIPELINE)
        kept, _ = PIPELINE.split("CREATE MATERIALIZED VIEW twos")
        file.write_text(kept.replace("COUNT(*) AS n", "COUNT(*) + 1 AS n"))
        before = session.catalog.snapshot()
        planned = await headrace(server, "plan", str(file))
        assert "- drop     materialized view web.raw.twos (kept without --prune)" in planned.out
        assert "~ replace  materialized view web.public.pages" in planned.out
        assert "      Replacement: compatible" in planned.out
        refused = await headrace(server, "apply", str(file))
        assert (refused.code, "pass --yes" in refused.err) == (1, True)
        assert session.catalog.snapshot() is before
        assert (await headrace(server, "apply", str(file), "--yes")).code == 0
        names = {relation.name.name for relation in session.catalog.relations("web")}
        assert names == {"Visits", "pages", "twos"}
        planned = await headrace(server, "plan", str(file), "--prune", "--detailed-exitcode")
        assert planned.code == 2
        assert (await headrace(server, "plan", str(file), "--detailed-exitcode")).code == 0
        assert planned.out.splitlines()[-1].startswith(
            "Plan: 0 to create, 0 to update, 0 to replace, 2 to drop;"
        )


async def test_errors_are_at_their_file_and_line(tmp_path: Path, unused_tcp_port: int) -> None:
    folder = tmp_path / "sql"
    (folder / "b").mkdir(parents=True)
    (folder / "a.sql").write_text("CREATE DATABASE web;\n-- no semicolon\nUSE DATABASE web")
    (folder / "b" / "c.sql").write_text(
        "\nCREATE STREAM v AS SELECT nothing FROM shop.public.orders;\nDROP DATABASE shop;\n"
    )
    async with served(tmp_path / "a", unused_tcp_port):
        planned = await headrace(f"127.0.0.1:{unused_tcp_port}", "plan", str(folder))
    assert planned.code == 1
    place = folder / "b" / "c.sql"
    assert f"{place}:2:27: error[42703]: the column nothing does not exist" in planned.err
    assert (
        f"{place}:3:1: error[0A000]: expected statements that describe objects, found DROP DATABASE"
        in planned.err
    )


async def test_files_that_are_missing_are_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "broken.sql").write_text("CREATE DESCRIPTOR_SOURCE d WITH ('file' = '@gone.desc');")
    for path in (tmp_path / "nothing.sql", tmp_path / "broken.sql"):
        ended = await headrace("127.0.0.1:1", "apply", str(path), "--yes")
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("headrace: cannot read the statements: ")


@pytest.mark.parametrize("value", ["NAME", "=x"])
async def test_a_variable_needs_a_name(tmp_path: Path, value: str) -> None:
    assert (await headrace("127.0.0.1:1", "plan", str(tmp_path), "-v", value)).code == 2
