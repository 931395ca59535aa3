"""Operators that repeat the rows of touched keys, because rows derived from them have a time to live of their own."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.planner.physical import (
    ChangelogAggregate,
    ChangelogJoin,
    EncodeRows,
    Materialize,
    Normalize,
    SqlTransform,
    Step,
    TopN,
    inputs_of,
)

Touched = Normalize | Materialize | ChangelogAggregate | ChangelogJoin | TopN
"""Steps that free a key which is not touched. The state of other steps ends by the times of its rows."""


def repeating(steps: Sequence[Step]) -> frozenset[str]:
    """Return the ids of the steps whose rows reach a step with a time to live, or the records of a changelog, which another query
    may follow. Views and tables keep their rows without being reminded; results show changes only.

    It follows from the steps alone, so that stored plans need no upgrade.
    """
    reached: set[str] = set()
    for step in reversed(steps):
        keeps = isinstance(step, Touched) and step.state_ttl_ms > 0
        is_changelog = isinstance(step, EncodeRows) and step.deleted is not None
        if keeps or is_changelog or (isinstance(step, SqlTransform) and step.id in reached):
            reached.update(inputs_of(step))
    return frozenset(
        step.id
        for step in steps
        if isinstance(step, Touched) and step.state_ttl_ms > 0 and step.id in reached
    )
