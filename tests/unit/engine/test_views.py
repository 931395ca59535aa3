from __future__ import annotations

import asyncio
import datetime
import functools
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from headrace.core.errors import HeadraceError, InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.protocol import ApplyView
from headrace.engine.views.duckdb import DuckDbViews
from headrace.engine.views.store import READER_THREADS, ViewStore
from headrace.planner.physical import Column
from tests.harness.patience import until

ENDLESS = 'SELECT COUNT(*) FROM "v-1" a, "v-1" b, "v-1" c WHERE (a.n * b.n + c.n) % 7 = 3'
KEYED = [Column(name="k", type="VARCHAR"), Column(name="n", type="BIGINT")]


def batch(rows: list[dict[str, Any]], schema: Any = None) -> bytes:
    table = pyarrow.Table.from_pylist(rows, schema=schema)
    buffer = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(buffer, table.schema) as out:
        out.write_table(table)
    return bytes(buffer.getvalue())


def epoch(
    number: int,
    *,
    keys: tuple[str, ...] = ("k",),
    deleted: str | None = None,
    sign: str | None = None,
    query: str = "q",
) -> ApplyView:
    return ApplyView(
        sequence=1,
        query_id=query,
        view="v-1",
        epoch=number,
        key_columns=list(keys),
        deleted=deleted,
        sign=sign,
    )


@pytest.fixture
def views(tmp_path: Path) -> ViewStore:
    views = DuckDbViews(tmp_path / "views.duckdb")
    views.create("v-1", KEYED, ["k"])
    return views


def rows(views: ViewStore) -> list[tuple[Any, ...]]:
    return views.query('SELECT * FROM "v-1" ORDER BY k NULLS FIRST')[1]


@pytest.mark.parametrize("retention_ms", [None, 60_000])
def test_rows_without_a_key_come_and_go_one_by_one(tmp_path: Path, retention_ms: int | None) -> None:
    views = DuckDbViews(tmp_path / "views.duckdb")
    views.create("v-1", KEYED, [], retention_ms=retention_ms)
    held: Counter[tuple[Any, ...]] = Counter()
    drawn = random.Random(7)
    for number in range(20):
        changes = Counter({(k, n): drawn.randint(-2, 3) for k in ("a", "b", None) for n in (1, None)})
        changes = Counter({row: max(count, -held[row]) for row, count in changes.items()})
        held.update(changes)
        told = [
            {"k": k, "n": n, "__op": sign}
            for (k, n), count in changes.items()
            for sign in [1, -1] + [1 if count > 0 else -1] * abs(count)
        ]
        drawn.shuffle(told)
        views.apply(epoch(number, keys=(), sign="__op"), batch(told))
        assert Counter(views.query('SELECT k, n FROM "v-1"')[1]) == +held


