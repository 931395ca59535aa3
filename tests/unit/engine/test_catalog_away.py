"""The engine while the catalog's database does not answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from harness.postgresql import PostgresServer
from headrace.catalog.objects import QueryState
from tests.unit.engine.conftest import Bench

END_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


async def test_changes_in_the_meantime_are_reported_afterwards(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "data").mkdir()
    with PostgresServer(tmp_path / "server", 16, wal_level="replica") as server:
        bench = Bench(tmp_path / "data", server.catalog_url())
        await bench.engine.start()
        query = bench.query("runs")
        await bench.until_state(query, QueryState.RUNNING)
        server.execute(END_OTHERS)
        server.stop()
        os.kill(bench.journal("ready")[0]["pid"], signal.SIGKILL)
        await bench.until(lambda: len(bench.journal("ready")) == 2)
        assert (bench.stored_query(query).actual_state, bench.stored_query(query).restarts) == (
            QueryState.RUNNING,
            0,
        )
        server.start()
        await bench.until(lambda: len(bench.journal("start", query)) == 2)
        await bench.until_state(query, QueryState.RUNNING)
        assert bench.stored_query(query).restarts == 1
        assert bench.history(query)[-3:] == [QueryState.RUNNING, QueryState.RESTARTING, QueryState.RUNNING]
        await bench.engine.stop()
        bench.catalog.close()
