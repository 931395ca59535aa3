"""Comparison of a plan with the plan of a savepoint: which part continues from which copied checkpoint, and can it? ADR 102."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.names import EntityPath
from headrace.planner import physical
from headrace.planner.physical import SparkPlan, Step
from headrace.planner.replacement import compare, content

_READS = (physical.ReadEntity, physical.ReadRows, physical.LookupJoin)
_WRITES = (physical.WriteEntity, physical.WriteRows)


@dataclass(frozen=True)
class Resumption:
    """The pairs of parts, of the earlier plan and of the new one, the ids of the earlier views by which the new ones are filled, and the
    reasons why the plan cannot continue."""

    parts: tuple[tuple[SparkPlan, SparkPlan], ...]
    views: Mapping[str, str] = field(default_factory=dict)
    obstacles: tuple[str, ...] = ()


def resumed(old: SparkPlan, new: SparkPlan) -> Resumption:
    """Compare two plans part by part. Parts belong together if their sinks have the same ids."""
    before, after = ({_sinks(part): part for part in plan.parts()} for plan in (old, new))
    views: dict[str, str] = {}
    if before.keys() != after.keys():
        return Resumption((), views, tuple(_unpaired(before, after)))
    parts = tuple((before[sinks], after[sinks]) for sinks in after)
    obstacles: list[str] = []
    for earlier, later in parts:
        obstacles += compare(earlier, later, same_sink=False).obstacles
        known = {sink.id: sink for sink in earlier.sinks}
        for sink in later.sinks:
            if isinstance(sink, physical.WriteView):
                written = known[sink.id]
                if not isinstance(written, physical.WriteView):
                    obstacles.append("it wrote no materialized view, and so has no rows of one")
                    continue
                views[written.view] = sink.view
                if _statement(earlier, sink.id) != _statement(later, sink.id):
                    obstacles.append("the rows of the materialized view are of another statement")
    return Resumption(parts, views, tuple(dict.fromkeys(obstacles)))


def names_of_parts(plan: SparkPlan) -> list[str]:
    """Return the names of the queries in the plan of an application, in their order."""
    return [sink.id.removeprefix("sink_") for sink in plan.sinks]


def read_of_its_own(plan: SparkPlan) -> list[EntityPath]:
    """Return the entities that a plan both writes and reads."""
    written = {(step.store, tuple(step.entity)) for step in plan.steps if isinstance(step, _WRITES)}
    read = {(step.store, tuple(step.entity)) for step in plan.steps if isinstance(step, _READS)}
    return sorted(entity for _, entity in written & read)


def _sinks(part: SparkPlan) -> frozenset[str]:
    return frozenset(sink.id for sink in part.sinks)


def _unpaired(
    before: Mapping[frozenset[str], SparkPlan], after: Mapping[frozenset[str], SparkPlan]
) -> Iterator[str]:
    for problem, parts in (
        ("it has no state of", after.keys() - before.keys()),
        ("the statement lacks", before.keys() - after.keys()),
    ):
        if parts:
            named = " and ".join(sorted(", ".join(sorted(sinks)) for sinks in parts))
            yield f"{problem} the queries of {named}"


def _statement(plan: SparkPlan, sink: str) -> list[dict[str, Any]]:
    """Return the steps that compute the rows of a view."""

    def plain(step: Step) -> dict[str, Any]:
        return {name: value for name, value in content(step).items() if name != "view"}

    return list(map(plain, plan.under(sink)))
