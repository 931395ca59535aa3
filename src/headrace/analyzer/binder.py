"""A parsed SELECT to a logical plan: sources, joins, groups, items, order.

One `SelectBinder` binds one SELECT; subqueries, WITH queries and the branches of a UNION get their own. What the language
allows beyond names and types is in `checks.CHECKS`, which run on the finished plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from sqlglot import exp

from headrace.analyzer.catalog_view import BindingContext
from headrace.analyzer.checks import CHECKS
from headrace.analyzer.coercion import as_type
from headrace.analyzer.expression_binder import ExpressionBinder
from headrace.analyzer.expressions import (
    INTERVAL,
    NULL,
    ColumnReference,
    Expression,
    FieldAccess,
    aggregates,
    conjuncts,
)
from headrace.analyzer.invocation import conjunction
from headrace.analyzer.joins import pending, refuse_conditions, resolved
from headrace.analyzer.lineage import BOUNDS, Role, Roles, role_of, roles
from headrace.analyzer.logical import (
    Aggregate,
    ChangeKind,
    Filter,
    Item,
    Limit,
    LogicalNode,
    LogicalPlan,
    Project,
    Scan,
    SingleRow,
    Sort,
    SortKey,
    Subquery,
    Union,
    walk,
)
from headrace.analyzer.properties import query_properties
from headrace.analyzer.scope import Scope
from headrace.analyzer.sources import SourceBinder, bind_unnest, is_snapshot, renamed
from headrace.analyzer.typing import common
from headrace.core.errors import Span, UserError
from headrace.core.names import printed
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.sql.ast import Select, span_of
from headrace.sql.limits import COLUMNS_MAX, too_many_columns

SUBQUERY_DEPTH_MAX = 32
SOURCES_MAX = 256
_ROWS_MAX = 2**63 - 1


def bind(select: Select, context: BindingContext) -> LogicalPlan:
    """The typed plan of a query.

    Raises UserError with the place of what is wrong: 3D020 relation, 42703 column, 42702 ambiguous, 42804 type, 3D017 function,
    3D008 property, 42803 grouping, 42P16 output names, 0A000 what is not supported.
    """
    plan = unchecked(select, context)
    for check in CHECKS:
        check(plan)
    return plan


def unchecked(select: Select, context: BindingContext) -> LogicalPlan:
    """As `bind`, without what `checks` has to say of the plan."""
    root = _bind_query(select.expression, context, {}, 0)
    return LogicalPlan(
        root=root,
        snapshot=is_snapshot(root),
        properties=query_properties(select.query_properties),
        partition_by=select.partition_by,
        span=select.span,
    )


def _bind_query(
    node: exp.Expr, context: BindingContext, known: Mapping[str, LogicalNode], depth: int
) -> LogicalNode:
    if depth > SUBQUERY_DEPTH_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"queries may be nested {SUBQUERY_DEPTH_MAX} deep at most",
            span=span_of(node),
        )
    with_clause = node.args.get("with_")
    for named in with_clause.expressions if with_clause is not None else ():
        columns = named.args["alias"].columns
        known = {**known, named.alias: renamed(_bind_query(named.this, context, known, depth + 1), columns)}
    if isinstance(node, exp.Subquery):
        return _bind_query(node.this, context, known, depth + 1)
    if isinstance(node, exp.Union):
        return _bind_union(node, context, known, depth)
    if not isinstance(node, exp.Select):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{type(node).__name__.upper()} is not supported",
            span=span_of(node),
        )
    return SelectBinder(node, context, known, depth).bound()


def _bind_union(
    node: exp.Union, context: BindingContext, known: Mapping[str, LogicalNode], depth: int
) -> LogicalNode:
    # A chain of UNIONs, which leans to the left, is no nesting.
    chained = isinstance(node.this, exp.Union)
    branches = [
        _bind_query(node.this, context, known, depth if chained else depth + 1),
        _bind_query(node.expression, context, known, depth + 1),
    ]
    first, second = (branch.schema.columns for branch in branches)
    span = span_of(node.expression)
    if len(first) != len(second):
        raise UserError(
            SqlState.DATATYPE_MISMATCH, f"UNION joins {len(first)} columns with {len(second)}", span=span
        )
    kinds = [common([left.type, right.type]) for left, right in zip(first, second, strict=True)]
    for kind, left, right in zip(kinds, first, second, strict=True):
        if kind is None:
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"the column {printed(left.name)} of UNION is {left.type} first and {right.type} then",
                hint="Use CAST(… AS type).",
                span=span,
            )
    cast = []
    for index, branch in enumerate(branches):
        reference = Scope(Subquery(branch, f"u{index}").sources)
        items = tuple(
            Item(
                name.name,
                as_type(reference.column(column.name, alias=f"u{index}", span=None), kind or column.type),
            )
            for name, column, kind in zip(first, branch.schema.columns, kinds, strict=True)
        )
        same = all(
            item.name == column.name and item.expression.type == column.type
            for item, column in zip(items, branch.schema.columns, strict=True)
        )
        cast.append(branch if same else Project(Subquery(branch, f"u{index}"), items))
    distinct = bool(node.args.get("distinct"))
    first_of_chain, last = cast
    if isinstance(first_of_chain, Union) and first_of_chain.distinct == distinct:
        union = Union((*first_of_chain.branches, last), distinct=distinct)
    else:
        union = Union((first_of_chain, last), distinct=distinct)
    return _ordered(node, union, lambda _: None)


class SelectBinder:
    """Binds one SELECT, clause by clause, in the order in which SQL gives them meaning."""

    def __init__(
        self, node: exp.Select, context: BindingContext, known: Mapping[str, LogicalNode], depth: int
    ) -> None:
        self._node = node
        self._context = context
        self._known = known
        self._depth = depth

    def bound(self) -> LogicalNode:
        """The plan of this SELECT."""
        sources = self._from()
        self._binder = ExpressionBinder(self._scope)
        where = self._node.args.get("where")
        if where is not None:
            condition = self._binder.condition(where.this, "WHERE")
            _refuse_aggregates(condition, "WHERE", "Use HAVING.")
            conditions = conjuncts(condition)
            source = resolved(sources, conditions)
            if conditions == conjuncts(condition):
                source = Filter(source, condition)
            elif conditions:
                source = Filter(source, conjunction(conditions))
        else:
            source = resolved(sources, [])
        items = self._items()
        output = self._grouped(source, items) or self._projected(source, items)
        return _ordered(self._node, output, lambda node: self._sort_expression(node, items))

    def _from(self) -> LogicalNode:
        """The sources, their joins still open; sets the scope."""
        clause = self._node.args.get("from_")
        self._scope = Scope(())
        if clause is None:
            return SingleRow()
        binder = SourceBinder(self._context, self._known, self._subquery)
        bound = binder.bind(clause.this)
        self._scope = Scope(bound.sources)
        for join in self._node.args.get("joins") or ():
            shared: Mapping[str, Expression] = {}
            if isinstance(join.this, exp.Unnest):
                refuse_conditions(join)
                bound = bind_unnest(join.this, bound, self._scope)
            else:
                bound, shared = pending(self._scope, bound, binder.bind(join.this), join)
            self._scope = Scope(bound.sources, {**self._scope.shared, **shared})
        aliases = [source.alias for source in bound.sources]
        for index, alias in enumerate(aliases):
            if alias in aliases[:index]:
                raise UserError(
                    SqlState.INVALID_RELATION_DEFINITION,
                    f"two sources in FROM are called {printed(alias)}",
                    hint="Give one another name with AS.",
                    span=span_of(clause),
                )
        self._limit(bound, span_of(clause))
        return bound

    def _limit(self, bound: LogicalNode, span: Span | None) -> None:
        """A WITH query stands in the plan as often as it is named, and may name others twice."""
        if (
            len(list(islice((node for node in walk(bound) if isinstance(node, Scan)), SOURCES_MAX + 1)))
            > SOURCES_MAX
        ):
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"expected {SOURCES_MAX} sources at most in one query, found more",
                hint="A WITH query is read once for each time that it is named. Store it as a relation, and read that.",
                span=span,
            )

    def _subquery(self, node: exp.Expr) -> LogicalNode:
        return _bind_query(node, self._context, self._known, self._depth + 1)

    # --- the select list

    def _items(self) -> tuple[Item, ...]:
        items: list[Item] = []
        for node in self._node.expressions:
            if len(items) > COLUMNS_MAX:
                break
            star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
            if isinstance(star, exp.Star):
                items.extend(self._expanded(node))
                continue
            alias = node.alias if isinstance(node, exp.Alias) else None
            expression = self._binder.bind(node.this if isinstance(node, exp.Alias) else node)
            if expression.type == NULL:
                expression = as_type(expression, VARCHAR)
            if expression.type == INTERVAL:
                raise UserError(
                    SqlState.DATATYPE_MISMATCH, "an INTERVAL cannot be an output column", span=expression.span
                )
            if isinstance(node, exp.Column) and len(node.parts) == 1:
                alias = node.name
            items.append(Item(alias or _natural_name(expression, len(items) + 1), expression))
        if len(items) > COLUMNS_MAX:
            raise too_many_columns(span_of(node))
        return tuple(items)

    def _expanded(self, node: exp.Expr) -> list[Item]:
        span = span_of(node)
        qualifier = node.parts[-2].name if isinstance(node, exp.Column) else None
        sources = self._scope.sources if qualifier is None else (self._scope.source(qualifier, span=span),)
        if not sources:
            raise UserError(SqlState.SYNTAX_ERROR, "* needs a FROM", span=span)
        shared = self._scope.shared if qualifier is None else {}
        return [
            *(Item(name, self._scope.column(name, alias=None, span=span)) for name in shared),
            *(
                Item(column.name, self._scope.column(column.name, alias=source.alias, span=span))
                for source in sources
                for column in source.schema.columns
                if column.name not in shared
            ),
        ]

    # --- projection and grouping

    def _projected(self, source: LogicalNode, items: tuple[Item, ...]) -> LogicalNode:
        distinct = self._node.args.get("distinct") is not None
        if distinct and not is_snapshot(source):
            names = tuple(item.name for item in items)
            return Aggregate(source, tuple(item.expression for item in items), items, key=names)
        return Project(source, items, _projected_key(source, items), distinct=distinct)

    def _grouped(self, source: LogicalNode, items: tuple[Item, ...]) -> LogicalNode | None:
        group = self._node.args.get("group")
        having = self._node.args.get("having")
        if group is None and having is None and not any(aggregates(item.expression) for item in items):
            return None
        keys = tuple(
            self._group_key(node, items) for node in (group.expressions if group is not None else ())
        )
        condition = self._binder.condition(having.this, "HAVING") if having is not None else None
        known = roles(source)
        grouped = {role_of(key, known) for key in keys}
        windowed = {Role.WINDOW_START, Role.WINDOW_END} <= grouped
        key = _grouped_key(keys, items, known if windowed else {})
        output = Aggregate(source, keys, items, condition, windowed=windowed, key=key)
        return _distinct(output) if self._node.args.get("distinct") is not None else output

    def _group_key(self, node: exp.Expr, items: tuple[Item, ...]) -> Expression:
        """An expression over the sources; a name that no source has may be an output column's."""
        named = None
        if isinstance(node, exp.Literal) and not node.is_string:
            named = items[_position(node, len(items), "GROUP BY")].expression
        if isinstance(node, exp.Column) and len(node.parts) == 1 and not self._scope.has(node.name):
            named = next((item.expression for item in items if item.name == node.name), None)
        bound = named if named is not None else self._binder.bind(node)
        _refuse_aggregates(bound, "GROUP BY", None)
        return bound

    def _sort_expression(self, node: exp.Expr, items: tuple[Item, ...]) -> Expression | None:
        """A key of ORDER BY that is no output column by name; of DISTINCT rows it must be one all the same."""
        bound = self._binder.bind(node)
        if self._node.args.get("distinct") is None:
            return bound
        item = next((item for item in items if item.expression == bound), None)
        return None if item is None else _output(Schema((item.column,)), item.name, bound.span)


