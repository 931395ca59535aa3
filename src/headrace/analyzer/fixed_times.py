"""Event times of changelogs that have one value for each key, so that no update moves a row to another time window. See docs/adr/0095."""

from __future__ import annotations

from headrace.analyzer.event_times import event_times
from headrace.analyzer.expression_binder import ExpressionBinder
from headrace.analyzer.expressions import ColumnReference, Expression, references, unrepeatable
from headrace.analyzer.logical import (
    WINDOW_COLUMNS,
    Aggregate,
    Filter,
    LogicalNode,
    Project,
    Scan,
    Subquery,
    TimeWindow,
    Unnest,
)
from headrace.analyzer.scope import Scope
from headrace.analyzer.traits import Place, place_of, traits
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import Timestamp
from headrace.sql.ast import TimeWindow as WindowNode
from headrace.sql.ast import span_of


def fixed_columns(node: LogicalNode) -> frozenset[Place]:
    """Return the columns that no update changes: the key, the columns of groups, the bounds of windows, and what is computed from
    these alone."""
    match node:
        case Filter() | Unnest():
            return fixed_columns(node.input)
        case TimeWindow():
            return fixed_columns(node.input) | traits(node).windows
        case Subquery():
            return frozenset((node.alias, name) for _, name in fixed_columns(node.input))
        case Aggregate():
            return frozenset(("", item.name) for item in node.items if item.expression in node.group_by)
        case Project():
            below = fixed_columns(node.input)
            return frozenset(
                ("", item.name)
                for item in node.items
                if unrepeatable(item.expression) is None
                and (read := {(part.source, part.column) for part in references(item.expression)})
                and read <= below
            )
    return frozenset(traits(node).key or ())


def fixed_time(window: WindowNode, rows: LogicalNode) -> ColumnReference:
    """Return the column with the event time of rows that change, which DESCRIPTOR names or the rows have. Raises UserError 0A000 unless
    it has one value for each key, and 42P16 if the rows have columns with the names of the bounds."""
    if window.kind == "SESSION":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "SESSION requires rows that never change: a row that is deleted would split the session of other rows",
            hint="Apply SESSION to a STREAM, or use TUMBLE, HOP or CUMULATE.",
            span=span_of(window),
        )
    bounds = [column.name for column in WINDOW_COLUMNS if column.name in rows.schema.names]
    if bounds:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the rows of {window.kind} already have a column {bounds[0]}",
            hint=f"Rename it in the subquery: SELECT {bounds[0]} AS …",
            span=span_of(window),
        )
    named = window.args.get("time")
    column = ExpressionBinder(Scope(rows.sources)).bind(named) if named is not None else _event_time(rows)
    place = place_of(column) if column is not None else None
    if column is None:
        problem = "the rows have no column with their event time"
    elif not isinstance(column.type, Timestamp) and place not in event_times(rows):
        problem = "the column that DESCRIPTOR names is not a time"
    elif not isinstance(column, ColumnReference) or place not in fixed_columns(rows):
        problem = "an update may change the time, which would move the row to another window"
    else:
        return column
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"{window.kind} over {_described(rows)} requires an event time that is part of the key: {problem}",
        hint=_hint(window, rows),
        span=span_of(named) if named is not None else getattr(rows, "span", None),
    )


def _hint(window: WindowNode, rows: LogicalNode) -> str:
    named = f"{window.kind}(rows, DESCRIPTOR(column), …)"
    otherwise = "GROUP BY the time, such as FLOOR(time TO HOUR), which follows each change."
    if isinstance(rows, Scan):
        return (
            f"Put the time into the PRIMARY KEY, and name it with 'timestamp' = 'column' or {named}. Or {otherwise} To count the "
            "changes themselves, declare a STREAM over the same entity, and apply the window to that."
        )
    return f"Apply the window to the streams inside it. Or select a time of its key or groups, and name it: {named}. Or {otherwise}"


def _event_time(rows: LogicalNode) -> Expression | None:
    """Return the column with the event time of rows; None if none has it."""
    times = event_times(rows)
    name = next((name for name in rows.schema.names if (rows.sources[0].alias, name) in times), None)
    return Scope(rows.sources).column(name, alias=None, span=None) if name is not None else None


def _described(rows: LogicalNode) -> str:
    if isinstance(rows, Scan):
        return f"the changelog {rows.relation.name}"
    view = rows.view if isinstance(rows, Subquery) else None
    return "rows that change" if view is None else f"the {view.kind.value.replace('_', ' ')} {view.name}"
