"""What the language allows, one small function per rule, on the finished logical plan.

Names and types were checked by the binder. What depends on the sink is in `planner.sinks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headrace.analyzer.catalog_view import suggestion
from headrace.analyzer.expressions import Call, ColumnReference, Expression, aggregates, children, overs, walk
from headrace.analyzer.logical import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    ChangeKind,
    Filter,
    IntervalJoin,
    JoinKind,
    Limit,
    LogicalNode,
    LogicalPlan,
    Project,
    RegularJoin,
    Scan,
    SetOperation,
    Sort,
    Subquery,
    TemporalJoin,
    TimeWindow,
    TopN,
    Union,
    Unnest,
    WindowKind,
    expressions,
)
from headrace.analyzer.logical import walk as nodes
from headrace.analyzer.top_n import PATTERN
from headrace.catalog.objects import RelationKind
from headrace.core.errors import Span, UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState

Check = Callable[[LogicalPlan], None]


def output_names_are_unique(plan: LogicalPlan) -> None:
    """42P16: every column of every SELECT has its own name, and none is reserved."""
    for node in nodes(plan.root):
        if not isinstance(node, Project | Aggregate):
            continue
        seen: set[str] = set()
        for item in node.items:
            if item.name in seen and not (plan.snapshot and node is _top(plan.root)):
                raise UserError(
                    SqlState.INVALID_RELATION_DEFINITION,
                    f"two output columns are called {printed(item.name)}",
                    hint="Give one another name with AS.",
                    span=item.expression.span,
                )
            if item.name.startswith("__"):
                raise UserError(
                    SqlState.INVALID_RELATION_DEFINITION,
                    f"the output column {printed(item.name)} begins with two underscores, which are reserved",
                    hint="Give it another name with AS.",
                    span=item.expression.span,
                )
            seen.add(item.name)


def views_and_streams_are_apart(plan: LogicalPlan) -> None:
    """0A000: a continuous query does not read materialized views."""
    if plan.snapshot:
        return
    for scan in plan.scans:
        if scan.relation.kind is RelationKind.MATERIALIZED_VIEW:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the materialized view {scan.relation.name} cannot be read by a continuous query",
                hint="Read the stream or changelog that the view is made of.",
                span=scan.span,
            )


def windows_are_over_streams(plan: LogicalPlan) -> None:
    """0A000: a window takes rows that never change; SESSION has bounds for groups only."""
    for node in nodes(plan.root):
        if isinstance(node, TimeWindow):
            _check_window_input(node)
        if isinstance(node, Project) and (window := _session(node.input)) is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "a SESSION has bounds when its rows are grouped only",
                hint="Add GROUP BY window_start, window_end.",
                span=window.span,
            )


def _check_window_input(node: TimeWindow) -> None:
    relation = node.input.relation if isinstance(node.input, Scan) else None
    if relation is None:
        if node.input.change is ChangeKind.UPSERT and not _final(node.input):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{node.kind.value} takes rows that never change; those of the subquery do",
                hint="Window the streams inside it.",
                span=node.span,
            )
    elif relation.kind is not RelationKind.STREAM:
        kind = relation.kind.value.upper().replace("_", " ")
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{node.kind.value} takes a STREAM, {relation.name} is a {kind}",
            hint="Declare a STREAM over the same entity, and window that." if kind == "CHANGELOG" else None,
            span=node.span,
        )


def _final(node: LogicalNode) -> bool:
    """True of the results of windows: each comes once."""
    while isinstance(node, Subquery | Sort | Limit):
        node = node.input
    return isinstance(node, Aggregate) and node.windowed


def _session(node: LogicalNode) -> TimeWindow | None:
    return next(
        (part for part in _block(node) if isinstance(part, TimeWindow) and part.kind is WindowKind.SESSION),
        None,
    )


def _block(node: LogicalNode) -> Iterator[LogicalNode]:
    """`node` and what is below it in the same SELECT."""
    yield node
    if not isinstance(node, Subquery):
        for part in node.inputs:
            yield from _block(part)


def windowed_groups_have_both_bounds(plan: LogicalPlan) -> None:
    """42803: an aggregate over a time window groups by window_start and window_end."""
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


def groups_cover_columns(plan: LogicalPlan) -> None:
    """42803: outside aggregates, a grouped SELECT names only what it groups by."""
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


def changelogs_are_projected_only(plan: LogicalPlan) -> None:
    """0A000: what would need the old row of a changelog is not supported."""
    if plan.snapshot:
        return
    for node in nodes(plan.root):
        upsert_below = any(part.change is ChangeKind.UPSERT for part in node.inputs)
        if isinstance(node, Aggregate) and upsert_below:
            raise _not_on_changelog("GROUP BY or DISTINCT over a CHANGELOG", _place(node))
        if isinstance(node, Unnest) and upsert_below:
            raise _not_on_changelog("UNNEST of a CHANGELOG's column", node.array.span)
        if isinstance(node, Union) and (upsert_below or node.distinct):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "UNION in a continuous query joins streams, and keeps all rows",
                hint="Write UNION ALL over streams.",
                span=_place(node),
            )


def _not_on_changelog(what: str, span: Span | None) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"{what} is not supported yet",
        hint="Supported on a CHANGELOG are projection, WHERE, and being the right side of a temporal join. "
        "A STREAM declared over the same entity sees every version as a row of its own.",
        span=span,
    )


def one_stateful_step(plan: LogicalPlan) -> None:
    """0A000: what cannot be chained in one query; each part can be a query of its own."""
    if plan.snapshot:
        return
    for node in nodes(plan.root):
        if isinstance(node, Subquery):
            if node.change is ChangeKind.UPSERT:
                raise _not_on_changelog("a subquery over a CHANGELOG", node.span)
            for part in nodes(node.input):
                if not isinstance(part, Scan | Filter | Project | Subquery | Unnest | Union):
                    raise UserError(
                        SqlState.FEATURE_NOT_SUPPORTED,
                        "a subquery of a continuous query may filter, project and unnest streams only",
                        hint="Store the subquery as a STREAM or CHANGELOG of its own, and read that.",
                        span=node.span,
                    )
        if isinstance(node, IntervalJoin | TemporalJoin) and any(
            isinstance(part, IntervalJoin | TemporalJoin) and type(part) is not type(node)
            for part in nodes(node)
        ):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "a WITHIN join and a join with a CHANGELOG cannot be in one query yet",
                hint="Store the first join as a STREAM, and join that.",
                span=_place(plan.root),
            )
        if isinstance(node, Aggregate) and any(isinstance(part, IntervalJoin) for part in nodes(node)):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "GROUP BY over a WITHIN join is not supported in one query",
                hint="Store the join as a STREAM, and group that.",
                span=_place(node),
            )


def streams_are_not_sorted(plan: LogicalPlan) -> None:
    """0A000: ORDER BY and OFFSET need an end."""
    if plan.snapshot:
        return
    for node in nodes(plan.root):
        if isinstance(node, Sort):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "ORDER BY needs a result with an end, and a stream has none",
                hint="Store the query as a MATERIALIZED VIEW, and sort a SELECT of that.",
                span=node.keys[0].expression.span,
            )
        if isinstance(node, Limit) and (node.offset or node is not plan.root):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "a continuous query takes LIMIT at its end only, and no OFFSET",
                span=plan.span,
            )


def state_lifetime_is_kept(plan: LogicalPlan) -> None:
    """0A000: 'state.ttl.millis' where the engine cannot honour it."""
    if not plan.properties.state_ttl_ms:
        return
    for node in nodes(plan.root):
        if isinstance(node, Aggregate) and not node.windowed:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "'state.ttl.millis' is not supported for GROUP BY without a time window",
                hint="Leave it out: the state then grows with the number of groups. Or group by a TUMBLE or HOP window.",
                span=plan.properties.state_ttl_span,
            )


def partition_columns_exist(plan: LogicalPlan) -> None:
    """42703: PARTITION BY names output columns."""
    for name in plan.partition_by:
        if plan.schema.column(name.name) is None:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"PARTITION BY names {name}, which is no output column",
                hint=suggestion(
                    name.name, plan.schema.names, otherwise=f"There is {', '.join(plan.schema.names)}."
                ),
                span=name.span,
            )


def functions_run_where_they_are(plan: LogicalPlan) -> None:
    """0A000: a function without a spelling for views is not for snapshot queries; DISTINCT inside an aggregate is COUNT's."""
    for node in nodes(plan.root):
        for expression in expressions(node):
            for part in walk(expression):
                if not isinstance(part, Call):
                    continue
                if plan.snapshot and part.function.duckdb is None:
                    raise UserError(
                        SqlState.FEATURE_NOT_SUPPORTED,
                        f"{part.function.name} is not supported in a query of materialized views",
                        hint="Compute it in the view's own query.",
                        span=part.span,
                    )
                if part.distinct and not plan.snapshot and part.function.name != "COUNT":
                    raise UserError(
                        SqlState.FEATURE_NOT_SUPPORTED,
                        f"{part.function.name}(DISTINCT …) is not supported in a continuous query",
                        hint="COUNT(DISTINCT x) is.",
                        span=part.span,
                    )


