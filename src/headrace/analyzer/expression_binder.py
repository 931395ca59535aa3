"""Expressions of a parsed SELECT to typed expressions: names resolved, types checked, functions looked up.

Whatever has no branch here is refused: the engines never see a construct that was not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Never

from sqlglot import exp

from headrace.analyzer.calls import Special
from headrace.analyzer.coercion import cast_literal, literal_as, unify
from headrace.analyzer.composed_calls import whole_rows
from headrace.analyzer.expressions import (
    STAR,
    Call,
    Case,
    Cast,
    Expression,
    FieldAccess,
    Literal,
    over_rows,
    with_operands,
)
from headrace.analyzer.functions import CATALOGUE, OPERATORS_BY_NAME, is_aggregate, is_built_in, lookup
from headrace.analyzer.functions.composed import ROW
from headrace.analyzer.functions.implementation import Implementation
from headrace.analyzer.functions.operators import is_division_of_integers
from headrace.analyzer.invocation import COMPARISONS, call, conjunction
from headrace.analyzer.json_calls import bind_json
from headrace.analyzer.over import bind_over, filtered
from headrace.analyzer.scope import Scope
from headrace.analyzer.typing import DECIMAL_PRECISION_MAX, castable, common, is_temporal, is_text
from headrace.analyzer.user_calls import user_call
from headrace.catalog.objects import FunctionKind
from headrace.core.errors import Span, UserError
from headrace.core.idioms import Place, remedy
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NULL,
    VARCHAR,
    DataType,
    Decimal,
    Struct,
    Varchar,
    is_numeric,
)
from headrace.core.wording import counted
from headrace.sql.ast import JsonCall, is_enclosed, span_of, start_of, type_of
from headrace.sql.limits import INTERVAL_MAX_MS, too_long_time

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.And: "AND",
    exp.Or: "OR",
    exp.DPipe: "||",
}
_MONTHS = {"MONTH": 1, "YEAR": 12}
_UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}


class ExpressionBinder:
    """Binds the expressions of one SELECT against the sources of its FROM; `subquery` binds a subquery that is a value, IN and EXISTS."""

    def __init__(self, scope: Scope, subquery: Callable[[exp.Expr], Expression] | None = None) -> None:
        self._scope = scope
        self._subquery = subquery or _refused_subquery
        self._special = Special(scope, self.bind)
        self._branches: dict[type[exp.Expr], Callable[..., Expression]] = {
            exp.Column: self._column,
            exp.Dot: self._field,
            exp.Bracket: self._element,
            exp.Literal: self._literal,
            exp.Boolean: self._boolean,
            exp.Null: lambda node: Literal(type=NULL, text=None, span=span_of(node)),
            exp.Paren: lambda node: self.bind(node.this),
            exp.Neg: self._negation,
            exp.Not: lambda node: self._operator("NOT", [self.bind(node.this)], node),
            exp.Is: self._is,
            exp.In: self._in,
            exp.Between: self._between,
            exp.Like: self._like,
            exp.SimilarTo: self._similar,
            exp.Tuple: lambda node: call(
                ROW, [self.bind(part) for part in node.expressions], span=span_of(node)
            ),
            exp.Overlaps: self._overlaps,
            exp.Escape: self._escape,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.Case: self._case,
            exp.Interval: self._interval,
            exp.Anonymous: self._call,
            exp.Window: lambda node: bind_over(node, self.bind, self.condition),
            exp.Filter: self._filter,
            exp.Exists: self._subquery,
            exp.Subquery: self._subquery,
            JsonCall: lambda node: bind_json(node, self.bind),
            exp.Extract: self._special.extract,
            exp.Trim: self._special.trim,
        }

    def bind(self, node: exp.Expr) -> Expression:
        """Return the typed expression of `node`. Raises UserError with the position of the faulty part."""
        if type(node) in _BINARY:
            return self._binary(node)
        branch = self._branches.get(type(node))
        if branch is None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{type(node).__name__.upper()} is not supported in an expression",
                span=span_of(node),
            )
        return branch(node)

    def condition(self, node: exp.Expr, clause: str) -> Expression:
        """Return a BOOLEAN for WHERE, HAVING or ON; raises UserError 42804."""
        bound = self.bind(node)
        if bound.type not in (BOOLEAN, NULL):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"{clause} must be a BOOLEAN condition, found {bound.type}",
                hint="Compare it with a value, or test it with IS NOT NULL.",
                span=bound.span,
            )
        return bound

    def _column(self, node: exp.Column) -> Expression:
        parts = [part.name for part in node.parts]
        span = span_of(node)
        if len(parts) > 2:
            alias, name = parts[-2], parts[-1]
            if not any(source.alias == alias for source in self._scope.sources):
                return self._nested(parts, span)
            return self._scope.column(name, alias=alias, span=span)
        try:
            return self._scope.column(parts[-1], alias=parts[0] if len(parts) == 2 else None, span=span)
        except UserError as error:
            if error.state is SqlState.UNDEFINED_COLUMN and is_enclosed(node.this) and not error.replacements:
                error.hint = str(remedy(Place.NAME, "TEXT"))
            raise

    def _nested(self, parts: Sequence[str], span: Span | None) -> Expression:
        aliases = {source.alias for source in self._scope.sources}
        if parts[0] in aliases:
            bound, rest = self._scope.column(parts[1], alias=parts[0], span=span), parts[2:]
        else:
            bound, rest = self._scope.column(parts[0], alias=None, span=span), parts[1:]
        for name in rest:
            bound = field_of(bound, name, span)
        return bound

    def _field(self, node: exp.Dot) -> Expression:
        return field_of(self.bind(node.this), node.expression.name, span_of(node))

    def _element(self, node: exp.Bracket) -> Expression:
        collection = self.bind(node.this)
        key = self.bind(node.expressions[0])
        if (
            isinstance(collection.type, Struct)
            and isinstance(key, Literal)
            and is_text(key.type)
            and key.text
        ):
            return field_of(collection, key.text, span_of(node))
        return self._operator("ELEMENT_AT", [collection, key], node)

    def _literal(self, node: exp.Literal) -> Expression:
        text, span = str(node.this), span_of(node)
        if node.is_string:
            return Literal(type=Varchar(), text=text, nullable=False, span=span)
        return Literal(type=_number_type(text, span), text=text, nullable=False, span=span)

    def _boolean(self, node: exp.Boolean) -> Expression:
        return Literal(
            type=BOOLEAN, text="true" if node.this else "false", nullable=False, span=span_of(node)
        )

    def _negation(self, node: exp.Neg) -> Expression:
        operand = self.bind(node.this)
        if (
            isinstance(operand, Literal)
            and is_numeric(operand.type)
            and not (operand.text or "-").startswith("-")
        ):
            return replace(operand, text=f"-{operand.text}", span=span_of(node))
        return self._operator("NEGATE", [operand], node)

    def _binary(self, node: exp.Expr) -> Expression:
        name = _BINARY[type(node)]
        if (
            name in ("=", "<>")
            and isinstance(node.this, exp.Tuple)
            and isinstance(node.expression, exp.Tuple)
        ):
            equal = self._equal_rows(node.this, node.expression, node)
            return equal if name == "=" else self._operator("NOT", [equal], node)
        if name in ("+", "-") and (moved := self._moved_by_months(name, node)) is not None:
            return moved
        left, right = self.bind(node.this), self.bind(node.expression)
        if name in COMPARISONS:
            left, right = _comparable(left, right)
        if name == "/" and is_division_of_integers([left.type, right.type]):
            name = "DIV"
        return self._operator(name, [left, right], node)

    def _moved_by_months(self, name: str, node: exp.Expr) -> Expression | None:
        """Return `time + INTERVAL 'n' MONTH` or YEAR as TIMESTAMPADD, since an INTERVAL is a number of milliseconds; None for others."""
        time, span = node.this, node.expression
        if name == "+" and isinstance(time, exp.Interval):
            time, span = span, time
        if not isinstance(span, exp.Interval) or span.args["unit"].name not in _MONTHS:
            return None
        moved = self.bind(time)
        if not is_temporal(moved.type):
            none = Literal(type=INTERVAL, text="0", nullable=False, span=span_of(span))
            return self._operator(name, [moved, none], node)
        number = int(span.name) * _MONTHS[span.args["unit"].name] * (-1 if name == "-" else 1)
        unit = Literal(type=VARCHAR, text="MONTH", nullable=False, span=span_of(span))
        months = Literal(
            type=_number_type(str(abs(number)), span_of(span)),
            text=str(number),
            nullable=False,
            span=span_of(span),
        )
        return call(CATALOGUE["TIMESTAMPADD"], [unit, months, moved], span=span_of(node))

    def _is(self, node: exp.Is) -> Expression:
        operand, test = self.bind(node.this), node.expression
        if isinstance(test, exp.Null):
            return self._operator("IS NULL", [operand], node)
        if isinstance(test, exp.Boolean):
            return self._operator("IS TRUE" if test.this else "IS FALSE", [operand], node)
        return self._operator(f"IS {test.name}", [operand], node)

    def _in(self, node: exp.In) -> Expression:
        if node.args.get("query") is not None:
            return self._subquery(node)
        if isinstance(node.this, exp.Tuple) and all(isinstance(row, exp.Tuple) for row in node.expressions):
            first, *others = [self._equal_rows(node.this, row, node) for row in node.expressions]
            return reduce(lambda left, right: self._operator("OR", [left, right], node), others, first)
        operand = self.bind(node.this)
        items = [_comparable(operand, self.bind(item), what="IN")[1] for item in node.expressions]
        return self._operator("IN", [operand, *items], node)

    def _equal_rows(self, left: exp.Tuple, right: exp.Tuple, node: exp.Expr) -> Expression:
        """Return that two rows of values are equal: unknown if a value is NULL and all others are equal."""
        if len(left.expressions) != len(right.expressions):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"a row of {counted(len(left.expressions), 'value')} is compared with one of {len(right.expressions)}",
                hint="Write the same number of values in both.",
                span=span_of(right) or span_of(node),
            )
        pairs = zip(left.expressions, right.expressions, strict=True)
        return conjunction(
            [
                self._operator("=", [*_comparable(self.bind(one), self.bind(other))], node)
                for one, other in pairs
            ]
        )

    def _between(self, node: exp.Between) -> Expression:
        operand = self.bind(node.this)
        low = _comparable(operand, self.bind(node.args["low"]), what="BETWEEN")[1]
        high = _comparable(operand, self.bind(node.args["high"]), what="BETWEEN")[1]
        between = self._operator("BETWEEN", [operand, low, high], node)
        if not node.args.get("symmetric"):
            return between
        if any(part is not node and part.args.get("symmetric") for part in node.find_all(exp.Between)):
            # Each level would print its operands twice.
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "BETWEEN SYMMETRIC inside BETWEEN SYMMETRIC is not supported",
                hint="Compute the inner condition in a subquery of FROM.",
                span=span_of(node),
            )
        return self._operator("OR", [between, self._operator("BETWEEN", [operand, high, low], node)], node)

    def _overlaps(self, node: exp.Overlaps) -> Expression:
        """Return OVERLAPS as comparisons: each period, in either order, starts no later than the other ends."""
        (first, last), (other_first, other_last) = (
            self._period(period) for period in (node.this, node.expression)
        )
        return conjunction(
            [
                self._operator("<=", [first, other_last], node),
                self._operator("<=", [other_first, last], node),
            ]
        )

    def _period(self, node: exp.Tuple) -> tuple[Expression, Expression]:
        bounds = [self.bind(part) for part in node.expressions]
        if len(bounds) != 2 or not is_temporal(bounds[0].type):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                "OVERLAPS requires two periods of a DATE or TIMESTAMP and its end",
                hint="Write (start, end) OVERLAPS (start, INTERVAL '1' HOUR), for example.",
                span=span_of(node),
            )
        start, end = bounds
        if end.type == INTERVAL:
            end = self._operator("+", [start, end], node)
        times, _ = unify([start, _comparable(start, end)[1]], "the bounds of OVERLAPS", span_of(node))
        earliest, latest = (
            call(CATALOGUE[name], times, span=span_of(node)) for name in ("LEAST", "GREATEST")
        )
        return earliest, latest

    def _like(self, node: exp.Like) -> Expression:
        return self._operator("LIKE", [self.bind(node.this), self.bind(node.expression)], node)

    def _similar(self, node: exp.SimilarTo) -> Expression:
        return self._operator("SIMILAR TO", [self.bind(node.this), self.bind(node.expression)], node)

    def _escape(self, node: exp.Escape) -> Expression:
        like = node.this
        if not isinstance(like, exp.Like | exp.SimilarTo):
            raise UserError(SqlState.FEATURE_NOT_SUPPORTED, "ESCAPE belongs to LIKE", span=span_of(node))
        escape = self.bind(node.expression)
        # A character beyond U+FFFF is two to Spark.
        if isinstance(escape, Literal) and not re.fullmatch("[\\0-\\uffff]", escape.text or "", re.DOTALL):
            raise UserError(
                SqlState.DATA_EXCEPTION,
                f"the escape character of LIKE must be one character, found {escape.text!r}",
                hint="Write ESCAPE '!', for example, and !% for a percent sign in the pattern.",
                span=escape.span or span_of(node),
            )
        name = "LIKE" if isinstance(like, exp.Like) else "SIMILAR TO"
        return self._operator(name, [self.bind(like.this), self.bind(like.expression), escape], node)

    def _cast(self, node: exp.Cast) -> Expression:
        operand, target, span = self.bind(node.this), type_of(node), span_of(node)
        if not castable(operand.type, target):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"{operand.type} cannot be cast to {target}",
                hint="TO_TIMESTAMP_LTZ(number, 3) converts milliseconds to a time."
                if is_temporal(target)
                else None,
                span=span,
            )
        if (
            isinstance(operand, Literal)
            and is_text(operand.type)
            and is_temporal(target)
            and not isinstance(node, exp.TryCast)
        ):
            return cast_literal(operand, target, span=span)
        safe = isinstance(node, exp.TryCast)
        return Cast(operand=operand, type=target, safe=safe, nullable=operand.nullable or safe, span=span)

    def _case(self, node: exp.Case) -> Expression:
        subject = self.bind(node.this) if node.this is not None else None
        conditions: list[Expression] = []
        values: list[Expression] = []
        for branch in node.args["ifs"]:
            if subject is None:
                conditions.append(self.condition(branch.this, "WHEN"))
            else:
                left, right = _comparable(subject, self.bind(branch.this))
                conditions.append(self._operator("=", [left, right], branch.this))
            values.append(self.bind(branch.args["true"]))
        default = node.args.get("default")
        if default is not None:
            values.append(self.bind(default))
        values, kind = unify(values, "the branches of CASE", span_of(node))
        otherwise = values.pop() if default is not None else None
        nullable = otherwise is None or otherwise.nullable or any(value.nullable for value in values)
        branches = tuple(zip(conditions, values, strict=True))
        return Case(branches=branches, otherwise=otherwise, type=kind, nullable=nullable, span=span_of(node))

    def _interval(self, node: exp.Interval) -> Expression:
        span = span_of(node)
        unit = str(node.args["unit"]).upper().removesuffix("S") if node.args.get("unit") else ""
        text = node.this.name if node.this is not None else ""
        if unit not in _UNIT_MS or not text.lstrip("-").isdigit():
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "expected an INTERVAL of whole MILLISECONDs, SECONDs, MINUTEs, HOURs, DAYs or WEEKs",
                hint="Write INTERVAL '90' SECOND, for example; for months, TIMESTAMPADD(MONTH, 1, time).",
                span=span,
            )
        milliseconds = int(text) * _UNIT_MS[unit]
        if abs(milliseconds) > INTERVAL_MAX_MS:
            raise too_long_time(INTERVAL_MAX_MS, span)
        return Literal(type=INTERVAL, text=str(milliseconds), nullable=False, span=span)

    def _call(self, node: exp.Anonymous) -> Expression:
        name = str(node.this).upper()
        if self._special.handles(name):
            return self._special.call(name, node)
        span = span_of(node)
        arguments, distinct = node.expressions, False
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            arguments, distinct = arguments[0].expressions, True
        if not is_built_in(name) and (overloads := self._scope.overloads(str(node.this))):
            _refuse_tables(overloads, span)
            bound_arguments = [self.bind(argument) for argument in arguments]
            return user_call(overloads, bound_arguments, distinct=distinct, span=span)
        row = lookup(str(node.this), span=start_of(node))
        if distinct and not row.aggregate:
            raise UserError(
                SqlState.SYNTAX_ERROR, f"DISTINCT requires an aggregate, and {name} is not one", span=span
            )
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            if row.name != "COUNT" or distinct:
                raise UserError(
                    SqlState.SYNTAX_ERROR,
                    f"only COUNT accepts *, not {name}",
                    hint="Specify its argument.",
                    span=span,
                )
            return Call(function=row, arguments=(STAR,), type=BIGINT, nullable=False, span=span)
        bound = [self.bind(argument) for argument in arguments]
        if row.name == "COUNT" and distinct and len(bound) > 1:
            bound = [whole_rows(bound, span)]
        return call(row, bound, span=span, distinct=distinct)

    def table_function(self, node: exp.Expr) -> tuple[Expression, tuple[tuple[str, DataType], ...]]:
        """Return the call of a table function, an ARRAY of its rows, and its columns. Raises UserError 42804 for any other expression."""
        name = str(node.this) if isinstance(node, exp.Anonymous) else ""
        overloads = [item for item in self._scope.overloads(name) if item.function.kind is FunctionKind.TABLE]
        if not overloads or is_built_in(name):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                "LATERAL TABLE requires the call of a table function",
                hint="CREATE FUNCTION defines one, in Java of a class that extends TableFunction. UNNEST(array) expands an array.",
                span=span_of(node),
            )
        arguments = [self.bind(argument) for argument in node.expressions]
        bound = user_call(overloads, arguments, distinct=False, span=span_of(node))
        return bound, bound.function.user.columns if bound.function.user is not None else ()

    def _is_aggregate(self, name: str) -> bool:
        overloads = () if is_built_in(name) else self._scope.overloads(name)
        return is_aggregate(name) or any(item.function.kind is FunctionKind.AGGREGATE for item in overloads)

    def _filter(self, node: exp.Filter) -> Expression:
        bound = self.bind(node.this)
        if not isinstance(node.this, exp.Anonymous) or not self._is_aggregate(node.this.name):
            raise UserError(
                SqlState.SYNTAX_ERROR, "FILTER requires an aggregate such as COUNT(*)", span=span_of(node)
            )
        condition = self.condition(node.expression.this, "FILTER")

        def with_filter(part: Expression) -> Expression:
            if isinstance(part, Call) and part.function.aggregate:
                return replace(part, arguments=filtered(part.arguments, condition))
            return with_operands(part, with_filter)

        return with_filter(bound)

    def _operator(self, name: str, arguments: list[Expression], node: exp.Expr) -> Expression:
        return call(OPERATORS_BY_NAME[name], arguments, span=span_of(node))


def _refused_subquery(node: exp.Expr) -> Never:
    raise UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        "a subquery is not supported here",
        hint="FROM, SELECT, WHERE, HAVING and ON of inner joins support subqueries. In an outer join, filter a side in a subquery of FROM.",
        span=span_of(node),
    )


def refuse_aggregates(expression: Expression, clause: str, hint: str | None) -> None:
    """Raise 42803 for aggregates and window functions in `clause`."""
    for expression_over_rows in over_rows(expression):
        raise UserError(
            SqlState.GROUPING_ERROR,
            f"{expression_over_rows.function.name} is not allowed in {clause}",
            hint=hint
            if isinstance(expression_over_rows, Call)
            else ("Compute it in a subquery, and apply this clause to its result."),
            span=expression_over_rows.span,
        )


def _refuse_tables(overloads: Sequence[Implementation], span: Span | None) -> None:
    """Raise UserError 42804 for a table function where a value is expected."""
    if all(item.function.kind is FunctionKind.TABLE for item in overloads):
        name = overloads[0].function.name
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"{name} is a table function: it returns rows, not a value",
            hint=f"Write FROM relation CROSS JOIN LATERAL TABLE({name}(…)) AS t(column, …).",
            span=span,
        )


def struct_fields(operand: Expression, span: Span | None) -> tuple[str, ...]:
    """Return the names of a STRUCT's fields; raises UserError 42804 for another type."""
    if not isinstance(operand.type, Struct):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"-> requires a STRUCT, found {operand.type}",
            hint="JSON_VALUE(text, '$.field') reads a JSON text." if is_text(operand.type) else None,
            span=operand.span or span,
        )
    return tuple(name for name, _ in operand.type.fields)


