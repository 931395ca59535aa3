"""Common promises of the stores of materialized views: in the data directory and in ClickHouse."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from harness.clickhouse import PASSWORD, USER, ClickHouseServer
from harness.epochs import KEYED, VIEW, batch, epoch
from harness.patience import PATIENCE_S, until
from headrace.core.errors import HeadraceError, InternalError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.functions.runtime import FunctionRuntime
from headrace.engine.views.backup import CopiedView, new_copy
from headrace.engine.views.opening import open_views
from headrace.engine.views.store import ViewStore
from headrace.planner.physical import Column, UserFunction
from headrace.planner.view_reads import Condition, ViewRead

ENDLESS = 'SELECT COUNT(*) FROM "v-1" a, "v-1" b, "v-1" c WHERE (a.n * b.n + c.n) % 7 = 3'
Open = Callable[..., ViewStore]


def settings_of(server: ClickHouseServer, database: str, folder: Path, **more: Any) -> Settings:
    user = USER.replace(" ", "%20")
    address = f"clickhouse+http://{user}@127.0.0.1:{server.port}/{database}"
    return Settings(data_dir=folder, views=address, views_password=PASSWORD, **more)


@pytest.fixture(params=["duckdb", "clickhouse"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, seed: str) -> Iterator[Open]:
    """Open the store once, with a view of the columns k and n, by default with the key k."""
    stores: list[ViewStore] = []

    def open_(key: tuple[str, ...] = ("k",), *, retention_ms: int | None = None, **more: Any) -> ViewStore:
        if request.param == "clickhouse":
            server = request.getfixturevalue("clickhouse")
            server.execute(f"CREATE DATABASE IF NOT EXISTS views_{seed}")
            settings = settings_of(server, f"views_{seed}", tmp_path, **more)
        else:
            settings = Settings(data_dir=tmp_path, **more)
        store = open_views(settings, owner="catalog")
        stores.append(store)
        store.create(VIEW, KEYED, key, retention_ms=retention_ms)
        return store

    yield open_
    for store in stores:
        store.close()


@pytest.fixture
def views(opened: Open) -> ViewStore:
    return opened()


def ask(views: ViewStore, sql: str, timeout_s: float = 60.0) -> list[tuple[Any, ...]]:
    """The answer to a query that takes all of the views in it."""
    reads = [ViewRead(name) for name in dict.fromkeys(re.findall(r'"(v-\d)"', sql))]
    return views.query(sql, timeout_s, reads=reads)[1]


def rows(views: ViewStore) -> list[tuple[Any, ...]]:
    return ask(views, 'SELECT k, n FROM "v-1" ORDER BY k NULLS FIRST, n')


def copy_view(views: ViewStore, view: str, path: Path) -> int:
    """Copy a view into a file, and return its last epoch."""
    with closing(views.snapshot(view)) as snapshot, closing(new_copy(path)) as copied:
        assert snapshot.copy(copied)
        return snapshot.epoch


@pytest.mark.parametrize("retention_ms", [None, 3_600_000])
def test_a_view_that_is_filled_with_a_copy_is_written_on_by_another_query(
    opened: Open, retention_ms: int | None, tmp_path: Path
) -> None:
    views = opened()
    assert copy_view(views, "v-1", tmp_path / "empty") == -1
    views.apply(epoch(7), batch([{"k": "a", "n": 1}, {"k": "b", "n": 1}, {"k": None, "n": 1}]))
    with closing(views.snapshot("v-1")) as snapshot, closing(new_copy(tmp_path / "copy")) as copied:
        views.apply(epoch(8), batch([{"k": "a", "n": 2}, {"k": "c", "n": 2}]))
        assert snapshot.epoch == 7
        snapshot.copy(copied)
    views.create("v-2", KEYED, ["k"], retention_ms=retention_ms)
    views.fill("v-2", CopiedView(tmp_path / "copy", "v-1"))
    ordered = 'SELECT k, n FROM "v-2" ORDER BY k NULLS FIRST'
    assert ask(views, ordered) == [(None, 1), ("a", 1), ("b", 1)]

    changes: list[dict[str, Any]] = [{"k": "a", "n": None, "gone": True}, {"k": None, "n": 5, "gone": False}]
    assert views.apply(epoch(8, deleted="gone", query="other", view="v-2"), batch(changes))
    assert not views.apply(epoch(8, deleted="gone", query="other", view="v-2"), batch(changes))
    assert ask(views, ordered) == [(None, 5), ("b", 1)]
    assert rows(views) == [(None, 1), ("a", 2), ("b", 1), ("c", 2)]


def test_copied_rows_without_a_key_are_taken_away_one_by_one(opened: Open, tmp_path: Path) -> None:
    views = opened(())
    views.apply(epoch(0, keys=()), batch([{"k": "a", "n": 1}] * 3 + [{"k": "b", "n": None}]))
    copy_view(views, "v-1", tmp_path / "copy")
    views.create("v-2", KEYED, [])
    views.fill("v-2", CopiedView(tmp_path / "copy", "v-1"))

    changes = [
        {"k": "a", "n": 1, "__op": -1},
        {"k": "b", "n": None, "__op": -1},
        {"k": "c", "n": 1, "__op": 1},
    ]
    views.apply(epoch(0, keys=(), sign="__op", query="other", view="v-2"), batch(changes))

    assert ask(views, 'SELECT k, n FROM "v-2" ORDER BY k') == [("a", 1), ("a", 1), ("c", 1)]
    assert len(rows(views)) == 4


def test_a_damaged_copy_is_refused(views: ViewStore, tmp_path: Path) -> None:
    copy_view(views, "v-1", tmp_path / "copy")
    views.create("v-2", KEYED, ["k"])
    for damaged, name in ((tmp_path / "copy", "v-9"), (tmp_path / "none", "v-1")):
        with pytest.raises(UserError) as caught:
            views.fill("v-2", CopiedView(damaged, name))
        assert caught.value.state is SqlState.DATA_CORRUPTED


@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_copy_of_one_store_fills_a_view_of_another(
    clickhouse: ClickHouseServer, tmp_path: Path, seed: str, key: tuple[str, ...]
) -> None:
    clickhouse.execute(f"CREATE DATABASE IF NOT EXISTS views_{seed}")
    written = [(str(n % 1000), n) for n in range(40_000)] if not key else [(str(n), n) for n in range(40_000)]
    with (
        closing(open_views(Settings(data_dir=tmp_path), owner="catalog")) as first,
        closing(
            open_views(settings_of(clickhouse, f"views_{seed}", tmp_path / "other"), owner="catalog")
        ) as second,
    ):
        for number, (origin, target) in enumerate(((first, second), (second, first))):
            view, filled = f"v-{number}", f"v-{number + 1}"
            if number == 0:
                origin.create(view, KEYED, key)
                origin.apply(epoch(0, view=view, keys=key), batch([{"k": k, "n": n} for k, n in written]))
            copy_view(origin, view, tmp_path / filled)
            target.create(filled, KEYED, key)
            target.fill(filled, CopiedView(tmp_path / filled, view))
            assert sorted(ask(target, f'SELECT k, n FROM "{filled}"')) == sorted(written)


@pytest.mark.parametrize("retention_ms", [None, 60_000])
def test_rows_without_a_key_come_and_go_one_by_one(opened: Open, retention_ms: int | None) -> None:
    views = opened((), retention_ms=retention_ms)
    held: Counter[tuple[Any, ...]] = Counter()
    drawn = random.Random(7)
    for number in range(10):
        changes = Counter({(k, n): drawn.randint(-2, 3) for k in ("a", "b", None) for n in (1, None)})
        changes = Counter({row: max(count, -held[row]) for row, count in changes.items()})
        held.update(changes)
        changed_rows = [
            {"k": k, "n": n, "__op": sign}
            for (k, n), count in changes.items()
            for sign in [1, -1] + [1 if count > 0 else -1] * abs(count)
        ]
        drawn.shuffle(changed_rows)
        views.apply(epoch(number, keys=(), sign="__op"), batch(changed_rows))
        assert Counter(rows(views)) == +held


def test_rows_replace_those_of_their_key_and_deleted_ones_vanish(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": "a", "n": 1}, {"k": "b", "n": 1}, {"k": None, "n": 1}]))
    changes: list[dict[str, Any]] = [
        {"k": "a", "n": None, "gone": True},
        {"k": None, "n": 2, "gone": False},
        {"k": "c", "n": 3, "gone": None},
    ]
    views.apply(epoch(1, deleted="gone"), batch(changes))
    assert rows(views) == [(None, 2), ("b", 1), ("c", 3)]
    views.apply(epoch(2, deleted="gone"), batch([{"k": "a", "n": 4, "gone": False}]))
    assert rows(views) == [(None, 2), ("a", 4), ("b", 1), ("c", 3)]


def test_without_keys_rows_are_appended(opened: Open) -> None:
    views = opened(())
    for number in range(2):
        views.apply(epoch(number, keys=()), batch([{"k": "a", "n": number}, {"k": "b", "n": 7}]))
    assert rows(views) == [("a", 0), ("a", 1), ("b", 7), ("b", 7)]


def test_rows_are_purged_when_their_time_is_over(views: ViewStore) -> None:
    for view, retention_ms in (("v-2", 1), ("v-3", 3_600_000)):
        views.create(view, KEYED, ["k"], retention_ms=retention_ms)
    for view in ("v-1", "v-2", "v-3"):
        views.apply(epoch(0, view=view), batch([{"k": "a", "n": 1}, {"k": "b", "n": 2}]))
    assert ask(views, 'SELECT k, n FROM "v-3" ORDER BY k') == [("a", 1), ("b", 2)]

    def purged() -> bool:
        views.purge()
        return ask(views, 'SELECT count(*) FROM "v-2"') == [(0,)]

    until(purged, "the rows are old enough")
    assert ask(views, 'SELECT count(*) FROM "v-3"') == [(2,)]
    assert len(rows(views)) == 2
    views.drop("v-2")
    assert views.purge() == 0


def test_what_a_join_gives_can_be_left_out_by_not_in(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": key, "n": 1} for key in ("a", "b")]))
    sql = 'SELECT DISTINCT l.k FROM "v-1" AS l FULL JOIN "v-1" AS r ON l.k = r.k WHERE l.k IS NOT NULL AND r.k NOT IN (SELECT k FROM "v-1")'
    assert ask(views, sql) == []


@pytest.mark.parametrize("key", [(), ("k",)])
def test_an_epoch_is_applied_once(opened: Open, key: tuple[str, ...]) -> None:
    views = opened(key)
    assert views.apply(epoch(5, keys=key), batch([{"k": "a", "n": 1}]))
    assert not views.apply(epoch(5, keys=key), batch([{"k": "a", "n": 2}]))
    assert not views.apply(epoch(4, keys=key), batch([{"k": "c", "n": 1}]))
    assert views.apply(epoch(0, keys=key, query="another"), batch([{"k": "b", "n": 1}]))
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


def test_views_that_nobody_knows_are_set_aside_and_then_dropped(views: ViewStore) -> None:
    views.create("v-2", KEYED, [])
    for days in (7, 7, -1):
        views.retain({"v-1"}, days=days)
        assert rows(views) == []
        with pytest.raises(HeadraceError):
            ask(views, 'SELECT * FROM "v-2"')


def test_readers_see_whole_epochs_while_they_are_written(views: ViewStore) -> None:
    seen: set[int] = set()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            seen.add(len({row[1] for row in rows(views)}))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20):
        views.apply(epoch(number), batch([{"k": str(key), "n": number} for key in range(200)]))
    ended.set()
    reader.join()
    assert seen <= {0, 1}


MOMENT = datetime.datetime(2026, 1, 1, 12, 0, 0, 123456)
DEEP = {"l": [MOMENT, None], "m": [("NULL", None), ("a'b, {\\x00}", 1.5)]}
VALUES: list[tuple[str, list[Any]]] = [
    ("BOOLEAN", [True, False, None]),
    ("TINYINT", [-128, 127, None]),
    ("BIGINT", [-(2**63), 2**63 - 1, None]),
    ("FLOAT", [1.5, float("-inf"), None]),
    ("DOUBLE", [0.1, float("inf"), -0.0, None]),
    ("DECIMAL(38, 18)", [decimal.Decimal("12345678901234567890.123456789012345678"), None]),
    ("DECIMAL(5, 2)", [decimal.Decimal("-999.99"), None]),
    ("DATE", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    ("TIMESTAMP(6)", [datetime.datetime(1, 1, 1), datetime.datetime.max, MOMENT, None]),
    ("TIMESTAMP_LTZ(3)", [MOMENT, None]),
    ("VARCHAR", ["", "NULL", "a\0b\t'\\\"\n", "é \U0001f600", None]),
    ("BYTES", [b"", bytes(range(256)), None]),
    ("ARRAY<VARCHAR>", [[], [None], ["NULL", "", "a', [b"], None]),
    ("STRUCT<l ARRAY<TIMESTAMP>, m MAP<VARCHAR, DOUBLE>>", [DEEP, {"l": None, "m": None}, None]),
    ("ARRAY<STRUCT<a BYTES, b DATE>>", [[{"a": b"\x00'\\\xff", "b": datetime.date(1, 1, 1)}, None], None]),
]


@pytest.mark.parametrize("key", [(), ("i",), ("i", *(f"c{number}" for number in range(len(VALUES))))])
def test_every_value_comes_back_as_it_was(opened: Open, key: tuple[str, ...], tmp_path: Path) -> None:
    views = opened()
    columns = [
        Column(name="i", type="INTEGER"),
        *(Column(name=f"c{number}", type=kind) for number, (kind, _) in enumerate(VALUES)),
    ]
    zoned = pyarrow.timestamp("us", "Asia/Tokyo")
    plain = pyarrow.timestamp("us")
    deep = pyarrow.struct(
        [("l", pyarrow.list_(plain)), ("m", pyarrow.map_(pyarrow.string(), pyarrow.float64()))]
    )
    listed = pyarrow.list_(pyarrow.struct([("a", pyarrow.binary()), ("b", pyarrow.date32())]))
    kinds: list[Any] = [
        pyarrow.bool_(),
        pyarrow.int8(),
        pyarrow.int64(),
        pyarrow.float32(),
        pyarrow.float64(),
        pyarrow.decimal128(38, 18),
        pyarrow.decimal128(5, 2),
        pyarrow.date32(),
        plain,
        zoned,
        pyarrow.string(),
        pyarrow.binary(),
        pyarrow.list_(pyarrow.string()),
        deep,
        listed,
    ]
    longest = max(len(values) for _, values in VALUES)
    arrays = {"i": pyarrow.array(range(longest), pyarrow.int32())}
    for number, ((_, values), kind) in enumerate(zip(VALUES, kinds, strict=True)):
        padded = values + [None] * (longest - len(values))
        arrays[f"c{number}"] = pyarrow.array(padded, kind)
    table = pyarrow.table(arrays)
    buffer = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(buffer, table.schema) as out:
        out.write_table(table)
    views.create("v-2", columns, key)
    views.apply(epoch(0, view="v-2", keys=key), bytes(buffer.getvalue()))
    stored = ask(views, 'SELECT * FROM "v-2" ORDER BY i')
    views.create("v-3", columns, key)
    copy_view(views, "v-2", tmp_path / "copy")
    views.fill("v-3", CopiedView(tmp_path / "copy", "v-2"))
    assert list(map(repr, ask(views, 'SELECT * FROM "v-3" ORDER BY i'))) == list(map(repr, stored))
    expected = [column.to_pylist() for column in table.columns]
    expected[10] = [value and value.replace(tzinfo=None) - datetime.timedelta(0) for value in expected[10]]
    for number, column in enumerate(expected):
        got = [row[number] for row in stored]
        if number == 10:
            column = [value and value - datetime.timedelta(hours=9) for value in column]
        if number == 14:
            got = [value and {"l": value["l"], "m": value["m"] and list(value["m"].items())} for value in got]
        assert list(map(repr, got)) == list(map(repr, column)), columns[number]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition("n", "=", ("2",)), ["b"]),
        (Condition("n", "<>", ("2",)), ["a", "d"]),
        (Condition("n", "BETWEEN", ("2", "3")), ["b", "d"]),
        (Condition("n", "IN", ("1", "99999999999999999999")), ["a"]),
        (Condition("n", "IS NULL"), ["c\\'"]),
        (Condition("k", ">", ("b",)), ["c\\'", "d"]),
        (Condition("k", "=", ("c\\'",)), ["c\\'"]),
        (Condition("t", ">=", ("2026-01-02 12:00:00.5",)), ["c\\'", "d"]),
        (Condition("d", "<", ("2026-01-02",)), ["a"]),
    ],
)
def test_a_condition_leaves_out_no_row_that_counts(
    opened: Open, condition: Condition, expected: list[str]
) -> None:
    views = opened()
    types = {"k": "VARCHAR", "n": "BIGINT", "t": "TIMESTAMP(3)", "d": "DATE"}
    views.create("v-2", [Column(name=name, type=kind) for name, kind in types.items()], ["k"])
    day = datetime.datetime(2026, 1, 1)
    written = [
        {
            "k": k,
            "n": n,
            "t": day + days * datetime.timedelta(hours=36),
            "d": (day + days * datetime.timedelta(days=1)).date(),
        }
        for days, (k, n) in enumerate((("a", 1), ("b", 2), ("c\\'", None), ("d", 3)))
    ]
    views.apply(epoch(0, view="v-2"), batch(written))
    values = ", ".join(
        f"'{value.replace(chr(39), chr(39) * 2)}'" if condition.column != "n" else value
        for value in condition.values
    )
    tail = {"BETWEEN": " AND ".join(condition.values), "IN": f"({values})"}.get(condition.operator, values)
    sql = f'SELECT k FROM "v-2" WHERE {condition.column} {condition.operator} {tail} ORDER BY k'
    reads = [ViewRead("v-2", ("k", condition.column), (condition,))]
    assert views.query(sql, PATIENCE_S, reads=reads)[1] == [(k,) for k in expected]


def test_a_value_that_cannot_be_cast_is_named_without_the_sql_that_was_made(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": "ink", "n": 1}]))
    with pytest.raises(UserError) as caught:
        ask(views, 'SELECT CAST(k AS INTEGER) FROM "v-1"')
    assert caught.value.state is SqlState.DATA_EXCEPTION
    assert "could not convert string 'ink'" in caught.value.message.lower()
    assert "SELECT" not in caught.value.message
    assert "TRY_CAST" in (caught.value.hint or "")


def test_a_query_that_takes_too_long_is_ended(views: ViewStore) -> None:
    views.apply(epoch(0), batch([{"k": str(n), "n": n} for n in range(3000)]))
    with pytest.raises(HeadraceError) as failure:
        ask(views, ENDLESS, timeout_s=1.0)
    assert failure.value.state is SqlState.TIMEOUT
    assert ask(views, 'SELECT COUNT(*) FROM "v-1"') == [(3000,)]


def test_a_result_has_a_largest_number_of_rows(opened: Open) -> None:
    views = opened(snapshot_rows_max=3)
    views.apply(epoch(0), batch([{"k": str(n), "n": n} for n in range(4)]))
    assert len(ask(views, 'SELECT * FROM "v-1" LIMIT 3')) == 3
    with pytest.raises(UserError) as failure:
        ask(views, 'SELECT * FROM "v-1"')
    assert failure.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert "LIMIT 3" in (failure.value.hint or "")


def test_a_function_of_a_user_is_called_outside_of_the_store(views: ViewStore, tmp_path: Path) -> None:
    code = b"def twice(n):\n    return None if n is None else 2 * n\n"
    function = UserFunction(
        id="f1",
        signature="twice(BIGINT)",
        digest=hashlib.sha256(code).hexdigest(),
        language="python",
        class_name="twice",
        kind="scalar",
        parameters=["BIGINT"],
        arguments=["BIGINT"],
        result="BIGINT",
    )
    views.apply(epoch(0), batch([{"k": "a", "n": 1}, {"k": "b", "n": None}, {"k": "c", "n": 3}]))
    settings = Settings(data_dir=tmp_path / "runtime", functions_timeout_ms=int(PATIENCE_S * 1000))
    runtime = FunctionRuntime(settings, lambda _digest: code)
    with closing(runtime), runtime.lent([function], "role tester") as workers:
        sql = 'SELECT k, headrace_call_f1(n) FROM "v-1" WHERE headrace_call_f1(n) IS NULL OR headrace_call_f1(n) > 2 ORDER BY k'
        answer = views.query(sql, PATIENCE_S, reads=[ViewRead("v-1")], workers=workers)[1]
    assert answer == [("b", None), ("c", 6)]
