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
from headrace.planner.branches import STATEFUL, NotApartError, Rebuild, rebuild
from headrace.planner.physical import SparkPlan, Step, inputs_of

_READS = (physical.ReadEntity, physical.ReadRows, physical.ReadTable)
_WITHOUT_EFFECT = {"starting_position", "starting_timestamp_ms"}
"""Fields of a source that count only for a query without a checkpoint."""


@dataclass(frozen=True)
class StepChange:
    """Change of a step; `keeps_state` is true if the checkpoint contains positions or state of the step, or depends on the order of its
    inputs, and `has_own_state` only in the first case."""

    id: str
    step: str
    change: Literal["kept", "changed", "added", "removed"]
    keeps_state: bool
    has_own_state: bool


@dataclass(frozen=True)
class Comparison:
    """Changes of the steps, and the obstacles: the reasons why the new plan cannot continue from the checkpoint.

    `requested` is the class that the statement asks for, whether it could continue or not. `rebuild` is how a plan with obstacles continues
    partly, and `not_apart` why it cannot.
    """

    steps: tuple[StepChange, ...]
    obstacles: tuple[str, ...]
    rebuild: Rebuild | None = None
    not_apart: str | None = None
    requested: str = "compatible"

    @property
    def is_compatible(self) -> bool:
        """True if the new plan can continue from the checkpoint of the old one."""
        return not self.obstacles

    @property
    def is_possible(self) -> bool:
        """True if the query can be replaced as requested."""
        return self.is_compatible or self.requested == "anew" or (self.requested == "partly" == self.kind)

    @property
    def kind(self) -> Literal["compatible", "partly", "anew"]:
        """The class of the replacement: with the state of the old query, with that of some branches, or from the beginning."""
        if self.requested == "anew":
            return "anew"
        if self.is_compatible:
            return "compatible"
        return "partly" if self.rebuild is not None else "anew"

    def lines(self) -> list[str]:
        """Return the lines of EXPLAIN: the class, then its reasons, then the steps with their changes."""
        steps = [f"  {each.step.replace('_', ' ')} {each.id}: {self._described(each)}" for each in self.steps]
        return [f"Replacement: {self.kind}", *(f"  {reason}" for reason in self._reasons()), *steps]

    def _reasons(self) -> Iterator[str]:
        if self.requested == "anew":
            yield "the query starts without state, in another checkpoint, and computes its results again"
        elif self.is_compatible:
            yield "the query continues from its positions, with its state"
        elif self.rebuild is not None:
            yield "the branches that change start without state, and compute their results again; the others continue"
        yield from self.obstacles
        if self.requested == "partly" and self.kind == "anew" and self.not_apart is not None:
            yield self.not_apart

    def _described(self, each: StepChange) -> str:
        if not each.keeps_state or each.change == "removed" or self.kind == "anew":
            return each.change
        if self.kind == "partly" and self.rebuild is not None and each.has_own_state:
            starts = (
                "starts at its starting position" if each.step.startswith("read_") else "starts without state"
            )
            return f"{each.change}, {'continues from the checkpoint' if each.id in self.rebuild.kept else starts}"
        if each.change == "added" or self.kind == "partly":
            return each.change
        return f"{each.change}, continues from the checkpoint"


def compare(old: SparkPlan, new: SparkPlan, *, same_sink: bool = True) -> Comparison:
    """Compare the plan of a query with the plan that is to replace it, or, unless `same_sink`, with the plan of another query that is to
    continue from its checkpoint."""
    kept = _kept(old, new)
    changes, obstacles = tuple(_changes(old, new, kept)), list(_changed_content(old, new, kept))
    whole = [*_changed_form(old, new), *(_other_sink(old, new) if same_sink else ())]
    partly, not_apart = None, None
    try:
        if obstacles and not whole:
            partly = rebuild(old, new, kept)
    except NotApartError as reason:
        not_apart = str(reason)
    if partly is not None and partly.is_whole:
        # Only the text of the UNION ALL changes.
        obstacles, partly = [], None
    return Comparison(changes, tuple(dict.fromkeys([*obstacles, *whole])), partly, not_apart)


