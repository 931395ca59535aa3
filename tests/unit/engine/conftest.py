"""An engine over a real catalog, and a fake driver in a separate process."""

from __future__ import annotations

import asyncio
import datetime
import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from harness.patience import PATIENCE_S
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import (
    ComputePool,
    PoolIntent,
    Query,
    QueryKind,
    QueryState,
    Relation,
    RelationKind,
    Store,
)
from headrace.core.names import RelationName
from headrace.core.schema import Schema
from headrace.core.settings import Settings
from headrace.engine.engine import Engine
from headrace.planner.physical import Column, ReadEntity, SparkPlan, WriteEntity, WriteResults, WriteView

FAKE_DRIVER = Path(__file__).with_name("fake_driver.py")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SOURCE, SINK = (RelationName("bench", "public", name) for name in ("in", "out"))


def plan(entity: str, *, sink: str = "entity", view: str = "", bounded: bool = False) -> SparkPlan:
    """Return a plan whose first entity selects the behaviour of the fake driver."""
    read = ReadEntity(id="s1", store="store_1", connector="kafka", entity=(entity,))
    if sink == "results":
        return SparkPlan(
            steps=[read, WriteResults(id="s2", input="s1", columns=[Column(name="n", type="VARCHAR")])],
            outputs=["s2"],
        )
    if sink == "view":
        columns = [Column(name="k", type="VARCHAR"), Column(name="n", type="BIGINT")]
        return SparkPlan(
            steps=[read, WriteView(id="s2", input="s1", view=view, columns=columns, key_columns=["k"])],
            outputs=["s2"],
        )
    write = WriteEntity(id="s2", input="s1", store="store_1", connector="kafka", entity=("out",))
    return SparkPlan(steps=[read, write], outputs=["s2"], bounded=bounded)


def whole_lines(file: Path) -> list[str]:
    """Return the lines of a file that another process writes, without the one that is half written."""
    return file.read_text().rpartition("\n")[0].splitlines()


class Bench:
    """A data directory, and the engines that run over it one after the other."""

    def __init__(self, folder: Path, catalog_url: str | None = None) -> None:
        self.folder = folder
        self.journal_file = folder / "journal"
        table = pyarrow.table({"k": ["a", "b"], "n": [1, 2]})
        with pyarrow.ipc.new_stream(folder / "epoch.arrow", table.schema) as out:
            out.write_table(table)
        self.catalog = Catalog.open(folder, catalog_url)
        self.catalog.create_store(Store("store_1", "kafka", "sysadmin", NOW, NOW, {"uris": "localhost:1"}))
        self.catalog.create_database(SINK.database, "sysadmin")
        for name in (SOURCE, SINK):
            self.relation(name.name)
        self.settings = Settings(
            data_dir=folder,
            reconcile_interval_ms=50,
            restart_backoff_ms=100,
            restart_backoff_max_ms=1000,
            result_channel_rows_max=30,
            interactive_queries_max=2,
        )
        self.engine = self.new_engine()

    def new_engine(self) -> Engine:
        command = (sys.executable, str(FAKE_DRIVER), "--journal", str(self.journal_file))
        return Engine(self.catalog, self.settings, driver_command=command)

    def configure(self, **changed: object) -> None:
        """Replace the engine, which has not been started, with one of other settings."""
        self.engine.views.close()
        self.settings = self.settings.model_copy(update=changed)
        self.engine = self.new_engine()

    def relation(self, name: str) -> Relation:
        """Return a new stream."""
        relation = Relation(
            replace(SINK, name=name), RelationKind.STREAM, Schema(()), "sysadmin", NOW, NOW, store="store_1"
        )
        self.catalog.create_relation(relation)
        return relation

    def pool(self, name: str, **options: Any) -> ComputePool:
        """Create a compute pool that should run."""
        self.catalog.create_compute_pool(ComputePool(name, "small", "sysadmin", NOW, NOW, **options))
        self.engine.wake()
        return self.stored_pool(name)

    def stored_pool(self, name: str) -> ComputePool:
        pool = self.catalog.compute_pool(name)
        assert pool is not None
        return pool

    def want(self, name: str, state: PoolIntent) -> None:
        """Set the desired state as START and STOP do."""
        self.catalog.update_compute_pool(replace(self.stored_pool(name), desired_state=state))
        self.engine.rouse_pool(name)

    async def until_pool(self, name: str, state: str) -> None:
        await self.until(lambda: self.engine.pool_state(name)[0] == state)

    def query(
        self,
        entity: str,
        *,
        pool: str | None = None,
        writes: RelationName = SINK,
        state: QueryState = QueryState.STARTING,
        since: datetime.datetime = NOW,
        **options: Any,
    ) -> str:
        """Create a continuous query that should run, and return its id."""
        query_id = str(uuid.uuid4())
        self.catalog.create_query(
            Query(
                id=query_id,
                name=None,
                version=1,
                kind=QueryKind.INSERT_INTO,
                sql="INSERT …",
                plan=plan(entity, **options).to_json(),
                sink=writes,
                sources=(SOURCE,),
                compute_pool=pool or self.catalog.default_compute_pool,
                actual_state=state,
                owner="sysadmin",
                created_at=NOW,
                updated_at=since,
            )
        )
        self.engine.wake()
        return query_id

    def stored_query(self, query_id: str) -> Query:
        query = self.catalog.query(query_id)
        assert query is not None
        return query

    def history(self, query_id: str) -> list[QueryState]:
        return [state for _, state, _ in self.catalog.query_events(query_id)]

    def journal(self, kind: str, query_id: str | None = None) -> list[dict[str, Any]]:
        """Return the messages to the fake drivers."""
        if not self.journal_file.exists():
            return []
        lines = [json.loads(line) for line in whole_lines(self.journal_file)]
        return [line for line in lines if line["type"] == kind and query_id in (None, line.get("id"))]

    def end_silence(self) -> None:
        """Let the fake drivers' stores answer."""
        self.journal_file.with_name("answers").touch()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.02)

    async def until_state(self, query_id: str, state: QueryState) -> None:
        await self.until(lambda: self.stored_query(query_id).actual_state is state)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.engine.stop()
    bench.catalog.close()
