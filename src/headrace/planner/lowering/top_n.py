"""The first rows of each partition."""

from __future__ import annotations

from typing import Literal

from headrace.analyzer.event_times import is_event_time
from headrace.analyzer.expressions import Expression
from headrace.analyzer.logical import RANK_SOURCE, TopN
from headrace.analyzer.traits import ranks_windows, traits
from headrace.core.internal_columns import PREFIX
from headrace.planner import physical
from headrace.planner.lowering.context import Lowering, Needed, order_keys, places
from headrace.planner.lowering.fragments import Fragment, indented, select
from headrace.planner.modes import Mode, Operator
from headrace.planner.spark_sql import identifier

_CLOSES = f"{PREFIX}closes"
_PLACE = f"{PREFIX}place"
_FUNCTIONS: dict[str, Literal["row_number", "rank", "dense_rank"]] = {
    "ROW_NUMBER": "row_number",
    "RANK": "rank",
    "DENSE_RANK": "dense_rank",
}


def keeps_last(node: TopN) -> bool:
    """Return True if the newest row of each partition is kept, which of two at the same event time is the later one, as in Flink."""
    if node.has_ties or node.limit != 1 or len(node.order_by) != 1:
        return False
    [key] = node.order_by
    return key.descending and is_event_time(key.expression, node.input)


def top_n(low: Lowering, operator: Operator, node: TopN, needed: Needed) -> Fragment:
    """Lower ROW_NUMBER(), RANK() or DENSE_RANK() OVER (PARTITION BY … ORDER BY …) <= n."""
    keys = (*node.partition_by, *(key.expression for key in node.order_by))
    input_columns = frozenset(place for place in needed if place[0] != RANK_SOURCE)
    fragment = low.fragment(operator.inputs[0], input_columns | places(*keys))
    sql = fragment.sql()
    more: list[str] = []

    def column(expression: Expression, name: str) -> str:
        more.append(f"{sql.bare(expression)} AS {identifier(name)}")
        return name

    partition = [
        column(key, f"{PREFIX}partition_{number}") for number, key in enumerate(node.partition_by, 1)
    ]
    order = order_keys(node.order_by, column)
    closes = None
    end = traits(node.input).window
    if ranks_windows(node) and end is not None:
        more.append(f"{fragment.column(*end)} AS {identifier(_CLOSES)}")
        closes = _CLOSES
    alias = fragment.sources[-1].alias
    step = low.structs(low.name("keyed", alias), fragment, input_columns, more)
    ranked = low.add(
        physical.TopN(
            id=low.name("ranked", alias),
            input=step,
            partition=partition,
            order=order,
            limit=node.limit,
            signed=fragment.mode is Mode.SIGNED,
            # Without an order, no row leaves: the operation of each is to be added, and nothing reads it.
            output=operator.mode.value if node.order_by else "signed",
            rank=_PLACE if node.skipped else node.rank,
            closes=closes,
            state_ttl_ms=low.state_ttl_ms,
            ties="newest" if keeps_last(node) else "oldest",
            function=_FUNCTIONS[node.function],
        )
    )
    result = low.over_structs(ranked, fragment, operator.mode)
    result.sources = node.sources
    if node.skipped:
        kept = select(["*"], result.text, [f"{identifier(_PLACE)} > {node.skipped}"])
        result.text = f"(\n{indented(kept)}\n) AS {identifier(ranked)}"
    if node.rank is not None:
        # The rank is a column of its own, and named like one of a source.
        place = f"struct({identifier(node.rank)}) AS {identifier(RANK_SOURCE)}"
        result.text = f"(\n{indented(select(['*', place], result.text))}\n) AS {identifier(ranked)}"
    return result
