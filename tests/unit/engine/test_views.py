"""DuckDB's own part of the store of views; the common promises are in tests/views."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.epochs import KEYED, batch, epoch, reads_of
from harness.patience import PATIENCE_S
from headrace.core.errors import HeadraceError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.views.duckdb import DuckDbViews
from headrace.engine.views.opening import open_views
from headrace.engine.views.store import READER_THREADS, Bounds, ViewStore
from headrace.planner.physical import Column
from headrace.planner.view_reads import ViewRead

ENDLESS = 'SELECT COUNT(*) FROM "v-1" a, "v-1" b, "v-1" c WHERE (a.n * b.n + c.n) % 7 = 3'


def opened(file: Path, **bounds: int) -> DuckDbViews:
    return DuckDbViews(file, spill=file.parent / "spill", bounds=Bounds(**bounds))


@pytest.fixture(autouse=True)
def _lasting_snapshot_workers() -> None:
    """Start workers as a server does: they are what is tested here."""


@pytest.fixture
def views(tmp_path: Path) -> Iterator[ViewStore]:
    views = opened(tmp_path / "views.duckdb")
    views.create("v-1", KEYED, ["k"])
    yield views
    views.close()


def ask(views: ViewStore, sql: str) -> list[tuple[Any, ...]]:
    return views.query(sql, reads=reads_of(sql), timeout_s=PATIENCE_S)[1]


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), (b"pass\xff", "the file is not UTF-8")]
)
def test_a_password_s_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    settings = Settings(data_dir=tmp_path, views="clickhouse://h@localhost/v", views_password_file=file)
    with pytest.raises(UserError) as refused:
        open_views(settings, owner="o")
    assert refused.value.state is SqlState.INVALID_PARAMETER
    assert refused.value.message == f"cannot read the password of views in {file}: {why}"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BYTES", "BLOB"),
        ("INTEGER", "INTEGER"),
        ("VARCHAR(3)", "VARCHAR"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP"),
        ("DECIMAL(10, 2)", "DECIMAL(10,2)"),
        ("ARRAY<MAP<VARCHAR, DOUBLE>>", "MAP(VARCHAR, DOUBLE)[]"),
        ('STRUCT<a INTEGER, "b c" BYTES>', 'STRUCT(a INTEGER, "b c" BLOB)'),
    ],
)
def test_every_type_has_its_place_in_the_views(kind: str, expected: str, tmp_path: Path) -> None:
    views = opened(tmp_path / "views.duckdb")
    views.create("v", [Column(name="c", type=kind)], [])
    sql = "SELECT data_type FROM duckdb_columns() WHERE table_name = 'v'"
    rows = views.query(sql, reads=[ViewRead("v")])[1]
    views.close()
    assert rows == [(expected,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "COPY \"v-1\" TO '{file}.csv'",
        "ATTACH '{file}.db'",
        "SET memory_limit = '4GB'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ],
)
def test_the_views_reach_nothing_outside(views: ViewStore, tmp_path: Path, sql: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    with pytest.raises(HeadraceError):
        ask(views, sql.format(file=file))


_WRITER = """
import sys
from pathlib import Path
from tests.unit.engine.test_views import KEYED, batch, epoch, opened
views = opened(Path(sys.argv[1]))
views.create("v-1", KEYED, ["k"])
for number in range(100_000):
    views.apply(epoch(number, keys=()), batch([{"k": str(row), "n": number} for row in range(10)]))
    print(number, flush=True)
