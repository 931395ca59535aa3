"""What may follow any LIST and any DESCRIBE of an object: a pattern for names, conditions on columns, how many rows. Their own words are
with each kind of object."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from headrace.core.names import Identifier
from headrace.sql.ast import Statement, quoted_text
from headrace.sql.cursor import Cursor

STARTS = ("LIKE", "WHERE", "LIMIT")
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
    """`{ LIST | DESCRIBE } … [LIKE 'pattern'] [WHERE condition [AND …]] [LIMIT n]`, with one of these at least."""

    listing: Statement
    conditions: tuple[Condition, ...] = ()
    like: str | None = None
    limit: int | None = None

    def sql(self) -> str:
        text = self.listing.sql()
        if self.like is not None:
            text += f" LIKE {quoted_text(self.like)}"
        if self.conditions:
            text += f" WHERE {' AND '.join(condition.sql() for condition in self.conditions)}"
        return text if self.limit is None else f"{text} LIMIT {self.limit}"


def filtered(cursor: Cursor, listing: Statement) -> FilteredList:
    """`listing` with what is next of `STARTS`."""
    like = cursor.string("a pattern in single quotes") if cursor.accept("LIKE") else None
    conditions, expected = [], "WHERE, LIMIT or the end of the statement"
    if cursor.accept("WHERE"):
        conditions.append(_condition(cursor))
        while cursor.accept("AND"):
            conditions.append(_condition(cursor))
        expected = "AND, LIMIT or the end of the statement"
    limit = None
    if cursor.accept("LIMIT"):
        limit, expected = cursor.whole_number("how many rows"), "the end of the statement"
    cursor.finish(expected)
    return FilteredList(*cursor.origin, listing, tuple(conditions), like, limit)


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
