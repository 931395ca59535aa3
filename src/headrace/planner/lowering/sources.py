"""Lowering of FROM, row by row: relations, sub-selects, filters, arrays and time windows."""

from __future__ import annotations

from dataclasses import replace

from headrace.analyzer.expressions import ColumnReference, conjuncts
from headrace.analyzer.logical import (
    WINDOW_COLUMNS,
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    Filter,
    Scan,
    SideTopic,
    SingleRow,
    Subquery,
    TimeWindow,
    Unnest,
    WindowKind,
)
from headrace.analyzer.traits import RowWindow
from headrace.connectors.registry import connector
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.internal_columns import DELETED, OP, PREFIX, ROW_HEADERS, ROW_TIME, SEQUENCE, WINDOW
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, Array, DataType, Struct
from headrace.formats.base import epoch_time_sql
from headrace.planner import physical
from headrace.planner.lowering.context import Lowering, Needed, Wants, places
from headrace.planner.lowering.fragments import POSITION, Fragment, Hidden, indented, select
from headrace.planner.modes import Mode, Operator
from headrace.planner.sinks import physical_columns
from headrace.planner.spark_sql import identifier


def scan(low: Lowering, operator: Operator, node: Scan, needed: Needed) -> Fragment:
    """Lower a relation: its records are read, decoded and, if an operator waits for time, given a watermark."""
    relation, properties = node.relation, node.properties
    window = low.windows.get(id(node)) if low.watermarked else None
    arrival = _by_arrival(node, window)
    late: str | None = None
    if connector(node.store_type).row_source is not None:
        step = low.add(_rows(low, node, arrival=arrival))
    else:
        read = low.add(_records(low, node))
        late = _late(low, node, read, window)
        decoded = _decoded(low, node, read, carries_record=late is not None, arrival=arrival)
        headers = (node.alias, ROW_HEADERS) in needed
        step = low.add(decoded.model_copy(update={"headers": headers}))
    if low.watermarked:
        size, advance = _last(window) if window is not None else (0, 0)
        step = low.add(
            physical.AssignWatermark(
                id=low.name("timed", node.alias),
                input=step,
                source=str(relation.name),
                delay_ms=0 if arrival else properties.event_time.delay_ms,
                idle_timeout_ms=0 if arrival else properties.event_time.idle_timeout_ms,
                deleted=DELETED if relation.format.upsert else None,
                window_ms=size,
                advance_ms=advance,
                offset_ms=window.offset_ms if isinstance(window, TimeWindow) else 0,
                late=late,
                clock_step_ms=_step(window) if isinstance(window, TimeWindow) and arrival else 0,
            )
        )
    alias = identifier(node.alias)
    return Fragment(
        text=f"{identifier(step)} AS {alias}",
        mode=operator.mode,
        sources=node.sources,
        inputs=[step],
        hidden=Hidden(
            time=f"{alias}.{identifier(ROW_TIME)}",
            deleted=f"{alias}.{identifier(DELETED)}" if relation.format.upsert else None,
            sequence=f"{alias}.{identifier(SEQUENCE)}",
        ),
        table=identifier(step),
    )


def _records(low: Lowering, node: Scan) -> physical.ReadEntity:
    properties = node.properties
    return physical.ReadEntity(
        id=low.source_name("read", node),
        store=node.relation.store or "",
        connector=node.store_type,
        entity=node.relation.entity or (),
        starting_position=properties.starting_position,
        starting_timestamp_ms=properties.starting_timestamp_ms,
        options=dict(properties.options),
    )


def _rows(low: Lowering, node: Scan, *, arrival: bool) -> physical.ReadRows:
    relation, properties = node.relation, node.properties
    return physical.ReadRows(
        id=low.source_name("rows", node),
        store=relation.store or "",
        connector=node.store_type,
        entity=relation.entity or (),
        columns=physical_columns(relation.schema),
        key_columns=list(relation.schema.primary_key),
        upsert=relation.format.upsert,
        timestamp=None if arrival else properties.event_time.column,
        arrival=arrival,
        starting_position=properties.starting_position,
        starting_timestamp_ms=properties.starting_timestamp_ms,
        options=dict(properties.options),
        on_error="ignore" if properties.on_error == "ignore" else "terminate",
        on_function_error="null"
        if low.calls_users and properties.on_function_error == "null"
        else "terminate",
    )


def _by_arrival(node: Scan, window: RowWindow | None) -> bool:
    """True when the rows' time is when they are read. Raises UserError 0A000 where that was asked for without a window."""
    time = node.properties.event_time
    windowed = isinstance(window, TimeWindow)
    if time.arrival and not windowed and time.arrival_span is not None:
        raise _without_window(
            node, "'source.time' = ARRIVAL requires a window", "source.time", time.arrival_span
        )
    return time.arrival and windowed


def _without_window(node: Scan, message: str, key: str, span: Span | None) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"{message}, and the rows of {node.relation.name} are in no such window",
        hint=f"Leave '{key}' out, or group TUMBLE, HOP, CUMULATE or SESSION over the relation by its bounds.",
        span=span,
    )


