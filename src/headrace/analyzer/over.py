"""`function(…) OVER (PARTITION BY … ORDER BY … frame)`, and FILTER of aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headrace.analyzer.coercion import unify
from headrace.analyzer.expressions import (
    STAR,
    Case,
    Expression,
    Frame,
    Literal,
    Over,
    SortKey,
    over_rows,
    overs,
)
from headrace.analyzer.functions import WINDOW_FUNCTIONS, lookup
from headrace.analyzer.functions.signature import Function
from headrace.analyzer.invocation import call
from headrace.analyzer.typing import is_temporal
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, INTEGER, INTEGRAL, INTERVAL, is_numeric
from headrace.sql.ast import span_of, start_of

Bind = Callable[[exp.Expr], Expression]
ONE = Literal(type=INTEGER, text="1", nullable=False)


def filtered(arguments: Sequence[Expression], condition: Expression) -> tuple[Expression, ...]:
    """Return the arguments of an aggregate FILTER (WHERE condition): all aggregates ignore NULLs, so the others become NULL."""
    for expression_over_rows in over_rows(condition):
        raise UserError(
            SqlState.GROUPING_ERROR,
            f"{expression_over_rows.function.name} is not allowed in FILTER",
            hint="Compute it in a subquery of FROM, and filter by its column.",
            span=expression_over_rows.span,
        )
    first, *rest = arguments
    value = ONE if first == STAR else first
    filtered_case = Case(branches=((condition, value),), type=value.type, nullable=True, span=first.span)
    return (filtered_case, *rest)


def bind_over(node: exp.Window, bind: Bind, condition: Callable[[exp.Expr, str], Expression]) -> Over:
    """Return a call with OVER; raises UserError 0A000 for a function that has none, 42804 and 42601 for a frame that cannot be."""
    span = span_of(node)
    inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
    row = _row(inner, span)
    arguments = _arguments(inner, row, bind)
    if isinstance(node.this, exp.Filter):
        if not lookup(row.name, span=span).aggregate:
            raise UserError(
                SqlState.SYNTAX_ERROR, f"FILTER requires an aggregate, and {row.name} is not one", span=span
            )
        arguments = filtered(arguments, condition(node.this.expression.this, "FILTER"))
    counted = row.name == "COUNT" and tuple(arguments) == (STAR,)
    bound = None if counted else call(row, arguments, span=span)
    partition = tuple(bind(key) for key in node.args.get("partition_by") or ())
    order = node.args.get("order")
    keys = tuple(
        SortKey(bind(key.this), bool(key.args.get("desc")), key.args.get("nulls_first"))
        for key in (order.expressions if order is not None else ())
    )
    over = Over(
        function=row,
        arguments=bound.arguments if bound is not None else (STAR,),
        partition_by=partition,
        order_by=keys,
        frame=_frame(node, keys, bind),
        type=bound.type if bound is not None else BIGINT,
        nullable=not row.never_null,
        span=span,
    )
    for part in (*over.arguments, *partition, *(key.expression for key in keys)):
        for nested in overs(part):
            raise UserError(
                SqlState.GROUPING_ERROR,
                f"{nested.function.name} OVER is not allowed in another OVER",
                hint="Compute it in a subquery.",
                span=nested.span,
            )
    return over


def _row(node: exp.Expr, span: Span | None) -> Function:
    name = str(node.this).upper() if isinstance(node, exp.Anonymous) else type(node).__name__.upper()
    row = WINDOW_FUNCTIONS.get(name)
    distinct = any(isinstance(argument, exp.Distinct) for argument in node.expressions)
    if row is None or distinct:
        if isinstance(node, exp.Anonymous) and row is None:
            lookup(str(node.this), span=start_of(node))
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{name}{'(DISTINCT …)' if distinct else ''} is not supported with OVER",
            hint=f"OVER supports {', '.join(WINDOW_FUNCTIONS)}.",
            span=span,
        )
    return row


def _arguments(node: exp.Expr, row: Function, bind: Bind) -> tuple[Expression, ...]:
    if row.name == "COUNT" and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Star):
        return (STAR,)
    bound = [bind(argument) for argument in node.expressions]
    if row.name in ("LAG", "LEAD") and len(bound) == 3:
        (bound[0], bound[2]), _ = unify([bound[0], bound[2]], f"the values of {row.name}", bound[2].span)
    return tuple(bound)


def _frame(node: exp.Window, keys: Sequence[SortKey], bind: Bind) -> Frame | None:
    spec = node.args.get("spec")
    unit = str(spec.args["kind"]).upper() if spec is not None else ""
    if node.args.get("first") is not None or (
        spec is not None and (unit == "GROUPS" or spec.args.get("exclude"))
    ):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "expected PARTITION BY, ORDER BY and a frame of ROWS or RANGE in OVER",
            span=span_of(node),
        )
    if spec is None:
        return None
    start = _bound(spec, "start", unit, keys, bind, node)
    end = _bound(spec, "end", unit, keys, bind, node) if spec.args.get("end") is not None else None
    if _place(start) > _place(end) or start == ("FOLLOWING", None) or end == ("PRECEDING", None):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "the frame of OVER ends before it starts",
            hint="Write the earlier bound first: BETWEEN 2 PRECEDING AND CURRENT ROW.",
            span=span_of(node),
        )
    return Frame(unit, start, end)


def _bound(
    spec: exp.Expr, which: str, unit: str, keys: Sequence[SortKey], bind: Bind, node: exp.Window
) -> tuple[str, Literal | None] | None:
    value, side = spec.args[which], str(spec.args.get(f"{which}_side") or "").upper()
    if value == "CURRENT ROW":
        return None
    if side not in ("PRECEDING", "FOLLOWING"):
        raise UserError(
            SqlState.SYNTAX_ERROR, "expected PRECEDING or FOLLOWING in the frame of OVER", span=span_of(node)
        )
    if value == "UNBOUNDED":
        return side, None
    distance = bind(value)
    key = keys[0].expression.type if len(keys) == 1 else None
    # An event time may be a number of milliseconds; `checks.spans_are_of_times` refuses other numbers.
    is_moment = key is not None and (is_temporal(key) or key == BIGINT)
    fits = (
        distance.type in INTEGRAL
        if unit == "ROWS"
        else key is not None
        and ((distance.type == INTERVAL and is_moment) or (is_numeric(distance.type) and is_numeric(key)))
    )
    if not fits or not isinstance(distance, Literal) or (distance.text or "-").startswith("-"):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            "a frame of ROWS requires whole numbers"
            if unit == "ROWS"
            else (
                "a frame of RANGE requires numbers or INTERVALs that match the type of its one key of ORDER "
                "BY"
            ),
            hint="Write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW.",
            span=distance.span or span_of(node),
        )
    return side, distance


def _place(bound: tuple[str, Literal | None] | None) -> int:
    if bound is None:
        return 0
    direction, distance = bound
    rows = 2**62 if distance is None else int(float(distance.text or 0))
    return -rows if direction == "PRECEDING" else rows
