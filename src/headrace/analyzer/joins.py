"""Joins: which kind two sides make, and which of the conditions are its keys.

FROM is bound in two steps, since a list `FROM a, b` has its conditions in WHERE: `pending` puts the sides together, so that names
can be resolved; `resolved` chooses the joins when all conditions are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from sqlglot import exp

from headrace.analyzer.coercion import as_type, same_type
from headrace.analyzer.constant_rows import unnested
from headrace.analyzer.event_times import is_event_time
from headrace.analyzer.expression_binder import ExpressionBinder, refuse_aggregates
from headrace.analyzer.expressions import Call, ColumnReference, Expression, conjuncts, references
from headrace.analyzer.functions import CATALOGUE
from headrace.analyzer.intervals import Bounds, bounds
from headrace.analyzer.invocation import call, conjunction, equality
from headrace.analyzer.logical import (
    Filter,
    IntervalJoin,
    Join,
    JoinKind,
    LogicalNode,
    LookupJoin,
    Project,
    RegularJoin,
    Scan,
    SnapshotJoin,
    Subquery,
    TemporalJoin,
    Unnest,
)
from headrace.analyzer.scope import Scope
from headrace.analyzer.sources import is_snapshot, refuse_tables
from headrace.analyzer.traits import traits
from headrace.analyzer.typing import common
from headrace.catalog.objects import RelationKind
from headrace.core.errors import Span, UserError
from headrace.core.internal_columns import is_internal
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BOOLEAN,
    BYTES,
    DATE,
    INTEGRAL,
    DataType,
    Decimal,
    Timestamp,
    Varchar,
)
from headrace.sql.ast import is_comma, span_of, within_of

Pair = tuple[Expression, Expression]


@dataclass(frozen=True)
class PendingJoin(Join):
    """Two sides of a join whose conditions may not all be known yet; `as_of` is the time of FOR SYSTEM_TIME AS OF."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    on: tuple[Expression, ...] = ()
    within_ms: int | None = None
    span: Span | None = field(default=None, compare=False)
    as_of: Expression | None = None


def pending(
    left: Scope, tree: LogicalNode, right: LogicalNode, node: exp.Join
) -> tuple[PendingJoin, dict[str, Expression]]:
    """Add a source beside `tree`, whose scope is `left`; return it with the columns of USING, which both sides share.

    Raises UserError 42601 for a missing ON, 42804 for one that is no condition, 0A000 for a kind of join that there is not.
    """
    kind = _kind(node)
    scope = replace(left, sources=(*left.sources, *right.sources))
    on, shared = node.args.get("on"), {}
    conditions: list[Expression] = []
    if node.args.get("using") or node.method:
        for name, place in _common_columns(left, right, node):
            ours = left.column(name, alias=None, span=place)
            theirs = Scope(right.sources).column(name, alias=None, span=place)
            conditions.append(equality(ours, theirs, span=place))
            shared[name] = _shared(kind, ours, theirs)
    elif on is not None:
        condition = ExpressionBinder(scope).condition(on, "ON")
        refuse_aggregates(condition, "ON", None)
        conditions.extend(conjuncts(condition))
    elif kind is not JoinKind.CROSS:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "a join requires ON, except a CROSS JOIN",
            hint="Write ON and a condition, or USING (column).",
            span=span_of(node),
        )
    span = span_of(node.this) if is_comma(node) else span_of(node)
    moment = node.this.args.get("system_time")
    as_of = ExpressionBinder(left).bind(moment) if moment is not None else None
    return PendingJoin(tree, right, kind, tuple(conditions), within_of(node), span, as_of), shared


def _common_columns(left: Scope, right: LogicalNode, node: exp.Join) -> Iterator[tuple[str, Span | None]]:
    """Yield the columns of USING, or for NATURAL all columns that both sides have, each with its place.

    Without a common column, a NATURAL JOIN joins all rows, as the standard defines it.
    """
    if not node.method:
        for name in node.args["using"]:
            yield name.name, span_of(name)
        return
    ours = dict.fromkeys(column.name for source in left.sources for column in source.schema.columns)
    theirs = {column.name for source in right.sources for column in source.schema.columns}
    for name in ours:
        if name in theirs and not is_internal(name):
            yield name, span_of(node)


