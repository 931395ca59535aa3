"""Change mode of each edge of a plan, and the conversions between modes.

The sink and each operator declare which modes they accept as input. `place` inserts a `Normalize` where upserts must become signed
rows, and a `Materialize` where signed rows must become upserts. A query whose result could not be right is refused here, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.analyzer.logical import (
    RANK_SOURCE,
    Aggregate,
    Filter,
    FromChangelog,
    IntervalJoin,
    Limit,
    LogicalNode,
    LookupJoin,
    MatchRecognize,
    OverAggregate,
    Project,
    RegularJoin,
    Scan,
    SingleRow,
    Subquery,
    TemporalJoin,
    TimeWindow,
    ToChangelog,
    TopN,
    Union,
    Unnest,
    WindowExtremes,
    walk,
)
from headrace.analyzer.traits import Traits, place_of, traits, window_groups
from headrace.core.errors import Span, UserError
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState


class Mode(Enum):
    """Meaning of a row on an edge; see `physical`. The value is its name in EXPLAIN."""

    # Three modes, since each is the cheapest for some operator, and a conversion keeps every key in state:
    # - INSERT: rows are only added. Fits any consumer, since such a row is also a first upsert and a +1.
    # - UPSERT: the row of a key replaces the earlier one, as records of a compacted topic do. Costs nothing to read or write, but
    #   an aggregate cannot use it: it does not contain the values to subtract.
    # - SIGNED: rows are added and retracted one by one, so that sums and joins can subtract what they added.
    INSERT = "insert"
    UPSERT = "upsert"
    SIGNED = "signed"


class _Conversion(LogicalNode):
    """The same rows in another mode."""

    input: LogicalNode

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Normalize(_Conversion):
    """Upserts to signed rows."""

    input: LogicalNode


@dataclass(frozen=True)
class Materialize(_Conversion):
    """Signed rows to upserts."""

    input: LogicalNode


@dataclass(frozen=True)
class Operator:
    """A node, the mode of its output, and its inputs with their modes. `traits` are the node's."""

    node: LogicalNode
    mode: Mode
    traits: Traits
    inputs: tuple[Operator, ...] = ()


def operators(operator: Operator) -> list[Operator]:
    """Return `operator` and everything below it, topmost first."""
    return [operator, *(inner for below in operator.inputs for inner in operators(below))]


def place(node: LogicalNode, *accepted: Mode) -> Operator:
    """Return the operators of a tree whose consumer accepts `accepted`, its preferred mode first; append-only rows are always accepted.

    Raises UserError 0A000 if no operator can return the right rows.
    """
    operator = _PLACED[type(node)](node, accepted)
    if operator.mode is Mode.INSERT or operator.mode in accepted:
        return operator
    if operator.mode is Mode.UPSERT:
        return Operator(Normalize(operator.node), Mode.SIGNED, operator.traits, (operator,))
    if operator.traits.key is None:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            "the result is a CHANGELOG without a key: an update cannot be matched to its row",
            hint="Select the key columns of every source, or GROUP BY the columns of a key.",
            span=span_of(node),
        )
    return Operator(Materialize(operator.node), Mode.UPSERT, operator.traits, (operator,))


_Accepted = tuple[Mode, ...]


def _scan(node: Scan, _accepted: _Accepted) -> Operator:
    node_traits = traits(node)
    return Operator(node, Mode.INSERT if node_traits.insert_only else Mode.UPSERT, node_traits)


def _row_by_row(node: Filter | Project | Subquery | Limit, accepted: _Accepted) -> Operator:
    """Place a node that processes each row by itself, in the mode of its input.

    Without a key, upserts are not accepted as input: the consumer could not find the row that an upsert replaces or deletes.
    """
    node_traits = traits(node)
    keyed = node_traits.key is not None
    below = tuple(mode for mode in (*accepted, Mode.SIGNED) if keyed or mode is not Mode.UPSERT)
    if keyed and Mode.UPSERT not in below:
        below = (*below, Mode.UPSERT)
    return _over(node, place(node.input, *below))


def _unnest(node: Unnest, _accepted: _Accepted) -> Operator:
    return _over(node, place(node.input, Mode.SIGNED))


def _to_changelog(node: ToChangelog, _accepted: _Accepted) -> Operator:
    """Place the rows by their key, if they change: only a key shows which row replaces which."""
    return Operator(node, Mode.INSERT, traits(node), (place(node.input, Mode.UPSERT),))


def _from_changelog(node: FromChangelog, _accepted: _Accepted) -> Operator:
    mode = Mode.UPSERT if node.upserts else Mode.SIGNED
    return Operator(node, mode, traits(node), (place(node.input, Mode.INSERT),))


def _over(node: LogicalNode, below: Operator) -> Operator:
    return Operator(node, below.mode, traits(node), (below,))


def _time_window(node: TimeWindow, _accepted: _Accepted) -> Operator:
    if node.time is not None:
        return _over(node, place(node.input, Mode.SIGNED))
    return _over(node, _timed(node.input, f"{node.kind.value} takes a STREAM", node.span))


