"""Calls that are bound as other calls of the catalogue, so that every engine and every kind of query has them at once.

An aggregate is a scalar function of COLLECT: its state and its deletions are those of COLLECT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from sqlglot import exp

from headrace.analyzer.coercion import as_type
from headrace.analyzer.expressions import Call, Case, Expression, Literal
from headrace.analyzer.functions import CATALOGUE, OPERATORS_BY_NAME
from headrace.analyzer.functions.composed import (
    ARRAY_AGG,
    ARRAY_AGG_NOT_NULL,
    JSON_ARRAY,
    JSON_ARRAYAGG,
    JSON_CONSTRUCTORS,
    JSON_OBJECT,
    JSON_OBJECTAGG,
    JSON_RAW,
    PERCENTILE,
    PERCENTILES,
    RAND_INTEGER,
    ROW,
    WEIGHTED_PERCENTILE,
)
from headrace.analyzer.invocation import call, check_count, conjunction
from headrace.analyzer.typing import is_text
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, DOUBLE, INTEGER, VARCHAR, is_numeric
from headrace.sql.ast import span_of


class ComposedCalls:
    """The calls by name; `bind` is the binder of ordinary expressions, `database` the session's."""

    def __init__(self, bind: Callable[[exp.Expr], Expression], database: str | None) -> None:
        self._bind = bind
        self._database = database
        self.calls: dict[str, Callable[[exp.Anonymous], Expression]] = {
            "APPROX_COUNT_DISTINCT": self._approximate_count,
            "ARRAY_AGG": self._array_agg,
            "CURRENT_DATABASE": self._current_database,
            "JSON_ARRAY": self._json_array,
            "JSON_ARRAYAGG": self._json_array_aggregate,
            "JSON_OBJECT": self._json_object,
            "JSON_OBJECTAGG": self._json_object_aggregate,
            "PERCENTILE": self._percentile,
            "RAND_INTEGER": self._rand_integer,
        }

    def _rand_integer(self, node: exp.Anonymous) -> Expression:
        arguments, span = [self._bind(argument) for argument in node.expressions], span_of(node)
        if len(arguments) != 2:
            return call(CATALOGUE["RAND_INTEGER"], arguments, span=span)
        seed, bound = arguments
        if not isinstance(seed, Literal):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                "the seed of RAND_INTEGER must be a constant",
                hint="Write RAND_INTEGER(7, bound), or RAND_INTEGER(bound) for another sequence each time.",
                span=seed.span or span,
            )
        return call(RAND_INTEGER, [bound, seed], span=span)

    def _current_database(self, node: exp.Anonymous) -> Expression:
        span = span_of(node)
        check_count(CATALOGUE["CURRENT_DATABASE"], node.expressions, span)
        if self._database is None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "CURRENT_DATABASE() requires a session with a database, and is not supported in the condition of a join",
                hint="Write USE DATABASE first; write the condition in WHERE.",
                span=span,
            )
        return Literal(type=VARCHAR, text=self._database, nullable=False, span=span)

    # --- aggregates

    def _approximate_count(self, node: exp.Anonymous) -> Expression:
        """Return the exact count, of which Flink's is an estimate."""
        arguments = [self._bind(argument) for argument in node.expressions]
        check_count(CATALOGUE["APPROX_COUNT_DISTINCT"], arguments, span_of(node))
        return call(CATALOGUE["COUNT"], arguments, span=span_of(node), distinct=True)

    def _array_agg(self, node: exp.Anonymous) -> Expression:
        span = span_of(node)
        arguments, distinct = _plain(node.expressions)
        ignored = len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls)
        if ignored:
            arguments, distinct = _plain([arguments[0].this])
        bound = [self._bind(argument) for argument in arguments]
        check_count(CATALOGUE["ARRAY_AGG"], bound, span)
        if ignored:
            return call(ARRAY_AGG_NOT_NULL, [_collected(bound[0], distinct, span)], span=span)
        kept = call(ROW, bound, span=span)
        return call(ARRAY_AGG, [_collected(kept, distinct, span)], span=span)

    def _percentile(self, node: exp.Anonymous) -> Expression:
        span, row = span_of(node), CATALOGUE["PERCENTILE"]
        shares = node.expressions[1] if len(node.expressions) > 1 else None
        if isinstance(shares, exp.Anonymous) and shares.name == "array":
            several = [self._bind(share) for share in shares.expressions]
        else:
            several = []
        bound = [
            self._bind(argument) if argument is not shares or not several else several[0]
            for argument in node.expressions
        ]
        call(row, bound, span=span)  # checks the types
        values = as_type(bound[0], DOUBLE)
        if len(bound) == 3:
            positive = call(OPERATORS_BY_NAME[">"], [bound[2], _integer("0")], span=span)
            counted = conjunction([_is_not_null(bound[0]), positive])
            weighted = call(ROW, [values, as_type(bound[2], BIGINT)], span=span)
            values = Case(branches=((counted, weighted),), type=weighted.type, span=span)
        collected = _collected(values, False, span)
        kind = WEIGHTED_PERCENTILE if len(bound) == 3 else PERCENTILE
        results = [call(kind, [collected, _share(share)], span=span) for share in several or [bound[1]]]
        return call(PERCENTILES, results, span=span) if several else results[0]

    # --- JSON

    def _json_array(self, node: exp.Anonymous) -> Expression:
        span = span_of(node)
        values, nulls = _members(node, nulls=False)
        return call(JSON_ARRAY, [self._json_value(value, nulls) for value in values], span=span)

    def _json_object(self, node: exp.Anonymous) -> Expression:
        span = span_of(node)
        arguments, nulls = _members(node, nulls=True)
        members: dict[str, Expression] = {}
        for key, value in zip(arguments[::2], arguments[1::2], strict=True):
            name = self._bind(key)
            if not isinstance(name, Literal) or not is_text(name.type) or name.text is None:
                raise UserError(
                    SqlState.DATATYPE_MISMATCH,
                    "a key of JSON_OBJECT must be a text in quotes",
                    hint="Write JSON_OBJECT('key' VALUE expression).",
                    span=name.span or span,
                )
            text = f"{json.dumps(name.text, ensure_ascii=False)}:"
            members[text] = _joined([_text(text), self._json_value(value, nulls)], span)
        return call(JSON_OBJECT, list(members.values()), span=span)

    def _json_array_aggregate(self, node: exp.Anonymous) -> Expression:
        span = span_of(node)
        arguments, nulls = _members(node, nulls=False)
        arguments, distinct = _plain(arguments)
        check_count(CATALOGUE["JSON_ARRAYAGG"], arguments, span)
        value = self._json_value(arguments[0], nulls)
        return call(JSON_ARRAYAGG, [_collected(value, distinct, span)], span=span)

    def _json_object_aggregate(self, node: exp.Anonymous) -> Expression:
        span = span_of(node)
        arguments, nulls = _members(node, nulls=True)
        key = self._bind(arguments[0])
        if not is_text(key.type):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"a key of JSON_OBJECTAGG must be a VARCHAR, found {key.type}",
                hint="Use CAST(key AS VARCHAR).",
                span=key.span or span,
            )
        name = call(CATALOGUE["JSON_STRING"], [key], span=span)
        member = _joined([name, _text(":"), self._json_value(arguments[1], nulls)], span)
        collected = [_collected(part, False, span) for part in (member, key)]
        return call(JSON_OBJECTAGG, collected, span=span)

    def _json_value(self, node: exp.Expr, nulls: bool) -> Expression:
        """Return a value as JSON text: a JSON function's as it is; NULL as `null` if `nulls`, else as NULL."""
        span = span_of(node)
        if isinstance(node, exp.Anonymous) and node.name == "json":
            value: Expression = call(JSON_RAW, [self._bind(part) for part in node.expressions], span=span)
        else:
            value = self._bind(node)
            if not (isinstance(value, Call) and value.function in JSON_CONSTRUCTORS):
                value = call(CATALOGUE["JSON_STRING"], [value], span=span)
        if not nulls:
            return value
        return Case(
            branches=((_is_not_null(value), value),), otherwise=_text("null"), type=VARCHAR, span=span
        )


