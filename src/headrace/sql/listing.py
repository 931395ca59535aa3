"""Common clauses of every LIST and DESCRIBE of an object: a pattern for names, a condition, a number of rows. Each kind of object has
its own words."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import Statement, quoted_text, span_of
from headrace.sql.cursor import Cursor
from headrace.sql.dialect import Headrace
from headrace.sql.query_parser import QueryParser

STARTS = ("LIKE", "WHERE", "LIMIT")


@dataclass(frozen=True)
class FilteredList(Statement):
    """`{ LIST | DESCRIBE } … [LIKE 'pattern'] [WHERE condition] [LIMIT n]`, with one of these at least. `where` is an expression as in the
    WHERE of a SELECT, without subqueries."""

    listing: Statement
    where: exp.Expr | None = None
    like: str | None = None
    limit: int | None = None

    def sql(self) -> str:
        text = self.listing.sql()
        if self.like is not None:
            text += f" LIKE {quoted_text(self.like)}"
        if self.where is not None:
            text += f" WHERE {self.where.sql(dialect='headrace')}"
        return text if self.limit is None else f"{text} LIMIT {self.limit}"


def filtered(cursor: Cursor, listing: Statement) -> FilteredList:
    """Parse the clauses after `listing`. Their first words are in `STARTS`."""
    like = cursor.string("a pattern in single quotes") if cursor.accept("LIKE") else None
    where, expected = None, "WHERE, LIMIT or the end of the statement"
    if cursor.accept("WHERE"):
        where, expected = _condition(cursor), "AND, OR, LIMIT or the end of the statement"
    limit = None
    if cursor.accept("LIMIT"):
        limit, expected = cursor.whole_number("how many rows"), "the end of the statement"
    cursor.finish(expected)
    return FilteredList(*cursor.origin, listing, where, like, limit)


def _condition(cursor: Cursor) -> exp.Expr:
    parser = QueryParser(dialect=Headrace)
    condition, cursor.index = parser.parse_where(cursor.source, cursor.tokens, cursor.index)
    query = condition.find(exp.Query, exp.Exists)
    if query is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a subquery in the condition of a list is not supported",
            hint='Write the subquery in a SELECT of deltastream.sys."…".',
            span=span_of(query),
        )
    return condition
