"""Expressions as the dialect writes them, for EXPLAIN."""

from __future__ import annotations

from headrace.analyzer.expressions import ColumnReference
from headrace.analyzer.functions import OPERATORS_BY_NAME
from headrace.analyzer.functions.json import JSON_PREDICATES
from headrace.analyzer.functions.signature import Function, PerType, Spelling
from headrace.core.internal_columns import PREFIX, is_internal
from headrace.core.names import printed
from headrace.planner.expression_sql import Dialect, ExpressionSql
from headrace.sql.ast import duration_text, quoted_text


def _template(function: Function) -> Spelling:
    if function.infix is not None:
        return f"({{0}} {function.infix} {{1}})"
    if function in JSON_PREDICATES:
        return f"({{0}} {function.name})"
    if function.name == "SIMILAR TO":
        return lambda arguments: f"({' ESCAPE '.join([' SIMILAR TO '.join(arguments[:2]), *arguments[2:]])})"
    if OPERATORS_BY_NAME.get(function.name) is function and not isinstance(function.spark, PerType | None):
        return "{0}[{1}]" if function.name == "ELEMENT_AT" else function.spark
    return f"{function.name}({{*}})"


def _column(reference: ColumnReference) -> str:
    if is_internal(reference.column):
        return f"{reference.column.removeprefix(PREFIX)}({printed(reference.source)})"
    if is_internal(reference.source):
        return printed(reference.column)  # of a source that the statement gives no name
    return f"{printed(reference.source)}.{printed(reference.column)}"


DISPLAY = Dialect(
    identifier=printed,
    text=quoted_text,
    number=lambda text, _kind: text,
    type_name=str,
    template=_template,
    time_as_text=lambda operand, _kind: f"CAST({operand} AS VARCHAR)",
    cast=lambda operand, _source, target, safe: f"{'TRY_CAST' if safe else 'CAST'}({operand} AS {target})",
    interval=lambda milliseconds: f"INTERVAL '{duration_text(milliseconds)}'",
)
SHOWN = ExpressionSql(DISPLAY, _column)
"""The printer of expressions for people."""
