"""JSON_VALUE, JSON_QUERY and JSON_EXISTS with clauses after the path."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.analyzer.coercion import unify
from headrace.analyzer.expressions import Call, Case, Cast, Expression, Literal
from headrace.analyzer.functions import CATALOGUE, OPERATORS_BY_NAME
from headrace.analyzer.functions.composed import FROM_JSON, RAISE
from headrace.analyzer.functions.json import JSON_STATES, JSON_WRAPPERS
from headrace.analyzer.invocation import call, equality
from headrace.analyzer.typing import is_text
from headrace.core import json_path
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import BOOLEAN, VARCHAR, Array, DataType, is_primitive
from headrace.sql.ast import JsonCall, span_of, type_of

Bind = Callable[[exp.Expr], Expression]
_CONTAINERS = {"EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}"}
_REASONS = {"on_empty": "the path matches nothing", "on_error": "the text or the value does not fit"}
_ANSWERS = {"TRUE": "true", "FALSE": "false", "UNKNOWN": None}


def bind_json(node: JsonCall, bind: Bind) -> Expression:
    """Return the typed expression; `bind` is the binder of ordinary expressions."""
    name, span = str(node.args["name"]).upper(), span_of(node)
    arguments = [bind(node.this), bind(node.args["path"])]
    check_path(arguments[1])
    wrapper = JSON_WRAPPERS.get(node.args.get("wrapper") or "")
    row, state_row = wrapper or (CATALOGUE[name], JSON_STATES[name])
    extracted: Expression = call(row, arguments, span=span)
    result = extracted
    if node.args.get("returning") is not None:
        result = _json_as(extracted, type_of(node), span, scalar=name == "JSON_VALUE")
    state = call(state_row, arguments, span=span)
    branches: list[tuple[Expression, Expression]] = []
    for clause in ("on_empty", "on_error"):
        action = node.args.get(clause)
        if action is None or action == "NULL":
            continue
        case = equality(state, Literal(type=VARCHAR, text=clause.removeprefix("on_"), nullable=False))
        if clause == "on_error" and result is not extracted:
            case = call(OPERATORS_BY_NAME["OR"], [case, _misfit(extracted, result)], span=span)
        value = bind(action) if isinstance(action, exp.Expr) else _answer(name, action, clause, result, span)
        branches.append((case, value))
    if not branches:
        return result
    values, kind = unify([result, *(value for _, value in branches)], f"the DEFAULT of {name}", span)
    cases = tuple((case, value) for (case, _), value in zip(branches, values[1:], strict=True))
    return Case(branches=cases, otherwise=values[0], type=kind, span=span)


def check_path(path: Expression) -> None:
    """Raise 42601 for a constant that is not a path."""
    if (
        isinstance(path, Literal)
        and is_text(path.type)
        and path.text is not None
        and json_path.parse(path.text) is None
    ):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"{path.text!r} is not a path into a JSON text",
            hint="A path is $ and steps, such as '$.name', '$.\"a b\"', '$.list[0]' or '$.list[*]', with lax or strict before it.",
            span=path.span,
        )


def _answer(name: str, action: str, clause: str, result: Expression, span: Span | None) -> Expression:
    """Return the value of a clause that is a word."""
    event = clause.replace("_", " ").upper()
    if action == "ERROR":
        reason = f"[22000] {_REASONS[clause]} in {name} … ERROR {event}"
        return call(RAISE, [Literal(type=VARCHAR, text=reason, nullable=False)], span=span)
    if action in _ANSWERS:
        return Literal(type=BOOLEAN, text=_ANSWERS[action], span=span)
    empty = Literal(type=VARCHAR, text=_CONTAINERS[action], nullable=False, span=span)
    if name != "JSON_QUERY" or (isinstance(result.type, Array) and action == "EMPTY OBJECT"):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"{action} {event} requires another type than {result.type}, which {name} returns",
            hint="Use NULL or ERROR, or DEFAULT value in JSON_VALUE.",
            span=span,
        )
    if isinstance(result.type, Array):
        return Call(function=FROM_JSON, arguments=(empty,), type=result.type, span=span)
    return empty


def _misfit(extracted: Expression, result: Expression) -> Expression:
    """Return the condition that the JSON item is not of the RETURNING type."""
    missing = call(OPERATORS_BY_NAME["IS NULL"], [result], span=result.span)
    absent = call(OPERATORS_BY_NAME["IS NULL"], [extracted], span=extracted.span)
    present = call(OPERATORS_BY_NAME["NOT"], [absent], span=extracted.span)
    return call(OPERATORS_BY_NAME["AND"], [present, missing], span=extracted.span)


def _json_as(operand: Expression, kind: DataType, span: Span | None, *, scalar: bool) -> Expression:
    if scalar or is_primitive(kind):
        if not is_primitive(kind):
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"JSON_VALUE cannot return {kind}",
                hint="Use JSON_QUERY.",
                span=span,
            )
        return Cast(operand=operand, type=kind, safe=True, span=span)
    if not isinstance(kind, Array):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"JSON_QUERY … RETURNING {kind} is not supported",
            hint="Use RETURNING ARRAY<…>, or leave RETURNING out for a VARCHAR.",
            span=span,
        )
    return Call(function=FROM_JSON, arguments=(operand,), type=kind, span=span)
