"""Interface of the surroundings of supervisor and interactive queries."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from headrace.catalog.catalog import Catalog
from headrace.connectors.checkpoint_bucket import SCHEME
from headrace.connectors.schema_registry.options import connection
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.pools import DriverProcess
from headrace.formats.known import registry_of
from headrace.planner.physical import DecodeRows, EncodeRows, OptimizeEntity, SparkPlan, StoreStep
from headrace.planner.target import Target


class Pools(Protocol):
    """The compute pools' processes; see `drivers.Drivers`."""

    def find(self, name: str) -> DriverProcess | None:
        """Return the process of a pool, if there is one."""
        ...

    def ensure(self, name: str) -> DriverProcess:
        """Return the process of a pool, started if it is not; `ready` tells if it accepts queries. Raises UserError 3D023, 3E004."""
        ...

    @property
    def is_awaiting(self) -> bool:
        """True while drivers of an earlier server are awaited: nobody knows yet which queries run."""
        ...

    def target(self, name: str) -> Target:
        """Return the target of the plans that run in a pool. Raises UserError 3D023, 3E004."""
        ...

    def keep(self, occupied: Collection[str]) -> None:
        """Start missing pools and end unused ones. Continuous queries run, or are to run, in the `occupied` pools."""
        ...


def stores_of(plan: SparkPlan, catalog: Catalog) -> dict[str, dict[str, str]]:
    """Return the properties (secrets included) of every store that `plan` names. Raises UserError 3D006 for one that was dropped."""
    names = {step.store for step in plan.steps if isinstance(step, StoreStep)}
    properties: dict[str, dict[str, str]] = {}
    for name in sorted(names):
        store = catalog.store(name)
        if store is None:
            raise UserError(
                SqlState.STORE_NOT_FOUND,
                f"the store {name!r} of the query no longer exists",
                hint="Create it again, then RESTART the query.",
            )
        properties[name] = dict(store.properties)
    return properties


def reads_buckets(plan: SparkPlan) -> bool:
    """Return True if a plan reads checkpoints of other queries in S3."""
    reading = (step for step in plan.steps if isinstance(step, OptimizeEntity))
    return any(place.startswith(SCHEME) for step in reading for place in step.checkpoints)


def registries_of(plan: SparkPlan, catalog: Catalog) -> dict[str, dict[str, str]]:
    """Return the connection properties of every schema registry that `plan` names. Raises UserError 3D009 for one that was dropped."""
    steps = [step for step in plan.steps if isinstance(step, DecodeRows | EncodeRows)]
    formats = [layout for step in steps for layout in (step.value, step.key)]
    connections: dict[str, dict[str, str]] = {}
    for name in sorted({name for layout in formats if (name := registry_of(layout))}):
        registry = catalog.schema_registry(name)
        if registry is None:
            raise UserError(
                SqlState.SCHEMA_REGISTRY_NOT_FOUND,
                f"the schema registry {name!r} of the query no longer exists",
                hint="Create it again, then RESTART the query.",
            )
        connections[name] = connection(registry.properties)
    return connections
