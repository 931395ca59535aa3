"""Joins: of streams within a time (Spark's own), with the versions of a changelog, and of relations as they are."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.expressions import ROW_TIME, Expression
from headrace.analyzer.logical import IntervalJoin, JoinKind, LogicalNode, RegularJoin, TemporalJoin
from headrace.analyzer.traits import Place, joins_windows, traits
from headrace.planner import physical
from headrace.planner.lowering.context import DELETED, Lowering, Needed, places
from headrace.planner.lowering.fragments import Fragment, Hidden
from headrace.planner.modes import Mode, Operator
from headrace.planner.spark_sql import identifier, interval

_WORDS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
}


def interval_join(low: Lowering, operator: Operator, node: IntervalJoin, needed: Needed) -> Fragment:
    """Two streams within a time: Spark's own join, whose watermark waits for the rows that it still holds."""
    wanted = needed | places(*node.left_keys, *node.right_keys, *([node.condition] if node.condition else []))
    left = _side(low, operator.inputs[0], wanted)
    right = _side(low, operator.inputs[1], wanted)
    ours, theirs = left.hidden.time, right.hidden.time
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    on = [f"{left.sql().text(a)} = {right.sql().text(b)}" for a, b in pairs]
    on.append(f"{theirs} BETWEEN {ours} {_shifted(node.lower_ms)} AND {ours} {_shifted(node.upper_ms)}")
    joined = Fragment(
        text=f"{left.text}\n{_WORDS[node.kind]} {right.text}\n  ON ",
        mode=Mode.INSERT,
        sources=node.sources,
        inputs=[*left.inputs, *right.inputs],
        hidden=Hidden(time=f"greatest({ours}, {theirs})", marked=False),
        windows=left.windows | right.windows,
        positions={**left.positions, **right.positions},
    )
    if node.condition is not None:
        on.append(joined.sql().text(node.condition))
    joined.text += " AND ".join(on)
    return joined


def _shifted(milliseconds: int) -> str:
    return f"- {interval(-milliseconds)}" if milliseconds < 0 else f"+ {interval(milliseconds)}"


def _side(low: Lowering, operator: Operator, needed: Needed) -> Fragment:
    """A side of Spark's join: a table with an event time."""
    return low.marked(low.fragment(operator, _of(operator.node, needed)), _of(operator.node, needed))


def _of(node: LogicalNode, needed: Needed) -> Needed:
    """Those of the columns that a node has."""
    aliases = {source.alias for source in node.sources}
    return frozenset(place for place in needed if place[0] in aliases)


def temporal_join(low: Lowering, operator: Operator, node: TemporalJoin, needed: Needed) -> Fragment:
    """Each row of a stream with the version of its key in a changelog that was valid at its time."""
    wanted = needed | places(*node.left_keys)
    left = low.fragment(operator.inputs[0], _of(node.left, wanted))
    alias = node.right.alias
    keys = [f"__key_{index}" for index in range(1, len(node.left_keys) + 1)]
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
    made = low.over_structs(joined, left, Mode.INSERT)
    made.sources = node.sources
    return made


def regular_join(low: Lowering, operator: Operator, node: RegularJoin, needed: Needed) -> Fragment:
    """Two relations as they are now, by an operator of ours that follows what comes and goes on both sides."""
    condition = places(node.condition) if node.condition is not None else frozenset()
    wanted = needed | condition | places(*node.left_keys, *node.right_keys)
    left = low.fragment(operator.inputs[0], _of(node.left, wanted))
    right = low.fragment(operator.inputs[1], _of(node.right, wanted))
    closes: list[str | None] = [None, None]
    if joins_windows(node):
        closes = ["__closes_1", "__closes_2"]
    name = node.right.sources[0].alias
    sides, keys = [], []
    for number, (side, below, own, what) in enumerate(
        ((left, node.left, node.left_keys, "left"), (right, node.right, node.right_keys, "right"))
    ):
        names = [f"__{what}_{index}" for index in range(1, len(own) + 1)]
        more = _named(side, own, names)
        if (closing := closes[number]) is not None:
            more.append(f"{_window_end(side, traits(below).window)} AS {identifier(closing)}")
        kept = _of(below, needed | condition)
        sides.append(low.structs(low.name(what, name), side, kept, more))
        keys.append(names)
    joined = low.add(
        physical.ChangelogJoin(
            id=low.name("joined", name),
            left=sides[0],
            right=sides[1],
            left_keys=keys[0],
            right_keys=keys[1],
            left_signed=left.mode is Mode.SIGNED,
            right_signed=right.mode is Mode.SIGNED,
            condition=_condition(node, left, right),
            how="inner" if node.kind is JoinKind.CROSS else node.kind.value,
            left_closes=closes[0],
            right_closes=closes[1],
            state_ttl_ms=low.state_ttl_ms,
        )
    )
    made = low.over_structs(joined, left, operator.mode)
    made.sources = node.sources
    return made


def _condition(node: RegularJoin, left: Fragment, right: Fragment) -> str | None:
    if node.condition is None:
        return None
    both = Fragment("", Mode.INSERT, (*left.sources, *right.sources), [])
    return both.sql().bare(node.condition)


def _window_end(side: Fragment, window: Place | None) -> str:
    return side.column(*window) if window is not None else identifier(ROW_TIME)


def _named(fragment: Fragment, keys: Sequence[Expression], names: Sequence[str]) -> list[str]:
    sql = fragment.sql()
    return [f"{sql.bare(key)} AS {identifier(name)}" for key, name in zip(keys, names, strict=True)]
