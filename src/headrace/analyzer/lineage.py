"""What a column of FROM stands for in time: the event time of its rows, or a bound of their window, through subqueries."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from headrace.analyzer.expressions import ROW_TIME, Call, ColumnReference, Expression
from headrace.analyzer.logical import (
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    Aggregate,
    Filter,
    IntervalJoin,
    Item,
    JoinKind,
    Limit,
    LogicalNode,
    Project,
    RegularJoin,
    Scan,
    Sort,
    Subquery,
    TemporalJoin,
    TimeWindow,
    Union,
    Unnest,
)
from headrace.analyzer.traits import window_groups


class Role(Enum):
    """What a column's value is: the row's event time, or a bound of the window that the row is in or is the result of."""

    EVENT_TIME = "event time"
    WINDOW_START = "window start"
    WINDOW_END = "window end"
    WINDOW_TIME = "window time"


Roles = Mapping[tuple[str, str], Role]
"""The columns that have a role, by source and name."""

BOUNDS = frozenset({Role.WINDOW_START, Role.WINDOW_END, Role.WINDOW_TIME})


def roles(node: LogicalNode) -> Roles:
    """Those of the columns that expressions above `node` may name.

    A join's rows have the event time of neither side alone, and the windows of a side only where none of its rows comes or goes later.
    """
    match node:
        case Scan():
            column = node.properties.event_time.column
            return {(node.alias, column): Role.EVENT_TIME} if column is not None else {}
        case TimeWindow():
            alias = node.sources[0].alias
            bounds = {
                (alias, WINDOW_START): Role.WINDOW_START,
                (alias, WINDOW_END): Role.WINDOW_END,
                (alias, WINDOW_TIME): Role.WINDOW_TIME,
            }
            return {**roles(node.input), **bounds}
        case Filter() | Unnest():
            return roles(node.input)
        case TemporalJoin():
            return roles(node.left)
        case Subquery():
            return {(node.alias, name): role for name, role in _of_output(node.input).items()}
        case RegularJoin(kind=JoinKind.INNER) | IntervalJoin(kind=JoinKind.INNER):
            return {**_bounds(node.left), **_bounds(node.right)}
        case IntervalJoin(kind=JoinKind.LEFT) | RegularJoin(kind=JoinKind.SEMI):
            return _bounds(node.left)
        case IntervalJoin(kind=JoinKind.RIGHT):
            return _bounds(node.right)
    return {}


def _bounds(node: LogicalNode) -> dict[tuple[str, str], Role]:
    return {name: role for name, role in roles(node).items() if role in BOUNDS}


def _of_output(node: LogicalNode) -> dict[str, Role]:
    match node:
        case Sort() | Limit():
            return _of_output(node.input)
        case Union():
            first, *rest = (_of_output(branch) for branch in node.branches)
            names = [branch.schema.names for branch in node.branches[1:]]
            places = {name: place for place, name in enumerate(node.schema.names)}
            return {
                name: role
                for name, role in first.items()
                if all(
                    found.get(columns[places[name]]) is role
                    for found, columns in zip(rest, names, strict=True)
                )
            }
        case Project():
            known = roles(node.input)
        case Aggregate() if window_groups(node):
            # The event time of a window's result is the last moment of the window.
            known = _bounds(node.input)
            times = {name: Role.EVENT_TIME for name, role in known.items() if role is Role.WINDOW_TIME}
            return _named(node.items, {**known, **times})
        case _:
            return {}
    return _named(node.items, known)


def _named(items: tuple[Item, ...], known: Roles) -> dict[str, Role]:
    found = {item.name: role_of(item.expression, known) for item in items}
    return {name: role for name, role in found.items() if role is not None}


def role_of(expression: Expression, known: Roles) -> Role | None:
    """The role of a column, or of `rowtime(source)`."""
    match expression:
        case ColumnReference():
            return known.get((expression.source, expression.column))
        case Call(arguments=(ColumnReference(column=column),)) if column == ROW_TIME:
            return Role.EVENT_TIME
    return None
