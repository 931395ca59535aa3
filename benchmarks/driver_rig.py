"""A driver without a server, for measurements that need a setting without a statement: another batch size.

It runs the server's plan of a query, so that two runs only differ in the compared setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from benchmarks.records import PARTITIONS
from benchmarks.rig import Rig
from headrace.planner.physical import SparkPlan, WriteEntity
from headrace.testing.processes import running_after
from tests.driver.control import DriverControl

RECORDS_PER_BATCH = 50_000
Guarantee = Literal["at_least_once", "exactly_once"]


class DriverRig:
    """A driver that reads `RECORDS_PER_BATCH` records a batch, with further `options`."""

    def __init__(self, rig: Rig, environment: dict[str, str] | None = None, **options: Any) -> None:
        self._rig = rig
        self._driver = DriverControl(
            rig.folder / rig.name("driver"),
            environment=environment,
            **{"records_per_batch": RECORDS_PER_BATCH, "driver_memory_mb": 2048, **options},
        )

    def close(self) -> None:
        """End the driver."""
        processes = self._driver.processes()
        self._driver.close()
        running_after(processes, 60)

    def cpu_s(self) -> float:
        """Return the processor time of the driver's processes so far, without executors of a cluster."""
        times = [each.cpu_times() for each in self._driver.processes()]
        return float(sum(time.user + time.system for time in times))

    @contextmanager
    def running(
        self, plan: SparkPlan, topic: str, guarantee: Guarantee, *, partitions: int = PARTITIONS
    ) -> Iterator[Path]:
        """Run a plan in micro-batches into a separate topic; yield its checkpoint, and stop it at the end."""
        self._rig.kafka.create(topic, partitions=partitions)
        store = {"uris": self._rig.bootstrap, "tls.disabled": "TRUE"}
        last = plan.sink
        if not isinstance(last, WriteEntity):
            raise TypeError(f"expected a plan that writes an entity, found {last.step}")
        changed = last.model_copy(update={"entity": (topic,), "guarantee": guarantee})
        plan = plan.model_copy(
            update={"mode": "micro_batch", "output_mode": "append", "steps": [*plan.steps[:-1], changed]}
        )
        checkpoint = self._rig.folder / f"checkpoint-{topic}"
        query = self._driver.start(plan, checkpoint=checkpoint, stores={changed.store: store})
        self._driver.started(query)
        try:
            yield checkpoint
        finally:
            self._driver.stop(query)


def plan_of(rig: Rig, sql: str) -> SparkPlan:
    """Return the server's plan of a continuous query, and terminate the query."""
    query = rig.start(sql)
    plan = rig.plan(query)
    rig.terminate(query)
    return plan