def field_of(operand: Expression, name: str, span: Span | None) -> Expression:
    """Return a field of a STRUCT; raises UserError 42804 for another type, 42703 without such a field."""
    names = struct_fields(operand, span)
    kind = operand.type.field(name) if isinstance(operand.type, Struct) else None
    if kind is None:
        known = ", ".join(map(printed, names))
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the STRUCT has no field {printed(name)}",
            hint=f"It has {known}.",
            span=span,
        )
    return FieldAccess(operand=operand, name=name, type=kind, span=span)


def _comparable(
    left: Expression, right: Expression, *, what: str | None = None
) -> tuple[Expression, Expression]:
    """Return both sides of a comparison; a text literal beside a DATE or TIMESTAMP becomes one."""
    if isinstance(right, Literal) and is_text(right.type) and is_temporal(left.type):
        return left, literal_as(right, left.type, span=right.span)
    if isinstance(left, Literal) and is_text(left.type) and is_temporal(right.type):
        return literal_as(left, right.type, span=left.span), right
    if what is not None and common([left.type, right.type]) is None:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"{what} compares {left.type} with {right.type}",
            hint="Use CAST(… AS type) on one side.",
            span=right.span,
        )
    return left, right


def _number_type(text: str, span: Span | None) -> DataType:
    if "e" in text.lower():
        return DOUBLE
    if "." in text:
        whole, _, fraction = text.partition(".")
        return _exact_type(len(whole.lstrip("0")) + len(fraction), len(fraction), span)
    value = int(text)
    if value < 2**31:
        return INTEGER
    return BIGINT if value < 2**63 else _exact_type(len(str(value)), 0, span)


def _exact_type(digits: int, scale: int, span: Span | None) -> DataType:
    if digits > DECIMAL_PRECISION_MAX:
        message = f"a number may have at most {DECIMAL_PRECISION_MAX} digits, found {digits}"
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            message,
            hint="CAST('…' AS DOUBLE) accepts more, and rounds.",
            span=span,
        )
    return Decimal(max(digits, 1), scale)
