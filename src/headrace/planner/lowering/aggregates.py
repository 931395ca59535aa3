"""Groups: of time windows and of streams by Spark's own aggregate, of all else by an operator that knows deletions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.analyzer.expressions import (
    ColumnReference,
    Expression,
    Star,
    aggregates,
    references,
    with_operands,
)
from headrace.analyzer.logical import (
    WINDOW_COLUMNS,
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    Aggregate,
    LogicalNode,
)
from headrace.analyzer.traits import place_of, session_of, traits, window_groups
from headrace.core.internal_columns import DELETED, OP, PREFIX, ROW_TIME, WINDOW
from headrace.planner import physical
from headrace.planner.expression_sql import ExpressionSql
from headrace.planner.lowering.context import ADDED, Lowering, Needed, Wants, places
from headrace.planner.lowering.fragments import Fragment, Rows, exact, indented, select
from headrace.planner.lowering.selects import UNSELECTED_KEY, select_list
from headrace.planner.modes import Mode, Operator
from headrace.planner.rules import distinct_as_sets
from headrace.planner.spark_sql import identifier


def aggregate(low: Lowering, operator: Operator, node: Aggregate, wants: Wants) -> Rows:
    """Lower GROUP BY and SELECT DISTINCT."""
    if window_groups(node):
        return _windowed(low, operator, distinct_as_sets(node), wants)
    if is_native(low, operator, node):
        low.updates = True
        return _updating(low, operator, distinct_as_sets(node), wants)
    return _by_operator(low, operator, node, wants)


def is_native(low: Lowering, operator: Operator, node: Aggregate) -> bool:
    """True for a group that Spark can keep up to date: of rows that only come, for a consumer that takes upserts."""
    calls = [call for expression in _expressions(node) for call in aggregates(expression)]
    return (
        operator.mode is Mode.UPSERT
        and operator.inputs[0].mode is Mode.INSERT
        and not low.append_only
        and not low.state_ttl_ms
        and bool(calls)
        and all(not call.distinct or call.function.name == "COUNT" for call in calls)
    )


def _expressions(node: Aggregate) -> list[Expression]:
    return [*(item.expression for item in node.items), *([node.having] if node.having is not None else [])]


# --- Spark's own


def _windowed(low: Lowering, operator: Operator, node: Aggregate, wants: Wants) -> Rows:
    """Lower groups of time windows: each is emitted once, when the watermark has passed its window's end."""
    fragment = low.fragment(operator.inputs[0], places(*node.group_by, *_expressions(node)))
    fragment, window, time = window_key(
        low, node.input, fragment, places(*node.group_by, *_expressions(node))
    )
    hidden = f"{window} AS {identifier(WINDOW)}"
    keys = [window]
    sql = fragment.sql()
    for key in node.group_by:
        place = place_of(key)
        bound = place is not None and place[0] in fragment.windows
        if not (bound and place and place[1] in (WINDOW_START, WINDOW_END, WINDOW_TIME)):
            keys.append(sql.text(key))
    session = session_of(node)
    if session is not None:
        keys = [window, *_keys_of_sessions(node, session.sources[0].alias, sql)]
    columns = [f"{exact(item, sql)} AS {identifier(item.name)}" for item in node.items]
    keys = list(dict.fromkeys(keys))
    low.groupings.append(_grouping(node, fragment, keys))
    grouped = f"GROUP BY {', '.join(keys)}"
    having = f"HAVING {sql.bare(node.having)}" if node.having is not None else ""
    timed = wants.time
    text = select([*columns, *([hidden] if timed else [])], fragment.text, fragment.where(), grouped, having)
    if timed:
        names = [identifier(item.name) for item in node.items]
        op = [ADDED] if wants.op else []
        text = select([*names, f"{time} AS {identifier(ROW_TIME)}", *op], f"(\n{indented(text)}\n)")
    elif wants.op:
        text = select(["*", ADDED], f"(\n{indented(text)}\n)")
    return Rows(text, Mode.INSERT, fragment.inputs, timed=timed)


def _keys_of_sessions(node: Aggregate, alias: str, sql: ExpressionSql) -> list[str]:
    """Return the keys of groups beside the window.

    What is computed from the bounds is none: the bounds of a row are not those of its session, and the window determines it.
    Spark refuses sessions without a key, and removes a constant. So without a key, all rows get one that Spark does not know to be 0.
    """
    bounds = {(alias, column.name) for column in WINDOW_COLUMNS}
    keys = [
        sql.text(key)
        for key in node.group_by
        if references(key) and bounds.isdisjoint(map(place_of, references(key)))
    ]
    return keys or [f"hash({identifier(alias)}.{identifier(ROW_TIME)}) % 1"]


def window_key(
    low: Lowering, node: LogicalNode, fragment: Fragment, needed: Needed
) -> tuple[Fragment, str, str]:
    """Return the fragment of rows with time windows, their window as a key of groups, and the event time of a group with that key as
    `WINDOW`."""
    if fragment.windows:
        alias = next(iter(fragment.windows))
        return fragment, f"{identifier(alias)}.{identifier(WINDOW)}", f"window_time({identifier(WINDOW)})"
    # The bounds are columns that came from elsewhere: the moment before the window's end is the group's event time.
    fragment = _at_window_end(low, node, fragment, needed)
    return fragment, fragment.hidden.time or "", identifier(WINDOW)


def _at_window_end(low: Lowering, node: LogicalNode, fragment: Fragment, needed: Needed) -> Fragment:
    end = traits(node).window
    if end is None:
        return fragment
    time = f"({fragment.column(*end)} - INTERVAL '0.000001' SECOND)"
    moved = replace(fragment, hidden=replace(fragment.hidden, time=time, marked=False))
    return low.cut("closing", moved, needed)