def _last(window: RowWindow) -> tuple[int, int]:
    """Return the size and advance of a row's last window: CUMULATE's last is the whole one, and a SESSION begins with the row. For a
    pattern and OVER a row is late as soon as the watermark has passed it."""
    if not isinstance(window, TimeWindow):
        return 1, 0
    if window.kind is WindowKind.CUMULATE:
        return window.size_ms, window.size_ms
    return window.size_ms, 0 if window.kind is WindowKind.SESSION else window.advance_ms


def _step(window: TimeWindow) -> int:
    """Return how often a window ends. Sessions end at any time; the clock looks once a second."""
    return min(window.size_ms, _SESSION_LOOK_MS) if window.kind is WindowKind.SESSION else window.advance_ms


_SESSION_LOOK_MS = 1000


def _decoded(
    low: Lowering, node: Scan, read: str, *, carries_record: bool, arrival: bool
) -> physical.DecodeRows:
    relation, event_time = node.relation, node.properties.event_time
    layout = relation.format
    value = layout.value
    if node.properties.timestamps is not None:
        value = value.model_copy(update={"timestamps": node.properties.timestamps})
    handling = node.properties.on_function_error if low.calls_users else "terminate"
    on_function_error = _on_error(low, node, read, handling)
    key_columns = layout.key_columns or (relation.schema.primary_key if layout.upsert else ())
    return physical.DecodeRows(
        id=low.source_name("rows", node),
        input=read,
        columns=physical_columns(relation.schema),
        value=value,
        key=layout.key,
        key_type=str(layout.key_type) if layout.key_type is not None else None,
        key_columns=list(key_columns),
        timestamp=None if arrival else event_time.column,
        upsert=layout.upsert,
        on_error=_on_error(low, node, read, node.properties.on_error),
        on_function_error=on_function_error,
        ahead_ms=event_time.ahead_ms if low.watermarked and not arrival else 0,
        carries_key=low.carrying is node,
        carries_record=carries_record or on_function_error not in ("terminate", "null", "ignore"),
        arrival=arrival,
    )


def _on_error(low: Lowering, node: Scan, read: str, handling: str) -> str:
    """Return what happens to a record that fails, by its `handling`; a place for such records is an output of the plan."""
    letters = node.properties.dead_letters
    if letters is None or handling != "dead_letter":
        return handling
    if low.interactive:
        return "ignore"  # to look at a source is not to work it off
    return _side_output(low, "dead_letters", node, read, letters)


def _late(low: Lowering, node: Scan, read: str, window: RowWindow | None) -> str | None:
    """Return the output for rows that are too late for their windows; None: they are dropped. Raises UserError 0A000 if they cannot be
    kept."""
    topic = node.properties.late_rows
    if topic is None:
        return None
    if window is None:
        if topic.span is None:
            return None  # the relation's own wish, for the queries that have windows
        raise _without_window(
            node,
            "late rows exist only for windows over streams and for patterns",
            "source.late.rows.handling",
            topic.span,
        )
    return None if low.interactive else _side_output(low, "late_rows", node, read, topic)


def _side_output(low: Lowering, what: str, node: Scan, read: str, topic: SideTopic) -> str:
    output = physical.WriteEntity(
        id=low.source_name(what, node),
        input=read,
        store=topic.store,
        connector=topic.store_type,
        entity=topic.entity,
    )
    if output not in low.outputs:
        low.outputs.append(output)
    return output.id


def single_row(_low: Lowering, _operator: Operator, _node: SingleRow, _needed: Needed) -> Fragment:
    """Lower a single row without columns."""
    return Fragment("(SELECT 1)", Mode.INSERT, (), [])


def subquery(low: Lowering, operator: Operator, node: Subquery, _needed: Needed) -> Fragment:
    """Lower a sub-select in FROM."""
    with low.within(node.alias):
        rows = low.rows(operator.inputs[0], Wants(time=low.time))
    alias = identifier(node.alias)
    table = f"(\n{indented(rows.text)}\n)"
    return Fragment(
        text=f"{table} AS {alias}",
        mode=operator.mode,
        sources=node.sources,
        inputs=rows.inputs,
        hidden=Hidden(
            time=f"{alias}.{identifier(ROW_TIME)}" if rows.timed else None,
            marked=rows.marked,
            deleted=f"{alias}.{identifier(DELETED)}" if rows.deleted else None,
            op=f"{alias}.{identifier(OP)}" if rows.mode is Mode.SIGNED else None,
        ),
        table=table,
    )


def filtered(low: Lowering, operator: Operator, node: Filter, needed: Needed) -> Fragment:
    """Lower WHERE."""
    fragment = low.fragment(operator.inputs[0], needed | places(node.condition))
    return replace(fragment, conditions=[*fragment.conditions, *conjuncts(node.condition)])