def is_outer_unnest(node: exp.Join) -> bool:
    """True of LEFT JOIN UNNEST(array) ON TRUE. Raises UserError 0A000 for any other condition, and for RIGHT and FULL."""
    kind, on = _kind(node), node.args.get("on")
    always = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    if (
        kind not in (JoinKind.CROSS, JoinKind.INNER, JoinKind.LEFT)
        or not always
        or node.args.get("using")
        or node.method
    ):
        raise _refused(
            "UNNEST is joined with CROSS JOIN, or with LEFT JOIN … ON TRUE",
            span_of(node),
            "Write CROSS JOIN UNNEST(array) AS t(element), and move conditions to WHERE.",
        )
    return kind is JoinKind.LEFT


def refuse_outer_in_list(before: Sequence[exp.Join], node: exp.Join) -> None:
    """Raise 0A000 for `a, b RIGHT JOIN c`: the standard joins b with c only, and readers expect either."""
    if node.side in ("RIGHT", "FULL") and any(
        is_comma(join) and not isinstance(join.this, exp.Unnest) for join in before
    ):
        raise _refused(
            f"a {node.side} JOIN after a list of sources is not supported: it is ambiguous",
            span_of(node),
            "Write the list as JOIN … ON, or put a part of FROM into a subquery.",
        )


def with_subqueries_in_where(node: exp.Select) -> exp.Select:
    """Return a SELECT with the conditions of ON that contain a subquery in WHERE, which is the same for inner joins."""

    def movable(joins: Sequence[exp.Join]) -> list[tuple[exp.Join, list[exp.Expr]]]:
        result: list[tuple[exp.Join, list[exp.Expr]]] = []
        for place, join in enumerate(joins):
            on = join.args.get("on")
            outer = join.side or any(later.side in ("RIGHT", "FULL") for later in joins[place + 1 :])
            if on is not None and not outer and on.find(exp.Query) is not None:
                on = on.unnest()
                result.append((join, list(on.flatten()) if isinstance(on, exp.And) else [on]))
        return result

    if not movable(node.args.get("joins") or []):
        return node
    node = node.copy()
    where = node.args.get("where")
    conditions = [where.this] if where is not None else []
    for join, parts in movable(node.args["joins"]):
        conditions.extend(part for part in parts if part.find(exp.Query) is not None)
        rest = [part for part in parts if part.find(exp.Query) is None]
        join.set("on", reduce(_both, rest) if rest else None)
        join.set("kind", join.kind if rest else "CROSS")
    node.set("where", exp.Where(this=reduce(_both, conditions)))
    return node


def _both(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)


def _kind(node: exp.Join) -> JoinKind:
    side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
    return JoinKind.CROSS if is_comma(node) else JoinKind[side or kind or "INNER"]


def _shared(kind: JoinKind, ours: Expression, theirs: Expression) -> Expression:
    """Return the value of a USING column without a side's name: that of the side that is always present."""
    if kind is JoinKind.FULL:
        nullable = [replace(side, nullable=True) for side in (ours, theirs)]
        shared = common([ours.type, theirs.type]) or ours.type
        return call(CATALOGUE["COALESCE"], [as_type(side, shared) for side in nullable], span=ours.span)
    return theirs if kind is JoinKind.RIGHT else ours


def resolved(node: LogicalNode, where: list[Expression]) -> LogicalNode:
    """Return FROM with each join classified. Conditions that become part of a join are removed from `where`.

    Raises UserError 0A000 for a combination that is not supported, 42601 for a WITHIN that is out of place and bounds that nothing
    meets, 42804 for keys of types that cannot be compared.
    """
    if isinstance(node, Unnest):
        return replace(node, input=resolved(node.input, where))
    if not isinstance(node, PendingJoin):
        return node
    passes = node.kind in (JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT)
    join = replace(node, left=resolved(node.left, where if passes else []))
    result = _chosen(join, where)
    if join.as_of is not None:
        _check_as_of(result, join.as_of)
    return result