def _timed(node: LogicalNode, what: str, span: Span | None) -> Operator:
    """Return an input that must be append-only and have an event time. Raises UserError 0A000 for any other."""
    node_traits = traits(node)
    if not node_traits.insert_only:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{what}; {_called(node)} is updated: rows that the watermark has passed could still change",
            hint="Declare a STREAM over the same entity, which reads every version as a row of its own.",
            span=span,
        )
    if not node_traits.timed:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{what}, with an event time; {_called(node)} has none",
            hint="Filters, projections, time windows, joins by time and matches keep the event time of their "
            "rows. Matches need WITHIN for this, unless they skip TO NEXT ROW.",
            span=span,
        )
    return place(node, Mode.INSERT)


def _called(node: LogicalNode) -> str:
    while isinstance(node, Filter):
        node = node.input
    if isinstance(node, Scan):
        return f"{node.relation.kind.value.upper().replace('_', ' ')} {node.relation.name}"
    return f"the sub-select {node.alias}" if isinstance(node, Subquery) else "this source"


def _aggregate(node: Aggregate, accepted: _Accepted) -> Operator:
    node_traits = traits(node)
    if window_groups(node):
        return Operator(node, Mode.INSERT, node_traits, (place(node.input, Mode.INSERT),))
    below = place(node.input, Mode.SIGNED)
    signed = accepted[0] is Mode.SIGNED or Mode.UPSERT not in accepted
    mode = Mode.INSERT if node_traits.insert_only else Mode.SIGNED if signed else Mode.UPSERT
    return Operator(node, mode, node_traits, (below,))


def _interval_join(node: IntervalJoin, _accepted: _Accepted) -> Operator:
    sides = tuple(
        _timed(side, "a join WITHIN a time span requires two STREAMs", span_of(node))
        for side in (node.left, node.right)
    )
    return Operator(node, Mode.INSERT, traits(node), sides)


def _temporal_join(node: TemporalJoin, _accepted: _Accepted) -> Operator:
    left = _timed(node.left, "a temporal join requires a STREAM on its left", span_of(node))
    return Operator(node, Mode.INSERT, traits(node), (left, place(node.right, Mode.UPSERT)))


def _lookup_join(node: LookupJoin, _accepted: _Accepted) -> Operator:
    return Operator(node, Mode.INSERT, traits(node), (place(node.left, Mode.INSERT),))


def _regular_join(node: RegularJoin, _accepted: _Accepted) -> Operator:
    node_traits = traits(node)
    sides = tuple(place(side, Mode.SIGNED) for side in (node.left, node.right))
    return Operator(node, Mode.INSERT if node_traits.insert_only else Mode.SIGNED, node_traits, sides)


def _top_n(node: TopN, accepted: _Accepted) -> Operator:
    node_traits = traits(node)
    below = place(node.input, Mode.SIGNED)
    if node_traits.insert_only:
        return Operator(node, Mode.INSERT, node_traits, (below,))
    partition = {place_of(key) for key in node.partition_by}
    by_place = (
        not node.has_ties
        and node_traits.key is not None
        and (
            node_traits.key == tuple(place_of(key) for key in node.partition_by)
            if node.limit == 1
            else {*partition, (RANK_SOURCE, node.rank)} == set(node_traits.key)
        )
    )
    upserts = by_place and accepted[0] is not Mode.SIGNED and Mode.UPSERT in accepted
    return Operator(node, Mode.UPSERT if upserts else Mode.SIGNED, node_traits, (below,))


def _window_extremes(node: WindowExtremes, _accepted: _Accepted) -> Operator:
    return Operator(node, Mode.INSERT, traits(node), (place(node.input, Mode.INSERT),))


def _match_recognize(node: MatchRecognize, _accepted: _Accepted) -> Operator:
    return Operator(
        node, Mode.INSERT, traits(node), (_timed(node.input, "MATCH_RECOGNIZE takes a STREAM", node.span),)
    )


def _over_aggregate(node: OverAggregate, _accepted: _Accepted) -> Operator:
    return _over(node, _timed(node.input, "OVER in a continuous query requires a STREAM", node.span))


def _union(node: Union, _accepted: _Accepted) -> Operator:
    branches = tuple(place(branch, Mode.SIGNED) for branch in node.branches)
    signed = any(branch.mode is Mode.SIGNED for branch in branches)
    return Operator(node, Mode.SIGNED if signed else Mode.INSERT, traits(node), branches)


def _single_row(node: SingleRow, _accepted: _Accepted) -> Operator:
    return Operator(node, Mode.INSERT, traits(node))


def span_of(node: LogicalNode) -> Span | None:
    """Return the first known place in the statement of a node or of a node below it."""
    return next((span for part in walk(node) if (span := getattr(part, "span", None)) is not None), None)


_PLACED: dict[type[LogicalNode], Callable[[Any, _Accepted], Operator]] = {
    Scan: _scan,
    SingleRow: _single_row,
    Filter: _row_by_row,
    Project: _row_by_row,
    Subquery: _row_by_row,
    Limit: _row_by_row,
    Unnest: _unnest,
    TimeWindow: _time_window,
    ToChangelog: _to_changelog,
    FromChangelog: _from_changelog,
    Aggregate: _aggregate,
    IntervalJoin: _interval_join,
    TemporalJoin: _temporal_join,
    LookupJoin: _lookup_join,
    RegularJoin: _regular_join,
    TopN: _top_n,
    WindowExtremes: _window_extremes,
    MatchRecognize: _match_recognize,
    OverAggregate: _over_aggregate,
    Union: _union,
}
