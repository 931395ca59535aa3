"""A parsed SELECT to a logical plan: sources, joins, groups, items, order.

One `SelectBinder` binds one SELECT; subqueries, WITH queries and the branches of a UNION get their own. What the language
allows beyond names and types is in `checks.CHECKS`, which run on the finished plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast

from sqlglot import exp

from headrace.analyzer.catalog_view import BindingContext
from headrace.analyzer.changelogs import converted
from headrace.analyzer.checks import CHECKS
from headrace.analyzer.coercion import as_type
from headrace.analyzer.correlated import Inner, InnerSet, is_correlated, lateral, whole_aggregate
from headrace.analyzer.correlated import value as value_of_row
from headrace.analyzer.expression_binder import ExpressionBinder, field_of, refuse_aggregates, struct_fields
from headrace.analyzer.expressions import (
    ColumnReference,
    Expression,
    FieldAccess,
    aggregates,
    conjuncts,
    references,
)
from headrace.analyzer.functions import is_aggregate, is_built_in
from headrace.analyzer.grouping_sets import grouping_sets, of_snapshot, of_stream
from headrace.analyzer.invocation import conjunction
from headrace.analyzer.joins import (
    is_outer_unnest,
    pending,
    refuse_outer_in_list,
    resolved,
    with_subqueries_in_where,
)
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
    SourceColumns,
    Subquery,
    Unnest,
    walk,
)
from headrace.analyzer.membership import (
    Asked,
    Membership,
    answered,
    joined,
    membership,
    refuse_without_source,
    split,
    unknown_is_false,
)
from headrace.analyzer.ordering import in_order_of_arrival, ordered, output_column, position, sort_keys
from headrace.analyzer.over_aggregates import over_aggregates
from headrace.analyzer.plan import LogicalPlan
from headrace.analyzer.qualify import outer_select
from headrace.analyzer.scope import Scope
from headrace.analyzer.set_operations import set_operation
from headrace.analyzer.source_properties import query_properties
from headrace.analyzer.sources import SourceBinder, bind_unnest, is_snapshot, refuse_tables, renamed
from headrace.analyzer.subquery_values import ASKED, SCALAR, Value, divided, over_groups, reads_value
from headrace.analyzer.top_n import first_rows, without_unread_ranks
from headrace.analyzer.views import has_end, inlined, names_streams
from headrace.catalog.objects import FunctionKind, Relation
from headrace.core.errors import Span, UserError
from headrace.core.internal_columns import PREFIX, is_internal
from headrace.core.names import printed
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import name_suggestion
from headrace.core.types import INTERVAL, NULL, VARCHAR
from headrace.core.wording import counted
from headrace.sql.ast import Select, span_of, star_of
from headrace.sql.limits import COLUMNS_MAX, too_many_columns

SUBQUERY_DEPTH_MAX = 32
SOURCES_MAX = 100


def bind(select: Select, context: BindingContext, *, continuous: bool = False) -> LogicalPlan:
    """Return the typed plan of a query, which is `continuous` if it is to be, or if it names a stream or a changelog.

    A query that names no relations but tables of stores has an end, also if it is to be continuous.

    Raises UserError with the place of what is wrong: 3D020 relation, 42703 column, 42702 ambiguous, 42804 type, 3D017 function,
    3D008 property, 42803 grouping, 42P16 output names, 0A000 what is not supported.
    """
    plan = unchecked(select, context, continuous=continuous)
    for check in CHECKS:
        check(plan)
    return plan


def unchecked(select: Select, context: BindingContext, *, continuous: bool = False) -> LogicalPlan:
    """Bind as `bind` does, without the rules of `checks`."""
    properties = query_properties(select.query_properties.entries)
    query = select.expression
    if not has_end(query, context) if continuous else names_streams(query, context):
        context = replace(context, continuous=properties)
    root = _bind_query(query, context, {}, 0)
    if context.continuous is not None:
        refuse_tables(root)
    snapshot = is_snapshot(root)
    if not snapshot:
        root = over_aggregates(in_order_of_arrival(root, has_end=not continuous))
    return LogicalPlan(
        root=root,
        snapshot=snapshot,
        of_constants=continuous and snapshot and not any(isinstance(node, Scan) for node in walk(root)),
        properties=properties,
        partition_by=select.partition_by,
        span=select.span,
    )


def _bind_query(
    node: exp.Expr, context: BindingContext, known: Mapping[str, LogicalNode], depth: int
) -> LogicalNode:
    _refuse_depth(depth, node)
    known = _with_named(node, context, known, depth)
    if isinstance(node, exp.Subquery):
        return ordered(node, _bind_query(node.this, context, known, depth + 1), lambda _: None)
    if isinstance(node, exp.SetOperation):
        # A chain of UNIONs, which leans to the left, is no nesting.
        chained = isinstance(node.this, exp.SetOperation)
        branches = (
            _bind_query(node.this, context, known, depth if chained else depth + 1),
            _bind_query(node.expression, context, known, depth + 1),
        )
        return ordered(node, set_operation(node, *branches), lambda _: None)
    if not isinstance(node, exp.Select):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{type(node).__name__.upper()} is not supported",
            span=span_of(node),
        )
    if node.args.get("qualify") is not None:
        node = outer_select(node)
    return SelectBinder(node, context, known, depth).bound()


def _with_named(
    node: exp.Expr, context: BindingContext, known: Mapping[str, LogicalNode], depth: int
) -> Mapping[str, LogicalNode]:
    """Return the WITH queries that a query may read: those of its own WITH too."""
    with_clause = node.args.get("with_")
    for named in with_clause.expressions if with_clause is not None else ():
        columns = named.args["alias"].columns
        known = {**known, named.alias: renamed(_bind_query(named.this, context, known, depth + 1), columns)}
    return known


def _refuse_depth(depth: int, node: exp.Expr) -> None:
    if depth > SUBQUERY_DEPTH_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"queries may be nested at most {SUBQUERY_DEPTH_MAX} levels deep",
            hint="Store an inner query as a relation, and read that relation.",
            span=span_of(node),
        )


class SelectBinder:
    """Binds one SELECT, clause by clause, in the order in which SQL evaluates them."""

    def __init__(
        self, node: exp.Select, context: BindingContext, known: Mapping[str, LogicalNode], depth: int
    ) -> None:
        self._node = with_subqueries_in_where(node)
        self._context = context
        self._known = known
        self._depth = depth
        self._asked = 0
        self._values: list[Value] = []
        self._unknown_is_false = set(unknown_is_false(self._node))
        self._of_laterals: list[Expression] = []
        self._bounded = False
        self._takes_values = True
        self._over_groups: Callable[[Expression], Expression] = lambda expression: expression

    def bound(self) -> LogicalNode:
        """Return the plan of this SELECT."""
        source, _ = self._rows(())
        items = self._items()
        output = self._grouped(source, items) or self._projected(source, items)
        if not is_snapshot(source):
            output = without_unread_ranks(output)
        self._takes_values = False  # ORDER BY comes too late to ask for values
        return ordered(self._node, output, lambda node: self._sort_expression(node, items))

    def asked(self, outer: tuple[SourceColumns, ...], *, values: int) -> Asked:
        """Return the rows of a subquery of WHERE that may name the `outer` sources, with as many columns as IN compares."""
        rows, outside = self._rows(outer)
        items = self._items()
        rows = self._with_values(rows)
        if not values:
            return Asked(rows, (), outside)
        _refuse_columns(_OF_IN, len(items), span_of(self._node), values)
        beyond = {source.alias for source in outer} - {source.alias for source in rows.sources}
        outer_item = next(
            (item for item in items if any(read.source in beyond for read in references(item.expression))),
            None,
        )
        if outer_item is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "the right side of IN must depend on the sources of the subquery only",
                hint="Write EXISTS (SELECT 1 FROM … WHERE …).",
                span=outer_item.expression.span,
            )
        return Asked(rows, [item.expression for item in items], outside)

    def _rows(self, outer: tuple[SourceColumns, ...]) -> tuple[LogicalNode, list[Expression]]:
        """Return FROM and WHERE, and the conditions of WHERE that read `outer` sources."""
        sources = self._from()
        aliases = {source.alias for source in sources.sources}
        reachable = tuple(source for source in outer if source.alias not in aliases)
        self._bounded = is_snapshot(sources)
        named = frozenset(item.alias for item in self._node.expressions if isinstance(item, exp.Alias))
        scope = replace(self._scope, outer=reachable, aliases=named, database=self._context.session.database)
        self._binder = ExpressionBinder(scope, self._value)
        where = self._node.args.get("where")
        if where is None and not self._of_laterals:
            return self._limited(resolved(sources, [])), []
        plain, memberships, mixed = split(where.this) if where is not None else ([], [], [])
        whole = [where.this] if where is not None and not memberships and not mixed else plain
        bound = [self._binder.condition(node, "WHERE") for node in whole]
        for condition in bound:
            refuse_aggregates(condition, "WHERE", "Use HAVING.")
        bound.extend(self._of_laterals)
        parts = [part for condition in bound for part in conjuncts(condition)]
        beyond = {source.alias for source in reachable}
        outside = [part for part in parts if any(read.source in beyond for read in references(part))]
        conditions = [part for part in parts if part not in outside]
        if not is_snapshot(sources):
            sources = first_rows(sources, conditions)
        source = resolved(sources, conditions)
        # What needs no value filters first: fewer rows are joined with the values.
        later = [part for part in conditions if reads_value(part)]
        own = [part for part in conditions if part not in later]
        if own:
            source = Filter(source, bound[0] if [*conjuncts(bound[0])] == own else conjunction(own))
        source = self._with_values(source)
        if later:
            source = Filter(source, conjunction(later))
        for member in memberships:
            source = self._joined(source, member)
        for node in mixed:
            source = self._filtered_by_answers(source, node, beyond)
        return self._limited(source), outside

    def _filtered_by_answers(self, source: LogicalNode, node: exp.Expr, beyond: set[str]) -> LogicalNode:
        """Return `source` where a condition is true that combines IN and EXISTS by OR."""
        condition = self._binder.condition(node, "WHERE")
        refuse_aggregates(condition, "WHERE", "Use HAVING.")
        if any(read.source in beyond for read in references(condition)):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "IN and EXISTS under OR must not be combined with columns of the outer query",
                hint="Write a condition of its own for each, joined with AND.",
                span=condition.span,
            )
        return Filter(self._with_values(source), condition)

    def _joined(self, source: LogicalNode, member: Membership) -> LogicalNode:
        """Return the rows of `source` for which an IN or EXISTS is true."""
        self._asked += 1
        number = self._asked
        operands = [self._binder.bind(operand) for operand in member.operands]
        for operand in operands:
            refuse_aggregates(operand, "WHERE", "Use HAVING.")
        if operands:
            source = self._with_values(source)
        inner = self._asked_rows(source.sources, member, len(operands))
        return joined(source, member, operands, inner, f"{ASKED}{number}")

    def _asked_rows(self, outer: tuple[SourceColumns, ...], member: Membership, values: int) -> Asked:
        """Return the subquery of an IN of so many values, or of an EXISTS."""
        query = member.query
        if isinstance(query, exp.Select):
            binder = SelectBinder(query, self._context, self._known, self._depth + 1)
            if not binder.is_grouped:
                return binder.asked(outer, values=values)
        rows = Subquery(self._subquery(query), "asked")
        columns = rows.schema.columns if values else ()
        if values:
            _refuse_columns(_OF_IN, len(columns), member.span, values)
        scope = Scope(rows.sources)
        return Asked(rows, [scope.column(column.name, alias=None, span=None) for column in columns], ())

    def _value(self, node: exp.Expr) -> Expression:
        """Return a subquery as a value of the rows, or the groups, of this SELECT: a scalar, or the answer of IN or EXISTS."""
        self._asked += 1
        number = self._asked
        if not self._takes_values:
            raise _no_value(
                "in SELECT, WHERE and HAVING",
                node,
                "Select it AS a column, and ORDER BY the name of that column.",
            )
        member = membership(node, negated=id(node) not in self._unknown_is_false)
        if member is None:
            value = self._scalar(node, number)
        else:
            operands = [self._binder.bind(operand) for operand in member.operands]
            inner = self._asked_rows(self._scope.sources, member, len(operands))
            if is_snapshot(inner.rows) and not self._bounded:
                refuse_without_source(inner.rows, member.span)
            if self._bounded and not is_snapshot(inner.rows):
                raise _no_value(_OF_ROWS, node)
            value = Value(*answered(member, operands, inner, f"{ASKED}{number}"), operands)
        self._values.append(value)
        return replace(value.expression, span=span_of(node))

    def _scalar(self, node: exp.Expr, number: int) -> Value:
        """Return a subquery that has one row for sure, for all rows of this SELECT, or one row at most for each of them."""
        inner = self._inner(node, node.this, "a subquery as a value")
        if not isinstance(inner.rows, SingleRow) and is_snapshot(inner.rows) is not self._bounded:
            raise _no_value(_OF_ROWS, node)
        _refuse_columns("a subquery that is a value", len(inner.items), span_of(node))
        if is_correlated(inner):
            return Value(*value_of_row(inner, f"{SCALAR}of_row_{number}"))
        query = whole_aggregate(inner)
        if query is None:
            raise _no_value("where it is one aggregate, without GROUP BY and HAVING", node)
        source = Subquery(query, f"{SCALAR}{number}")

        def crossed(rows: LogicalNode) -> LogicalNode:
            if self._bounded:
                return SnapshotJoin(rows, source, None, JoinKind.CROSS)
            return RegularJoin(rows, source, (), ())

        return Value(
            crossed, Scope(source.sources).column(query.items[0].name, alias=source.alias, span=None)
        )

    def _inner(self, node: exp.Expr, query: exp.Expr, name: str) -> Inner:
        """Return the bound parts of a subquery that may read columns of this SELECT. `name` is that of the form, for errors at `node`."""
        refused = "QUALIFY" if query.args.get("qualify") is not None else None
        if query.args.get("distinct") is not None and query.args.get("group") is not None:
            refused = "DISTINCT and GROUP BY"
        if not isinstance(query, exp.Select) or refused is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name} cannot be a query with {refused or 'UNION, INTERSECT, EXCEPT or VALUES'}",
                hint="Put that query into the FROM of the subquery.",
                span=span_of(node),
            )
        known = _with_named(query, self._context, self._known, self._depth + 1)
        return SelectBinder(query, self._context, known, self._depth + 1).inner(
            self._scope.sources, span_of(node)
        )

    def _inner_set(self, node: exp.Expr, query: exp.Expr) -> Inner | InnerSet:
        """Return the bound parts of a LATERAL subquery, which may combine several SELECTs."""
        clauses = ("order", "limit", "offset", "with_")
        plain = not any(query.args.get(clause) is not None for clause in clauses)
        if isinstance(query, exp.Subquery) and plain:
            return self._inner_set(node, query.this)
        if isinstance(query, exp.SetOperation) and plain:
            left, right = (self._inner_set(node, side) for side in (query.this, query.expression))
            return InnerSet(query, left, right, span_of(node))
        return self._inner(node, query, "a LATERAL subquery")

    def inner(self, outer: tuple[SourceColumns, ...], span: Span | None) -> Inner:
        """Return the bound parts of this SELECT, which may name the `outer` sources."""
        _refuse_depth(self._depth, self._node)
        rows, outside = self._rows(outer)
        items = self._items()
        group, having = self._node.args.get("group"), self._node.args.get("having")
        elements = group.expressions if group is not None else ()
        if grouping_sets(elements, lambda element: self._group_key(element, items)) is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "GROUPING SETS in a LATERAL subquery or a subquery as a value are not supported",
                hint="Put the groups into a subquery of its FROM.",
                span=span,
            )
        keys = tuple(self._group_key(element, items) for element in elements)
        condition = self._binder.condition(having.this, "HAVING") if having is not None else None
        parts = [*(item.expression for item in items), *([condition] if condition is not None else [])]
        aggregated = [call for part in parts for call in aggregates(part)]
        if self._node.args.get("distinct") is not None and not aggregated:
            keys = tuple(dict.fromkeys(item.expression for item in items))
        rows = self._with_values(rows, [*keys, *aggregated] if keys or aggregated else None)
        if self._values:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "a subquery that is a value or in LATERAL cannot combine its aggregates with a subquery",
                hint="Select the aggregates here, and compute with the inner subquery in the outer query.",
                span=self._values[0].expression.span or span,
            )
        self._takes_values = False
        return Inner(
            self._node,
            rows,
            outside,
            items,
            keys,
            condition,
            lambda key: self._sort_expression(key, items),
            span,
        )

    def _with_values(self, source: LogicalNode, readers: Sequence[Expression] | None = None) -> LogicalNode:
        """Return `source` with the values that expressions have requested since: with `readers`, those that these read."""
        first, self._values = divided(self._values, readers) if readers is not None else (self._values, [])
        for value in first:
            for operand in value.operands:
                refuse_aggregates(
                    operand, "IN here", "Use HAVING, or put the groups into a subquery of FROM."
                )
            source = value.join(source)
        return source

    def _lateral(self, bound: LogicalNode, join: exp.Join) -> LogicalNode:
        """Return the sources so far beside a LATERAL subquery."""
        self._asked += 1
        inner = self._inner_set(join.this, join.this.this)
        bound, conditions = lateral(bound, inner, join, f"{PREFIX}lateral_{self._asked}")
        self._of_laterals.extend(conditions)
        return bound

    @property
    def is_grouped(self) -> bool:
        """True if the rows of this SELECT do not correspond one to one to those of its FROM."""
        words = ("group", "having", "distinct", "limit", "offset", "qualify", "with_")
        return any(self._node.args.get(word) is not None for word in words) or any(
            self._is_aggregate(call.name)
            for item in self._node.expressions
            for call in item.find_all(exp.Anonymous)
        )

    def _is_aggregate(self, name: str) -> bool:
        if is_built_in(name):
            return is_aggregate(name)
        return any(item.function.kind is FunctionKind.AGGREGATE for item in self._context.overloads(name))

    def _from(self) -> LogicalNode:
        """Return the sources, their joins still open; sets the scope."""
        clause = self._node.args.get("from_")
        self._scope = Scope((), overloads=self._context.overloads)
        if clause is None:
            return SingleRow()
        binder = SourceBinder(self._node, self._context, self._known, self._subquery, self._view, converted)
        if clause.this.args.get("system_time") is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "FOR SYSTEM_TIME AS OF is supported in a join only",
                hint="Write FROM stream AS s JOIN changelog FOR SYSTEM_TIME AS OF s.time AS c ON s.key = c.key.",
                span=span_of(clause.this.args["system_time"]),
            )
        bound = binder.bind(clause.this)
        self._scope = replace(self._scope, sources=bound.sources)
        joins = self._node.args.get("joins") or []
        for place, join in enumerate(joins):
            refuse_outer_in_list(joins[:place], join)
            shared: Mapping[str, Expression] = {}
            if join.this.args.get("lateral"):
                bound = self._lateral(bound, join)
            elif isinstance(join.this, exp.Unnest):
                bound = bind_unnest(join.this, bound, self._scope, outer=is_outer_unnest(join))
            else:
                bound, shared = pending(self._scope, bound, binder.bind(join.this), join)
            self._scope = replace(self._scope, sources=bound.sources, shared={**self._scope.shared, **shared})
        aliases = [source.alias for source in bound.sources]
        for index, alias in enumerate(aliases):
            if alias in aliases[:index]:
                raise UserError(
                    SqlState.INVALID_RELATION_DEFINITION,
                    f"two sources in FROM are named {printed(alias)}",
                    hint="Rename one of them with AS.",
                    span=span_of(clause),
                )
        return bound

    def _limited(self, source: LogicalNode) -> LogicalNode:
        """Return `source` if the query does not name too many. A WITH query counts as often as it is named, and its sources with it."""
        sources = (node for node in walk(source) if isinstance(node, Scan | Unnest))
        if len(list(islice(sources, SOURCES_MAX + 1))) > SOURCES_MAX:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"expected {SOURCES_MAX} sources at most in a SELECT, found more",
                hint=(
                    "A WITH query is read once for each reference. Store it as a relation, and read that "
                    "relation."
                ),
                span=span_of(self._node),
            )
        return source

    def _subquery(self, node: exp.Expr) -> LogicalNode:
        return _bind_query(node, self._context, self._known, self._depth + 1)

    def _view(self, view: Relation, alias: str, span: Span | None) -> LogicalNode:
        def query(node: exp.Expr, context: BindingContext) -> LogicalNode:
            return _bind_query(node, context, {}, self._depth + 1)

        return inlined(view, alias, span, self._context, query)

    # --- the select list

    def _items(self) -> tuple[Item, ...]:
        items: list[Item] = []
        for node in self._node.expressions:
            if len(items) > COLUMNS_MAX:
                break
            if star_of(node) is not None:
                items.extend(self._expanded(node))
                continue
            alias = node.alias if isinstance(node, exp.Alias) else None
            expression = self._binder.bind(node.this if isinstance(node, exp.Alias) else node)
            if expression.type == NULL:
                expression = as_type(expression, VARCHAR)
            if expression.type == INTERVAL:
                raise UserError(
                    SqlState.DATATYPE_MISMATCH,
                    "an INTERVAL cannot be an output column",
                    hint="Add it to a timestamp, or compute a number of units: TIMESTAMPDIFF(SECOND, a, b).",
                    span=expression.span,
                )
            if isinstance(node, exp.Column) and len(node.parts) == 1:
                alias = node.name
            items.append(Item(alias or _natural_name(expression, len(items) + 1), expression))
        if len(items) > COLUMNS_MAX:
            raise too_many_columns(span_of(node))
        return tuple(items)

    def _expanded(self, node: exp.Expr) -> list[Item]:
        span = span_of(node)
        struct = self._struct_before_star(node)
        if struct is not None:
            bound = self._binder.bind(struct)
            names = struct_fields(bound, span)
            return _without(node, [Item(name, field_of(bound, name, span)) for name in names])
        qualifier = node.parts[-2].name if isinstance(node, exp.Column) else None
        sources = (
            self._scope.sources
            if qualifier is None
            else (self._scope.source(qualifier, span=span, after=".*"),)
        )
        if not sources:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                "* needs a FROM",
                hint="Write FROM and a relation, or list the expressions to compute.",
                span=span,
            )
        shared = self._scope.shared if qualifier is None else {}
        return _without(
            node,
            [
                *(Item(name, self._scope.column(name, alias=None, span=span)) for name in shared),
                *(
                    Item(column.name, self._scope.column(column.name, alias=source.alias, span=span))
                    for source in sources
                    for column in source.schema.columns
                    if column.name not in shared and not is_internal(column.name)
                ),
            ],
        )

    def _struct_before_star(self, node: exp.Expr) -> exp.Expr | None:
        """Return the STRUCT whose fields a `*` means: x of `x->*`, and of `x.*` unless a source is named x. None for a source's columns."""
        if isinstance(node, exp.Dot):
            return cast(exp.Expr, node.this)
        if not isinstance(node, exp.Column):
            return None
        *parts, _ = node.parts
        aliases = {source.alias for source in self._scope.sources}
        first, last = parts[0].name, parts[-1].name
        if last in aliases or (first not in aliases and first not in self._scope):
            return None
        this, table, db, *_ = *reversed(parts), None, None, None
        return exp.Column(this=this, table=table, db=db)

    # --- projection and grouping

    def _projected(self, source: LogicalNode, items: tuple[Item, ...]) -> LogicalNode:
        distinct = self._node.args.get("distinct") is not None
        if distinct and not is_snapshot(source):
            source = self._with_values(source)
            return Aggregate(source, tuple(item.expression for item in items), items)
        return Project(self._with_values(source), items, distinct=distinct)

    def _grouped(self, source: LogicalNode, items: tuple[Item, ...]) -> LogicalNode | None:
        """Return the groups of `source`, filtered by HAVING; None for a query without GROUP BY and aggregates."""
        group = self._node.args.get("group")
        having = self._node.args.get("having")
        operands = [operand for value in self._values for operand in value.operands]
        selected = [*(item.expression for item in items), *operands]
        if group is None and having is None and not any(aggregates(part) for part in selected):
            return None
        elements = group.expressions if group is not None else ()
        sets = grouping_sets(elements, lambda node: self._group_key(node, items))
        keys = sets.keys if sets is not None else tuple(self._group_key(node, items) for node in elements)
        condition = self._binder.condition(having.this, "HAVING") if having is not None else None
        operands = [operand for value in self._values for operand in value.operands]
        parts = [*selected, *operands, *([condition] if condition is not None else [])]
        source = self._with_values(source, [*keys, *(call for part in parts for call in aggregates(part))])
        order = (
            sort_keys(self._node, items, lambda node: self._sort_expression(node, items))
            if self._values
            else ()
        )
        if sets is not None:
            grouped = of_snapshot(sets, source) if is_snapshot(source) else of_stream(sets, source)
            source, keys, self._over_groups = grouped.rows, grouped.group_by, grouped.changed
            items = tuple(replace(item, expression=grouped.changed(item.expression)) for item in items)
            condition = grouped.changed(condition) if condition is not None else None
        native = sets.sets if sets is not None and is_snapshot(source) else None
        groups = Aggregate(source, keys, items, condition, native)
        output: Project | Aggregate = groups
        if self._values:
            sorted_by = [key.expression for key in order]
            output, self._over_groups = over_groups(groups, self._values, sorted_by, self._over_groups)
            self._values = []
        return _distinct(output) if self._node.args.get("distinct") is not None else output

    def _group_key(self, node: exp.Expr, items: tuple[Item, ...]) -> Expression:
        """Return an expression over the sources; a name that no source has may be an output column's."""
        named = None
        if isinstance(node, exp.Literal) and not node.is_string:
            named = items[position(node, len(items), "GROUP BY")].expression
        if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name not in self._scope:
            named = next((item.expression for item in items if item.name == node.name), None)
        bound = named if named is not None else self._binder.bind(node)
        refuse_aggregates(bound, "GROUP BY", None)
        return bound

    def _sort_expression(self, node: exp.Expr, items: tuple[Item, ...]) -> Expression | None:
        """Return a key of ORDER BY that does not name an output column. With DISTINCT, its value must be that of an output column."""
        bound = self._binder.bind(node)
        if self._node.args.get("distinct") is None:
            return self._over_groups(bound)
        item = next((item for item in items if item.expression == bound), None)
        return None if item is None else output_column(Schema((item.column,)), item.name, bound.span)