def _check_as_of(result: LogicalNode, time: Expression) -> None:
    """Raise 0A000 unless a join is a temporal one, by the event time that FOR SYSTEM_TIME AS OF names."""
    while isinstance(result, Filter):
        result = result.input
    if not isinstance(result, TemporalJoin) or not is_event_time(time, result.left):
        raise _refused(
            "FOR SYSTEM_TIME AS OF requires the event time of a stream's rows, and a changelog joined by its whole primary key",
            time.span,
            "Leave it out to join with the current rows, or with a table's rows at the time when the row is read.",
        )


def _chosen(join: PendingJoin, where: list[Expression]) -> LogicalNode:
    """Return the kind of join that its sides and its conditions make."""
    views = [is_snapshot(side) for side in join.inputs]
    if all(views) and join.within_ms is not None:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "WITHIN requires two streams; a materialized view has no event times",
            hint="Compare columns of the views in ON.",
            span=join.span,
        )
    if all(views):
        return SnapshotJoin(join.left, join.right, conjunction(join.on) if join.on else None, join.kind)
    if (
        views == [False, True]
        and isinstance(join.right, Scan)
        and join.right.relation.kind is RelationKind.TABLE
    ):
        return _lookup(join, join.right, where)
    if any(views):
        refuse_tables(join)
        is_inner = join.kind in (JoinKind.INNER, JoinKind.CROSS) and join.within_ms is None
        constants = unnested(join.left, join.right) if is_inner and views == [False, True] else None
        if constants is not None:
            return Filter(constants, conjunction(join.on)) if join.on else constants
        raise _refused(
            "rows without a source can be joined with a stream or changelog only as the right side of JOIN or CROSS JOIN",
            join.span,
            "Write FROM relation JOIN (VALUES …) AS t(column) ON …, or compute the columns in SELECT.",
        )
    return _continuous(join, where)


def _continuous(join: PendingJoin, where: list[Expression]) -> LogicalNode:
    appended = [traits(side).insert_only for side in join.inputs]
    if join.within_ms is not None and not all(appended):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"WITHIN requires two streams; the {'right' if appended[0] else 'left'} side is a CHANGELOG",
            hint="Leave WITHIN out: a stream's row is joined with the changelog's row as of its event time.",
            span=join.span,
        )
    inner = join.kind in (JoinKind.INNER, JoinKind.CROSS)
    meeting = [part for part in where if _meets(part, join)] if inner else []
    conditions = list(join.on)
    if join.kind is JoinKind.CROSS:
        conditions.extend(part for part in meeting if _sides(part, join) is not None)
    within = _bounds(join, conditions, meeting) if all(appended) else None
    if within is not None:
        # A strict bound is a condition too: it stays where it was.
        _take(where, [part for part in meeting if part not in within.rest])
        conditions = [part for part in within.rest if part in conditions]
    if inner:
        _take(where, conditions)
    sides = [(part, _sides(part, join)) for part in conditions]
    versions = _versions(join.right)
    if appended == [True, False] and versions is not None and join.kind is not JoinKind.FULL:
        temporal = _temporal(join, versions, sides)
        if temporal is not None:
            return temporal
    return _by_keys(join, within, sides)


def _bounds(
    join: PendingJoin, conditions: Sequence[Expression], meeting: Sequence[Expression]
) -> Bounds | None:
    keyed = any(_sides(part, join) is not None for part in conditions)
    all_conditions = [*conditions, *(part for part in meeting if part not in conditions)]
    if join.within_ms is None:
        return bounds(all_conditions, join.left, join.right) if keyed else None
    if not keyed:
        raise _refused(
            "a join WITHIN a time span requires an equality between a column of each side",
            join.span,
            "Write ON a.x = b.x, with further conditions after AND.",
        )
    return Bounds(-join.within_ms, join.within_ms, tuple(all_conditions))


