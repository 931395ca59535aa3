"""OPTIMIZE ENTITY: the checkpoints of which queries its driver is to read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.session import NOW, Session
from headrace.catalog.objects import ComputePool, Store
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.engine.pool_properties import CHECKPOINTS, EXECUTORS, MASTER
from headrace.planner.physical import OptimizeEntity, SparkPlan

COPY = "INSERT INTO shop.public.orders SELECT n FROM lab.tests.orders QUERY WITH ('query.name' = copied)"
OPTIMIZE = "OPTIMIZE ENTITY s.t IN STORE lake WITH ('iceberg.snapshot.retention.ms' = 0)"


async def test_a_missing_folder_is_read_if_queries_have_their_checkpoints_there(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver that runs the statement then refuses it, unless it has the folder."""
    mount, plans = tmp_path / "mount", list[SparkPlan]()
    place = str(mount / session.catalog.organization().id)

    async def run_interactive(plan: SparkPlan, *_: object, **_named: object) -> Any:
        plans.append(plan)
        raise ExternalError(SqlState.REMOTE_UNAVAILABLE, "there is no driver")

    async def checkpoints() -> tuple[list[str], list[str]]:
        with pytest.raises(ExternalError, match="there is no driver"):
            await session.run(OPTIMIZE)
        (step,) = plans.pop().steps
        assert isinstance(step, OptimizeEntity)
        return step.checkpoints, step.queries

    monkeypatch.setattr(session.engine, "run_interactive", run_interactive)
    session.catalog.create_store(
        Store("lake", "iceberg_rest", "sysadmin", NOW, NOW, {"uris": "http://localhost:1"})
    )
    properties = {MASTER.name: "spark://m:7077", EXECUTORS.name: "1", CHECKPOINTS.name: f"file:{mount}"}
    session.catalog.create_compute_pool(
        ComputePool("far", "small", "sysadmin", NOW, NOW, properties=properties)
    )
    await session.run(COPY)
    copied = session.catalog.query_by_name("copied")
    assert copied is not None
    assert await checkpoints() == ([], [copied.id])
    session.catalog.create_query(replace(copied, id="far-away", name="other", compute_pool="far"))
    assert await checkpoints() == ([place], [copied.id, "far-away"])
