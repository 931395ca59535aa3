"""`LIST … WHERE`: conditions on the columns of any listing. The words of LIST itself are with each kind of object."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from headrace.core.names import Identifier
from headrace.sql.ast import Statement, quoted_text
from headrace.sql.cursor import Cursor

_OPERATORS = {"=": "=", "<>": "<>", "!=": "<>", "LIKE": "LIKE"}


@dataclass(frozen=True)
class Condition:
    """`column operator 'value'`; `operator` is `=`, `<>`, `LIKE` or `NOT LIKE`."""

    column: Identifier
    operator: str
    value: str

    def sql(self) -> str:
        """Canonical text; the value is always a string."""
        return f"{self.column} {self.operator} {quoted_text(self.value)}"


@dataclass(frozen=True)
class FilteredList(Statement):
    """`LIST … WHERE condition [AND …]`."""

    listing: Statement
    conditions: tuple[Condition, ...]

    def sql(self) -> str:
        return f"{self.listing.sql()} WHERE {' AND '.join(condition.sql() for condition in self.conditions)}"


def filtered(cursor: Cursor, listing: Statement) -> FilteredList:
    """`listing` with the WHERE that is next."""
    cursor.expect("WHERE")
    conditions = [_condition(cursor)]
    while cursor.accept("AND"):
        conditions.append(_condition(cursor))
    cursor.finish("AND or the end of the statement")
    return FilteredList(*cursor.origin, listing, tuple(conditions))


def _condition(cursor: Cursor) -> Condition:
    column = cursor.identifier("the name of a column of the list")
    negated = "NOT " if cursor.at("NOT", "LIKE") and cursor.accept("NOT") else ""
    word = cursor.accept_any(*_OPERATORS)
    if word is None:
        raise cursor.error("=, <>, LIKE or NOT LIKE", hint="Conditions are joined by AND.")
    return Condition(column, negated + _OPERATORS[word], _value(cursor))


def _value(cursor: Cursor) -> str:
    token = cursor.token
    kinds = (TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE)
    if token is None or token.token_type not in kinds:
        raise cursor.error("a value: 'text', a number, TRUE or FALSE")
    cursor.index += 1
    return token.text