def _kept(old: SparkPlan, new: SparkPlan) -> frozenset[str]:
    """Return the ids of the kept steps."""
    before = {step.id: step for step in old.steps}
    kept: set[str] = set()
    for step in new.steps:
        earlier = before.get(step.id)
        if earlier and content(earlier) == content(step) and kept.issuperset(inputs_of(step)):
            kept.add(step.id)
    return frozenset(kept)


def content(step: Step) -> dict[str, Any]:
    """Return what a checkpoint depends on in a step."""
    return step.model_dump(exclude=_WITHOUT_EFFECT)


def _changes(old: SparkPlan, new: SparkPlan, kept: frozenset[str]) -> Iterator[StepChange]:
    before, after = {step.id for step in old.steps}, {step.id for step in new.steps}
    grouped = {name for grouping in new.groupings or () for name in _holders(new, grouping)}
    for step in new.steps:
        change: Literal["kept", "changed", "added"] = "added" if step.id not in before else "changed"
        own = isinstance(step, _READS + STATEFUL) or step.id in grouped
        yield StepChange(
            step.id, step.step, "kept" if step.id in kept else change, own or _is_bound(step), own
        )
    yield from (
        StepChange(step.id, step.step, "removed", _is_bound(step), isinstance(step, _READS + STATEFUL))
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
    return isinstance(step, _READS + STATEFUL) or len(inputs_of(step)) > 1


def _changed_form(old: SparkPlan, new: SparkPlan) -> Iterator[str]:
    for name in ("mode", "output_mode", "bounded", "internal_prefix"):
        if getattr(old, name) != getattr(new, name):
            described = {"mode": "execution mode", "output_mode": "output mode of Spark"}
            yield f"the {described.get(name, 'form of the plan')} changes from {getattr(old, name)} to {getattr(new, name)}"


def _changed_content(old: SparkPlan, new: SparkPlan, kept: frozenset[str]) -> Iterator[str]:
    yield from _changed_steps(old, new, kept)
    yield from _changed_groupings(old, new, kept)


def _other_sink(old: SparkPlan, new: SparkPlan) -> Iterator[str]:
    if list(map(_target, old.sinks)) != list(map(_target, new.sinks)):
        yield "the query writes another entity"
    views = [step for plan in (old, new) for step in plan.sinks if isinstance(step, physical.WriteView)]
    if any(step.sign for step in views) and _content_of(old) != _content_of(new):
        yield "the rows of the view have no key, so that a row of the old statement could not be removed by the new one"


def _content_of(plan: SparkPlan) -> list[dict[str, Any]]:
    return [content(step) for step in plan.steps]


def _changed_steps(old: SparkPlan, new: SparkPlan, kept: frozenset[str]) -> Iterator[str]:
    before, after = ({step.id: step for step in plan.steps if _is_bound(step)} for plan in (old, new))
    for step in after.values():
        if step.id not in before:
            yield f"the {_described(step)} is new"
        elif step.id not in kept:
            earlier = next((name for name in inputs_of(step) if name not in kept), None)
            reason = (
                "changes"
                if earlier is None or content(before[step.id]) != content(step)
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
        if _is_time_kept(old, earlier) != _is_time_kept(new, later):
            yield "groups can be deleted in one of the statements only: just then their state has the time of their newest row"


def _is_time_kept(plan: SparkPlan, grouping: physical.Grouping) -> bool:
    """True if the records of the plan need the event time that a grouping computes.

    Spark removes an aggregate that nothing reads, and stores no value of it. Only tombstones carry the time of their group.
    """
    times = {step.event_time for step in plan.steps if isinstance(step, physical.EncodeRows)} - {None}
    return any(f"`{time}`" in call for time in times for call in grouping.calls)


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