def _take(where: list[Expression], parts: Iterable[Expression]) -> None:
    """Remove the conditions that a join already applies."""
    for part in parts:
        if part in where:
            where.remove(part)


def _by_keys(
    join: PendingJoin, within: Bounds | None, sides: Sequence[tuple[Expression, Pair | None]]
) -> LogicalNode:
    """Return a regular join or an interval join: equalities are its keys, other conditions filter pairs or, in an outer join, matches."""
    keys = [same_type(*pair, span=part.span) for part, pair in sides if pair is not None]
    rest = [part for part, pair in sides if pair is None]
    inner = join.kind in (JoinKind.INNER, JoinKind.CROSS)
    kind = JoinKind.INNER if inner else join.kind
    condition = conjunction(rest) if rest else None
    left_keys, right_keys = tuple(ours for ours, _ in keys), tuple(theirs for _, theirs in keys)
    above = None if inner else condition
    joined: LogicalNode
    if within is not None:
        joined = IntervalJoin(
            join.left, join.right, left_keys, right_keys, within.lower_ms, within.upper_ms, kind, above
        )
    else:
        joined = RegularJoin(join.left, join.right, left_keys, right_keys, kind, above)
    return Filter(joined, condition) if inner and condition is not None else joined


def _versions(node: LogicalNode) -> Scan | Subquery | None:
    """Return the versioned source, which has event times by key: a changelog, or a materialized view that selects from one row by row."""
    if isinstance(node, Scan):
        return node
    if not isinstance(node, Subquery) or node.view is None:
        return None
    below: LogicalNode = node
    while isinstance(below, Subquery | Project | Filter):
        below = below.input
    return node if isinstance(below, Scan) else None


def _temporal(
    join: PendingJoin, right: Scan | Subquery, sides: Sequence[tuple[Expression, Pair | None]]
) -> LogicalNode | None:
    """Return the join with the version of the changelog's key that is valid at a row's time; None unless its whole key is given."""
    key = {name for _, name in traits(right).key or ()}
    chosen: dict[str, Expression] = {}
    rest: list[Expression] = []
    for part, pair in sides:
        column = pair[1].column if pair is not None and isinstance(pair[1], ColumnReference) else None
        if pair is None or column not in key or column in chosen:
            rest.append(part)
        else:
            chosen[column] = _as_key(pair, column, right)
    if not key or set(chosen) != key or join.kind is JoinKind.RIGHT:
        return None
    kind = JoinKind.LEFT if join.kind is JoinKind.LEFT else JoinKind.INNER
    condition = conjunction(rest) if rest else None
    above = condition if kind is JoinKind.LEFT else None
    joined = TemporalJoin(join.left, right, tuple(chosen.values()), tuple(chosen), kind, above)
    return Filter(joined, condition) if condition is not None and above is None else joined


