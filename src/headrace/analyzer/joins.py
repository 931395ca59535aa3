"""Joins: which kind the two sides make, and what ON may say."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from headrace.analyzer.coercion import as_type
from headrace.analyzer.expression_binder import ExpressionBinder
from headrace.analyzer.expressions import Call, ColumnReference, Expression, conjuncts, references
from headrace.analyzer.logical import (
    ChangeKind,
    IntervalJoin,
    JoinKind,
    LogicalNode,
    Scan,
    SnapshotJoin,
    TemporalJoin,
    TimeWindow,
    walk,
)
from headrace.analyzer.scope import Scope
from headrace.analyzer.sources import is_snapshot
from headrace.analyzer.typing import common
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import span_of, within_of

SUPPORTED = (
    "Supported are STREAM [LEFT] JOIN STREAM WITHIN n unit ON keys, STREAM [LEFT] JOIN CHANGELOG ON its primary key, "
    "and every join between materialized views."
)


def bind_join(left: LogicalNode, right: LogicalNode, node: exp.Join) -> LogicalNode:
    """The join of what stands left with one more source.

    Raises UserError 0A000 for a combination that is not supported (saying which are), 42601 for a bad WITHIN or a missing ON,
    42804 for an ON that is no equality between the sides.
    """
    kind = _kind(node)
    on = node.args.get("on")
    if node.args.get("using"):
        raise _refused("USING is not supported", node, "Write ON a.x = b.x.")
    if (on is None) != (kind is JoinKind.CROSS):
        raise UserError(SqlState.SYNTAX_ERROR, "a join needs ON, except a CROSS JOIN", span=span_of(node))
    binder = ExpressionBinder(Scope((*left.sources, *right.sources)))
    condition = binder.condition(on, "ON") if on is not None else None
    if is_snapshot(left) and is_snapshot(right):
        return SnapshotJoin(left, right, condition, kind)
    if is_snapshot(left) or is_snapshot(right):
        raise _refused("a materialized view cannot be joined with a stream or changelog", node, SUPPORTED)
    if condition is None:
        raise _refused("CROSS JOIN is for UNNEST and materialized views", node, SUPPORTED)
    if any(isinstance(part, TimeWindow) for side in (left, right) for part in walk(side)):
        raise _refused(
            "a time window cannot be joined in the same query",
            node,
            "Store the window's result first, and join that.",
        )
    if left.change is ChangeKind.APPEND and right.change is ChangeKind.APPEND:
        return _interval(left, right, condition, kind, node)
    if left.change is ChangeKind.APPEND:
        return _temporal(left, right, condition, kind, node)
    if right.change is ChangeKind.APPEND:
        raise _refused(
            "CHANGELOG JOIN STREAM is not supported",
            node,
            "Put the stream on the left: stream JOIN changelog ON ….",
        )
    raise _refused("CHANGELOG JOIN CHANGELOG is not supported yet", node, SUPPORTED)


def _kind(node: exp.Join) -> JoinKind:
    side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
    if side in JoinKind.__members__:
        return JoinKind[side]
    if kind in ("", "INNER"):
        return JoinKind.INNER
    if kind == "CROSS":
        return JoinKind.CROSS
    raise _refused(f"{kind} JOIN is not supported", node, SUPPORTED)


def _refused(message: str, node: exp.Expr, hint: str) -> UserError:
    return UserError(SqlState.FEATURE_NOT_SUPPORTED, message, hint=hint, span=span_of(node))


def _interval(
    left: LogicalNode, right: LogicalNode, on: Expression, kind: JoinKind, node: exp.Join
) -> IntervalJoin:
    within = within_of(node)
    if within is None:
        raise _refused(
            "a join of two streams needs WITHIN: without it its state would grow for ever",
            node,
            "Write JOIN stream WITHIN 5 MINUTES ON a.x = b.x.",
        )
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise _refused(f"{kind.name} JOIN of streams is not supported yet", node, SUPPORTED)
    if any(isinstance(part, IntervalJoin) for part in walk(left)):
        raise _refused(
            "a query can have one WITHIN join", node, "Store the first join as a stream, and join that."
        )
    pairs = _equalities(on, left, right, node)
    left_keys, right_keys = [], []
    for ours, theirs in pairs:
        shared = common([ours.type, theirs.type])
        if shared is None:
            raise InternalError(f"compared keys without a common type: {ours.type}, {theirs.type}")
        left_keys.append(as_type(ours, shared))
        right_keys.append(as_type(theirs, shared))
    return IntervalJoin(left, right, tuple(left_keys), tuple(right_keys), -within, within, kind)


def _temporal(
    left: LogicalNode, right: LogicalNode, on: Expression, kind: JoinKind, node: exp.Join
) -> TemporalJoin:
    if within_of(node) is not None:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "WITHIN is for a join of two streams; the right side is a CHANGELOG",
            span=span_of(node),
        )
    if not isinstance(right, Scan):
        raise _refused("the right side of a temporal join must be a CHANGELOG by name", node, SUPPORTED)
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise _refused(f"{kind.name} JOIN of a stream with a changelog is not supported", node, SUPPORTED)
    pairs = _equalities(on, left, right, node)
    columns = [theirs.column if isinstance(theirs, ColumnReference) else None for _, theirs in pairs]
    key = right.relation.schema.primary_key
    if sorted(map(str, columns)) != sorted(key):
        shown = " and ".join(f"{printed(right.alias)}.{printed(name)}" for name in key)
        raise _refused(
            f"a temporal join compares the changelog's whole primary key, {shown}, and nothing else",
            node,
            SUPPORTED,
        )
    left_keys = []
    for ours, theirs in pairs:
        if common([ours.type, theirs.type]) != theirs.type:
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"the key {printed(right.alias)}.{printed(str(getattr(theirs, 'column', '')))} is {theirs.type}, "
                f"it is compared with {ours.type}",
                hint=f"Use CAST(… AS {theirs.type}) on the stream's side.",
                span=ours.span,
            )
        left_keys.append(as_type(ours, theirs.type))
    return TemporalJoin(left, right, tuple(left_keys), tuple(str(column) for column in columns), kind)


def _equalities(
    on: Expression, left: LogicalNode, right: LogicalNode, node: exp.Join
) -> list[tuple[Expression, Expression]]:
    """The (left, right) operands of `a = b AND …`, each of one side only."""
    ours = {source.alias for source in left.sources}
    theirs = {source.alias for source in right.sources}
    pairs = []
    for part in conjuncts(on):
        pair = _sides(part, ours, theirs)
        if pair is None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "ON takes equalities between a column of each side",
                hint="Put further conditions into WHERE.",
                span=_span_of(part, node),
            )
        pairs.append(pair)
    return pairs


def _sides(part: Expression, ours: set[str], theirs: set[str]) -> tuple[Expression, Expression] | None:
    if not isinstance(part, Call) or part.function.name != "=":
        return None
    first, second = part.arguments
    if _names(first) and _names(first) <= ours and _names(second) and _names(second) <= theirs:
        return first, second
    if _names(first) and _names(first) <= theirs and _names(second) and _names(second) <= ours:
        return second, first
    return None


def _names(expression: Expression) -> set[str]:
    found: Iterable[ColumnReference] = references(expression)
    return {reference.source for reference in found}


def _span_of(part: Expression, node: exp.Join) -> Span | None:
    return part.span or span_of(node)
