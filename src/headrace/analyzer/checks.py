"""Rules of the language on the finished logical plan, one small function each.

Names and types were checked by the binder. What depends on the sink is in `planner.sinks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headrace.analyzer.event_times import is_event_time, reads_streams_only, watermark_calls
from headrace.analyzer.expressions import (
    Call,
    ColumnReference,
    Expression,
    aggregates,
    children,
    overs,
    references,
    unrepeatable,
    walk,
)
from headrace.analyzer.grouping_sets import GROUPING, refused_grouping
from headrace.analyzer.logical import (
    WINDOW_COLUMNS,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Filter,
    Item,
    Limit,
    LogicalNode,
    LookupJoin,
    MatchRecognize,
    OverAggregate,
    Project,
    Scan,
    SetOperation,
    Sort,
    Subquery,
    TimeWindow,
    TopN,
    Union,
    WindowKind,
    expressions,
)
from headrace.analyzer.logical import walk as nodes
from headrace.analyzer.plan import LogicalPlan
from headrace.analyzer.top_n import PATTERN
from headrace.analyzer.traits import place_of, traits, window_groups
from headrace.catalog.objects import RelationKind
from headrace.core.errors import Span, UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.core.types import BIGINT, INTERVAL, DataType, has_map

Check = Callable[[LogicalPlan], None]
_OF_SETS = ("COUNT", "SUM", "AVG", "MIN", "MAX")
"""Aggregates that a time window computes with DISTINCT, from the set of their values."""
_FIRST_ROWS_MAX = 2**31 - 1
"""The largest limit of a Top-N: its operator counts rows by an Int."""


def output_names_are_unique(plan: LogicalPlan) -> None:
    """Raise 42P16 unless every column of every SELECT has its own name."""
    for node in nodes(plan.root):
        if not isinstance(node, Project | Aggregate):
            continue
        if not (plan.snapshot and node is _top(plan.root)):
            refuse_repeated_names(node.items)


def refuse_repeated_names(items: Iterable[Item]) -> None:
    """Raise 42P16 if two output columns have one name."""
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"two output columns are named {printed(item.name)}",
                hint="Rename one of them with AS.",
                span=item.expression.span,
            )
        seen.add(item.name)


def windows_are_over_streams(plan: LogicalPlan) -> None:
    """Raise 0A000 unless a window is over rows that never change; SESSION has bounds for groups only."""
    for node in nodes(plan.root):
        if isinstance(node, TimeWindow):
            _check_window_input(node)
        if isinstance(node, Project) and (window := _session(node.input)) is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "the bounds of a SESSION exist only after its rows are grouped",
                hint="Add GROUP BY window_start, window_end and the columns that identify a session.",
                span=window.span,
            )


def _check_window_input(node: TimeWindow) -> None:
    if node.time is not None:
        return
    relation = node.input.relation if isinstance(node.input, Scan) else None
    if relation is None:
        if not traits(node.input).insert_only:
            view = node.input.view if isinstance(node.input, Subquery) else None
            of = "the subquery" if view is None else f"the {view.kind.value.replace('_', ' ')} {view.name}"
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{node.kind.value} requires rows that never change; the rows of {of} change",
                hint="Apply the window to the streams inside it.",
                span=node.span,
            )
    elif relation.kind is not RelationKind.STREAM:
        kind = relation.kind.value.upper().replace("_", " ")
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{node.kind.value} takes a STREAM, {relation.name} is a {kind}",
            span=node.span,
        )


def _session(node: LogicalNode) -> TimeWindow | None:
    return next(
        (part for part in _block(node) if isinstance(part, TimeWindow) and part.kind is WindowKind.SESSION),
        None,
    )


def _block(node: LogicalNode) -> Iterator[LogicalNode]:
    """Yield `node` and the nodes below it in the same SELECT."""
    yield node
    if not isinstance(node, Subquery):
        for part in node.inputs:
            yield from _block(part)


def windowed_groups_have_both_bounds(plan: LogicalPlan) -> None:
    """Raise 42803 unless an aggregate over a time window groups by window_start and window_end."""
    for node in nodes(plan.root):
        if not isinstance(node, Aggregate):
            continue
        window = next((part for part in _block(node.input) if isinstance(part, TimeWindow)), None)
        if window is None:
            continue
        grouped = {key.column for key in node.group_by if isinstance(key, ColumnReference)}
        missing = [name for name in (WINDOW_START, WINDOW_END) if name not in grouped]
        if missing:
            raise UserError(
                SqlState.GROUPING_ERROR,
                f"an aggregate over {window.kind.value} must group by window_start and window_end; "
                f"GROUP BY lacks {' and '.join(missing)}",
                hint="Add GROUP BY window_start, window_end.",
                span=window.span,
            )
        bounds = {(window.sources[0].alias, column.name) for column in WINDOW_COLUMNS}
        for key in node.group_by if window.kind is WindowKind.SESSION else ():
            places = set(map(place_of, references(key)))
            if places & bounds and places - bounds:
                raise UserError(
                    SqlState.FEATURE_NOT_SUPPORTED,
                    "a key of sessions cannot combine the bounds of a session with a column of its rows",
                    hint="Group by the column and the bounds, and compute the value in SELECT.",
                    span=key.span,
                )


def groups_cover_columns(plan: LogicalPlan) -> None:
    """Raise 42803 if a grouped SELECT names, outside aggregates, anything that it does not group by."""
    for node in nodes(plan.root):
        if isinstance(node, Aggregate):
            parts = [item.expression for item in node.items] + (
                [node.having] if node.having is not None else []
            )
            for expression in parts:
                _check_grouped(expression, node.group_by)
        if isinstance(node, Sort) and isinstance(node.input, Aggregate):
            for key in node.keys:
                _check_grouped(key.expression, node.input.group_by)


def _check_grouped(expression: Expression, group_by: Iterable[Expression]) -> None:
    keys = tuple(group_by)
    if expression in keys or (isinstance(expression, Call) and expression.function.aggregate):
        return
    if isinstance(expression, ColumnReference) and expression.source:
        raise UserError(
            SqlState.GROUPING_ERROR,
            f"the column {printed(expression.column)} is neither in GROUP BY nor in an aggregate",
            hint=f"Add {printed(expression.column)} to GROUP BY, or use MAX({printed(expression.column)}).",
            span=expression.span,
        )
    for child in children(expression):
        _check_grouped(child, keys)


def streams_are_not_sorted(plan: LogicalPlan) -> None:
    """Raise 0A000 for ORDER BY and OFFSET without LIMIT, and for LIMIT 0 in a continuous query: they need an end."""
    if plan.snapshot:
        return
    for node in nodes(plan.root):
        if isinstance(node, Sort):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "ORDER BY requires a bounded result, and a stream is unbounded",
                hint="ORDER BY the event time of a stream alone, ascending, returns its rows in order. Add LIMIT n, at least 1, for the "
                "first rows at any time. Or store the query as a MATERIALIZED VIEW, and sort a SELECT of the view.",
                span=node.keys[0].expression.span,
            )
        if isinstance(node, Limit) and (node.offset or node is not plan.root):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "a continuous query requires a LIMIT of 1 or more, and OFFSET only with LIMIT",
                hint="Leave it out. For the first rows of each key, use ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) <= n.",
                span=plan.span,
            )


def first_rows_can_be_counted(plan: LogicalPlan) -> None:
    """Raise 53000 if a Top-N keeps more rows than its operator can count."""
    for node in nodes(plan.root):
        if isinstance(node, TopN) and node.limit > _FIRST_ROWS_MAX:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"a continuous query keeps at most the first {_FIRST_ROWS_MAX} rows, expected {node.limit}",
                hint="Use a smaller LIMIT, or none.",
                span=node.span,
            )


def partition_columns_exist(plan: LogicalPlan) -> None:
    """Raise 42703 unless PARTITION BY names output columns."""
    for name in plan.partition_by:
        if plan.schema.column(name.name) is None:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"PARTITION BY names {name}, which is not an output column",
                hint=suggestion(
                    name.name,
                    plan.schema.names,
                    otherwise=f"The output columns are {', '.join(plan.schema.names)}.",
                ),
                span=name.span,
            )


def keys_can_be_compared(plan: LogicalPlan) -> None:
    """Raise 42804 if a MAP is a key of groups, partitions or an order of a continuous query, or a column of DISTINCT rows."""
    if plan.snapshot:
        return
    for node in nodes(plan.root):
        for kind, span in _keys(node):
            if kind == INTERVAL or has_map(kind):
                raise UserError(
                    SqlState.DATATYPE_MISMATCH,
                    f"a key must be of a comparable type, found {kind}",
                    hint="Use a part of it: column['key']." if kind != INTERVAL else None,
                    span=span or _place(node),
                )


def _keys(node: LogicalNode) -> Iterator[tuple[DataType, Span | None]]:
    match node:
        case Aggregate():
            keys: tuple[Expression, ...] = node.group_by
        case TopN() | MatchRecognize():
            keys = (*node.partition_by, *(key.expression for key in node.order_by))
        case OverAggregate():
            keys = node.partition_by
        case Union(distinct=True):
            yield from ((column.type, None) for column in node.schema.columns)
            return
        case _:
            return
    yield from ((key.type, key.span) for key in keys)


def _refused_by_views(part: Call, plan: LogicalPlan) -> UserError:
    """Return the error for a function that only compute pools have."""
    place, hint = "of materialized views", "Compute it in the view's own query."
    if not plan.relations:
        place, hint = (
            "without a relation, such as VALUES",
            "INSERT INTO … SELECT can compute it from a stream.",
        )
    message = f"{part.function.name} is not supported in a query {place}"
    return UserError(SqlState.FEATURE_NOT_SUPPORTED, message, hint=hint, span=part.span)


def functions_run_where_they_are(plan: LogicalPlan) -> None:
    """Raise 0A000 for a function without a spelling for views in a snapshot query, and for DISTINCT in aggregates other than COUNT; 42803
    for GROUPING without sets of groups."""
    for node in nodes(plan.root):
        for expression in expressions(node):
            for part in walk(expression):
                if not isinstance(part, Call):
                    continue
                if (
                    part.function is GROUPING
                    and getattr(node, "sets", None) is None
                    and not isinstance(node, Sort)
                ):
                    raise refused_grouping(part.span)
                on_views = plan.snapshot and not plan.has_end
                if on_views and part.function.duckdb is None:
                    raise _refused_by_views(part, plan)
                windowed = isinstance(node, Aggregate) and bool(window_groups(node))
                if part.distinct and windowed and not plan.snapshot and part.function.name not in _OF_SETS:
                    raise UserError(
                        SqlState.FEATURE_NOT_SUPPORTED,
                        f"{part.function.name}(DISTINCT …) is not supported over a time window",
                        hint=f"{', '.join(_OF_SETS)} are supported with DISTINCT.",
                        span=part.span,
                    )


def watermarks_are_of_streams(plan: LogicalPlan) -> None:
    """Raise 0A000 unless CURRENT_WATERMARK is called in SELECT or WHERE for the event time of rows of streams; 42804 for other
    columns."""
    for node in nodes(plan.root):
        for called in watermark_calls(node):
            if plan.snapshot:
                raise UserError(
                    SqlState.FEATURE_NOT_SUPPORTED,
                    "CURRENT_WATERMARK requires a continuous query: the rows of a snapshot have no watermark",
                    hint="Select it in the view's own query, from a stream.",
                    span=called.span,
                )
            if not isinstance(node, Project | Filter) or not reads_streams_only(node.input):
                raise UserError(
                    SqlState.FEATURE_NOT_SUPPORTED,
                    "CURRENT_WATERMARK is supported only in SELECT and WHERE over streams, not over changelogs, groups, joins, "
                    "OVER or patterns",
                    hint="Call it in a subquery of FROM that reads the stream.",
                    span=called.span,
                )
            if not is_event_time(called.arguments[0], node.input):
                raise UserError(
                    SqlState.DATATYPE_MISMATCH,
                    "CURRENT_WATERMARK requires the event time of a stream",
                    hint="Pass the column that 'timestamp' names in the stream's declaration or in the query, or "
                    "rowtime() of a stream without one.",
                    span=called.arguments[0].span or called.span,
                )


def window_functions_are_over_rows(plan: LogicalPlan) -> None:
    """Raise 0A000 for window functions over the groups or the different rows of a continuous query, and for INTERSECT and EXCEPT, which
    need an end."""
    if plan.snapshot:
        return
    for node in nodes(plan.root):
        if isinstance(node, OverAggregate):
            continue
        for over in (candidate for expression in expressions(node) for candidate in overs(expression)):
            name = over.function.name
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name} OVER is not supported beside GROUP BY or DISTINCT in a continuous query",
                hint=PATTERN
                if name == "ROW_NUMBER"
                else "Compute the groups in a subquery of FROM, and apply OVER to its rows.",
                span=over.span,
            )
        if isinstance(node, SetOperation):
            # Of rows without a source, in a query that reads a stream elsewhere.
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"a continuous query supports {node.operator.value} of rows with a source only",
                hint="Write the rows out, or store them in a relation.",
                span=node.span,
            )


def spans_are_of_times(plan: LogicalPlan) -> None:
    """Raise 42804 for an INTERVAL before a number in a frame of a snapshot query, where a number is no event time."""
    if not plan.snapshot:
        return
    for node in nodes(plan.root):
        for over in (candidate for expression in expressions(node) for candidate in overs(expression)):
            for bound in filter(None, (over.frame.start, over.frame.end) if over.frame is not None else ()):
                if (
                    bound[1] is not None
                    and bound[1].type == INTERVAL
                    and over.order_by[0].expression.type == BIGINT
                ):
                    raise UserError(
                        SqlState.DATATYPE_MISMATCH,
                        "a frame of RANGE over numbers requires a number, found an INTERVAL",
                        hint="Write RANGE BETWEEN 60000 PRECEDING AND CURRENT ROW.",
                        span=bound[1].span or over.span,
                    )


def what_may_be_taken_back_can_be_repeated(plan: LogicalPlan) -> None:
    """Raise 0A000 for a non-repeatable value over rows that are updated or deleted, unless a key finds the row.

    The end of a row is computed from the end of what it came from. With another NOW(), it ends nothing, and the row stays for ever.
    """
    if plan.snapshot:
        return
    by_key = set(_keyed_nodes(plan.root)) if traits(plan.root).key is not None else set()
    for node in nodes(plan.root):
        keyed = id(node) in by_key
        if isinstance(node, LookupJoin) and not keyed and not traits(node.left).insert_only:
            raise _unrepeatable(f"the table {node.right.relation.name} may have changed", _place(node))
        for expression in computed_again(node, items=not keyed):
            if (call := unrepeatable(expression)) is not None:
                raise _unrepeatable(f"{call.function.name}() returns another value each time", call.span)


def _keyed_nodes(node: LogicalNode) -> Iterator[int]:
    """Yield the identities of the nodes from the output down to the first node that compares rows with each other."""
    yield id(node)
    if isinstance(node, Project | Subquery | Sort | Limit):
        yield from _keyed_nodes(node.input)


def computed_again(node: LogicalNode, *, items: bool) -> Iterator[Expression]:
    """Yield the expressions that a node computes again when a row is retracted; with `items` also its output."""
    changing = any(not traits(below).insert_only for below in node.inputs)
    if isinstance(node, Project):
        yield from (item.expression for item in node.items if changing and items)
    elif isinstance(node, Aggregate) and not changing:
        # Groups and the arguments of aggregates are computed when a row comes. What is computed of a group is, each time it changes.
        if not traits(node).insert_only:
            parts = [item.expression for item in node.items if items]
            for part in [*parts, *([node.having] if node.having is not None else [])]:
                yield from _beside_aggregates(part, node.group_by)
    elif changing:
        yield from expressions(node)


def _beside_aggregates(expression: Expression, group_by: tuple[Expression, ...]) -> Iterator[Expression]:
    """Yield the innermost parts that are neither grouped by nor in an aggregate, with the expressions around them."""
    if expression in group_by or (isinstance(expression, Call) and expression.function.aggregate):
        return
    if not any(True for _ in children(expression)):
        yield expression
    for child in children(expression):
        yield from _beside_aggregates(child, group_by)


def _unrepeatable(reason: str, span: Span | None) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"{reason}, and these rows are updated and deleted: a deletion would not match its row",
        hint=(
            "Compute it in a STREAM that the query reads, where rows are only added; or select the key too, "
            "and compute it in the outermost SELECT."
        ),
        span=span,
    )


def _top(node: LogicalNode) -> LogicalNode:
    while isinstance(node, Sort | Limit):
        node = node.input
    return node


def _place(node: LogicalNode) -> Span | None:
    if isinstance(node, Aggregate):
        called = [call for item in node.items for call in aggregates(item.expression)]
        roots = [*node.group_by, *called, *(item.expression for item in node.items)]
        return next((expression.span for expression in roots if expression.span is not None), None)
    return next((span for part in nodes(node) if (span := getattr(part, "span", None)) is not None), None)


CHECKS: tuple[Check, ...] = (
    windows_are_over_streams,
    output_names_are_unique,
    windowed_groups_have_both_bounds,
    groups_cover_columns,
    streams_are_not_sorted,
    first_rows_can_be_counted,
    partition_columns_exist,
    window_functions_are_over_rows,
    watermarks_are_of_streams,
    functions_run_where_they_are,
    spans_are_of_times,
    keys_can_be_compared,
    what_may_be_taken_back_can_be_repeated,
)