def whole_rows(values: Sequence[Expression], span: Span | None) -> Expression:
    """Return the values as one, which is NULL if one of them is: the argument of COUNT(DISTINCT a, b)."""
    row = call(ROW, values, span=span)
    present = conjunction([_is_not_null(value) for value in values])
    return Case(branches=((present, row),), type=row.type, span=span)


def _plain(arguments: Sequence[exp.Expr]) -> tuple[list[exp.Expr], bool]:
    """Return the arguments, and whether they are DISTINCT."""
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        return arguments[0].expressions, True
    return list(arguments), False


def _members(node: exp.Anonymous, *, nulls: bool) -> tuple[list[exp.Expr], bool]:
    """Return the arguments of a JSON function, and whether NULLs are kept: by its clause, else as `nulls` says."""
    arguments = list(node.expressions)
    if arguments and isinstance(arguments[-1], exp.Var):
        return arguments[:-1], arguments[-1].name.startswith("NULL")
    return arguments, nulls


def _collected(value: Expression, distinct: bool, span: Span | None) -> Call:
    return call(CATALOGUE["COLLECT"], [value], span=span, distinct=distinct)


def _joined(parts: Sequence[Expression], span: Span | None) -> Call:
    return call(CATALOGUE["CONCAT"], parts, span=span)


def _text(text: str) -> Literal:
    return Literal(type=VARCHAR, text=text, nullable=False)


def _integer(text: str) -> Literal:
    return Literal(type=INTEGER, text=text, nullable=False)


def _is_not_null(value: Expression) -> Expression:
    absent = call(OPERATORS_BY_NAME["IS NULL"], [value], span=value.span)
    return call(OPERATORS_BY_NAME["NOT"], [absent], span=value.span)


def _share(share: Expression) -> Expression:
    """Return the share of PERCENTILE; raises UserError 42804 unless it is a constant from 0 to 1."""
    if (
        not isinstance(share, Literal)
        or not is_numeric(share.type)
        or share.text is None
        or not 0 <= float(share.text) <= 1
    ):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            "the second argument of PERCENTILE must be a constant from 0 to 1, or an ARRAY of such constants",
            hint="Write PERCENTILE(value, 0.5) for the median.",
            span=share.span,
        )
    return as_type(share, DOUBLE)