def unnest(low: Lowering, operator: Operator, node: Unnest, needed: Needed) -> Fragment:
    """Lower UNNEST: each row once for every element of an array."""
    below = low.fragment(operator.inputs[0], needed | places(node.array))
    array = below.sql().text(node.array)
    alias, names = identifier(node.alias), [identifier(column.name) for column in node.columns]
    positions = dict(below.positions)
    if node.ordinality is not None:
        positions[node.alias] = node.ordinality.name
    outer = "OUTER " if node.outer else ""
    text = f"{below.text}\nLATERAL VIEW {outer}{_exploded(node, array)} {alias} AS {', '.join([*_place(node), *names])}"
    return replace(below, text=text, sources=node.sources, positions=positions, table=None)


def _place(node: Unnest) -> list[str]:
    return [identifier(POSITION)] if node.ordinality is not None else []


def _exploded(node: Unnest, array: str) -> str:
    """Return the generator of the place, where it is selected, and of the element or its fields."""
    if len(node.columns) == 1:
        return f"{'posexplode' if node.ordinality is not None else 'explode'}({array})"
    if node.ordinality is None:
        return f"inline({array})"
    fields = ", ".join(f"e.{identifier(name)}" for name, _ in _fields(node.array.type))
    return f"inline(transform({array}, (e, i) -> struct(i, {fields})))"


def _fields(kind: DataType) -> tuple[tuple[str, DataType], ...]:
    match kind:
        case Array(element=Struct(fields=fields)):
            return fields
    raise InternalError(f"expected an ARRAY of STRUCT, found {kind}")


def time_window(low: Lowering, operator: Operator, node: TimeWindow, needed: Needed) -> Fragment:
    """Lower time windows: each row in its windows. A SESSION's bounds come with its groups alone."""
    names = {column.name for column in WINDOW_COLUMNS}
    own = frozenset(place for place in needed if place[1] not in names)
    if node.time is not None:
        return _of_changes(low, operator, node, node.time, own)
    below = low.marked(low.fragment(operator.inputs[0], own), own)
    alias = node.sources[0].alias
    time = identifier(ROW_TIME)
    if node.kind is WindowKind.CUMULATE:
        return replace(
            below,
            text=f"(\n{indented(_bounded(node, below.table or '', time))}\n) AS {identifier(alias)}",
            sources=node.sources,
            table=None,
        )
    if node.kind is WindowKind.SESSION:
        window = f"session_window({time}, '{node.size_ms} milliseconds')"
    else:
        length = f"'{node.size_ms} milliseconds'"
        if node.advance_ms != node.size_ms or node.offset_ms:
            length += f", '{node.advance_ms} milliseconds'"
        if node.offset_ms:
            length += f", '{node.offset_ms} milliseconds'"
        window = f"window({time}, {length})"
    text = f"(SELECT {window} AS {identifier(WINDOW)}, * FROM {below.table}) AS {identifier(alias)}"  # noqa: S608
    return replace(below, text=text, sources=node.sources, windows={alias}, table=None)


def _of_changes(
    low: Lowering, operator: Operator, node: TimeWindow, time: ColumnReference, needed: Needed
) -> Fragment:
    """Lower windows over rows that change: the bounds are columns like others, and a deletion is in the windows of its row."""
    needed |= places(time)
    below = low.fragment(operator.inputs[0], needed)
    if below.conditions or below.table is None or below.positions:
        below = low.cut("windowed", below, needed)
    moment = identifier(time.column)
    if time.type == BIGINT:
        moment = epoch_time_sql(moment)
    text = _bounded(node, below.table or "", moment)
    return replace(
        below, text=f"(\n{indented(text)}\n) AS {identifier(time.source)}", sources=node.sources, table=None
    )


def _bounded(node: TimeWindow, table: str, time: str) -> str:
    """Return each row once for each of its windows. A row is in those windows of CUMULATE that start with the whole one and end after
    the row, one for each step, and in those of TUMBLE and HOP that start at most a size before it."""
    size, step = node.size_ms * 1000, node.advance_ms * 1000
    start, end = identifier(WINDOW_START), identifier(WINDOW_END)
    micros, last = identifier(f"{PREFIX}micros"), identifier(f"{PREFIX}end")
    stepped = select([f"unix_micros({time}) AS {micros}", "*"], table)
    moved = f"{micros} - {node.offset_ms * 1000}L" if node.offset_ms else micros
    if node.kind is WindowKind.CUMULATE:
        first = f"{micros} - pmod({moved}, {step}L) + {step}L"
        final = f"{micros} - pmod({moved}, {size}L) + {size}L"
        begin = f"{micros} - pmod({moved}, {size}L)"
    else:
        # The first window that ends after the row, and the one that starts last before it.
        first = f"{micros} - pmod({moved} - {size}L, {step}L) + {step}L"
        final = f"{micros} - pmod({moved}, {step}L) + {size}L"
        begin = f"{last} - {size}L"
    ends = f"sequence({first}, {final}, {step}L)"
    exploded = select([f"explode({ends}) AS {last}", "*"], f"(\n{indented(stepped)}\n)")
    bounds = [
        f"timestamp_micros({begin}) AS {start}",
        f"timestamp_micros({last}) AS {end}",
        f"timestamp_micros({last} - 1000L) AS {identifier(WINDOW_TIME)}",
    ]
    return select([*bounds, "*"], f"(\n{indented(exploded)}\n)")
