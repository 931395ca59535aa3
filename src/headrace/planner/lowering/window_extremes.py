"""The rows with the MAX or MIN of their time window."""

from __future__ import annotations

from headrace.analyzer.logical import WindowExtremes
from headrace.analyzer.traits import closes_at_once
from headrace.core.internal_columns import PREFIX, ROW_TIME, WINDOW
from headrace.planner import physical
from headrace.planner.lowering.aggregates import window_key
from headrace.planner.lowering.context import Lowering, Needed, places
from headrace.planner.lowering.fragments import Fragment, indented, select
from headrace.planner.modes import Mode, Operator
from headrace.planner.spark_sql import identifier

_EXTREME = f"{PREFIX}extreme"
_ROW = f"{PREFIX}row"
_ROWS = f"{PREFIX}rows"


def window_extremes(low: Lowering, operator: Operator, node: WindowExtremes, needed: Needed) -> Fragment:
    """Lower the rows with the MAX or MIN of their window. Rows of a window that come together are compared in their batch; else an
    aggregate of each window keeps the rows with the extreme so far."""
    items = [item for item in node.items if (node.alias, item.name) in needed]
    own = frozenset(place for place in needed if place[0] != node.alias)
    read = own | places(node.value, *(item.expression for item in items))
    fragment = low.fragment(operator.inputs[0], read)
    at_once = closes_at_once(node.input)
    step = _of_batch(low, node, fragment, needed) if at_once else _of_state(low, node, fragment, needed, read)
    result = low.over_structs(step, fragment, Mode.INSERT)
    result.sources = node.sources
    return result


def _columns(low: Lowering, node: WindowExtremes, fragment: Fragment, needed: Needed) -> list[str]:
    """Return a STRUCT for each source: those of the rows, and the group."""
    sql = fragment.sql()
    columns = low.struct_columns(fragment, needed)
    group = [
        f"{sql.bare(item.expression)} AS {identifier(item.name)}"
        for item in node.items
        if (node.alias, item.name) in needed
    ]
    if group:
        columns.append(f"struct({', '.join(group)}) AS {identifier(node.alias)}")
    # Spark has no STRUCT without a field.
    return columns or [f"1 AS {identifier(_ROW)}"]


def _of_batch(low: Lowering, node: WindowExtremes, fragment: Fragment, needed: Needed) -> str:
    columns = [
        *_columns(low, node, fragment, needed),
        f"{fragment.sql().bare(node.value)} AS {identifier(_EXTREME)}",
        *low.hidden(fragment),
    ]
    text = select(columns, fragment.text, fragment.where())
    return low.add(
        physical.WindowExtremes(
            id=low.name("extremes", node.alias),
            input=low.transform(low.name("closed", node.alias), text, fragment.inputs),
            function="max" if node.function == "MAX" else "min",
            value=_EXTREME,
        )
    )


def _of_state(low: Lowering, node: WindowExtremes, fragment: Fragment, needed: Needed, read: Needed) -> str:
    fragment, window, time = window_key(low, node.input, fragment, read)
    row = f"struct({', '.join(_columns(low, node, fragment, needed))})"
    call = f"headrace_rows_of_{node.function.lower()}({fragment.sql().bare(node.value)}, {row})"
    low.groupings.append(
        physical.Grouping(
            inputs=list(dict.fromkeys(fragment.inputs)),
            rows=select(["*"], fragment.text, fragment.where()),
            keys=[window],
            calls=[call],
        )
    )
    columns = [f"{call} AS {identifier(_ROWS)}", f"{window} AS {identifier(WINDOW)}"]
    grouped = select(columns, fragment.text, fragment.where(), f"GROUP BY {window}")
    kept = [f"inline({identifier(_ROWS)})", f"{time} AS {identifier(ROW_TIME)}"]
    return low.transform(
        low.name("extremes", node.alias), select(kept, f"(\n{indented(grouped)}\n)"), fragment.inputs
    )
