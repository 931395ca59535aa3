"""The queries of an application as one plan. See docs/adr/0037.

Each query is planned as if it were alone, with ids that say whose a step is. What several of them read alike, row by row, is read and
decoded once: those queries then are one Spark query with several sinks, which takes its batches apart. All else runs beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.analyzer.logical import Filter, LogicalNode, Project, Scan, Subquery, Unnest, walk
from headrace.analyzer.plan import LogicalPlan
from headrace.connectors.registry import connector
from headrace.core.errors import InternalError
from headrace.planner import physical
from headrace.planner.lowering.context import unused
from headrace.planner.placement import placed_on
from headrace.planner.plan import Planner, Within, placed
from headrace.planner.rules import rewritten
from headrace.planner.sinks import EntitySink, TableSink, ViewSink
from headrace.planner.state import states
from headrace.planner.target import LOCAL, Target

_ROW_BY_ROW = (Scan, Filter, Project, Subquery, Unnest)
REASON = "micro-batch: the queries of an application share their sources, batch by batch"


@dataclass(frozen=True)
class Part:
    """A query of an application, and its sink."""

    logical: LogicalPlan
    sink: EntitySink | TableSink | ViewSink


@dataclass(frozen=True)
class Sharing:
    """A source that several queries read. The queries are named by their sinks."""

    scan: Scan
    parts: tuple[int, ...]


def plan_application(
    parts: Sequence[Part], target: Target = LOCAL, queries: Sequence[str] = ()
) -> physical.SparkPlan:
    """Return the plan of all the queries, with a sink for each, in their order. `queries` are their names in the ids of the steps, by
    default those of the relations that they write. Raises UserError as `plan_query`."""
    names: set[str] = set()
    shared: dict[int, str] = {}
    for shared_scan in sharing(parts):
        name = unused(f"shared_{shared_scan.scan.relation.name.name}", names)
        names |= {f"{what}_{name}" for what in ("read", "rows", "dead_letters")}
        shared |= dict.fromkeys(shared_scan.parts, name)
    plans = [
        Planner(
            rewritten(part.logical),
            part.sink,
            target,
            Within(queries[number] if queries else part.sink.relation.name, names, shared.get(number)),
        ).plan()
        for number, part in enumerate(parts)
    ]
    side_outputs = dict.fromkeys(output for plan in plans for output in plan.outputs[1:])
    plan = physical.SparkPlan(
        mode="micro_batch",
        reasons=[REASON],
        output_mode="append",
        steps=_merged(step for plan in plans for step in plan.steps),
        outputs=[*(plan.outputs[0] for plan in plans), *side_outputs],
        groupings=[grouping for plan in plans for grouping in plan.groupings or ()],
        functions=list({function.id: function for plan in plans for function in plan.functions}.values()),
    )
    return placed_on(plan, target)


def sharing(parts: Sequence[Part]) -> list[Sharing]:
    """Return the sources that more than one query reads alike and row by row."""
    readers: list[tuple[Scan, list[int]]] = []
    for number, part in enumerate(parts):
        scan = _only_source(part)
        if scan is None:
            continue
        alike = next((others for other, others in readers if _read_alike(other, scan)), None)
        if alike is None:
            readers.append((scan, [number]))
        else:
            alike.append(number)
    return [Sharing(scan, tuple(numbers)) for scan, numbers in readers if len(numbers) > 1]


def _only_source(part: Part) -> Scan | None:
    """Return the source that a query can share: its only one, if it keeps no state and writes it row by row."""
    sink = part.sink
    if isinstance(sink, TableSink):
        return None  # a store may take its time, and what a checkpoint keeps of a table is one table's
    if isinstance(sink, EntitySink):
        writes = connector(sink.connector).record_sink
        if writes is None or not writes.batches:
            return None
    operator = placed(part.logical, sink)
    nodes: list[LogicalNode] = list(walk(rewritten(part.logical).root))
    scans = [node for node in nodes if isinstance(node, Scan)]
    row_by_row = all(isinstance(node, _ROW_BY_ROW) for node in nodes)
    if len(scans) != 1 or not row_by_row or states(operator, part.logical.properties.state_ttl_ms):
        return None
    return scans[0]


def _read_alike(one: Scan, other: Scan) -> bool:
    return one.relation.name == other.relation.name and one.properties == other.properties


def _merged(steps: Iterable[physical.Step]) -> list[physical.Step]:
    """Return each step once; the steps of a shared source are joined."""
    merged: dict[str, physical.Step] = {}
    for step in steps:
        known = merged.get(step.id)
        merged[step.id] = step if known is None else _both(known, step)
    return list(merged.values())


_READS = physical.DecodeRows | physical.ReadRows


def _both(one: physical.Step, other: physical.Step) -> physical.Step:
    if isinstance(one, physical.DecodeRows) and isinstance(other, physical.DecodeRows):
        flags = ("carries_key", "headers")
        union = {flag: getattr(one, flag) or getattr(other, flag) for flag in flags}
        one, other = one.model_copy(update=union), other.model_copy(update=union)
    if (
        isinstance(one, _READS)
        and isinstance(other, _READS)
        and "terminate" in (one.on_function_error, other.on_function_error)
    ):
        # Only one of the queries calls functions of users.
        calling = other if one.on_function_error == "terminate" else one
        handling = {
            name: getattr(calling, name)
            for name in ("on_function_error", "carries_record")
            if hasattr(calling, name)
        }
        one, other = one.model_copy(update=handling), other.model_copy(update=handling)
    if one != other:
        raise InternalError(f"two different steps are called {one.id}")
    return one