"""


def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    file = tmp_path / "views.duckdb"
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(file)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) >= 50:
            break
    writer.kill()
    acknowledged = max([50, *(int(line) for line in writer.stdout if line.endswith("\n"))])
    writer.stdout.close()
    writer.wait()
    views = opened(file)
    epochs = ask(views, 'SELECT n, count(*) FROM "v-1" GROUP BY n ORDER BY n')
    assert len(epochs) > acknowledged
    assert epochs == [(number, 10) for number in range(len(epochs))]
    assert not views.apply(epoch(len(epochs) - 1, keys=()), batch([{"k": "x", "n": 1}]))
    views.close()


async def test_endless_queries_of_all_readers_hold_up_nobody_else(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": str(n), "n": n} for n in range(3000)]))
    loop = asyncio.get_running_loop()
    endless = [
        loop.run_in_executor(
            views.readers,
            functools.partial(views.query, ENDLESS, timeout_s=PATIENCE_S, reads=reads_of(ENDLESS)),
        )
        for _ in range(3 * READER_THREADS)
    ]
    payload = batch([{"k": "x", "n": 1}])
    assert await loop.run_in_executor(views.writer, views.apply, epoch(1), payload)
    await asyncio.to_thread(lambda: None)
    assert not any(query.done() for query in endless)
    await asyncio.to_thread(views.close)
    ended = await asyncio.gather(*endless, return_exceptions=True)
    assert [getattr(error, "state", None) for error in ended[:READER_THREADS]] == [
        SqlState.CANCELLED
    ] * READER_THREADS


@pytest.mark.parametrize(
    ("expression", "state", "said"),
    [
        ("n // 0", SqlState.DIVISION_BY_ZERO, "division by zero"),
        ("n + 9223372036854775807", SqlState.NUMERIC_VALUE_OUT_OF_RANGE, "out of the range of its type"),
        ("CAST(1000 * n AS TINYINT)", SqlState.NUMERIC_VALUE_OUT_OF_RANGE, "out of the range of its type"),
    ],
)
def test_failing_arithmetic_is_reported_in_the_dialects_terms(
    views: ViewStore, expression: str, state: SqlState, said: str
) -> None:
    views.apply(epoch(0), batch([{"k": "a", "n": 1}]))
    with pytest.raises(UserError) as caught:
        ask(views, f'SELECT {expression} FROM "v-1"')
    assert caught.value.state is state
    assert said in caught.value.message
    assert "SET " not in caught.value.message


GREEDY = "SELECT length(replace(repeat('a', 30000), 'a', repeat('b', 60000)))"


async def test_a_query_that_needs_too_much_memory_ends_alone(tmp_path: Path) -> None:
    views = opened(tmp_path / "views.duckdb", memory_mb=256)
    views.create("v-1", KEYED, ["k"])
    views.apply(epoch(0), batch([{"k": "a", "n": 1}]))
    loop = asyncio.get_running_loop()

    def run(sql: str) -> asyncio.Future[Any]:
        return loop.run_in_executor(views.readers, ask, views, sql)

    pid = psutil.Process()
    before = pid.memory_info().rss
    for _ in range(2):
        greedy = run(GREEDY)
        while not greedy.done():
            assert await run('SELECT k, n FROM "v-1"') == [("a", 1)]
        with pytest.raises(UserError) as caught:
            await greedy
        assert caught.value.state is SqlState.OUT_OF_MEMORY
        assert "256 MiB" in caught.value.message
        assert "HEADRACE_SNAPSHOT_MEMORY_MB" in (caught.value.hint or "")
    assert pid.memory_info().rss - before < 100 * 2**20
    views.close()


def test_a_killed_worker_is_replaced(views: ViewStore, tmp_path: Path) -> None:
    assert ask(views, "SELECT 1") == [(1,)]
    # Servers of other tests are children of this process, too.
    (worker,) = [child for child in psutil.Process().children() if str(tmp_path) in " ".join(child.cmdline())]
    worker.kill()
    with pytest.raises(UserError) as caught:
        ask(views, "SELECT 1")
    assert caught.value.state is SqlState.OUT_OF_MEMORY
    assert ask(views, "SELECT 1") == [(1,)]


def test_a_worker_ends_with_its_server(tmp_path: Path) -> None:
    script = f"""
import os
from pathlib import Path
from tests.unit.engine.test_views import ask, opened
views = opened(Path({str(tmp_path / "views.duckdb")!r}))
ask(views, "SELECT 1")
print(*views._snapshots._alive.copy().pop()._process.args, sep="\\n")
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[3], check=True)

    def workers() -> list[psutil.Process]:
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if str(tmp_path) in " ".join(process.info["cmdline"] or ())
        ]

    until = time.monotonic() + PATIENCE_S
    while workers() and time.monotonic() < until:
        time.sleep(0.05)
    assert workers() == []


def test_a_query_has_the_time_of_the_settings(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, snapshot_timeout_ms=1500)
    with closing(open_views(settings, owner="o")) as views:
        views.create("v-1", KEYED, ["k"])
        views.apply(epoch(0), batch([{"k": str(n), "n": n} for n in range(3000)]))
        with pytest.raises(UserError, match=r"took longer than 1\.5 s") as caught:
            views.query(ENDLESS, reads=reads_of(ENDLESS))
    assert caught.value.state is SqlState.TIMEOUT


@pytest.mark.parametrize(
    "values", ["repeat('a', 400)", "CAST(repeat('a', 400) AS BLOB)", "[repeat('a', 400)]"]
)
def test_a_result_has_a_largest_size(tmp_path: Path, values: str) -> None:
    views = opened(tmp_path / "views.duckdb", bytes=2**20)
    assert len(ask(views, f"SELECT {values} FROM range(1000)")) == 1000
    with pytest.raises(UserError) as caught:
        ask(views, f"SELECT {values} FROM range(4000)")
    assert caught.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert "HEADRACE_SNAPSHOT_BYTES_MAX" in (caught.value.hint or "")
    views.close()


@pytest.mark.parametrize(
    "call",
    ["repeated('ab', 9000000)", "padded('left', 'a', 17000000, 'b')", "padded('right', 'a', 17000000, 'b')"],
)
def test_functions_of_texts_have_a_longest_result(views: ViewStore, call: str) -> None:
    with pytest.raises(UserError) as caught:
        ask(views, f"SELECT length({call})")
    assert caught.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert "allows 16777216" in caught.value.message


def test_what_a_query_reads_leaves_no_file(views: ViewStore, tmp_path: Path) -> None:
    views.apply(epoch(0), batch([{"k": str(n), "n": n} for n in range(3000)]))
    assert ask(views, 'SELECT count(*) FROM "v-1"') == [(3000,)]
    views.close()
    assert list((tmp_path / "spill").iterdir()) == []
