"""The rows of SESSION, each with the bounds of its session: `SELECT window_start, window_end, item FROM SESSION(orders, GAP 5 MINUTES)`.

A session has bounds only when it is complete. So these rows are a query over the grouped sessions, which collects the rows of each.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.analyzer.logical import WINDOW_COLUMNS, LogicalNode
from headrace.core.internal_columns import PREFIX
from headrace.sql.ast import TimeWindow, placed

_ROWS = f"{PREFIX}rows"
_BOUNDS = tuple(column.name for column in WINDOW_COLUMNS)


def groups_sessions(select: exp.Select, window: TimeWindow) -> bool:
    """True if the groups of a SELECT, which has GROUP BY or DISTINCT, are the sessions of `window`."""
    group = select.args.get("group")
    if window.args.get("partition_by") is None:
        return group is not None or select.args.get("distinct") is not None
    keys = group.expressions if group is not None else ()
    names = {key.name for key in keys if isinstance(key, exp.Column) and key.name not in _BOUNDS}
    columns = all(isinstance(key, exp.Column) for key in keys)
    return bool(keys) and columns and names == {key.name for key in window.args["partition_by"]}


def rows_of_sessions(window: TimeWindow, rows: LogicalNode) -> exp.Select:
    """Return the query of the rows of `window`, which is over `rows`: their columns, and the bounds.

    Without PARTITION BY, all rows belong to the same sessions.
    """
    names = rows.schema.names
    element = _column(names[0]) if len(names) == 1 else _call("ROW", *map(_column, names))
    grouped = window.copy()
    grouped.set("alias", None)
    grouped.set("partition_by", None)
    keys = [key.copy() for key in window.args.get("partition_by") or ()]
    collected = exp.alias_(_call("ARRAY_AGG", element), _ROWS, quoted=True)
    sessions = exp.Select(
        expressions=[*map(_column, _BOUNDS), collected],
        from_=exp.From(this=grouped),
        group=exp.Group(expressions=[*map(_column, _BOUNDS), *keys]),
    )
    alias = exp.TableAlias(this=_name("sessions"))
    unnest = exp.Unnest(
        expressions=[_column(_ROWS)],
        alias=exp.TableAlias(this=_name("session"), columns=list(map(_name, names))),
    )
    result = exp.Select(
        expressions=list(map(_column, (*names, *_BOUNDS))),
        from_=exp.From(this=exp.Subquery(this=sessions, alias=alias)),
        joins=[exp.Join(this=unnest, kind="CROSS")],
    )
    return placed(result, window)


def _name(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)


def _column(name: str) -> exp.Column:
    return exp.Column(this=_name(name))


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))