def _distinct(groups: Aggregate) -> LogicalNode:
    """The different rows of a grouped SELECT."""
    (source,) = Subquery(groups, "groups").sources
    items = tuple(
        Item(name, Scope((source,)).column(name, alias=None, span=None)) for name in groups.schema.names
    )
    return Aggregate(
        Subquery(groups, "groups"),
        tuple(item.expression for item in items),
        items,
        key=groups.schema.names,
    )


def _position(node: exp.Expr, columns: int, clause: str) -> int:
    """The index of the column that a number in GROUP BY or ORDER BY means."""
    position = str(node.this)
    if not position.isdigit() or not 1 <= int(position) <= columns:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"{clause} position must be 1 to {columns}, found {position}",
            span=span_of(node),
        )
    return int(position) - 1


def _ordered(
    node: exp.Expr, output: LogicalNode, fallback: Callable[[exp.Expr], Expression | None]
) -> LogicalNode:
    """ORDER BY, LIMIT and OFFSET over a SELECT or UNION."""
    order = node.args.get("order")
    if order is not None:
        keys = tuple(_sort_key(ordered, output.schema, fallback) for ordered in order.expressions)
        output = Sort(output, keys)
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is not None or offset is not None:
        count = _count(limit, "LIMIT") if limit is not None else None
        output = Limit(output, count, _count(offset, "OFFSET") if offset is not None else 0)
    return output


