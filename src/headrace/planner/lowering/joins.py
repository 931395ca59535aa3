"""Joins: of streams within a time, with the versions of a changelog, and of relations as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.analyzer.expressions import Expression
from headrace.analyzer.logical import (
    IntervalJoin,
    JoinKind,
    LogicalNode,
    LookupJoin,
    RegularJoin,
    TemporalJoin,
)
from headrace.analyzer.traits import Place, joins_windows, traits
from headrace.core.internal_columns import DELETED, PREFIX, ROW_TIME
from headrace.planner import physical
from headrace.planner.lowering.context import Lowering, Needed, places
from headrace.planner.lowering.fragments import Fragment
from headrace.planner.modes import Mode, Operator
from headrace.planner.sinks import physical_columns
from headrace.planner.spark_sql import identifier


def interval_join(low: Lowering, operator: Operator, node: IntervalJoin, needed: Needed) -> Fragment:
    """Lower an interval join: two streams whose rows meet when their event times are close."""
    sides = _sides(low, operator, node, needed)
    left, right = sides.left, sides.right
    joined = low.add(
        physical.IntervalJoin(
            id=low.name("joined", sides.name),
            left=left.step,
            right=right.step,
            left_keys=left.keys,
            right_keys=right.keys,
            lower_ms=node.lower_ms,
            upper_ms=node.upper_ms,
            condition=sides.condition,
            how=node.kind.value,
        )
    )
    fragment = low.over_structs(joined, left.fragment, Mode.INSERT)
    fragment.sources = node.sources
    return fragment


def _of(node: LogicalNode, needed: Needed) -> Needed:
    """Return those of the needed columns that a node has."""
    aliases = {source.alias for source in node.sources}
    return frozenset(place for place in needed if place[0] in aliases)


def temporal_join(low: Lowering, operator: Operator, node: TemporalJoin, needed: Needed) -> Fragment:
    """Lower a temporal join: each row of a stream with the version of its key in a changelog that was valid at its time."""
    needed = needed | (places(node.condition) if node.condition is not None else frozenset())
    left = low.fragment(operator.inputs[0], _of(node.left, needed | places(*node.left_keys)))
    alias = node.right.alias
    keys = [f"{PREFIX}key_{index}" for index in range(1, len(node.left_keys) + 1)]
    keyed = low.structs(
        low.name("keyed", alias), left, _of(node.left, needed), _named(left, node.left_keys, keys)
    )
    right = low.fragment(operator.inputs[1], frozenset())
    versions = low.flat(
        low.name("versions", alias),
        right,
        _of(node.right, needed) | frozenset((alias, name) for name in node.right_keys),
    )
    joined = low.add(
        physical.TemporalJoin(
            id=low.name("joined", alias),
            left=keyed,
            right=versions,
            left_keys=keys,
            right_keys=list(node.right_keys),
            right_name=alias,
            right_deleted=DELETED,
            how="left" if node.kind is JoinKind.LEFT else "inner",
            state_ttl_ms=low.state_ttl_ms,
        )
    )
    fragment = low.over_structs(joined, left, Mode.INSERT)
    fragment.sources = node.sources
    if node.condition is not None:
        version, step = identifier(alias), identifier(joined)
        matched = f"if({fragment.sql().bare(node.condition)}, {version}, NULL) AS {version}"
        fragment.text = f"(SELECT * EXCEPT ({version}), {matched} FROM {step}) AS {step}"  # noqa: S608
    return fragment


def lookup_join(low: Lowering, operator: Operator, node: LookupJoin, needed: Needed) -> Fragment:
    """Lower a lookup join: each row of a stream with those that a table has for its keys, as an array that is then unnested."""
    condition = places(node.condition) if node.condition is not None else frozenset()
    left = low.fragment(operator.inputs[0], _of(node.left, needed | condition | places(*node.left_keys)))
    relation, alias = node.right.relation, node.right.alias
    keys = [f"{PREFIX}key_{index}" for index in range(1, len(node.left_keys) + 1)]
    own = _of(node.left, needed | condition)
    keyed = low.structs(low.name("keyed", alias), left, own, _named(left, node.left_keys, keys))
    read = {name for _, name in _of(node.right, needed | condition)}.union(node.right_keys)
    step = physical.LookupJoin(
        id=low.name("found", alias),
        input=keyed,
        store=relation.store or "",
        connector=node.right.store_type,
        entity=relation.entity or (),
        columns=[column for column in physical_columns(relation.schema) if column.name in read],
        keys=keys,
        key_columns=list(node.right_keys),
        refresh_ms=node.right.properties.refresh_ms,
        options=dict(node.right.properties.options),
    )
    fragment = low.over_structs(low.add(step), left, Mode.INSERT)
    fragment.sources = node.sources
    rows, row = identifier(step.name), identifier(alias)
    if node.condition is not None:
        rows = f"filter({rows}, {row} -> {fragment.sql().bare(node.condition)})"
    outer = "OUTER " if node.kind is JoinKind.LEFT else ""
    # A column of the table may have the alias's own name.
    fragment.text += f"\nLATERAL VIEW {outer}explode({rows}) {identifier(f'{PREFIX}{alias}')} AS {row}"
    return fragment


def regular_join(low: Lowering, operator: Operator, node: RegularJoin, needed: Needed) -> Fragment:
    """Lower a regular join: two relations as they are now, by our own operator, which follows insertions and deletions on both sides."""
    closes = (f"{PREFIX}closes_1", f"{PREFIX}closes_2") if joins_windows(node) else (None, None)
    sides = _sides(low, operator, node, needed, closes)
    left, right = sides.left, sides.right
    joined = low.add(
        physical.ChangelogJoin(
            id=low.name("joined", sides.name),
            left=left.step,
            right=right.step,
            left_keys=left.keys,
            right_keys=right.keys,
            left_signed=left.fragment.mode is Mode.SIGNED,
            right_signed=right.fragment.mode is Mode.SIGNED,
            condition=sides.condition,
            how="inner" if node.kind is JoinKind.CROSS else node.kind.value,
            left_closes=closes[0],
            right_closes=closes[1],
            state_ttl_ms=low.state_ttl_ms,
        )
    )
    fragment = low.over_structs(joined, left.fragment, operator.mode)
    fragment.sources = node.sources
    return fragment


@dataclass(frozen=True)
class _Side:
    """An input of a join: the step with a STRUCT for each of its sources, and its keys as columns."""

    fragment: Fragment
    step: str
    keys: list[str]


@dataclass(frozen=True)
class _Sides:
    name: str
    left: _Side
    right: _Side
    condition: str | None


def _sides(
    low: Lowering,
    operator: Operator,
    node: IntervalJoin | RegularJoin,
    needed: Needed,
    closes: tuple[str | None, str | None] = (None, None),
) -> _Sides:
    """Return both inputs of a join of ours; `closes` names the columns of the moments at which their windows end."""
    condition = places(node.condition) if node.condition is not None else frozenset()
    needed_with_keys = needed | condition | places(*node.left_keys, *node.right_keys)
    left = low.fragment(operator.inputs[0], _of(node.left, needed_with_keys))
    right = low.fragment(operator.inputs[1], _of(node.right, needed_with_keys))
    name = node.right.sources[0].alias

    def side(
        what: str, fragment: Fragment, below: LogicalNode, keys: Sequence[Expression], closing: str | None
    ) -> _Side:
        names = [f"{PREFIX}{what}_{index}" for index in range(1, len(keys) + 1)]
        more = _named(fragment, keys, names)
        if closing is not None:
            more.append(f"{_window_end(fragment, traits(below).window)} AS {identifier(closing)}")
        columns = _of(below, needed | condition)
        return _Side(fragment, low.structs(low.name(what, name), fragment, columns, more), names)

    return _Sides(
        name,
        side("left", left, node.left, node.left_keys, closes[0]),
        side("right", right, node.right, node.right_keys, closes[1]),
        _condition(node.condition, left, right),
    )


def _condition(condition: Expression | None, left: Fragment, right: Fragment) -> str | None:
    if condition is None:
        return None
    both = Fragment("", Mode.INSERT, (*left.sources, *right.sources), [])
    return both.sql().bare(condition)


def _window_end(side: Fragment, window: Place | None) -> str:
    return side.column(*window) if window is not None else identifier(ROW_TIME)


def _named(fragment: Fragment, keys: Sequence[Expression], names: Sequence[str]) -> list[str]:
    sql = fragment.sql()
    return [f"{sql.bare(key)} AS {identifier(name)}" for key, name in zip(keys, names, strict=True)]