def _lookup(join: PendingJoin, table: Scan, where: list[Expression]) -> LogicalNode:
    """Return the join with the rows that a table has for the keys: equalities with its columns; the rest is a filter, or decides what
    matches."""
    name = table.relation.name
    if join.within_ms is not None:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"WITHIN requires two streams; {name} is a TABLE",
            hint=(
                "Leave WITHIN out: a row is joined with the table's content at the time when the row is read."
            ),
            span=join.span,
        )
    if join.kind not in (JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT):
        raise _refused(
            f"a {join.kind.name} JOIN with the table {name} is not supported: a table is looked up, and its "
            "changes are not read",
            join.span,
            "Use JOIN or LEFT JOIN, with the table on the right.",
        )
    if not traits(join.left).insert_only:
        raise _refused(
            f"a changelog cannot be joined with the table {name}: rows of earlier look-ups could not be "
            "removed",
            join.span,
            "Declare a STREAM over the changelog's entity. Or declare a CHANGELOG of the table's changes, if "
            "its store supports it.",
        )
    conditions = list(join.on)
    if join.kind is JoinKind.CROSS:
        conditions.extend(part for part in where if _sides(part, join) is not None)
        _take(where, conditions)
    keys: dict[str, Expression] = {}
    rest: list[Expression] = []
    for part in conditions:
        pair = _sides(part, join)
        column = pair[1].column if pair is not None and isinstance(pair[1], ColumnReference) else None
        if pair is None or column is None or column in keys:
            rest.append(part)
        else:
            keys[column] = _looked_up(pair, table)
    if not keys:
        raise _refused(
            f"a join with the table {name} requires an equality between a column of the table and a column of "
            "the stream",
            join.span,
            "Write ON stream.column = table.column, with further conditions after AND.",
        )
    inner = join.kind is not JoinKind.LEFT
    condition = conjunction(rest) if rest else None
    kind = JoinKind.INNER if inner else JoinKind.LEFT
    joined = LookupJoin(
        join.left, table, tuple(keys.values()), tuple(keys), kind, None if inner else condition
    )
    return Filter(joined, condition) if inner and condition is not None else joined


def _looked_up(pair: Pair, table: Scan) -> Expression:
    """Return the stream's side of a key, of a type in which equal values are found as such."""
    ours, theirs = pair
    kind = common([ours.type, theirs.type])
    if not (
        kind is not None
        and _is_key(theirs.type)
        and (
            kind == theirs.type
            or all(_is_exact(side) for side in (kind, theirs.type))
            or all(isinstance(side, Varchar) for side in (kind, theirs.type))
            or all(isinstance(side, Timestamp) for side in (kind, theirs.type))
        )
    ):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"rows of the table {table.relation.name} cannot be looked up by {theirs.type} with {ours.type}",
            hint=f"Use CAST(… AS {theirs.type}) on the stream's side."
            if _is_key(theirs.type)
            else "Use columns of integers, decimals, texts, bytes, dates, times or booleans.",
            span=ours.span,
        )
    return as_type(ours, kind)


def _is_key(kind: DataType) -> bool:
    return _is_exact(kind) or isinstance(kind, Varchar | Timestamp) or kind in (BOOLEAN, BYTES, DATE)


def _is_exact(kind: DataType) -> bool:
    return kind in INTEGRAL or isinstance(kind, Decimal)


def _as_key(pair: Pair, column: str, right: Scan | Subquery) -> Expression:
    ours, theirs = pair
    if common([ours.type, theirs.type]) != theirs.type:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the key {printed(right.alias)}.{printed(column)} is {theirs.type}, but is compared with "
            f"{ours.type}",
            hint=f"Use CAST(… AS {theirs.type}) on the stream's side.",
            span=ours.span,
        )
    return as_type(ours, theirs.type)


def _sides(part: Expression, join: PendingJoin) -> Pair | None:
    """Return the left and the right operand of an equality between the sides."""
    if not isinstance(part, Call) or part.function.name != "=":
        return None
    ours, theirs = ({source.alias for source in side.sources} for side in join.inputs)
    first, second = part.arguments
    read, also_read = _sources(first), _sources(second)
    if read and also_read and read <= ours and also_read <= theirs:
        return first, second
    if read and also_read and read <= theirs and also_read <= ours:
        return second, first
    return None


def _meets(part: Expression, join: PendingJoin) -> bool:
    """True when a condition reads both sides, and nothing else."""
    ours, theirs = ({source.alias for source in side.sources} for side in join.inputs)
    read = _sources(part)
    return bool(read & ours and read & theirs and read <= ours | theirs)


def _sources(expression: Expression) -> set[str]:
    return {reference.source for reference in references(expression)}


def _refused(message: str, span: Span | None, hint: str) -> UserError:
    return UserError(SqlState.FEATURE_NOT_SUPPORTED, message, hint=hint, span=span)