def _count(clause: exp.Expr, what: str) -> int:
    literal = clause.args.get("expression")
    if not isinstance(literal, exp.Literal) or literal.is_string or not str(literal.this).isdecimal():
        raise UserError(SqlState.SYNTAX_ERROR, f"{what} takes a whole number", span=span_of(clause))
    if int(str(literal.this)) > _ROWS_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED, f"{what} takes {_ROWS_MAX} at most", span=span_of(clause)
        )
    return int(str(literal.this))


def _sort_key(
    ordered: exp.Expr, schema: Schema, fallback: Callable[[exp.Expr], Expression | None]
) -> SortKey:
    node = ordered.this
    span = span_of(node)
    expression: Expression | None = None
    if isinstance(node, exp.Literal) and not node.is_string:
        name = schema.names[_position(node, len(schema.columns), "ORDER BY")]
        expression = _output(schema, name, span)
    elif isinstance(node, exp.Column) and len(node.parts) == 1 and schema.column(node.name) is not None:
        expression = _output(schema, node.name, span)
    else:
        expression = fallback(node)
    if expression is None:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            "ORDER BY of a UNION or of SELECT DISTINCT takes output columns",
            span=span,
        )
    return SortKey(expression, bool(ordered.args.get("desc")), ordered.args.get("nulls_first"))


