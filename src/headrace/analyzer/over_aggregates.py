"""`function(…) OVER (PARTITION BY … ORDER BY <event time> …)` and `ORDER BY <event time>` in continuous queries."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from headrace.analyzer.event_times import event_times, is_event_time, is_row_time
from headrace.analyzer.expressions import (
    Cast,
    ColumnReference,
    Expression,
    Frame,
    Literal,
    Over,
    SortKey,
    overs,
    references,
)
from headrace.analyzer.expressions import transform as transform_expression
from headrace.analyzer.functions import WINDOW_FUNCTIONS
from headrace.analyzer.logical import (
    OVER_SOURCE,
    Filter,
    Item,
    LogicalNode,
    LookupJoin,
    OverAggregate,
    Project,
    RankFunction,
    Scan,
    Sort,
    TemporalJoin,
    TimeWindow,
    Unnest,
    transform,
)
from headrace.analyzer.top_n import PATTERN
from headrace.analyzer.traits import traits
from headrace.core.errors import UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGRAL, INTERVAL

_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "LAG", "ROW_NUMBER")


def over_aggregates(root: LogicalNode) -> LogicalNode:
    """Return a continuous query whose SELECTs compute their window functions, and the order of event time, by `OverAggregate`s.

    Raises UserError 0A000 for a window that has no end in a stream, and for a function that needs later rows.
    """
    return transform(transform(root, _computed), _in_order)


def _in_order(node: LogicalNode) -> LogicalNode:
    """Return rows sorted by their event time alone, ascending, without the sort: the operator of OVER returns rows in this order, when the
    watermark has passed them."""
    if not (isinstance(node, Sort) and isinstance(node.input, Project)) or len(node.keys) > 1:
        return node
    query, (key,) = node.input, node.keys
    if query.distinct or key.descending or not traits(query.input).insert_only:
        return node
    expression = key.expression
    if isinstance(expression, ColumnReference) and not expression.source:
        expression = next(item.expression for item in query.items if item.name == expression.column)
    number = Over(
        function=WINDOW_FUNCTIONS["ROW_NUMBER"],
        arguments=(),
        order_by=(SortKey(expression),),
        type=BIGINT,
        nullable=False,
        span=key.expression.span,
    )
    if not _is_time(number, query.input):
        return node
    items = (Item("result_1", number),)
    return replace(query, input=OverAggregate(query.input, f"{OVER_SOURCE}_order", (), items, number.span))


def _computed(node: LogicalNode) -> LogicalNode:
    if not isinstance(node, Project):
        return node
    calls = list(dict.fromkeys(over for item in node.items for over in overs(item.expression)))
    if not calls:
        return node
    source = node.input
    for over in calls:
        _check(over, source)
    columns: dict[Expression, ColumnReference] = {}
    for number, partition in enumerate(dict.fromkeys(over.partition_by for over in calls), 1):
        together = [over for over in calls if over.partition_by == partition]
        alias = f"{OVER_SOURCE}_{number}"
        items = tuple(Item(f"result_{place}", over) for place, over in enumerate(together, 1))
        source = OverAggregate(source, alias, partition, items, together[0].span)
        for item in items:
            columns[item.expression] = ColumnReference(
                source=alias,
                column=item.name,
                type=item.expression.type,
                nullable=item.expression.nullable,
                span=item.expression.span,
            )

    def shown(part: Expression) -> Expression:
        return columns.get(part, part)

    return Project(
        source,
        tuple(replace(item, expression=transform_expression(item.expression, shown)) for item in node.items),
    )


def frame_of(over: Over) -> tuple[str, int | None]:
    """Return the unit of a checked frame, ROWS or RANGE, and how many rows or milliseconds before the current row it begins; None: with
    the first row. LAG's begins with the row that it reads."""
    name, frame = over.function.name, over.frame
    if name == "LAG":
        return "ROWS", _offset(over)
    if name == "ROW_NUMBER":
        return "ROWS", None
    if frame is None:
        return "RANGE", None
    if frame.start is None:
        return frame.unit, 0
    distance = frame.start[1]
    return frame.unit, None if distance is None else int(distance.text or 0)


def _check(over: Over, source: LogicalNode) -> None:
    name = over.function.name
    if name not in _AGGREGATES:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{name} OVER is not supported in a continuous query",
            hint="LEAD would wait for a row that may never come. Read the row before with LAG, or use "
            "MATCH_RECOGNIZE."
            if name == "LEAD"
            else PATTERN.replace("ROW_NUMBER", name)
            if name in get_args(RankFunction)
            else PATTERN,
            span=over.span,
        )
    if len(over.order_by) != 1 or over.order_by[0].descending or not _is_time(over, source):
        times = sorted(printed(column) for _, column in event_times(source))
        times += ["rowtime()"] if isinstance(_timed(source), Scan) else []
        time_hint = (
            f"Write ORDER BY {' or '.join(times)}."
            if times
            else "Select the event time of the rows in the subquery, and order by that."
        )
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{name} OVER in a continuous query must be ordered by the event time alone, ascending",
            hint=f"{time_hint} For the first rows of each group: {PATTERN}"
            if name == "ROW_NUMBER"
            else time_hint,
            span=over.order_by[0].expression.span if over.order_by else over.span,
        )
    if name == "LAG" and _offset(over) is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "LAG in a continuous query requires a constant number of rows, 0 or more",
            hint="Write LAG(price, 1) OVER (…).",
            span=over.arguments[1].span or over.span,
        )
    if over.frame is not None and name not in ("LAG", "ROW_NUMBER"):
        _check_frame(over.frame, over)


def _check_frame(frame: Frame, over: Over) -> None:
    starts_before = frame.start is None or frame.start[0] == "PRECEDING"
    if not starts_before or frame.end is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a frame in a continuous query must end with CURRENT ROW",
            hint="Write BETWEEN … PRECEDING AND CURRENT ROW.",
            span=over.span,
        )
    distance = frame.start[1] if frame.start is not None else None
    if distance is not None and distance.type != INTERVAL and distance.type not in INTEGRAL:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            "a frame of RANGE requires an INTERVAL, or whole milliseconds",
            hint="Write RANGE BETWEEN INTERVAL '5' MINUTE PRECEDING AND CURRENT ROW.",
            span=distance.span or over.span,
        )


def _is_time(over: Over, source: LogicalNode) -> bool:
    """True if the key of the order is the time by which the watermark passes the rows of `source`."""
    key = over.order_by[0].expression
    if is_row_time(key):
        timed = _timed(source)
        return isinstance(timed, Scan) and [read.source for read in references(key)] == [timed.alias]
    return is_event_time(key, source)


def _timed(source: LogicalNode) -> LogicalNode:
    """Return the relation whose time the rows of FROM have."""
    while True:
        match source:
            case Filter() | Unnest() | TimeWindow():
                source = source.input
            case TemporalJoin() | LookupJoin():
                source = source.left
            case _:
                return source


def _offset(over: Over) -> int | None:
    if len(over.arguments) == 1:
        return 1
    offset = over.arguments[1]
    if isinstance(offset, Cast):
        offset = offset.operand
    if not isinstance(offset, Literal) or not (offset.text or "").isdigit():
        return None
    return int(offset.text or 0)