def test_rows_replace_those_of_their_key_and_deleted_ones_vanish(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": "a", "n": 1}, {"k": "b", "n": 1}, {"k": None, "n": 1}]))
    changes: list[dict[str, Any]] = [
        {"k": "a", "n": None, "gone": True},
        {"k": None, "n": 2, "gone": False},
        {"k": "c", "n": 3, "gone": None},
    ]
    views.apply(epoch(1, deleted="gone"), batch(changes))
    assert rows(views) == [(None, 2), ("b", 1), ("c", 3)]


def test_without_keys_rows_are_appended(views: ViewStore) -> None:
    for number in range(2):
        views.apply(epoch(number, keys=()), batch([{"k": "a", "n": number}]))
    assert rows(views) == [("a", 0), ("a", 1)]


def test_rows_are_purged_when_their_time_is_over(views: ViewStore) -> None:
    for view, retention_ms in (("v-2", 1), ("v-3", 3_600_000)):
        views.create(view, KEYED, ["k"], retention_ms=retention_ms)
    for view in ("v-1", "v-2", "v-3"):
        views.apply(
            epoch(0).model_copy(update={"view": view}), batch([{"k": "a", "n": 1}, {"k": "b", "n": 2}])
        )
    assert views.query('SELECT k, n FROM "v-3" ORDER BY k')[1] == [("a", 1), ("b", 2)]
    until(lambda: views.purge() == 2, "the rows are old enough")
    assert views.query('SELECT count(*) FROM "v-2"')[1] == [(0,)]
    assert views.query('SELECT count(*) FROM "v-3"')[1] == [(2,)]
    assert len(rows(views)) == 2
    views.drop("v-2")
    assert views.purge() == 0


def test_what_a_join_gives_can_be_left_out_by_not_in(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": key, "n": 1} for key in ("a", "b")]))
    sql = 'SELECT DISTINCT l.k FROM "v-1" AS l FULL JOIN "v-1" AS r ON l.k = r.k WHERE l.k IS NOT NULL AND r.k NOT IN (SELECT k FROM "v-1")'
    assert views.query(sql)[1] == []


def test_an_epoch_is_applied_once(views: ViewStore) -> None:
    assert views.apply(epoch(5, keys=()), batch([{"k": "a", "n": 1}]))
    assert not views.apply(epoch(5, keys=()), batch([{"k": "a", "n": 1}]))
    assert not views.apply(epoch(4, keys=()), batch([{"k": "a", "n": 1}]))
    assert views.apply(epoch(0, keys=(), query="another"), batch([{"k": "b", "n": 1}]))
    assert rows(views) == [("a", 1), ("b", 1)]


def test_an_epoch_that_does_not_fit_leaves_nothing_and_may_come_again(views: ViewStore) -> None:
    with pytest.raises(InternalError):
        views.apply(epoch(0), batch([{"k": "a", "n": "not a number"}]))
    assert views.apply(epoch(0), batch([{"k": "a", "n": 1}]))
    assert rows(views) == [("a", 1)]


def test_a_dropped_view_is_gone_with_its_epochs(views: ViewStore) -> None:
    views.apply(epoch(7), batch([{"k": "a", "n": 1}]))
    views.drop("v-1")
    with pytest.raises(InternalError):
        views.apply(epoch(8), batch([{"k": "a", "n": 1}]))
    views.create("v-1", KEYED, ["k"])
    assert views.apply(epoch(0), batch([{"k": "a", "n": 1}]))


def test_views_that_nobody_knows_are_dropped(views: ViewStore) -> None:
    views.create("v-2", KEYED, [])
    views.retain({"v-1"})
    assert rows(views) == []
    with pytest.raises(HeadraceError):
        views.query('SELECT * FROM "v-2"')


def test_readers_see_whole_epochs_while_they_are_written(views: ViewStore) -> None:
    seen: set[int] = set()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            seen.add(len({row[1] for row in rows(views)}))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        views.apply(epoch(number), batch([{"k": str(key), "n": number} for key in range(200)]))
    ended.set()
    reader.join()
    assert seen <= {0, 1}


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
    views = DuckDbViews(tmp_path / "views.duckdb")
    views.create("v", [Column(name="c", type=kind)], [])
    found = views.query("SELECT data_type FROM duckdb_columns() WHERE table_name = 'v'")[1]
    assert found == [(expected,)]


def test_times_are_kept_in_utc_at_any_depth(tmp_path: Path) -> None:
    views = DuckDbViews(tmp_path / "views.duckdb")
    views.create(
        "v-1",
        [Column(name="t", type="TIMESTAMP_LTZ"), Column(name="s", type="STRUCT<l ARRAY<TIMESTAMP>>")],
        [],
    )
    zoned = pyarrow.timestamp("us", "Asia/Tokyo")
    schema = pyarrow.schema([("t", zoned), ("s", pyarrow.struct([("l", pyarrow.list_(zoned))]))])
    moment = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    views.apply(epoch(0, keys=()), batch([{"t": moment, "s": {"l": [moment]}}], schema))
    plain = moment.replace(tzinfo=None)
    assert views.query('SELECT * FROM "v-1"')[1] == [(plain, {"l": [plain]})]


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
        views.query(sql.format(file=file))


_WRITER = """
import sys
from pathlib import Path
from tests.unit.engine.test_views import KEYED, DuckDbViews, batch, epoch
views = DuckDbViews(Path(sys.argv[1]))
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
    views = DuckDbViews(file)
    epochs = views.query('SELECT n, count(*) FROM "v-1" GROUP BY n ORDER BY n')[1]
    assert len(epochs) > acknowledged
    assert epochs == [(number, 10) for number in range(len(epochs))]
    assert not views.apply(epoch(len(epochs) - 1, keys=()), batch([{"k": "x", "n": 1}]))


def test_a_value_that_cannot_be_cast_is_named_without_the_sql_that_was_made(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": "ink", "n": 1}]))
    with pytest.raises(UserError) as caught:
        views.query('SELECT CAST(k AS INTEGER) FROM "v-1"')
    assert caught.value.state is SqlState.DATA_EXCEPTION
    assert "could not convert string 'ink'" in caught.value.message
    assert "SELECT" not in caught.value.message
    assert "TRY_CAST" in (caught.value.hint or "")


def test_a_query_that_takes_too_long_is_ended(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": str(n), "n": n} for n in range(3000)]))
    with pytest.raises(HeadraceError) as failure:
        views.query(ENDLESS, timeout_s=0.3)
    assert failure.value.state is SqlState.TIMEOUT
    assert views.query('SELECT COUNT(*) FROM "v-1"')[1] == [(3000,)]


async def test_endless_queries_of_all_readers_hold_up_nobody_else(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": str(n), "n": n} for n in range(3000)]))
    loop = asyncio.get_running_loop()
    endless = [
        loop.run_in_executor(views.readers, functools.partial(views.query, ENDLESS, timeout_s=20.0))
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


def test_a_result_has_a_largest_number_of_rows(tmp_path: Path) -> None:
    views = DuckDbViews(tmp_path / "views.duckdb", rows_max=3)
    views.create("v-1", KEYED, ["k"])
    views.apply(epoch(0), batch([{"k": str(n), "n": n} for n in range(4)]))
    assert len(views.query('SELECT * FROM "v-1" LIMIT 3')[1]) == 3
    with pytest.raises(UserError) as failure:
        views.query('SELECT * FROM "v-1"')
    assert failure.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert "LIMIT 3" in (failure.value.hint or "")


@pytest.mark.parametrize(
    ("expression", "state", "said"),
    [
        ("n // 0", SqlState.DIVISION_BY_ZERO, "division by zero"),
        ("n + 9223372036854775807", SqlState.NUMERIC_VALUE_OUT_OF_RANGE, "out of the range of its type"),
        ("CAST(1000 * n AS TINYINT)", SqlState.NUMERIC_VALUE_OUT_OF_RANGE, "out of the range of its type"),
    ],
)
def test_arithmetic_that_fails_is_told_in_the_dialects_words(
    views: ViewStore, expression: str, state: SqlState, said: str
) -> None:
    views.apply(epoch(0), batch([{"k": "a", "n": 1}]))
    with pytest.raises(UserError) as caught:
        views.query(f'SELECT {expression} FROM "v-1"')
    assert caught.value.state is state
    assert said in caught.value.message
    assert "SET " not in caught.value.message