def _without(node: exp.Expr, items: list[Item]) -> list[Item]:
    """Return the columns of `*` without those that EXCEPT names."""
    star = star_of(node) or node
    left_out = {name.name: span_of(name) for name in star.args.get("except_") or ()}
    names = [item.name for item in items]
    for name, span in left_out.items():
        if name not in names:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"* has no column {printed(name)}",
                hint=name_suggestion(name, names, otherwise=f"It has {', '.join(map(printed, names))}."),
                span=span,
            )
    kept = [item for item in items if item.name not in left_out]
    if not kept:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "* EXCEPT leaves no column",
            hint="Leave out fewer columns.",
            span=span_of(node),
        )
    return kept


_OF_ROWS = "in SELECT, WHERE and HAVING, of rows such as those of FROM"


def _no_value(
    where: str,
    node: exp.Expr,
    hint: str = "Join it in FROM. In WHERE, x IN (SELECT …) and EXISTS (SELECT …) are supported.",
) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"a subquery is supported as a value {where}",
        hint=hint,
        span=span_of(node),
    )


_OF_IN = "the subquery of IN"


def _refuse_columns(subquery: str, count: int, span: Span | None, expected: int = 1) -> None:
    if count != expected:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"{subquery} must return {counted(expected, 'column')}, found {count}",
            hint=f"Select {counted(expected, 'column')} in it.",
            span=span,
        )


def _distinct(groups: Project | Aggregate) -> LogicalNode:
    """Return the different rows of a grouped SELECT."""
    scope = Scope(Subquery(groups, "groups").sources)
    items = tuple(
        Item(item.name, scope.column(item.name, alias=None, span=item.expression.span))
        for item in groups.items
    )
    return Aggregate(
        Subquery(groups, "groups"),
        tuple(item.expression for item in items),
        items,
    )


def _natural_name(expression: Expression, position: int) -> str:
    if isinstance(expression, ColumnReference) and not is_internal(expression.column):
        return expression.column
    if isinstance(expression, FieldAccess):
        return expression.name
    return f"expr_{position}"
