"""Sources of the queries around a position of a statement, which need not be complete: for the columns that may be named there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.core.errors import Span, UserError
from headrace.sql.ast import Properties, Select
from headrace.sql.dialect import Headrace
from headrace.sql.lexer import Source
from headrace.sql.query_parser import QueryParser

_SET_OPERATIONS = (TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT)
_AFTER_SOURCES = (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT)
_QUERY_STARTS = (TokenType.SELECT, TokenType.WITH)


@dataclass(frozen=True)
class QuerySource:
    """A source of a FROM: the names by which its columns can be qualified, and a query of all its columns."""

    names: tuple[str, ...]
    select: Select


def sources_at(source: Source, tokens: Sequence[Token], place: int) -> list[QuerySource]:
    """Return the sources of the innermost query at the offset `place`, then those of the queries around it."""
    result: list[QuerySource] = []
    blocks = list(_blocks(tokens, place))
    named = _named_subqueries(source, tokens, [start for start, _ in blocks])
    for start, end in blocks:
        for index in _starts_of_sources(tokens, *_branch(tokens, start, end, place)):
            try:
                node, _ = QueryParser(dialect=Headrace).parse_source(source, tokens[:end], index)
            except UserError:
                continue
            result.append(_whole(node, named))
    return result


def _blocks(tokens: Sequence[Token], place: int) -> Iterator[tuple[int, int]]:
    """Yield the queries around a place as ranges of tokens, the innermost first."""
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.start >= place:
            break
        if token.token_type is TokenType.L_PAREN:
            opened.append(index)
        elif token.token_type is TokenType.R_PAREN and opened:
            opened.pop()
    for index in reversed(opened):
        if index + 1 < len(tokens) and tokens[index + 1].token_type in _QUERY_STARTS:
            yield index + 1, _closing(tokens, index + 1)
    yield 0, len(tokens)


def _closing(tokens: Sequence[Token], start: int) -> int:
    return next((index for index, depth in _depths(tokens, start, len(tokens)) if depth < 0), len(tokens))


def _depths(tokens: Sequence[Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the index and the depth of each token; the depth of a closing parenthesis is that behind it."""
    depth = 0
    for index in range(start, end):
        depth -= tokens[index].token_type is TokenType.R_PAREN
        yield index, depth
        depth += tokens[index].token_type is TokenType.L_PAREN


def _branch(tokens: Sequence[Token], start: int, end: int, place: int) -> tuple[int, int]:
    """Return the part of a query between set operations that contains a place."""
    for index, depth in _depths(tokens, start, end):
        if depth == 0 and tokens[index].token_type in _SET_OPERATIONS:
            if tokens[index].start >= place:
                return start, index
            start = index + 1
    return start, end


def _starts_of_sources(tokens: Sequence[Token], start: int, end: int) -> Iterator[int]:
    """Yield the index of each source: behind FROM, JOIN and the commas of the FROM."""
    inside = False
    for index, depth in _depths(tokens, start, end):
        kind = tokens[index].token_type
        if depth or (kind is TokenType.FROM and tokens[index - 1].token_type is TokenType.DISTINCT):
            continue
        inside = (inside or kind is TokenType.FROM) and kind not in _AFTER_SOURCES
        if inside and kind in (TokenType.FROM, TokenType.JOIN, TokenType.COMMA) and index + 1 < end:
            yield index + 1


def _named_subqueries(source: Source, tokens: Sequence[Token], starts: Sequence[int]) -> exp.With | None:
    """Return the innermost WITH of the queries that start there."""
    candidates = [
        start for start in starts if start < len(tokens) and tokens[start].token_type is TokenType.WITH
    ]
    # In CREATE … AS WITH …, the query starts behind AS.
    candidates += [
        index + 1
        for index, token in enumerate(tokens[:-1])
        if token.token_type is TokenType.ALIAS and tokens[index + 1].token_type is TokenType.WITH
    ]
    for start in candidates:
        try:
            return QueryParser(dialect=Headrace).parse_named_subqueries(source, tokens, start)
        except UserError:
            continue
    return None


def _whole(node: exp.Expr, named: exp.With | None) -> QuerySource:
    """Return a source with a query of all its columns."""
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node))
    if named is not None:
        query.set("with_", named.copy())
    base = node.this if not isinstance(node, exp.Table) and isinstance(node.this, exp.Table) else node
    names = (node.alias, base.name if isinstance(base, exp.Table) else "")
    return QuerySource(tuple(filter(None, names)), Select(query, Properties(), (), Span(0, 0, 1, 1)))
