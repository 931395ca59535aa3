"""Calls that are not one row of the catalogue: row metadata, units, JSON clauses, EXTRACT and TRIM."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.analyzer.coercion import as_type, unify
from headrace.analyzer.composed_calls import ComposedCalls
from headrace.analyzer.expressions import Call, Case, ColumnReference, Expression, Literal
from headrace.analyzer.functions import CATALOGUE, lookup
from headrace.analyzer.functions.composed import ROW
from headrace.analyzer.functions.temporals import EXTRACT_FIELDS, TRUNCATIONS
from headrace.analyzer.grouping_sets import GROUPING
from headrace.analyzer.invocation import call, check_count, equality
from headrace.analyzer.json_calls import check_path
from headrace.analyzer.logical import SourceColumns
from headrace.analyzer.scope import Scope
from headrace.analyzer.typing import is_temporal
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.internal_columns import ROW_HEADERS, ROW_KEY, ROW_METADATA, ROW_TIME
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.core.types import (
    BIGINT,
    BYTES,
    INTEGER,
    TIMESTAMP_LTZ,
    VARCHAR,
    Map,
    Timestamp,
    is_numeric,
)
from headrace.sql.ast import span_of


class Special:
    """The calls with a shape of their own; `bind` is the binder of ordinary expressions."""

    def __init__(self, scope: Scope, bind: Callable[[exp.Expr], Expression]) -> None:
        self._scope = scope
        self._bind = bind
        self._calls: dict[str, Callable[[exp.Anonymous], Expression]] = {
            "ROWTIME": self._rowtime,
            "ROWKEY": self._rowkey,
            "ROWMETA": self._rowmeta,
            "ROWHEADERS": self._rowheaders,
            "ROW": self._row,
            "FLOOR": self._floor,
            "CEIL": self._ceil,
            "CEILING": self._ceil,
            "TIMESTAMPADD": self._timestamp_add,
            "TIMESTAMPDIFF": self._timestamp_difference,
            "TO_TIMESTAMP_LTZ": self._to_timestamp_ltz,
            "DATE_TRUNC": self._date_trunc,
            "COALESCE": self._alternatives,
            "IFNULL": self._alternatives,
            "NVL": self._alternatives,
            "IF": self._if,
            **dict.fromkeys(("GROUPING", "GROUPING_ID"), self._grouping),
            "TYPEOF": self._typeof,
            **ComposedCalls(bind, scope.database).calls,
            **dict.fromkeys(("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS"), self._json_call),
        }

    def handles(self, name: str) -> bool:
        """True when `call` knows `name` (upper case)."""
        return name in self._calls

    def call(self, name: str, node: exp.Anonymous) -> Expression:
        """Return the bound call."""
        return self._calls[name](node)

    # --- row metadata

    def _source(self, node: exp.Anonymous) -> SourceColumns:
        name, span = str(node.this).lower(), span_of(node)
        if not node.expressions:
            return _streaming(self._scope.only_source(name, span=span), name, span)
        argument = node.expressions[0]
        if len(node.expressions) > 1 or not isinstance(argument, exp.Column) or len(argument.parts) != 1:
            raise UserError(
                SqlState.SYNTAX_ERROR, f"{name}() requires the name of a relation in FROM", span=span
            )
        source = self._scope.source(argument.name, span=span_of(argument))
        if not source.hidden:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name}() requires a relation; {source.alias} is a subquery",
                hint=f"Select {name}() inside the subquery.",
                span=span,
            )
        return _streaming(source, name, span)

    def _rowtime(self, node: exp.Anonymous) -> Expression:
        source, span = self._source(node), span_of(node)
        column = ColumnReference(
            source=source.alias, column=ROW_TIME, type=TIMESTAMP_LTZ, nullable=False, span=span
        )
        return Call(
            function=CATALOGUE["UNIX_MILLIS"], arguments=(column,), type=BIGINT, nullable=False, span=span
        )

    def _rowkey(self, node: exp.Anonymous) -> Expression:
        source, span = self._source(node), span_of(node)
        if source.key_type is None:
            return Literal(type=VARCHAR, text=None, span=span)
        return ColumnReference(source=source.alias, column=ROW_KEY, type=source.key_type, span=span)

    def _rowmeta(self, node: exp.Anonymous) -> Expression:
        source, span = self._source(node), span_of(node)
        if source.metadata is None:
            raise InternalError(f"the rows of {source.alias} have no metadata")
        return ColumnReference(
            source=source.alias, column=ROW_METADATA, type=source.metadata, nullable=False, span=span
        )

    def _rowheaders(self, node: exp.Anonymous) -> Expression:
        source, span = self._source(node), span_of(node)
        if not source.headers:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the records of {source.alias} have no headers: its store's type does not support them",
                span=span,
            )
        return ColumnReference(source=source.alias, column=ROW_HEADERS, type=Map(VARCHAR, BYTES), span=span)

    # --- units and times

    def _floor(self, node: exp.Anonymous) -> Expression:
        if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Var):
            return self._plain("FLOOR", node)
        return self._truncated(self._bind(node.expressions[0]), node.expressions[1], span_of(node))

    def _ceil(self, node: exp.Anonymous) -> Expression:
        if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Var):
            return self._plain("CEIL", node)
        span, unit = span_of(node), node.expressions[1]
        operand = self._bind(node.expressions[0])
        floor = self._truncated(operand, unit, span)
        one = Literal(type=INTEGER, text="1", nullable=False)
        following = call(lookup("TIMESTAMPADD"), [_unit(unit, TRUNCATIONS), one, floor], span=span)
        return Case(
            branches=((equality(floor, operand), as_type(floor, following.type)),),
            otherwise=following,
            type=following.type,
            nullable=operand.nullable,
            span=span,
        )

    def _date_trunc(self, node: exp.Anonymous) -> Expression:
        if len(node.expressions) != 2:
            return self._plain("DATE_TRUNC", node)
        return self._truncated(self._bind(node.expressions[1]), node.expressions[0], span_of(node))

    def _truncated(self, operand: Expression, unit: exp.Expr, span: Span | None) -> Call:
        if not is_temporal(operand.type):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"expected a DATE or TIMESTAMP to round to a unit, found {operand.type}",
                hint="CAST it to TIMESTAMP, or use TO_TIMESTAMP(text, format).",
                span=operand.span or span,
            )
        kind = operand.type if isinstance(operand.type, Timestamp) else Timestamp(3)
        return Call(
            function=CATALOGUE["DATE_TRUNC"],
            arguments=(_unit(unit, TRUNCATIONS), operand),
            type=kind,
            nullable=operand.nullable,
            span=span,
        )

    def _timestamp_add(self, node: exp.Anonymous) -> Expression:
        return self._with_unit("TIMESTAMPADD", node)

    def _timestamp_difference(self, node: exp.Anonymous) -> Expression:
        return self._with_unit("TIMESTAMPDIFF", node)

    def _with_unit(self, name: str, node: exp.Anonymous) -> Expression:
        span, row = span_of(node), lookup(name)
        check_count(row, node.expressions, span)
        unit = _unit(node.expressions[0], TRUNCATIONS)
        return call(row, [unit, *map(self._bind, node.expressions[1:])], span=span)

    def _to_timestamp_ltz(self, node: exp.Anonymous) -> Expression:
        arguments = [self._bind(argument) for argument in node.expressions]
        if len(arguments) == 1 and is_numeric(arguments[0].type):
            arguments.append(Literal(type=INTEGER, text="3", nullable=False))
        if len(arguments) == 2 and is_numeric(arguments[0].type):
            precision = arguments[1]
            if not isinstance(precision, Literal) or precision.text not in ("0", "3"):
                raise UserError(
                    SqlState.DATATYPE_MISMATCH,
                    "TO_TIMESTAMP_LTZ(number, precision) requires the precision 0 (seconds) or 3 "
                    "(milliseconds)",
                    span=precision.span,
                )
            return call(CATALOGUE["TO_TIMESTAMP_LTZ_EPOCH"], arguments, span=span_of(node))
        return call(CATALOGUE["TO_TIMESTAMP_LTZ"], arguments, span=span_of(node))

    def extract(self, node: exp.Extract) -> Expression:
        """Return EXTRACT(field FROM time)."""
        field = node.this.name.upper()
        if field not in EXTRACT_FIELDS:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"EXTRACT has no field {field}",
                hint=suggestion(
                    field, tuple(EXTRACT_FIELDS), otherwise=f"The fields are {', '.join(EXTRACT_FIELDS)}."
                ),
                span=span_of(node),
            )
        return call(CATALOGUE[EXTRACT_FIELDS[field]], [self._bind(node.expression)], span=span_of(node))

    def _grouping(self, node: exp.Anonymous) -> Expression:
        return call(GROUPING, [self._bind(argument) for argument in node.expressions], span=span_of(node))

    # --- conditionals, texts, types

    def _alternatives(self, node: exp.Anonymous) -> Expression:
        name, span = str(node.this).upper(), span_of(node)
        row = lookup(name)
        arguments = [self._bind(argument) for argument in node.expressions]
        check_count(row, arguments, span)
        values, kind = unify(arguments, f"the arguments of {name}", span)
        nullable = all(value.nullable for value in values)
        return Call(function=row, arguments=tuple(values), type=kind, nullable=nullable, span=span)

    def _if(self, node: exp.Anonymous) -> Expression:
        span = span_of(node)
        bound = call(lookup("IF"), [self._bind(argument) for argument in node.expressions], span=span)
        condition, *values = bound.arguments
        return Case(
            branches=((condition, as_type(values[0], bound.type)),),
            otherwise=as_type(values[1], bound.type),
            type=bound.type,
            nullable=any(value.nullable for value in values),
            span=span,
        )

    def _typeof(self, node: exp.Anonymous) -> Expression:
        if len(node.expressions) != 1:
            raise UserError(
                SqlState.DATATYPE_MISMATCH, "TYPEOF requires exactly one argument", span=span_of(node)
            )
        return Literal(
            type=VARCHAR, text=str(self._bind(node.expressions[0]).type), nullable=False, span=span_of(node)
        )

    def _row(self, node: exp.Anonymous) -> Expression:
        return call(ROW, [self._bind(argument) for argument in node.expressions], span=span_of(node))

    def trim(self, node: exp.Trim) -> Expression:
        """Return TRIM([LEADING | TRAILING | BOTH] [characters] FROM text)."""
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(
            str(node.args.get("position") or "BOTH").upper(), "TRIM"
        )
        characters = node.args.get("expression")
        arguments = [self._bind(node.this), *([self._bind(characters)] if characters is not None else [])]
        return call(CATALOGUE[name], arguments, span=span_of(node))

    def _json_call(self, node: exp.Anonymous) -> Expression:
        name = str(node.this).upper()
        arguments = [self._bind(argument) for argument in node.expressions]
        if len(arguments) > 1:
            check_path(arguments[1])
        return call(CATALOGUE[name], arguments, span=span_of(node))

    def _plain(self, name: str, node: exp.Anonymous) -> Expression:
        return call(
            CATALOGUE[name], [self._bind(argument) for argument in node.expressions], span=span_of(node)
        )


def _streaming(source: SourceColumns, name: str, span: Span | None) -> SourceColumns:
    if source.relation is not None and source.relation.kind.is_snapshot:
        kind = source.relation.kind.value.replace("_", " ")
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{name}() requires a source of records; {source.alias} is a {kind}",
            hint=f"Select {name}() in a materialized view's own query.",
            span=span,
        )
    return source


def _unit(node: exp.Expr, known: tuple[str, ...]) -> Literal:
    unit = node.name.upper().removesuffix("S")
    if unit not in known:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"unknown time unit {unit}",
            hint=f"Use one of {', '.join(known)}.",
            span=span_of(node),
        )
    return Literal(type=VARCHAR, text=unit, nullable=False, span=span_of(node))
