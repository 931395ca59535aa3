"""The number of partitions of a query's state, which a statement may name. ADR 97."""

from __future__ import annotations

from headrace.analyzer import properties as dialect
from headrace.analyzer.logical import QueryProperties
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.planner.branches import KEYED
from headrace.planner.physical import SparkPlan


def with_state_partitions(plan: SparkPlan, properties: QueryProperties) -> SparkPlan:
    """Return the plan with the number of partitions that the properties name. Raises UserError 0A000 if it keeps no state."""
    if properties.state_partitions is None:
        return plan
    if not plan.groupings and not any(isinstance(step, KEYED) for step in plan.steps):
        raise without_state(properties)
    return plan.model_copy(update={"state_partitions": properties.state_partitions})


def without_state(properties: QueryProperties) -> UserError:
    """Return the error for a query that keeps no state."""
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"'{dialect.STATE_PARTITIONS.name}' requires a query that keeps state, such as a GROUP BY or a join; this one keeps none",
        hint="Leave it out: the partitions of the sources decide how many tasks such a query has.",
        span=properties.state_partitions_span,
    )
