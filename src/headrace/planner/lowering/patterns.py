"""The matches of a pattern."""

from __future__ import annotations

from headrace.analyzer.expressions import ColumnReference, Expression
from headrace.analyzer.logical import MatchRecognize, Navigation, PatternVariable
from headrace.core.internal_columns import PREFIX, ROW_TIME
from headrace.planner import physical
from headrace.planner.expression_sql import ExpressionSql
from headrace.planner.lowering.context import Lowering, Needed, order_keys, places
from headrace.planner.lowering.fragments import Fragment, Hidden, exact, indented, select
from headrace.planner.modes import Operator
from headrace.planner.spark_sql import SPARK, identifier


def match_recognize(low: Lowering, operator: Operator, node: MatchRecognize, needed: Needed) -> Fragment:
    """Lower a pattern: the operator gets what its navigations read, and returns them; the columns of a match are computed from them."""
    values = tuple(dict.fromkeys(item.expression for item in node.navigations))
    order = tuple(key.expression for key in node.order_by)
    fragment = low.fragment(operator.inputs[0], places(*node.partition_by, *order, *values))
    sql = fragment.sql()
    columns: list[str] = []

    def column(expression: Expression, name: str) -> str:
        is_time = isinstance(expression, ColumnReference) and expression.column == ROW_TIME
        text = fragment.hidden.time if is_time and fragment.hidden.time is not None else sql.bare(expression)
        columns.append(f"{text} AS {identifier(name)}")
        return name

    read = {value: column(value, f"{PREFIX}value_{number}") for number, value in enumerate(values, 1)}
    partition = [
        column(key, f"{PREFIX}partition_{number}") for number, key in enumerate(node.partition_by, 1)
    ]
    keys = order_keys(node.order_by, column)
    matched = low.add(
        physical.MatchRecognize(
            id=low.name("matched", node.alias),
            input=low.structs(low.name("rows", node.alias), fragment, frozenset(), columns),
            partition=partition,
            order=keys,
            pattern=[_variable(variable) for variable in node.pattern],
            navigations=[_navigation(item, read[item.expression]) for item in node.navigations],
            skip=node.skip,
            skip_to=node.skip_to,
            within_ms=node.within_ms or 0,
            state_ttl_ms=low.state_ttl_ms,
        )
    )
    names = {name for _, name in needed}
    shown = [
        f"{exact(item, _OVER_MATCH)} AS {identifier(item.name)}" for item in node.items if item.name in names
    ]
    text = select([*shown, identifier(ROW_TIME)], identifier(matched))
    alias = identifier(node.alias)
    return Fragment(
        text=f"(\n{indented(text)}\n) AS {alias}",
        mode=operator.mode,
        sources=node.sources,
        inputs=[matched],
        hidden=Hidden(time=f"{alias}.{identifier(ROW_TIME)}"),
    )


_OVER_MATCH = ExpressionSql(SPARK, lambda reference: identifier(reference.column))
"""Prints what is computed of navigations, which are columns there."""


def _variable(variable: PatternVariable) -> physical.PatternVariable:
    condition = variable.condition
    return physical.PatternVariable(
        name=variable.name,
        least=variable.least,
        most=variable.most,
        greedy=variable.greedy,
        condition=_OVER_MATCH.bare(condition) if condition is not None else None,
    )


def _navigation(item: Navigation, column: str) -> physical.Navigation:
    return physical.Navigation(
        name=item.name, kind=item.kind, variable=item.variable, column=column, offset=item.offset
    )
