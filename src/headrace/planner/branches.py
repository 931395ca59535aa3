"""Branches of a UNION ALL: a replacement may build some of them anew while the others continue. ADR 92.

In Spark's checkpoint, each source has a place in the list of offsets, and each operator with state has a number. Both follow from the plan:
the sources are in the order of the text, and the operators are numbered from the sink down.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from headrace.connectors.registry import connector
from headrace.planner import physical
from headrace.planner.physical import SparkPlan, Step, inputs_of

KEYED = (
    physical.TemporalJoin,
    physical.IntervalJoin,
    physical.Normalize,
    physical.Materialize,
    physical.ChangelogAggregate,
    physical.ChangelogJoin,
    physical.TopN,
    physical.MatchRecognize,
    physical.OverAggregate,
)
"""Steps with one operator of ours, which keeps state by key."""
STATEFUL = (*KEYED, physical.AssignWatermark, physical.Spool)
_UNION = re.compile(r"\n *UNION ALL\n")
"""The line between two SELECTs, which is indented where a SELECT reads the rows of the UNION ALL."""


@dataclass(frozen=True)
class Rebuild:
    """Continuation of a query of which some branches start anew: what of the old checkpoint the new one contains.

    `sources` has, for each source of the new plan, the place of its offset in the old list of `old_sources`; None for a source that starts.
    `entities` are the names of these sources' entities. Of the operators with state there were `old_operators`, and now there are
    `operators`: those of `kept_operators` keep their numbers and their state. `kept` are the ids of the steps of branches that continue.
    """

    sources: tuple[int | None, ...]
    old_sources: int
    entities: tuple[str, ...]
    operators: int
    old_operators: int
    kept_operators: frozenset[int]
    kept: frozenset[str]

    @property
    def is_whole(self) -> bool:
        """True if all branches continue."""
        return (
            self.sources == tuple(range(self.old_sources))
            and len(self.kept_operators) == self.operators == self.old_operators
        )


class NotApartError(Exception):
    """The branches of a plan cannot be rebuilt one by one; the text is the reason."""


def rebuild(old: SparkPlan, new: SparkPlan, kept: frozenset[str]) -> Rebuild:
    """Return how the new plan continues with the branches that are `kept` steps, and starts the others. Raises NotApartError."""
    _refuse_plans(old, new)
    before, after = _branches(old), _branches(new)
    continued = {bound for bound in after.keys() & before.keys() if kept.issuperset(bound)}
    if not continued:
        _refuse("no branch of the UNION ALL stays as it is")
    for branches in (before, after):
        changed = [step for bound, steps in branches.items() if bound not in continued for step in steps]
        if any(isinstance(step, physical.AssignWatermark) for step in changed):
            _refuse(
                "a branch that changes has a watermark, which is past the records that it would read again"
            )
    sources, old_sources = _sources(new), [step.id for step in _sources(old)]
    kept_steps = frozenset(step.id for bound in continued for step in after[bound])
    operators, old_operators = _operators(new), _operators(old)
    numbers = {name: number for number, name in enumerate(old_operators)}
    kept_operators = frozenset(number for number, name in enumerate(operators) if name in kept_steps)
    for number in kept_operators:
        if numbers[operators[number]] != number:
            _refuse(
                f"the number of operators with state before {operators[number]} changes, and Spark knows their state by number"
            )
    return Rebuild(
        sources=tuple(old_sources.index(step.id) if step.id in kept_steps else None for step in sources),
        old_sources=len(old_sources),
        entities=tuple(step.entity[0] for step in sources),
        operators=len(operators),
        old_operators=len(old_operators),
        kept_operators=kept_operators,
        kept=kept_steps,
    )


def _refuse(reason: str) -> NoReturn:
    raise NotApartError(reason)


def _refuse_plans(old: SparkPlan, new: SparkPlan) -> None:
    for plan in (old, new):
        if plan.mode != "micro_batch":
            _refuse("a query in real-time mode continues as a whole")
        if plan.groupings is None or plan.groupings:
            _refuse("the query has windows, which are aggregations of Spark's own")
        if plan.bounded or len(plan.sinks) != 1:
            _refuse("the query is not one that runs until it is stopped, with one sink")
        _refuse_sink(plan)
        steps = list(_down(plan, plan.sink))
        for name, count in Counter(step.id for step in steps).items():
            if count > 1:
                _refuse(f"several steps read the rows of {name}")
        for step in steps:
            if isinstance(step, physical.Spool) or (not inputs_of(step) and not _is_movable(step)):
                _refuse(f"the positions of the source {step.id} cannot be moved to another checkpoint")


def _is_movable(step: Step) -> bool:
    source = connector(step.connector).record_source if isinstance(step, physical.ReadEntity) else None
    return source is not None and source.movable_positions


def _refuse_sink(plan: SparkPlan) -> None:
    match plan.sink:
        case physical.WriteEntity(input=records):
            encode = plan.step(records)
            keyed = isinstance(encode, physical.EncodeRows) and encode.deleted is not None
        case physical.WriteRows(key_columns=keys):
            keyed = bool(keys)
        case _:
            _refuse("the sink contains the rows of all branches, and cannot remove those of one")
    if keyed:
        _refuse("the rows of different branches may have the same key in the sink")


def _branches(plan: SparkPlan) -> dict[tuple[str, ...], list[Step]]:
    """Return the steps of each branch of the UNION ALL by the ids of those that are bound to the checkpoint. Raises NotApartError."""
    step = plan.sink
    while len(inputs := inputs_of(step)) == 1:
        if isinstance(step, STATEFUL):
            _refuse(f"all rows pass the step {step.id}, which keeps state")
        step = plan.step(inputs[0])
    if not inputs:
        _refuse("the query has no UNION ALL")
    if not isinstance(step, physical.SqlTransform) or not _is_union(step):
        _refuse(f"the rows of the sources meet in the step {step.id}, which is not a UNION ALL")
    return {_bound(steps): steps for steps in (list(_down(plan, plan.step(root))) for root in inputs)}


def _is_union(step: physical.SqlTransform) -> bool:
    """True if each input is read by one of the SELECTs of a UNION ALL."""
    branches = _UNION.split(step.sql)
    return len(branches) == len(step.inputs) and all(
        (f"`{name}`" in branch) is (number == place)
        for number, branch in enumerate(branches)
        for place, name in enumerate(step.inputs)
    )


def _bound(steps: list[Step]) -> tuple[str, ...]:
    """Return the ids of the steps with positions or state, and of those that depend on the order of their inputs."""
    return tuple(
        step.id
        for step in steps
        if isinstance(step, (physical.ReadEntity, *STATEFUL)) or len(inputs_of(step)) > 1
    )


def _sources(plan: SparkPlan) -> list[physical.ReadEntity]:
    return [step for step in _down(plan, plan.sink) if isinstance(step, physical.ReadEntity)]


def _operators(plan: SparkPlan) -> list[str]:
    return [step.id for step in _down(plan, plan.sink) if isinstance(step, KEYED)]


def _down(plan: SparkPlan, step: Step) -> Iterator[Step]:
    """Yield a step and all below it, a step before its inputs, and these from left to right: the order of Spark's tree."""
    yield step
    for name in inputs_of(step):
        yield from _down(plan, plan.step(name))
