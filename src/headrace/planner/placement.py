"""Features that a target does not support yet: a table of rules over the steps of a plan.

A feature that becomes possible on a cluster is removed from the table, and nothing else changes. The rules are applied when a query is
planned, when its pool is to run elsewhere, and at each start, since the operator's settings may have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.connectors.registry import connector
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.formats.protobuf import Protobuf
from headrace.planner.physical import (
    AssignWatermark,
    DecodeRows,
    EncodeRows,
    LookupJoin,
    OptimizeEntity,
    ReadEntity,
    ReadRows,
    ReadTable,
    SparkPlan,
    WriteEntity,
    WriteRows,
)
from headrace.planner.target import Target


@dataclass(frozen=True)
class Rule:
    """A feature, what to do instead, and a predicate over plans that use it."""

    feature: str
    hint: str
    is_used: Callable[[SparkPlan], bool]


def _reads_elsewhere(plan: SparkPlan) -> bool:
    reads = [step for step in plan.steps if isinstance(step, ReadEntity | ReadRows | ReadTable)]
    return any(not connector(step.connector).on_clusters for step in reads)


def _writes_elsewhere(plan: SparkPlan) -> bool:
    writes = [step for step in plan.steps if isinstance(step, WriteEntity | WriteRows | OptimizeEntity)]
    return any(not connector(step.connector).on_clusters for step in writes)


def _uses_protobuf_registry(plan: SparkPlan) -> bool:
    """True if schemas come from a registry as .proto texts, which the driver's Python reads."""
    steps = [step for step in plan.steps if isinstance(step, DecodeRows | EncodeRows)]
    layouts = [layout for step in steps for layout in (step.value, step.key)]
    return any(isinstance(layout, Protobuf) and layout.registry is not None for layout in layouts)


def _times_patterns(plan: SparkPlan) -> bool:
    """True if a watermark follows the partitions of several topics: each process numbers these partitions by itself."""
    if not any(isinstance(step, AssignWatermark) for step in plan.steps):
        return False
    reads = [step for step in plan.steps if isinstance(step, ReadEntity)]
    return any(connector(step.connector).pattern(step.entity) is not None for step in reads)


CLUSTER_RULES = (
    Rule(
        "Protobuf with a schema registry",
        "Use a descriptor source, or another format.",
        _uses_protobuf_registry,
    ),
    Rule(
        "event time over several topics",
        "Read one topic, or use UNION ALL of several relations.",
        _times_patterns,
    ),
    Rule(
        "a table that is looked up",
        "Use a changelog of the table's rows, and join that.",
        lambda plan: any(isinstance(step, LookupJoin) for step in plan.steps),
    ),
    Rule(
        "a source whose tasks run Python", "Copy the rows to a topic, and read the topic.", _reads_elsewhere
    ),
    Rule(
        "a sink whose tasks run Python",
        "Write to a topic, and copy from there.",
        _writes_elsewhere,
    ),
    Rule("functions of users", "Use built-in functions.", lambda plan: bool(plan.functions)),
    Rule(
        "real-time mode",
        "Set 'execution.mode' = 'micro_batch'.",
        lambda plan: plan.mode == "real_time",
    ),
)
"""Features that do not run on a cluster. The last hint of each error is the same: a pool on the server's machine."""


def unsupported(plan: SparkPlan, target: Target) -> list[Rule]:
    """Return the rules for the features of a plan that its target does not support."""
    return [rule for rule in CLUSTER_RULES if rule.is_used(plan)] if target.is_cluster else []


def placed_on(plan: SparkPlan, target: Target, span: Span | None = None) -> SparkPlan:
    """Return the plan with its target. Raises UserError 0A000 with the features that the target does not support."""
    rules = unsupported(plan, target)
    if rules:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query cannot run on a Spark cluster yet, since it uses {', '.join(rule.feature for rule in rules)}",
            hint=f"{rules[0].hint} Or run the query in a compute pool on the server's machine.",
            span=span,
        )
    return plan.model_copy(update={"target": target})
