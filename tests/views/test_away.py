"""A ClickHouse with the views of a server stops and starts again."""

from __future__ import annotations

import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.clickhouse import PASSWORD, ClickHouseServer
from harness.epochs import KEYED, VIEW, batch, epoch
from headrace.catalog.objects import QueryState
from headrace.core.errors import ExternalError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.views.opening import open_views
from headrace.planner.view_reads import ViewRead
from tests.unit.engine.conftest import Bench
from tests.views.test_stores import ask, settings_of


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ClickHouseServer]:
    folder = tmp_path / "clickhouse"
    folder.mkdir()
    with ClickHouseServer(folder) as server:
        server.execute("CREATE DATABASE mine")
        yield server


@pytest.fixture
async def bench(tmp_path: Path, server: ClickHouseServer) -> AsyncIterator[Bench]:
    """An engine over a ClickHouse that is not there when it starts."""
    bench = Bench(tmp_path)
    bench.engine.views.close()
    given = settings_of(server, "mine", tmp_path)
    update = {"views": given.views, "views_password": given.views_password}
    bench.settings = bench.settings.model_copy(update=update)
    bench.engine = bench.new_engine()
    yield bench
    await bench.engine.stop()
    bench.catalog.close()


async def test_a_query_waits_while_its_view_cannot_be_written_and_goes_on(
    bench: Bench, server: ClickHouseServer
) -> None:
    view = str(uuid.uuid4())
    bench.engine.views.create(view, KEYED, ["k"])
    server.stop()
    await bench.engine.start()
    query = bench.query("view", sink="view", view=view)
    await bench.until(lambda: "did not answer as ClickHouse" in (bench.stored_query(query).message or ""))
    stored = bench.stored_query(query)
    assert (stored.actual_state, stored.sqlstate, stored.restarts) == (QueryState.RESTARTING, "57015", 0)
    for refused in (
        lambda: bench.engine.views.query(f'SELECT * FROM "{view}"', reads=[ViewRead(view)]),
        lambda: bench.engine.views.create(str(uuid.uuid4()), KEYED, []),
    ):
        with pytest.raises(ExternalError) as caught:
            refused()
        assert caught.value.state is SqlState.REMOTE_UNAVAILABLE
        assert PASSWORD not in caught.value.text() + (stored.message or "")
    server.start()
    await bench.until(lambda: bench.journal("ack"))
    assert bench.journal("ack")[0]["error"] is None
    await bench.until_state(query, QueryState.RUNNING)
    assert len(bench.journal("start", query)) == 1
    read = [ViewRead(view)]
    assert bench.engine.views.query(f'SELECT k, n FROM "{view}" ORDER BY k', reads=read)[1] == [
        ("a", 1),
        ("b", 2),
    ]


async def test_a_view_that_is_dropped_meanwhile_is_gone_afterwards(
    bench: Bench, server: ClickHouseServer
) -> None:
    bench.engine.views.create(VIEW, KEYED, ["k"])
    server.stop()
    bench.engine.views.drop(VIEW)
    server.start()
    bench.engine.views.purge()
    assert server.execute("SELECT count() FROM system.tables WHERE database = 'mine'") == [(0,)]


@pytest.mark.parametrize("key", [("k",), ()])
def test_a_clickhouse_that_is_killed_keeps_whole_epochs(
    server: ClickHouseServer, tmp_path: Path, key: tuple[str, ...]
) -> None:
    settings = settings_of(server, "mine", tmp_path)
    views = open_views(settings, owner="catalog")
    views.create(VIEW, KEYED, key)
    acknowledged = -1

    def write() -> None:
        nonlocal acknowledged
        with suppress(ExternalError):
            for number in range(100_000):
                rows = [{"k": f"{0 if key else number}-{row}", "n": number} for row in range(1000)]
                views.apply(epoch(number, keys=key), batch(rows))
                acknowledged = number

    writer = threading.Thread(target=write)
    writer.start()
    while acknowledged < 4:
        assert writer.is_alive()
    server.kill()
    writer.join()
    server.start()
    again = open_views(settings, owner="catalog")
    epochs = ask(again, 'SELECT n, count(*) FROM "v-1" GROUP BY n ORDER BY n')
    last = epochs[-1][0]
    assert last >= acknowledged
    assert epochs == [(number, 1000) for number in ((last,) if key else range(last + 1))]
    assert not again.apply(epoch(last, keys=key), batch([{"k": "x", "n": 1}]))
    assert again.apply(epoch(last + 1, keys=key), batch([{"k": "x", "n": 1}]))
    for store in (views, again):
        store.close()


def test_tables_of_others_stay(server: ClickHouseServer, tmp_path: Path) -> None:
    settings = settings_of(server, "mine", tmp_path)
    mine, other = open_views(settings, owner="mine"), open_views(settings, owner="other")
    server.execute("CREATE TABLE mine.own (a Int8) ENGINE = Memory COMMENT '{\"a\": 1}'")
    mine.create("v-1", KEYED, [])
    other.create("v-2", KEYED, [])
    mine.retain(set(), days=7)
    assert server.execute("SELECT substring(name, -3) FROM system.tables WHERE name LIKE 'aside%'") == [
        ("v-1",)
    ]
    mine.retain(set(), days=7)
    mine.retain(set(), days=-1)
    tables = server.execute("SELECT name FROM system.tables WHERE database = 'mine' ORDER BY name")
    assert tables == [("own",), ("v-2",)]
    for store in (mine, other):
        store.close()


def test_rows_of_ended_keys_are_taken_out_when_there_are_many(
    server: ClickHouseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.views.clickhouse.DEAD_ROWS_MAX", 10)
    views = open_views(settings_of(server, "mine", tmp_path), owner="catalog")
    views.create(VIEW, KEYED, ["k"])
    for number, gone in enumerate((False, True)):
        rows = [{"k": str(key), "n": key, "gone": gone and key > 0} for key in range(100)]
        views.apply(epoch(number, deleted="gone"), batch(rows))
    views.purge()
    views.close()
    assert server.execute(f"SELECT count() FROM mine.`{VIEW}`") == [(2,)]
    settings = settings_of(server, "mine", tmp_path)
    again = open_views(settings, owner="catalog")
    assert ask(again, 'SELECT k FROM "v-1"') == [("0",)]
    assert not again.apply(epoch(1, deleted="gone"), batch([{"k": "1", "n": 1, "gone": False}]))
    again.close()


@pytest.mark.parametrize(
    "address",
    [
        "clickhouse://user:hunter2@host/db",
        "clickhouse://host/db",
        "clickhouse://user@host",
        "postgresql://u@h/d",
        "clickhouse://u@h/d?secure=0",
    ],
)
def test_an_address_with_more_or_less_than_it_has_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        Settings(views=address)
    assert "hunter2" not in str(caught.value.errors(include_input=False))  # type: ignore[attr-defined]
