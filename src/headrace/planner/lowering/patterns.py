"""The matches of a pattern."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.expressions import ColumnReference, Expression, walk
from headrace.analyzer.logical import Item, MatchRecognize, Navigation, PatternPart, PatternVariable
from headrace.core.internal_columns import PREFIX, ROW_TIME
from headrace.planner import physical
from headrace.planner.expression_sql import ExpressionSql
from headrace.planner.lowering.context import Lowering, Needed, order_keys, places
from headrace.planner.lowering.fragments import Fragment, Hidden, exact, indented, select
from headrace.planner.modes import Operator
from headrace.planner.spark_sql import SPARK, identifier


def match_recognize(low: Lowering, operator: Operator, node: MatchRecognize, needed: Needed) -> Fragment:
    """Lower a pattern: the operator gets what its navigations read, and returns them; the columns of a match are computed from them."""
    names = {name for _, name in needed}
    items = [item for item in node.items if item.name in names]
    navigations = _read(node, items) if node.all_rows else node.navigations
    values = tuple(dict.fromkeys(item.expression for item in navigations if item.expression is not None))
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
            navigations=[
                _navigation(item, read[item.expression] if item.expression is not None else None)
                for item in navigations
            ],
            skip=node.skip,
            skip_to=node.skip_to,
            within_ms=node.within_ms or 0,
            parts=_parts(node.parts) if node.parts is not None else [],
            subsets={name: list(members) for name, members in node.subsets},
            all_rows=node.all_rows,
            state_ttl_ms=low.state_ttl_ms,
        )
    )
    shown = [f"{exact(item, _OVER_MATCH)} AS {identifier(item.name)}" for item in items]
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


def _read(node: MatchRecognize, items: Sequence[Item]) -> tuple[Navigation, ...]:
    """Return the navigations that conditions and `items` read. Otherwise all columns of the rows would be kept."""
    conditions = [variable.condition for variable in node.pattern if variable.condition is not None]
    read = {
        part.column
        for expression in (*conditions, *(item.expression for item in items))
        for part in walk(expression)
        if isinstance(part, ColumnReference)
    }
    return tuple(item for item in node.navigations if item.name in read)


def _variable(variable: PatternVariable) -> physical.PatternVariable:
    condition = variable.condition
    return physical.PatternVariable(
        name=variable.name,
        least=variable.least,
        most=variable.most,
        greedy=variable.greedy,
        condition=_OVER_MATCH.bare(condition) if condition is not None else None,
    )


def _parts(part: PatternPart, before: int = 0) -> list[physical.PatternPart]:
    """Return the parts of a part, and itself as the last one; `before` of them come before."""
    listed: list[physical.PatternPart] = []
    places = []
    for item in part.parts:
        listed += _parts(item, before + len(listed))
        places.append(before + len(listed) - 1)
    own = physical.PatternPart(
        kind=part.kind,
        variable=part.variable,
        parts=places,
        least=part.least,
        most=part.most,
        greedy=part.greedy,
    )
    return [*listed, own]


def _navigation(item: Navigation, column: str | None) -> physical.Navigation:
    return physical.Navigation(
        name=item.name, kind=item.kind, variable=item.variable, column=column, offset=item.offset
    )
