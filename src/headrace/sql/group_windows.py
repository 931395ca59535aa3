"""Flink's group windows: `GROUP BY TUMBLE(time, INTERVAL '1' HOUR)` as a time window in FROM.

The windows are the same: `TUMBLE_START` is `window_start`, `TUMBLE_END` is `window_end` and `TUMBLE_ROWTIME` is `window_time`. The
binder checks that the time is the event time of the rows.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import TimeWindow, interval_ms, span_of
from headrace.sql.limits import DURATION_MAX_MS, too_long_time

_BOUNDS = {"_start": "window_start", "_end": "window_end", "_rowtime": "window_time"}
_AGGREGATES = ("min", "max", "count", "first_value", "last_value", "collect", "array_agg")
"""Aggregates of a time."""
_LENGTHS = {"tumble": 1, "hop": 2, "session": 1}


def windowed(select: exp.Select) -> exp.Select:
    """Return a SELECT whose GROUP BY has a group window with that window in FROM; any other SELECT as it is.

    Raises UserError 0A000 for two group windows, and for one over several sources.
    """
    group, source = select.args.get("group"), select.args.get("from_")
    calls = [node for node in group.expressions if _is_window(node)] if group is not None else []
    if group is None or source is None or not calls:
        return select
    call, rows = calls[0], source.this
    if len(calls) > 1 or select.args.get("joins") or not isinstance(rows, exp.Table | exp.Subquery):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"GROUP BY {call.name.upper()}(…) is supported once, over one relation or subquery",
            hint=f"Write FROM {call.name.upper()}(relation, …) and GROUP BY window_start, window_end.",
            span=span_of(call),
        )
    source.set("this", _window(call, rows))
    keys = [key for key in group.expressions if key is not call]
    bounds = ["window_start", "window_end"]
    for part in [*select.expressions, select.args.get("having")]:
        for node in list(part.find_all(exp.Anonymous)) if part is not None else ():
            column = _BOUNDS.get(node.name.removeprefix(call.name))
            if column is not None and node.expressions == call.expressions:
                if column not in bounds and not _is_aggregated(node):
                    bounds.append(column)
                node.replace(_bound(node, column))
    group.set("expressions", [*(_bound(call, bound) for bound in bounds), *keys])
    return select


def _is_aggregated(node: exp.Expr) -> bool:
    """True if a time is an argument of an aggregate, so that it is no group."""
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Select):
        if isinstance(parent, exp.Anonymous) and parent.name in _AGGREGATES:
            return True
        parent = parent.parent
    return False


def _is_window(node: exp.Expr) -> bool:
    """True of a call such as TUMBLE(time, INTERVAL '1' HOUR)."""
    if not isinstance(node, exp.Anonymous) or node.name not in _LENGTHS:
        return False
    time, *lengths = node.expressions or [None]
    return (
        isinstance(time, exp.Column)
        and len(lengths) == _LENGTHS[node.name]
        and all(isinstance(length, exp.Interval) and interval_ms(length) > 0 for length in lengths)
    )


def _window(call: exp.Anonymous, rows: exp.Expr) -> TimeWindow:
    time, *lengths = call.expressions
    *advance, size = map(length_ms, lengths)
    alias = rows.args.get("alias")
    rows.set("alias", None)
    window = TimeWindow(
        this=rows,
        kind=call.name.upper(),
        size_ms=size,
        advance_ms=advance[0] if advance else None,
        time=time.copy(),
        alias=alias,
    )
    window.meta.update(call.meta)
    window.meta["size_ms"] = span_of(lengths[-1])
    if "properties" in rows.meta:
        window.meta["properties"] = rows.meta.pop("properties")
    return window


def length_ms(length: exp.Interval) -> int:
    """Return the milliseconds of a window's size, advance or offset; raises UserError 53000 if it is too long."""
    milliseconds = interval_ms(length)
    if abs(milliseconds) > DURATION_MAX_MS:
        raise too_long_time(DURATION_MAX_MS, span_of(length))
    return milliseconds


def _bound(place: exp.Expr, name: str) -> exp.Column:
    identifier = exp.Identifier(this=name)
    identifier.meta.update(place.meta)
    return exp.Column(this=identifier)
