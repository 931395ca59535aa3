"""Window functions over the rows so far."""

from __future__ import annotations

from headrace.analyzer.expressions import Expression, Over, Star
from headrace.analyzer.logical import OverAggregate
from headrace.analyzer.over_aggregates import frame_of
from headrace.core.internal_columns import PREFIX
from headrace.planner import physical
from headrace.planner.lowering.context import Lowering, Needed, places
from headrace.planner.lowering.fragments import Fragment, indented, select
from headrace.planner.modes import Operator
from headrace.planner.spark_sql import identifier


def over_aggregate(low: Lowering, operator: Operator, node: OverAggregate, needed: Needed) -> Fragment:
    """Lower functions OVER (…): the operator gets what they read beside the row, and adds the results."""
    input_columns = frozenset(place for place in needed if place[0] != node.alias)
    arguments = tuple(dict.fromkeys(argument for _, over in node.calls for argument in _arguments(over)))
    fragment = low.fragment(operator.inputs[0], input_columns | places(*node.partition_by, *arguments))
    sql = fragment.sql()
    more: list[str] = []

    def column(expression: Expression, name: str) -> str:
        more.append(f"{sql.bare(expression)} AS {identifier(name)}")
        return name

    partition = [
        column(key, f"{PREFIX}partition_{number}") for number, key in enumerate(node.partition_by, 1)
    ]
    read = {value: column(value, f"{PREFIX}value_{number}") for number, value in enumerate(arguments, 1)}
    alias = fragment.sources[0].alias
    step = low.add(
        physical.OverAggregate(
            id=low.name("over", alias),
            input=low.structs(low.name("rows", alias), fragment, input_columns, more),
            partition=partition,
            calls=[_call(name, over, read) for name, over in node.calls],
            state_ttl_ms=low.state_ttl_ms,
        )
    )
    result = low.over_structs(step, fragment, operator.mode)
    result.sources = node.sources
    columns = ", ".join(identifier(name) for name, _ in node.calls)
    result.text = (
        f"(\n{indented(select(['*', f'struct({columns}) AS {identifier(node.alias)}'], result.text))}\n) "
        f"AS {identifier(step)}"
    )
    return result


def _arguments(over: Over) -> list[Expression]:
    # How many rows LAG goes back is a number of the plan.
    read = over.arguments[::2] if over.function.name == "LAG" else over.arguments
    return [argument for argument in read if not isinstance(argument, Star)]


def _call(name: str, over: Over, read: dict[Expression, str]) -> physical.OverCall:
    unit, preceding = frame_of(over)
    return physical.OverCall(
        name=name,
        # The number of a row is how many rows there have been.
        function="COUNT" if over.function.name == "ROW_NUMBER" else over.function.name,
        arguments=[read[argument] for argument in _arguments(over)],
        type=str(over.type),
        unit="rows" if unit == "ROWS" else "range",
        preceding=preceding,
    )
