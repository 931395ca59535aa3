"""Calls with a special syntax for arguments: CAST, EXTRACT, TRIM, JSON_VALUE and others.

Each reader gets the parser just after the opening parenthesis and stops before the closing one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.sql.ast import JsonCall, TypeName
from headrace.sql.cursor import Cursor
from headrace.sql.lexer import folded

CONSTRUCTORS = frozenset({"ARRAY", "MAP"})
WITHOUT_PARENTHESES = frozenset(
    {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"}
)
DATE_PARTS = (
    "MILLISECOND",
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "WEEK",
    "MONTH",
    "QUARTER",
    "YEAR",
    "DOW",
    "DOY",
    "EPOCH",
)


JSON_OBJECTS = frozenset({"json_object", "json_objectagg"})
"""Calls whose arguments are keys and values in turn; a last exp.Var is their `ON NULL`."""
_JSON_NULLS = ("NULL", "ABSENT")
_JSON_ANSWERS = ("TRUE", "FALSE", "UNKNOWN", "ERROR")


class CallParser(Protocol):
    """The parser of expressions, as the syntax of a call uses it."""

    @property
    def next_token(self) -> Token:
        """The token that is read next."""

    @property
    def cursor(self) -> Cursor:
        """A cursor at the next token."""

    def take(self, *words: str) -> bool:
        """Consume these words if they come next; return True if they do."""

    def fail(self, expected: str) -> NoReturn:
        """Raise the syntax error at the next token."""

    def parse_arguments(self) -> list[exp.Expr]:
        """Parse arguments up to the closing parenthesis."""

    def parse_operand(self) -> exp.Expr:
        """Parse an expression without AND, OR and comparisons."""

    def parse_condition(self) -> exp.Expr:
        """Parse an expression of any kind."""

    def parse_type_name(self) -> TypeName:
        """Parse a data type."""


def constructor(query: CallParser) -> exp.Expr:
    """Return a call of `array` or `map` for `ARRAY[a, b]` or `MAP['k', v]`."""
    token = query.next_token
    query.take(token.text.upper(), "[")
    arguments = [] if query.cursor.at("]") else query.parse_arguments()
    if not query.take("]"):
        query.fail("',' or ']'")
    return exp.Anonymous(this=token.text.lower(), expressions=arguments).update_positions(token)


def _cast(query: CallParser) -> exp.Expr:
    return exp.Cast(this=_before_as(query), to=query.parse_type_name())


def _try_cast(query: CallParser) -> exp.Expr:
    return exp.TryCast(this=_before_as(query), to=query.parse_type_name(), safe=True)


def _before_as(query: CallParser) -> exp.Expr:
    this = query.parse_condition()
    if not query.take("AS"):
        query.fail("AS and a data type")
    return this


def _extract(query: CallParser) -> exp.Expr:
    part = _date_part(query)
    if not query.take("FROM"):
        query.fail("FROM")
    return exp.Extract(this=part, expression=query.parse_operand())


def _trim(query: CallParser) -> exp.Expr:
    position = next((word for word in ("LEADING", "TRAILING", "BOTH") if query.take(word)), None)
    if position and query.take("FROM"):
        return exp.Trim(this=query.parse_operand(), position=position)
    this = query.parse_operand()
    if query.take("FROM"):
        return exp.Trim(this=query.parse_operand(), expression=this, position=position)
    if position:
        query.fail("FROM")
    if query.take(","):
        return exp.Trim(this=this, expression=query.parse_operand())
    return exp.Trim(this=this)


def _substring(query: CallParser) -> exp.Expr:
    arguments = [query.parse_operand()]
    if query.take("FROM"):
        arguments.append(query.parse_operand())
        if query.take("FOR"):
            arguments.append(query.parse_operand())
    else:
        while query.take(","):
            arguments.append(query.parse_operand())
    return exp.Anonymous(this="substring", expressions=arguments)


def _overlay(query: CallParser) -> exp.Expr:
    arguments = [query.parse_operand()]
    if query.take("PLACING"):
        arguments.append(query.parse_operand())
        if not query.take("FROM"):
            query.fail("FROM and a position")
        arguments.append(query.parse_operand())
        if query.take("FOR"):
            arguments.append(query.parse_operand())
    else:
        while query.take(","):
            arguments.append(query.parse_operand())
    return exp.Anonymous(this="overlay", expressions=arguments)


def _array_agg(query: CallParser) -> exp.Expr:
    arguments = query.parse_arguments()
    if query.take("IGNORE", "NULLS"):
        arguments = [exp.IgnoreNulls(this=argument) for argument in arguments]
    else:
        query.take("RESPECT", "NULLS")
    return exp.Anonymous(this="array_agg", expressions=arguments)


def _position(query: CallParser) -> exp.Expr:
    arguments = [query.parse_operand()]
    if not query.take("IN") and not query.take(","):
        query.fail("IN")
    return exp.Anonymous(this="position", expressions=[*arguments, query.parse_operand()])


def _rounding(name: str) -> Callable[[CallParser], exp.Expr]:
    def read(query: CallParser) -> exp.Expr:
        arguments = query.parse_arguments()
        if query.take("TO"):
            arguments.append(_date_part(query))
        return exp.Anonymous(this=name, expressions=arguments)

    return read


def _unit_first(name: str) -> Callable[[CallParser], exp.Expr]:
    """Return the parser of TIMESTAMPADD(unit, n, t) and TIMESTAMPDIFF(unit, a, b)."""

    def read(query: CallParser) -> exp.Expr:
        unit = _date_part(query)
        if not query.take(","):
            query.fail("','")
        return exp.Anonymous(this=name, expressions=[unit, *query.parse_arguments()])

    return read


def _date_part(query: CallParser) -> exp.Expr:
    token = query.next_token
    word = folded(token).removesuffix("S")
    if token.token_type is not TokenType.VAR or word not in DATE_PARTS:
        query.fail(f"one of {', '.join(DATE_PARTS)}")
    query.take(token.text.upper())
    return exp.Var(this=word).update_positions(token)


def _json(name: str) -> Callable[[CallParser], exp.Expr]:
    def read(query: CallParser) -> exp.Expr:
        this = query.parse_operand()
        if not query.take(","):
            query.fail("',' and a path such as '$.name'")
        path = query.parse_operand()
        clauses: dict[str, exp.Expr | str] = {}
        if name == "json_exists":
            answer = next((word for word in _JSON_ANSWERS if query.take(word, "ON", "ERROR")), None)
            clauses = {} if answer is None else {"on_error": answer}
        elif query.take("RETURNING"):
            clauses["returning"] = query.parse_type_name()
        if name == "json_query" and (wrapper := _json_wrapper(query)) is not None:
            clauses["wrapper"] = wrapper
        while name != "json_exists":
            fallback = _json_fallback(query)
            if fallback is None:
                break
            clauses[fallback[0]] = fallback[1]
        if not clauses:
            return exp.Anonymous(this=name, expressions=[this, path])
        return JsonCall(name=name, this=this, path=path, **clauses)

    return read


def _json_wrapper(query: CallParser) -> str | None:
    """Parse `{WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL]} [ARRAY] WRAPPER`."""
    if query.take("WITHOUT"):
        wrapper = "WITHOUT"
    elif query.take("WITH"):
        wrapper = "CONDITIONAL" if query.take("CONDITIONAL") else "UNCONDITIONAL"
        if wrapper == "UNCONDITIONAL":
            query.take("UNCONDITIONAL")
    else:
        return None
    query.take("ARRAY")
    if not query.take("WRAPPER"):
        query.fail("WRAPPER")
    return wrapper


def _json_members(name: str) -> Callable[[CallParser], exp.Expr]:
    """Return the parser of `[[KEY] key VALUE value, …] [{NULL | ABSENT} ON NULL]`."""

    def read(query: CallParser) -> exp.Expr:
        arguments: list[exp.Expr] = []
        if not query.cursor.at(")") and not _at_nulls(query):
            arguments += _json_member(query)
            while name == "json_object" and query.take(","):
                arguments += _json_member(query)
        return _with_nulls(query, name, arguments)

    return read


def _json_member(query: CallParser) -> list[exp.Expr]:
    query.take("KEY")
    key = query.parse_operand()
    if not query.take("VALUE"):
        query.fail("VALUE")
    return [key, query.parse_condition()]


def _json_elements(name: str) -> Callable[[CallParser], exp.Expr]:
    """Return the parser of `value, … [{NULL | ABSENT} ON NULL]`."""

    def read(query: CallParser) -> exp.Expr:
        empty = query.cursor.at(")") or _at_nulls(query)
        return _with_nulls(query, name, [] if empty else query.parse_arguments())

    return read


def _at_nulls(query: CallParser) -> bool:
    return any(query.cursor.at(word, "ON", "NULL") for word in _JSON_NULLS)


def _with_nulls(query: CallParser, name: str, arguments: list[exp.Expr]) -> exp.Expr:
    word = next((word for word in _JSON_NULLS if query.take(word, "ON", "NULL")), None)
    clause = [] if word is None else [exp.Var(this=f"{word} ON NULL")]
    return exp.Anonymous(this=name, expressions=[*arguments, *clause])


def _json_fallback(query: CallParser) -> tuple[str, exp.Expr | str] | None:
    """Parse `{NULL | ERROR | EMPTY ARRAY | EMPTY OBJECT | DEFAULT x} ON {EMPTY | ERROR}`."""
    value: exp.Expr | str
    if query.take("EMPTY", "ARRAY"):
        value = "EMPTY ARRAY"
    elif query.take("EMPTY", "OBJECT"):
        value = "EMPTY OBJECT"
    elif query.take("NULL"):
        value = "NULL"
    elif query.take("ERROR"):
        value = "ERROR"
    elif query.take("DEFAULT"):
        value = query.parse_operand()
    else:
        return None
    if query.take("ON", "EMPTY"):
        return "on_empty", value
    if not query.take("ON", "ERROR"):
        query.fail("ON EMPTY or ON ERROR")
    return "on_error", value


SPECIAL: dict[str, Callable[[CallParser], exp.Expr]] = {
    "array_agg": _array_agg,
    "cast": _cast,
    "ceil": _rounding("ceil"),
    "extract": _extract,
    "floor": _rounding("floor"),
    "json_array": _json_elements("json_array"),
    "json_arrayagg": _json_elements("json_arrayagg"),
    "json_exists": _json("json_exists"),
    "json_object": _json_members("json_object"),
    "json_objectagg": _json_members("json_objectagg"),
    "json_query": _json("json_query"),
    "json_value": _json("json_value"),
    "overlay": _overlay,
    "position": _position,
    "substring": _substring,
    "timestampadd": _unit_first("timestampadd"),
    "timestampdiff": _unit_first("timestampdiff"),
    "trim": _trim,
    "try_cast": _try_cast,
}