def rows_are_numbered_for_a_top_n(plan: LogicalPlan) -> None:
    """0A000: of window functions, a continuous query has ROW_NUMBER() in a Top-N, and INTERSECT and EXCEPT need an end."""
    if plan.snapshot:
        return
    for node in nodes(plan.root):
        for over in (found for expression in expressions(node) for found in overs(expression)):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{over.function.name} OVER is supported in a continuous query where it keeps the first rows only",
                hint=PATTERN,
                span=over.span,
            )
        if isinstance(node, SetOperation):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{node.operator.value} is supported between materialized views",
                hint="Write WHERE EXISTS (SELECT …), or NOT EXISTS.",
                span=node.span,
            )


def operators_are_there(plan: LogicalPlan) -> None:
    """0A000: what has a place in the logical plan, and no step in the physical one yet."""
    if plan.snapshot:
        return
    for node in nodes(plan.root):
        what = _missing(node)
        if what is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{what} is not supported yet",
                hint="Divide the query: store the parts as relations of their own.",
                span=_place(node) or plan.span,
            )


def _missing(node: LogicalNode) -> str | None:
    match node:
        case RegularJoin(kind=JoinKind.SEMI | JoinKind.ANTI):
            return "IN (SELECT …) or EXISTS in a continuous query"
        case RegularJoin():
            return "a join of streams without WITHIN, or with a CHANGELOG other than a STREAM's by its primary key,"
        case TopN():
            return "ROW_NUMBER() in a continuous query"
        case TimeWindow(kind=WindowKind.CUMULATE | WindowKind.SESSION):
            return node.kind.value
        case TimeWindow() if not isinstance(node.input, Scan):
            return f"{node.kind.value} over a query"
        case IntervalJoin():
            if node.kind not in (JoinKind.INNER, JoinKind.LEFT):
                return f"a {node.kind.name} JOIN of streams"
            if node.condition is not None or node.lower_ms != -node.upper_ms:
                return "a join of streams with bounds of its own, or conditions on what has no match,"
            if any(isinstance(part, IntervalJoin) for part in nodes(node.left)):
                return "a second join of streams in a query"
            if any(isinstance(part, TimeWindow) for part in nodes(node)):
                return "a join of time windows"
        case TemporalJoin() if any(isinstance(part, TimeWindow) for part in nodes(node)):
            return "a join of time windows"
    return None


def _top(node: LogicalNode) -> LogicalNode:
    while isinstance(node, Sort | Limit):
        node = node.input
    return node


def _place(node: LogicalNode) -> Span | None:
    if isinstance(node, Aggregate):
        called = [call for item in node.items for call in aggregates(item.expression)]
        found = [*node.group_by, *called, *(item.expression for item in node.items)]
        return next((expression.span for expression in found if expression.span is not None), None)
    return next((span for part in nodes(node) if (span := getattr(part, "span", None)) is not None), None)


CHECKS: tuple[Check, ...] = (
    views_and_streams_are_apart,
    windows_are_over_streams,
    output_names_are_unique,
    changelogs_are_projected_only,
    windowed_groups_have_both_bounds,
    groups_cover_columns,
    one_stateful_step,
    streams_are_not_sorted,
    state_lifetime_is_kept,
    partition_columns_exist,
    rows_are_numbered_for_a_top_n,
    operators_are_there,
    functions_run_where_they_are,
)
