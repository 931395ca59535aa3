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
from headrace.planner.physical import (
    LookupJoin,
    OptimizeEntity,
    ReadEntity,
    ReadRows,
    ReadTable,
    SparkPlan,
    StoreStep,
    WriteEntity,
    WriteResults,
    WriteRows,
    WriteView,
)
from headrace.planner.target import Target


@dataclass(frozen=True)
class Rule:
    """A feature, what to do instead, and a predicate over plans that use it. `is_refused` is false of a target that supports it.

    `names` returns what a plan uses of it, if there are several things.
    """

    feature: str
    hint: str
    is_used: Callable[[SparkPlan], bool]
    is_refused: Callable[[Target], bool] = lambda _target: True
    names: Callable[[SparkPlan], list[str]] = lambda _plan: []

    def used_by(self, plan: SparkPlan) -> str:
        """Return the feature with the names of what a plan uses of it."""
        names = self.names(plan)
        return f"{self.feature} ({', '.join(names)})" if names else self.feature


def _reads_in_python(plan: SparkPlan) -> bool:
    reads = [step for step in plan.steps if isinstance(step, ReadEntity | ReadRows | ReadTable)]
    return any(connector(step.connector).on_clusters == "python" for step in reads)


def _writes_in_python(plan: SparkPlan) -> bool:
    writes = [step for step in plan.steps if isinstance(step, WriteEntity | WriteRows | OptimizeEntity)]
    return any(connector(step.connector).on_clusters == "python" for step in writes)


def _untested(plan: SparkPlan) -> list[str]:
    """Return the store types of a plan that were never tested on a cluster."""
    types = {step.connector for step in plan.steps if isinstance(step, StoreStep)}
    return sorted(connector(name).label for name in types if connector(name).on_clusters is None)


def _lacks_python(target: Target) -> bool:
    return not target.python


_WITH_PYTHON = (
    "The operator installs Headrace's Python on the workers, and sets HEADRACE_WORKER_PYTHON. Otherwise:"
)

CLUSTER_RULES = (
    Rule(
        "a table that is looked up",
        f"{_WITH_PYTHON} Use a changelog of the table's rows, and join that.",
        lambda plan: any(isinstance(step, LookupJoin) for step in plan.steps),
        _lacks_python,
    ),
    Rule(
        "a source whose tasks run Python",
        f"{_WITH_PYTHON} Copy the rows to a topic, and read the topic.",
        _reads_in_python,
        _lacks_python,
    ),
    Rule(
        "a sink whose tasks run Python",
        f"{_WITH_PYTHON} Write to a topic, and copy from there.",
        _writes_in_python,
        _lacks_python,
    ),
    Rule(
        "a store of a type that was never tested there",
        "Copy the rows through a topic.",
        lambda plan: bool(_untested(plan)),
        names=_untested,
    ),
    Rule(
        "a function of a user",
        f"{_WITH_PYTHON} Use built-in functions.",
        lambda plan: bool(plan.functions),
        _lacks_python,
    ),
    Rule(
        "real-time mode",
        "Set 'execution.mode' = 'micro_batch'.",
        lambda plan: plan.mode == "real_time",
    ),
)
"""Features that do not run on a cluster. The last hint of each error is the same: a pool on the server's machine."""


REMOTE_RULES = (
    Rule(
        "real-time mode",
        "Set 'execution.mode' = 'micro_batch'.",
        lambda plan: plan.mode == "real_time",
    ),
    Rule(
        "a materialized view, whose rows are in the server's data directory",
        "The operator sets HEADRACE_VIEWS. Or write a changelog.",
        lambda plan: any(isinstance(step, WriteView) for step in plan.sinks),
        lambda target: not target.outside_views,
    ),
)
"""Features of continuous queries that do not run with their checkpoints in S3."""


def unsupported(plan: SparkPlan, target: Target) -> list[Rule]:
    """Return the rules for the features of a plan that its target does not support."""
    rules = [
        rule
        for rule in (CLUSTER_RULES if target.is_cluster else ())
        if rule.is_refused(target) and rule.is_used(plan)
    ]
    # The checkpoint of an interactive query is worthless after its end, and so on the server's machine.
    if target.checkpoints == "s3" and not isinstance(plan.sink, WriteResults | OptimizeEntity):
        rules += [rule for rule in REMOTE_RULES if rule.is_refused(target) and rule.is_used(plan)]
    return rules


_WHERE = {True: "on a Spark cluster", False: "with its checkpoint in S3"}
_WHERE_ELSE = {True: "on the server's machine", False: "whose checkpoints are not in S3"}


def placed_on(plan: SparkPlan, target: Target, span: Span | None = None) -> SparkPlan:
    """Return the plan with its target. Raises UserError 0A000 with the features that the target does not support."""
    rules = unsupported(plan, target)
    if rules:
        of_cluster = rules[0] in CLUSTER_RULES
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query cannot run {_WHERE[of_cluster]} yet, since it uses {', '.join(rule.used_by(plan) for rule in rules)}",
            hint=f"{rules[0].hint} Or run the query in a compute pool {_WHERE_ELSE[of_cluster]}.",
            span=span,
        )
    return plan.model_copy(update={"target": target})
