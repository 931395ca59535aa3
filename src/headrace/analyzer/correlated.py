"""Correlated subqueries that return columns: LATERAL in FROM, and subqueries as values. They become joins by what they compare.

`SELECT MAX(x) FROM t WHERE t.k = a.k` is a LEFT JOIN with the groups of `t` by `k`, and `ORDER BY x LIMIT 3` a join with the first rows
of each `k`. In WHERE, IN and EXISTS are in `membership`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.analyzer.coercion import as_type, same_type, unify
from headrace.analyzer.expressions import (
    Call,
    ColumnReference,
    Expression,
    Literal,
    Over,
    SortKey,
    aggregates,
    conjuncts,
    over_rows,
    overs,
    references,
    transform,
    with_operands,
)
from headrace.analyzer.functions import CATALOGUE, OPERATORS_BY_NAME, WINDOW_FUNCTIONS
from headrace.analyzer.functions.composed import ROW
from headrace.analyzer.invocation import call, conjunction, equality
from headrace.analyzer.joins import PendingJoin
from headrace.analyzer.logical import (
    Aggregate,
    Filter,
    Item,
    JoinKind,
    LogicalNode,
    Project,
    RegularJoin,
    Scan,
    SingleRow,
    SnapshotJoin,
    Subquery,
    TopN,
    Unnest,
)
from headrace.analyzer.membership import Columns, Pair, sides
from headrace.analyzer.ordering import counted_rows, sort_keys
from headrace.analyzer.over import ONE
from headrace.analyzer.scope import UNNAMED
from headrace.analyzer.set_operations import set_operation
from headrace.analyzer.sources import is_snapshot
from headrace.analyzer.top_n import without_unread_ranks
from headrace.analyzer.traits import place_of, traits
from headrace.core.errors import Span, UserError
from headrace.core.internal_columns import PREFIX
from headrace.core.names import printed
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGER
from headrace.sql.ast import span_of, within_of

_ZERO_WITHOUT_ROWS = ("COUNT", "APPROX_COUNT_DISTINCT")


@dataclass(frozen=True)
class Inner:
    """The bound parts of a subquery: FROM with its own conditions, the correlated conditions, the SELECT list, GROUP BY and HAVING.

    `sort` binds a key of ORDER BY.
    """

    node: exp.Select
    rows: LogicalNode
    outside: Sequence[Expression]
    items: tuple[Item, ...]
    group_by: tuple[Expression, ...]
    having: Expression | None
    sort: Callable[[exp.Expr], Expression | None]
    span: Span | None


@dataclass(frozen=True)
class InnerSet:
    """The two sides of UNION, INTERSECT or EXCEPT in a LATERAL subquery."""

    node: exp.SetOperation
    left: Inner | InnerSet
    right: Inner | InnerSet
    span: Span | None

    @property
    def items(self) -> tuple[Item, ...]:
        """The SELECT list that names the columns."""
        return self.left.items


@dataclass(frozen=True)
class Beside:
    """A subquery as a join: its rows, with the `keys` and the `condition` by which outer rows meet them.

    `items` are the subquery's columns, computed of the columns of `right` and, if `mixed`, of outer columns. With `is_single` an outer
    row meets one row at most; with `always` an outer row that meets none has a row too.
    """

    right: Subquery
    keys: tuple[Pair, ...]
    items: tuple[Item, ...]
    condition: Expression | None = None
    is_single: bool = False
    always: bool = False
    mixed: Expression | None = None


def is_correlated(inner: Inner) -> bool:
    """True if the subquery reads columns of the outer query."""
    ours = {source.alias for source in inner.rows.sources}
    parts = [*inner.outside, *(item.expression for item in inner.items), *inner.group_by]
    return any(read.source not in ours for part in parts for read in references(part))


def whole_aggregate(inner: Inner) -> Aggregate | None:
    """Return a subquery that is an aggregate of all its rows; None if it is anything else."""
    words = ("group", "having", "order", "limit", "offset")
    if any(inner.node.args.get(word) is not None for word in words):
        return None
    if not any(aggregates(item.expression) for item in inner.items):
        return None
    query = Aggregate(inner.rows, (), inner.items)
    if is_snapshot(inner.rows):
        return query
    unread = without_unread_ranks(query)
    return unread if isinstance(unread, Aggregate) else query


def value(inner: Inner, alias: str) -> tuple[Callable[[LogicalNode], LogicalNode], Expression]:
    """Return a subquery as a value of the outer rows: how to join it with them, and its column.

    Raises UserError 0A000 if it may have several rows, and 42601 unless it has one column.
    """
    if isinstance(inner.rows, SingleRow) and not inner.outside:
        return (lambda rows: rows), _expressions(inner)[0].expression
    rows = _beside(inner, alias)
    if not rows.is_single or rows.mixed is not None:
        raise _refused(
            "a subquery that is a value may have several rows"
            if rows.mixed is None
            else "a subquery that is a value and reads a relation cannot compute with outer columns",
            inner.span if rows.mixed is None else rows.mixed.span,
            "Select an aggregate, add ORDER BY and LIMIT 1, or compare the whole primary key in its WHERE."
            if rows.mixed is None
            else "Compute it in the outer query.",
        )

    def joined(left: LogicalNode) -> LogicalNode:
        if is_snapshot(left):
            conditions = _conditions(rows)
            on = conjunction(conditions) if conditions else None
            return SnapshotJoin(left, rows.right, on, JoinKind.LEFT)
        ours, theirs = (tuple(pair[side] for pair in rows.keys) for side in (0, 1))
        return RegularJoin(left, rows.right, ours, theirs, JoinKind.LEFT, rows.condition)

    return joined, _nullable(rows.items[0].expression, alias)


def lateral(
    left: LogicalNode, inner: Inner | InnerSet, join: exp.Join, hidden: str
) -> tuple[LogicalNode, list[Expression]]:
    """Return `left` beside a LATERAL subquery, and conditions on the result. The alias `hidden` is free.

    Raises UserError 0A000 for what no join is equal to.
    """
    outer = _is_left(join)
    table = join.this.args.get("alias")
    alias = table.name if table is not None else f"{UNNAMED}{hidden.removeprefix(PREFIX)}"
    names = _names(inner, table.columns if table is not None else [])
    if isinstance(inner, Inner) and isinstance(inner.rows, SingleRow):
        items = _expressions(inner)
        if inner.outside and outer:
            raise _refused(
                "LEFT JOIN LATERAL of a subquery without FROM cannot have WHERE",
                inner.outside[0].span,
                "Write CASE WHEN condition THEN value END.",
            )
        return _computed_columns(left, [items], names, alias, inner.span), list(inner.outside)
    alternatives = _without_from(inner)
    if alternatives is not None:
        return _computed_columns(left, alternatives, names, alias, inner.span), []
    rows = _beside(inner, hidden)
    if outer and rows.mixed is not None:
        raise _refused(
            "LEFT JOIN LATERAL of a subquery with FROM cannot compute with outer columns",
            rows.mixed.span,
            "Compute it in the outer query.",
        )
    kind = JoinKind.LEFT if outer or rows.always else JoinKind.INNER
    if all(isinstance(item.expression, ColumnReference) for item in rows.items) and rows.mixed is None:
        rows = _under(rows, names, alias)
        return PendingJoin(left, rows.right, kind, tuple(_conditions(rows)), span=inner.span), []
    beside = PendingJoin(left, rows.right, kind, tuple(_conditions(rows)), span=inner.span)
    items = tuple(
        replace(item, expression=_nullable(item.expression, hidden)) if rows.always else item
        for item in rows.items
    )
    return _computed_columns(beside, [items], names, alias, inner.span), []


def _is_left(join: exp.Join) -> bool:
    """True of LEFT JOIN LATERAL (…) ON TRUE. Raises UserError 0A000 for any other condition, and for RIGHT and FULL."""
    on = join.args.get("on")
    always = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    if (
        join.side in ("RIGHT", "FULL")
        or join.method
        or join.args.get("using")
        or not always
        or within_of(join)
    ):
        raise _refused(
            "LATERAL is joined with a comma, CROSS JOIN, JOIN … ON TRUE or LEFT JOIN … ON TRUE",
            span_of(join),
            "Write the condition in the WHERE of the subquery.",
        )
    return bool(join.side == "LEFT")


def _names(inner: Inner | InnerSet, columns: Sequence[exp.Expr]) -> list[str]:
    names = [column.name for column in columns] or [item.name for item in inner.items]
    if len(names) != len(inner.items):
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"expected {len(inner.items)} column names, found {len(names)}",
            hint=f"The query returns {', '.join(printed(item.name) for item in inner.items)}.",
            span=span_of(columns[0]),
        )
    refuse_repeated(names, inner.span)
    return names


def refuse_repeated(names: Sequence[str], span: Span | None) -> None:
    """Raise 42P16 if two columns have one name."""
    repeated = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if repeated is not None:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"two output columns are named {printed(repeated)}",
            hint="Rename one of them with AS.",
            span=span,
        )


def _under(rows: Beside, names: Sequence[str], alias: str) -> Beside:
    """Return the rows under the alias and with the names that the outer query uses; compared columns keep internal names."""
    hidden = rows.right.alias
    shown = [Item(name, item.expression) for name, item in zip(names, rows.items, strict=True)]
    compared = dict.fromkeys(
        read for part in _conditions(rows) for read in references(part) if read.source == hidden
    )
    kept = [Item(column.column, column) for column in compared]
    right = Subquery(Project(rows.right, (*shown, *kept)), alias, rows.right.span)

    def moved(part: Expression) -> Expression:
        own = isinstance(part, ColumnReference) and part.source == hidden
        return replace(part, source=alias) if isinstance(part, ColumnReference) and own else part

    keys = tuple((ours, transform(theirs, moved)) for ours, theirs in rows.keys)
    condition = transform(rows.condition, moved) if rows.condition is not None else None
    return replace(rows, right=right, keys=keys, condition=condition)


def _conditions(rows: Beside) -> list[Expression]:
    """Return the conditions of the join."""
    rest = conjuncts(rows.condition) if rows.condition is not None else []
    return [*(equality(*pair) for pair in rows.keys), *rest]


def _nullable(expression: Expression, alias: str) -> Expression:
    """Return an expression of the columns of a side that may have no match."""

    def change(part: Expression) -> Expression:
        return (
            replace(part, nullable=True)
            if isinstance(part, ColumnReference) and part.source == alias
            else part
        )

    return transform(expression, change)


def _combined(inner: InnerSet, alias: str) -> Beside:
    """Return UNION, INTERSECT or EXCEPT as a join: that of the rows of both sides with the columns that they compare."""
    sides = [_beside(side, alias) for side in (inner.left, inner.right)]
    compared = [dict(side.keys) for side in sides]
    if compared[0].keys() != compared[1].keys() or any(
        side.condition is not None or side.mixed is not None or side.always or len(keys) < len(side.keys)
        for side, keys in zip(sides, compared, strict=True)
    ):
        raise _refused(
            "UNION, INTERSECT and EXCEPT in a LATERAL subquery require that both sides compare the same outer values, by equality only",
            inner.span,
            "Write WHERE b.x = a.x in both sides, and aggregates with GROUP BY. Or write a UNION ALL of two SELECTs with LATERAL.",
        )

    same_columns = len(inner.left.items) == len(inner.right.items)

    def rows(side: Beside, keys: dict[Expression, Expression]) -> LogicalNode:
        hidden = [Item(f"{PREFIX}key_{n}", keys[ours]) for n, ours in enumerate(compared[0], 1)]
        # An error of different numbers of columns does not count those that the text does not have.
        return Project(side.right, (*(hidden if same_columns else []), *side.items))

    result = set_operation(inner.node, *map(rows, sides, compared))
    right = Subquery(result, alias, inner.span)

    def column(name: str) -> ColumnReference:
        return _column(right.schema, alias, name, inner.span)

    keys = tuple((ours, column(f"{PREFIX}key_{n}")) for n, ours in enumerate(compared[0], 1))
    return Beside(right, keys, tuple(Item(item.name, column(item.name)) for item in inner.items))


def _beside(inner: Inner | InnerSet, alias: str) -> Beside:
    """Return a subquery with FROM as a join; `alias` is that of its rows."""
    if isinstance(inner, InnerSet):
        return _combined(inner, alias)
    _refuse_clauses(inner)
    own = {source.alias for source in inner.rows.sources}
    pairs: list[Pair] = []
    rest: list[Expression] = []
    for part in inner.outside:
        pair = sides(part, own)
        if pair is None:
            rest.append(part)
        else:
            pairs.append(same_type(*pair, span=part.span))
    counts = any(aggregates(item.expression) for item in inner.items) or bool(inner.group_by)
    limited = any(inner.node.args.get(word) is not None for word in ("order", "limit", "offset"))
    if rest and (counts or limited):
        raise _refused(
            "a correlated subquery with an aggregate, DISTINCT or LIMIT is compared with the outer query by equality only",
            rest[0].span or inner.span,
            "Write WHERE a.x = b.x, and other conditions of the subquery's own columns.",
        )
    if counts and limited:
        raise _refused(
            "a correlated subquery cannot combine an aggregate or DISTINCT with ORDER BY and LIMIT",
            inner.span,
            "Write the aggregate or DISTINCT in a subquery of its FROM.",
        )
    if inner.group_by:
        return _groups(inner, own, pairs, alias)
    if counts:
        return _aggregated(inner, own, pairs, alias)
    if limited:
        return _first_rows(inner, own, pairs, alias)
    columns = Columns(alias, own, PREFIX)
    keys = tuple((ours, columns.of(theirs)) for ours, theirs in pairs)
    condition = conjunction([columns.moved(part) for part in rest]) if rest else None
    mixed = next((item.expression for item in inner.items if _outer_reads([item.expression], own)), None)
    items = tuple(
        replace(
            item,
            expression=columns.moved(item.expression)
            if _outer_reads([item.expression], own)
            else columns.of(item.expression),
        )
        for item in inner.items
    )
    right = Subquery(Project(inner.rows, _shown(columns)), alias, inner.span)
    return Beside(right, keys, items, condition, _has_one(inner.rows, pairs), mixed=mixed)


def _shown(columns: Columns) -> tuple[Item, ...]:
    """Return the columns of a subquery; a constant one if none is needed, since rows have a column."""
    return columns.items or (Item(f"{PREFIX}column_1", ONE),)


def _refuse_clauses(inner: Inner) -> None:
    if (over := next((over for item in inner.items for over in overs(item.expression)), None)) is not None:
        raise _refused(
            "a correlated subquery cannot contain OVER",
            over.span,
            "Use ORDER BY and LIMIT for its first rows.",
        )
    if inner.having is not None and not inner.group_by:
        raise _refused(
            "a correlated subquery cannot contain HAVING without GROUP BY",
            inner.having.span,
            "Filter the result in the outer query.",
        )


def _expressions(inner: Inner) -> tuple[Item, ...]:
    """Return the columns of a subquery without FROM. Raises UserError 0A000 if it is more than a list of expressions."""
    words = ("group", "having", "order", "limit", "offset")
    over_rows_of_one = next((one for item in inner.items for one in over_rows(item.expression)), None)
    if over_rows_of_one is not None or any(inner.node.args.get(word) is not None for word in words):
        raise _refused(
            "a correlated subquery without FROM is a list of expressions",
            inner.span,
            "Write LATERAL (SELECT a.x + 1 AS y).",
        )
    return inner.items


def _groups(inner: Inner, own: set[str], pairs: Sequence[Pair], alias: str) -> Beside:
    """Return GROUP BY in a subquery: the groups of all its rows, by the compared columns too."""
    parts = [*(item.expression for item in inner.items), *inner.group_by]
    _refuse_outer(
        [*parts, *([inner.having] if inner.having is not None else [])], own, "with GROUP BY or DISTINCT"
    )
    theirs = [other for _, other in pairs]
    columns = Columns(alias, own, PREFIX)
    keys = tuple((ours, columns.of(other)) for ours, other in pairs)
    hidden = columns.items if pairs else ()
    named = [replace(item, name=f"{PREFIX}item_{n}") for n, item in enumerate(inner.items, 1)]
    group_by = tuple(dict.fromkeys([*theirs, *inner.group_by]))
    groups = Aggregate(inner.rows, group_by, (*hidden, *named), inner.having)
    right = Subquery(groups, alias, inner.span)
    items = tuple(
        Item(item.name, _column(right.schema, alias, hidden_item.name, item.expression.span))
        for item, hidden_item in zip(inner.items, named, strict=True)
    )
    return Beside(right, keys, items)


def _aggregated(inner: Inner, own: set[str], pairs: Sequence[Pair], alias: str) -> Beside:
    """Return aggregates without GROUP BY: those of the groups by the compared columns, and of no rows if there is no group."""
    columns = Columns(alias, own, PREFIX)
    keys = tuple((ours, columns.of(theirs)) for ours, theirs in pairs)

    def computed(aggregate: Call) -> Expression:
        _refuse_outer(aggregate.arguments, own, "in an aggregate")
        column = replace(columns.of(aggregate), nullable=True)
        if aggregate.function.name in _ZERO_WITHOUT_ROWS:
            zero = as_type(Literal(type=INTEGER, text="0", nullable=False), column.type)
            return replace(call(CATALOGUE["COALESCE"], [column, zero], span=aggregate.span), nullable=False)
        if aggregate.function.never_null or aggregate.function.name not in CATALOGUE:
            raise _refused(
                f"{aggregate.function.name} in a correlated subquery is not supported: it has a value without rows too",
                aggregate.span,
                "Write a LEFT JOIN with a GROUP BY in a subquery of FROM.",
            )
        return column

    def changed(expression: Expression) -> Expression:
        if isinstance(expression, Call) and expression.function.aggregate:
            return computed(expression)
        return with_operands(expression, changed)

    items = tuple(replace(item, expression=changed(item.expression)) for item in inner.items)
    for item in items:
        bare = next((read for read in references(item.expression) if read.source in own), None)
        if bare is not None:
            raise UserError(
                SqlState.GROUPING_ERROR,
                f"the column {bare.column} of a subquery without GROUP BY is not in an aggregate",
                hint="Aggregate it, such as MAX(column), or compare it with ORDER BY and LIMIT 1.",
                span=bare.span,
            )
    group_by = tuple(dict.fromkeys(theirs for _, theirs in pairs))
    right = Subquery(Aggregate(inner.rows, group_by, _shown(columns)), alias, inner.span)
    return Beside(right, keys, items, is_single=True, always=True)


def _first_rows(inner: Inner, own: set[str], pairs: Sequence[Pair], alias: str) -> Beside:
    """Return ORDER BY and LIMIT in a subquery: the first rows of each value of the compared columns."""
    _refuse_outer([item.expression for item in inner.items], own, "with ORDER BY or LIMIT")
    order = sort_keys(inner.node, inner.items, inner.sort)
    _refuse_outer([key.expression for key in order], own, "in ORDER BY")
    count, skipped = counted_rows(inner.node)
    if not count:
        raise _refused(
            "ORDER BY and OFFSET in a correlated subquery require LIMIT, at least 1",
            inner.span,
            "Add LIMIT n, or leave ORDER BY out.",
        )
    partition = tuple(dict.fromkeys(theirs for _, theirs in pairs))
    columns = Columns(alias, own, PREFIX)
    keys = tuple((ours, columns.of(theirs)) for ours, theirs in pairs)
    items = tuple(replace(item, expression=columns.of(item.expression)) for item in inner.items)
    first: LogicalNode
    if is_snapshot(inner.rows):
        first = _numbered(inner, _shown(columns), partition, order, count, skipped)
    else:
        top = TopN(inner.rows, partition, order, skipped + count, skipped=skipped, span=inner.span)
        first = Project(top, _shown(columns))
    return Beside(Subquery(first, alias, inner.span), keys, items, is_single=count == 1)


def _numbered(
    inner: Inner,
    items: tuple[Item, ...],
    partition: tuple[Expression, ...],
    order: tuple[SortKey, ...],
    count: int,
    skipped: int,
) -> LogicalNode:
    """Return the first rows of each partition in a query of views."""
    number = Over(
        function=WINDOW_FUNCTIONS["ROW_NUMBER"],
        arguments=(),
        partition_by=partition,
        order_by=order,
        type=BIGINT,
        nullable=False,
        span=inner.span,
    )
    place = Item(f"{PREFIX}place", number)
    rows = Subquery(Project(inner.rows, (*items, place)), f"{PREFIX}numbered", inner.span)

    def column(name: str) -> ColumnReference:
        return _column(rows.schema, rows.alias, name, inner.span)

    def compared(operator: str, value: int) -> Expression:
        limit = Literal(type=BIGINT, text=str(value), nullable=False)
        return call(OPERATORS_BY_NAME[operator], [column(place.name), limit], span=inner.span)

    within = conjunction([compared(">", skipped), compared("<=", skipped + count)])
    return Project(Filter(rows, within), tuple(Item(item.name, column(item.name)) for item in items))


def _column(schema: Schema, alias: str, name: str, span: Span | None) -> ColumnReference:
    column = next(column for column in schema.columns if column.name == name)
    return ColumnReference(source=alias, column=name, type=column.type, nullable=column.nullable, span=span)


def _has_one(rows: LogicalNode, pairs: Sequence[Pair]) -> bool:
    """True if there is one row at most for each value of the compared columns."""
    below = rows
    while isinstance(below, Filter):
        below = below.input
    if isinstance(below, Scan) and is_snapshot(below):
        names = below.relation.schema.primary_key
        key = tuple((below.alias, name) for name in names) or None
    else:
        key = traits(rows).key
    return key is not None and set(key) <= {place_of(theirs) for _, theirs in pairs}


def _outer_reads(parts: Sequence[Expression], own: set[str]) -> list[ColumnReference]:
    return [read for part in parts for read in references(part) if read.source not in own]


def _refuse_outer(parts: Sequence[Expression], own: set[str], where: str) -> None:
    for outer in _outer_reads(parts, own):
        raise _refused(
            f"a correlated subquery cannot read the outer column {outer.column} {where}",
            outer.span,
            "Compute it in the outer query.",
        )


def _without_from(inner: Inner | InnerSet) -> list[tuple[Item, ...]] | None:
    """Return the rows of a UNION ALL whose SELECTs have neither FROM nor WHERE; None for any other subquery."""
    if isinstance(inner, Inner):
        return [_expressions(inner)] if isinstance(inner.rows, SingleRow) and not inner.outside else None
    left, right = _without_from(inner.left), _without_from(inner.right)
    if (
        left is None
        or right is None
        or not isinstance(inner.node, exp.Union)
        or inner.node.args.get("distinct")
    ):
        return None
    # Raises the errors of columns that do not match.
    set_operation(inner.node, *(Project(SingleRow(), rows[0]) for rows in (left, right)))
    return [*left, *right]


def _computed_columns(
    rows: LogicalNode,
    elements: Sequence[Sequence[Item]],
    names: Sequence[str],
    alias: str,
    span: Span | None,
) -> Unnest:
    """Return rows with further columns, computed for each row: once for every element of an array."""
    columns = [
        unify([item.expression for item in column], "a column", span)[0]
        for column in zip(*elements, strict=True)
    ]
    values = [
        column[0] if len(column) == 1 else call(ROW, column, span=span)
        for column in zip(*columns, strict=True)
    ]
    schema = tuple(
        Column(name, column[0].type, nullable=any(value.nullable for value in column))
        for name, column in zip(names, columns, strict=True)
    )
    return Unnest(rows, call(CATALOGUE["ARRAY"], values, span=span), alias, schema)


def _refused(message: str, span: Span | None, hint: str) -> UserError:
    return UserError(SqlState.FEATURE_NOT_SUPPORTED, message, hint=hint, span=span)
