"""Event-time columns of a node's rows, under their current names; and the calls that read the progress of event time."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analyzer.expressions import Call, ColumnReference, Expression, walk
from headrace.analyzer.functions.temporals import CURRENT_WATERMARK
from headrace.analyzer.logical import (
    WINDOW_TIME,
    Aggregate,
    Filter,
    LogicalNode,
    LookupJoin,
    MatchRecognize,
    OverAggregate,
    Project,
    Scan,
    Subquery,
    TemporalJoin,
    TimeWindow,
    Union,
    Unnest,
    expressions,
)
from headrace.analyzer.traits import Place, place_of, window_groups
from headrace.catalog.objects import RelationKind
from headrace.core.internal_columns import ROW_TIME


def is_row_time(expression: Expression) -> bool:
    """True of `rowtime(source)`."""
    match expression:
        case Call(arguments=(ColumnReference(column=column),)):
            return column == ROW_TIME
    return False


def is_event_time(expression: Expression, node: LogicalNode) -> bool:
    """True of such a column, and of `rowtime(source)`."""
    match expression:
        case ColumnReference():
            return expression.column == ROW_TIME or (expression.source, expression.column) in event_times(
                node
            )
    return is_row_time(expression)


def event_times(node: LogicalNode) -> frozenset[Place]:
    """Return the columns, by source and name. A join's rows have the time of neither side alone."""
    match node:
        case Scan():
            column = node.properties.event_time.column
            return frozenset({(node.alias, column)}) if column is not None else frozenset()
        case Filter() | Unnest() | TimeWindow() | OverAggregate():
            return event_times(node.input)
        case TemporalJoin() | LookupJoin():
            return event_times(node.left)
        case Subquery():
            return frozenset((node.alias, name) for name in _output_times(node.input))
        case MatchRecognize():
            return frozenset((node.alias, name) for name in _match_times(node))
    return frozenset()


def _output_times(query: LogicalNode) -> set[str]:
    match query:
        case Project():
            return {item.name for item in query.items if is_event_time(item.expression, query.input)}
        case Aggregate() if window_groups(query):
            places = ((item.name, place_of(item.expression)) for item in query.items)
            return {name for name, place in places if place is not None and place[1] == WINDOW_TIME}
        case Union():
            names = [branch.schema.names for branch in query.branches]
            shared = [
                {columns.index(name) for name in _output_times(branch)}
                for columns, branch in zip(names, query.branches, strict=True)
            ]
            return {names[0][place] for place in set.intersection(*shared)}
    return set()


def _match_times(node: MatchRecognize) -> set[str]:
    """Return the measures that are the time of the last row."""
    last = {
        item.name
        for item in node.navigations
        if item.kind == "last"
        and item.expression is not None
        and item.variable is None
        and not item.offset
        and is_event_time(item.expression, node.input)
    }
    return {item.name for item in node.items if (place_of(item.expression) or ("", ""))[1] in last}


def watermark_calls(node: LogicalNode) -> Iterator[Call]:
    """Yield the calls of CURRENT_WATERMARK that a node itself computes."""
    for expression in expressions(node):
        for part in walk(expression):
            if isinstance(part, Call) and part.function is CURRENT_WATERMARK:
                yield part


def reads_streams_only(node: LogicalNode) -> bool:
    """True if the rows of a node are rows of streams, with no operator between that keeps them until the watermark passes."""
    match node:
        case Scan():
            return node.relation.kind is RelationKind.STREAM
        case Filter() | Unnest() | TimeWindow() | Subquery():
            return reads_streams_only(node.input)
        case Project() | Union():
            return not node.distinct and all(map(reads_streams_only, node.inputs))
    return False
