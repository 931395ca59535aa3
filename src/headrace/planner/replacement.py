"""Comparison of a running query's plan with the plan that is to replace it: can the new plan continue from the old one's checkpoint?

A checkpoint contains the positions of the sources, in their order, and the state of the operators, in their order. A step is *kept* if
both plans have it under the same id, with the same content, over kept steps. Then its positions or its state mean the same in both
plans. All else may change, since it leaves nothing in a checkpoint. (Spark compares only the types of a stored state. It would read the
sum of one column as that of another.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from headrace.planner import physical
from headrace.planner.physical import SparkPlan, Step, inputs_of

_READS = (physical.ReadEntity, physical.ReadRows, physical.ReadTable)
_STATEFUL = (
    physical.AssignWatermark,
    physical.TemporalJoin,
    physical.IntervalJoin,
    physical.Normalize,
    physical.Materialize,
    physical.ChangelogAggregate,
    physical.ChangelogJoin,
    physical.TopN,
    physical.MatchRecognize,
    physical.OverAggregate,
    physical.Spool,
)
_WITHOUT_EFFECT = {"starting_position", "starting_timestamp_ms"}
"""Fields of a source that count only for a query without a checkpoint."""


@dataclass(frozen=True)
class StepChange:
    """Change of a step; `keeps_state` is true if the checkpoint contains positions or state of the step."""

    id: str
    step: str
    change: Literal["kept", "changed", "added", "removed"]
    keeps_state: bool


@dataclass(frozen=True)
class Comparison:
    """Changes of the steps, and the obstacles: the reasons why the new plan cannot continue from the checkpoint.

    `starts_anew` is true if it is not to continue, whether it could or not.
    """

    steps: tuple[StepChange, ...]
    obstacles: tuple[str, ...]
    starts_anew: bool = False

    @property
    def is_compatible(self) -> bool:
        """True if the new plan can continue from the checkpoint of the old one."""
        return not self.obstacles

    @property
    def kind(self) -> Literal["compatible", "anew"]:
        """The class of the replacement: with the state of the old query, or from the beginning."""
        return "compatible" if self.is_compatible and not self.starts_anew else "anew"

    def lines(self) -> list[str]:
        """Return the lines of EXPLAIN: the class, then its reasons, then the steps with their changes."""
        if self.starts_anew:
            result = "the query starts without state, in another checkpoint, and computes its results again"
        else:
            result = "the query continues from its positions, with its state"
        reasons = (result, *self.obstacles) if self.starts_anew else self.obstacles or (result,)
        steps = [f"  {each.step.replace('_', ' ')} {each.id}: {self._described(each)}" for each in self.steps]
        return [f"Replacement: {self.kind}", *(f"  {reason}" for reason in reasons), *steps]

    def _described(self, each: StepChange) -> str:
        if not each.keeps_state or each.change in ("added", "removed") or self.kind == "anew":
            return each.change
        return f"{each.change}, continues from the checkpoint"


def compare(old: SparkPlan, new: SparkPlan, *, same_sink: bool = True) -> Comparison:
    """Compare the plan of a query with the plan that is to replace it, or, unless `same_sink`, with the plan of another query that is to
    continue from its checkpoint."""
    kept = _kept(old, new)
    obstacles = [*_obstacles(old, new, kept), *(_other_sink(old, new) if same_sink else ())]
    return Comparison(tuple(_changes(old, new, kept)), tuple(dict.fromkeys(obstacles)))


def _kept(old: SparkPlan, new: SparkPlan) -> frozenset[str]:
    """Return the ids of the kept steps."""
    before = {step.id: step for step in old.steps}
    kept: set[str] = set()
    for step in new.steps:
        earlier = before.get(step.id)
        if earlier and _content(earlier) == _content(step) and kept.issuperset(inputs_of(step)):
            kept.add(step.id)
    return frozenset(kept)


def _content(step: Step) -> dict[str, Any]:
    return step.model_dump(exclude=_WITHOUT_EFFECT)


def _changes(old: SparkPlan, new: SparkPlan, kept: frozenset[str]) -> Iterator[StepChange]:
    before, after = {step.id for step in old.steps}, {step.id for step in new.steps}
    grouped = {name for grouping in new.groupings or () for name in _holders(new, grouping)}
    for step in new.steps:
        change: Literal["kept", "changed", "added"] = "added" if step.id not in before else "changed"
        keeps_state = _is_bound(step) or step.id in grouped
        yield StepChange(step.id, step.step, "kept" if step.id in kept else change, keeps_state)
    yield from (
        StepChange(step.id, step.step, "removed", _is_bound(step))
        for step in old.steps
        if step.id not in after
    )


def _holders(plan: SparkPlan, grouping: physical.Grouping) -> Iterator[str]:
    """Yield the ids of the SQL steps that may contain a grouping: those over its inputs."""
    yield from (
        step.id
        for step in plan.steps
        if isinstance(step, physical.SqlTransform) and set(grouping.inputs) <= set(step.inputs)
    )


def _is_bound(step: Step) -> bool:
    """True if a checkpoint contains positions or state of the step, or if the order of its inputs decides about those of others."""
    return isinstance(step, _READS + _STATEFUL) or len(inputs_of(step)) > 1


def _obstacles(old: SparkPlan, new: SparkPlan, kept: frozenset[str]) -> Iterator[str]:
    for name in ("mode", "output_mode", "bounded", "internal_prefix"):
        if getattr(old, name) != getattr(new, name):
            described = {"mode": "execution mode", "output_mode": "output mode of Spark"}
            yield f"the {described.get(name, 'form of the plan')} changes from {getattr(old, name)} to {getattr(new, name)}"
    yield from _changed_steps(old, new, kept)
    yield from _changed_groupings(old, new, kept)


def _other_sink(old: SparkPlan, new: SparkPlan) -> Iterator[str]:
    if list(map(_target, old.sinks)) != list(map(_target, new.sinks)):
        yield "the query writes another entity"
    views = [step for plan in (old, new) for step in plan.sinks if isinstance(step, physical.WriteView)]
    if any(step.sign for step in views) and _content_of(old) != _content_of(new):
        yield "the rows of the view have no key, so that a row of the old statement could not be removed by the new one"


def _content_of(plan: SparkPlan) -> list[dict[str, Any]]:
    return [_content(step) for step in plan.steps]


def _changed_steps(old: SparkPlan, new: SparkPlan, kept: frozenset[str]) -> Iterator[str]:
    before, after = ({step.id: step for step in plan.steps if _is_bound(step)} for plan in (old, new))
    for step in after.values():
        if step.id not in before:
            yield f"the {_described(step)} is new"
        elif step.id not in kept:
            earlier = next((name for name in inputs_of(step) if name not in kept), None)
            reason = (
                "changes"
                if earlier is None or _content(before[step.id]) != _content(step)
                else f"gets other rows, from {earlier}"
            )
            yield f"the {_described(step)} {reason}"
    yield from (f"the {_described(step)} is removed" for step in before.values() if step.id not in after)
    if before.keys() == after.keys() and list(before) != list(after):
        yield "the sources or the operators with state are in another order"


def _changed_groupings(old: SparkPlan, new: SparkPlan, kept: frozenset[str]) -> Iterator[str]:
    if old.groupings is None or new.groupings is None:
        changed = [step for step in new.steps if step.id not in kept]
        if any(isinstance(step, physical.SqlTransform) for step in changed):
            yield "an earlier release created the query, and its plan does not list its aggregations"
        return
    if len(old.groupings) != len(new.groupings):
        yield f"the number of aggregations changes from {len(old.groupings)} to {len(new.groupings)}"
        return
    for earlier, later in zip(old.groupings, new.groupings, strict=True):
        if earlier.inputs != later.inputs or not kept.issuperset(later.inputs) or earlier.rows != later.rows:
            yield "the rows that are grouped change: the groups contain rows of the old FROM and WHERE"
        if earlier.keys != later.keys:
            yield "the GROUP BY changes"
        if earlier.calls != later.calls:
            yield "the aggregates of GROUP BY or their order change"


def _described(step: Step) -> str:
    return f"step {step.id} ({step.step.replace('_', ' ')})"


def _target(step: Step) -> tuple[Any, ...]:
    """Return what a sink writes."""
    return (
        step.step,
        getattr(step, "store", None),
        getattr(step, "entity", None),
        getattr(step, "view", None),
    )