def _output(schema: Schema, name: str, span: Span | None) -> ColumnReference:
    column = next(column for column in schema.columns if column.name == name)
    return ColumnReference(source="", column=name, type=column.type, nullable=column.nullable, span=span)


def _refuse_aggregates(expression: Expression, clause: str, hint: str | None) -> None:
    for found in aggregates(expression):
        raise UserError(
            SqlState.GROUPING_ERROR,
            f"{found.function.name} cannot be in {clause}",
            hint=hint,
            span=found.span,
        )


def _natural_name(expression: Expression, position: int) -> str:
    if isinstance(expression, ColumnReference) and not expression.column.startswith("__"):
        return expression.column
    if isinstance(expression, FieldAccess):
        return expression.name
    return f"expr_{position}"


def _named(items: tuple[Item, ...], expression: Expression) -> str | None:
    return next((item.name for item in items if item.expression == expression), None)


def _projected_key(source: LogicalNode, items: tuple[Item, ...]) -> tuple[str, ...]:
    """The output names of the source's primary key; empty unless all of it is projected as it is."""
    if source.change is ChangeKind.APPEND:
        return ()
    keyed = source.sources[0]
    names = []
    for key in keyed.schema.primary_key:
        column = keyed.schema.column(key)
        name = next(
            (
                item.name
                for item in items
                if isinstance(item.expression, ColumnReference)
                and (item.expression.source, item.expression.column) == (keyed.alias, key)
            ),
            None,
        )
        if column is None or name is None:
            return ()
        names.append(name)
    return tuple(names)


def _grouped_key(keys: tuple[Expression, ...], items: tuple[Item, ...], known: Roles) -> tuple[str, ...]:
    """The output names of the groups; empty unless they identify a group. One bound of a window is enough for the window."""
    names: list[str] = []
    bounds = 0
    for key in keys:
        name = _named(items, key)
        window = role_of(key, known) in BOUNDS
        if name is None and not window:
            return ()
        bounds += window and name is not None
        if name is not None and name not in names:
            names.append(name)
    return tuple(names) if bounds or not known else ()