def _updating(low: Lowering, operator: Operator, node: Aggregate, wants: Wants) -> Rows:
    """Lower groups whose result is emitted again at each change; HAVING ends one that it leaves out."""
    fragment = low.fragment(operator.inputs[0], places(*node.group_by, *_expressions(node)))
    sql = fragment.sql()
    ended = f"NOT coalesce({sql.bare(node.having)}, false)" if node.having is not None else None
    columns = select_list(node, sql, ended)
    latest = []
    if wants.time and fragment.hidden.time is not None:
        latest = [f"max({fragment.hidden.time})"]
        columns.append(f"{latest[0]} AS {identifier(ROW_TIME)}")
    if ended:
        columns.append(f"{ended} AS {identifier(DELETED)}")
    if wants.unselected_key:
        key_columns = ", ".join(sql.bare(key) for key in node.group_by)
        columns.append(f"struct({key_columns}) AS {identifier(UNSELECTED_KEY)}")
    keys = list(dict.fromkeys(map(sql.text, node.group_by)))
    low.groupings.append(_grouping(node, fragment, keys, latest))
    grouped = f"GROUP BY {', '.join(keys)}" if keys else ""
    text = select(columns, fragment.text, fragment.where(), grouped)
    return Rows(text, Mode.UPSERT, fragment.inputs, timed=bool(latest), deleted=ended is not None)


def _grouping(
    node: Aggregate, fragment: Fragment, keys: list[str], more: Sequence[str] = ()
) -> physical.Grouping:
    """Return what Spark keeps of the groups: the aggregates in the order of the select list, then of HAVING, then `more`."""
    sql = fragment.sql()
    calls = [sql.text(call) for expression in _expressions(node) for call in aggregates(expression)]
    return physical.Grouping(
        inputs=list(dict.fromkeys(fragment.inputs)),
        rows=select(["*"], fragment.text, fragment.where()),
        keys=keys,
        calls=list(dict.fromkeys([*calls, *more])),
    )


# --- ours


def _by_operator(low: Lowering, operator: Operator, node: Aggregate, wants: Wants) -> Rows:
    """Lower groups under insertion and deletion."""
    fragment = low.fragment(operator.inputs[0], places(*node.group_by, *_expressions(node)))
    sql = fragment.sql()
    keys = [f"{PREFIX}key_{number}" for number in range(1, len(node.group_by) + 1)]
    columns = [
        f"{sql.bare(key)} AS {identifier(name)}" for key, name in zip(node.group_by, keys, strict=True)
    ]
    calls: list[physical.AggregateCall] = []
    known: dict[Expression, str] = {}
    for call in (call for expression in _expressions(node) for call in aggregates(expression)):
        if call in known:
            continue
        arguments = []
        for argument in call.arguments:
            if isinstance(argument, Star):
                continue
            name = f"{PREFIX}argument_{len(columns)}"
            columns.append(f"{sql.bare(argument)} AS {identifier(name)}")
            arguments.append(name)
        known[call] = f"{PREFIX}result_{len(known) + 1}"
        calls.append(
            physical.AggregateCall(
                name=known[call],
                function=call.function.name,
                arguments=arguments,
                distinct=call.distinct,
                type=str(call.type),
            )
        )
    text = select([*columns, *low.hidden(fragment)], fragment.text, fragment.where())
    step = low.transform(low.name("keyed"), text, fragment.inputs, marked=fragment.hidden.marked)
    signed = operator.mode is Mode.SIGNED
    grouped = low.add(
        physical.ChangelogAggregate(
            id=low.name("grouped"),
            input=step,
            keys=keys,
            calls=calls,
            signed=fragment.mode is Mode.SIGNED,
            output="signed" if signed else "upsert",
            # One row for all never grows, and a quiet time must not end a total.
            state_ttl_ms=low.state_ttl_ms if keys else 0,
        )
    )
    timed = low.time and fragment.hidden.time is not None
    known.update(zip(node.group_by, keys, strict=True))
    return _results(operator, node, grouped, known, wants, timed=timed)


def _results(
    operator: Operator,
    node: Aggregate,
    step: str,
    names: dict[Expression, str],
    wants: Wants,
    *,
    timed: bool,
) -> Rows:
    def named(expression: Expression) -> Expression:
        name = names.get(expression)
        if name is None:
            return with_operands(expression, named)
        return ColumnReference(source="", column=name, type=expression.type, nullable=expression.nullable)

    sql = Fragment("", operator.mode, (), []).sql()
    over = replace(
        node,
        items=tuple(replace(item, expression=named(item.expression)) for item in node.items),
        having=named(node.having) if node.having is not None else None,
    )
    having = sql.bare(over.having) if over.having is not None else None
    ended, where = None, []
    if operator.mode is Mode.UPSERT:
        unmatched = f" OR NOT coalesce({having}, false)" if having else ""
        ended = f"{identifier(DELETED)}{unmatched}"
    elif having:
        where = [having]
    columns = select_list(over, sql, ended)
    if wants.time and timed:
        columns.append(identifier(ROW_TIME))
    if operator.mode is Mode.SIGNED:
        columns.append(identifier(OP))
    elif wants.op:
        columns.append(ADDED)
    if ended:
        columns.append(f"{ended} AS {identifier(DELETED)}" if having else identifier(DELETED))
    if wants.unselected_key:
        key_columns = ", ".join(identifier(names[key]) for key in node.group_by)
        columns.append(f"struct({key_columns}) AS {identifier(UNSELECTED_KEY)}")
    return Rows(
        select(columns, identifier(step), where),
        operator.mode,
        [step],
        timed=wants.time and timed,
        deleted=ended is not None,
    )
