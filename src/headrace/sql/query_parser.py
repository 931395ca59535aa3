"""Queries: SELECT and its clauses.

sqlglot's own reading of these takes far more than the dialect has, so it is replaced; the sources in FROM are in `source_parser`,
expressions are in `expression_parser`, and `ast` describes the tree that comes out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.core.errors import UserError
from headrace.core.idioms import Place, Remedy, remedy
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import did_you_mean, nearest
from headrace.core.types import NESTING_MAX
from headrace.sql.ast import (
    ChangelogFunction,
    GroupingSets,
    JsonCall,
    MatchRecognize,
    MatchSemantics,
    PatternGroup,
    PatternSubset,
    PatternVariable,
    TimeWindow,
    TypeName,
    span_of,
    star_of,
)
from headrace.sql.expression_parser import without_bit_operator, without_quantifier
from headrace.sql.group_windows import windowed
from headrace.sql.lexer import Source
from headrace.sql.limits import DEPTH_MAX, too_deep, too_nested
from headrace.sql.source_parser import SourceParser

_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "JOIN", "UNION", "WITHIN")
_BEFORE_ALIAS = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.NUMBER, TokenType.END)
_GROUPINGS = (("GROUPING", "SETS"), ("ROLLUP",), ("CUBE",))
_AFTER_QUERY = ("PARTITION BY", "QUERY", "WITH")
# Everything that `ast` describes. sqlglot's ladder can still make a few other nodes; they are refused by name.
_NODES = frozenset(
    {
        exp.Select,
        exp.Union,
        exp.Intersect,
        exp.Except,
        exp.Exists,
        exp.Subquery,
        exp.CTE,
        exp.With,
        exp.From,
        exp.Join,
        exp.Where,
        exp.Group,
        GroupingSets,
        exp.Tuple,
        exp.Having,
        exp.Qualify,
        exp.Order,
        exp.Ordered,
        exp.Limit,
        exp.Offset,
        exp.Distinct,
        exp.Star,
        exp.Alias,
        exp.Table,
        exp.TableAlias,
        exp.Unnest,
        TimeWindow,
        ChangelogFunction,
        MatchRecognize,
        MatchSemantics,
        PatternGroup,
        PatternSubset,
        PatternVariable,
        exp.Identifier,
        exp.Column,
        exp.Dot,
        exp.Bracket,
        exp.Literal,
        exp.Null,
        exp.Boolean,
        exp.Interval,
        exp.Var,
        exp.Paren,
        exp.Not,
        exp.Neg,
        exp.And,
        exp.Or,
        exp.EQ,
        exp.NEQ,
        exp.GT,
        exp.GTE,
        exp.LT,
        exp.LTE,
        exp.NullSafeEQ,
        exp.NullSafeNEQ,
        exp.Is,
        exp.In,
        exp.Between,
        exp.Like,
        exp.SimilarTo,
        exp.Escape,
        exp.Tuple,
        exp.Overlaps,
        exp.IgnoreNulls,
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.Div,
        exp.Mod,
        exp.DPipe,
        exp.Case,
        exp.If,
        exp.Cast,
        exp.TryCast,
        exp.Extract,
        exp.Trim,
        exp.Anonymous,
        JsonCall,
        TypeName,
        exp.Window,
        exp.WindowSpec,
        exp.Filter,
    }
)


class QueryParser(SourceParser):
    """Reads one query from the tokens of a statement."""

    # -- entry

    def parse_query(self, source: Source, tokens: Sequence[Token], index: int) -> tuple[exp.Query, int]:
        """Parse the query that begins at `tokens[index]`, and return it with the index of the first token after it."""
        self._begin(source, tokens, index)
        query = self._parse_query()
        self._check_end()
        self._check_nodes(query)
        return query, self._index

    def parse_where(self, source: Source, tokens: Sequence[Token], index: int) -> tuple[exp.Expr, int]:
        """Parse the condition that follows a WHERE, as `parse_query` does."""
        self._begin(source, tokens, index)
        # In parentheses, so that an operator has a parent in which a function replaces it.
        condition = exp.Paren(this=self.parse_condition())
        self._check_nodes(condition)
        return condition.this, self._index

    def parse_source(self, source: Source, tokens: Sequence[Token], index: int) -> tuple[exp.Expr, int]:
        """Parse one source of a FROM, as `parse_query` does: for programs that look at a query which is not complete."""
        self._begin(source, tokens, index)
        return self._parse_source(), self._index

    def parse_named_subqueries(self, source: Source, tokens: Sequence[Token], index: int) -> exp.With:
        """Parse the WITH of a query that is not complete, at its WITH."""
        self._begin(source, tokens, index)
        return self._parse_named_subqueries()

    def parse_row(self, source: Source, tokens: Sequence[Token], index: int) -> tuple[exp.Select, int]:
        """Parse a row of VALUES, `( expression [, …] )`, as a SELECT of its values, as `parse_query` does."""
        self._begin(source, tokens, index)
        row = exp.Select(expressions=self._parse_value_row())
        self._check_nodes(row)
        return row, self._index

    def _begin(self, source: Source, tokens: Sequence[Token], index: int) -> None:
        self.reset()
        self.source = source
        self.sql = source.text
        self._tokens = list(tokens)
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance(index + 1)
        self._nesting = 0

    def _parse_statement(self) -> exp.Expr | None:
        """Parse a query and nothing else, for `sqlglot.parse_one(text, read="headrace")`."""
        self.source = Source(self.sql)
        return self._parse_query()

    def _check_end(self) -> None:
        """Raise a syntax error for the rest of a query, often a misspelt clause that was read as an alias."""
        cursor = self.cursor
        if cursor.token is None or any(cursor.at(word) for word in _AFTER_QUERY):
            return
        alias, before = self._prev, self._tokens[self._index - 2].token_type
        close = nearest(alias.text.upper(), _CLAUSES, count=1)
        misspelt = close and close[0] != alias.text.upper()
        is_alias = alias.token_type is TokenType.VAR and before in _BEFORE_ALIAS
        if misspelt and is_alias:
            cursor.index -= 1
            raise cursor.error(f"a clause such as {close[0]}", hint=did_you_mean(close))
        next_word = cursor.token.text.upper()
        close = nearest(next_word, _CLAUSES, count=1)
        hint: Remedy | str | None = did_you_mean(close) if close and close[0] != next_word else None
        hint = hint or remedy(Place.CLAUSE, f"{alias.text} {next_word}")
        if hint is None and is_alias and cursor.word() is not None:
            hint = "Columns are separated by commas."
        raise cursor.error("',', a clause or the end of the query", hint=hint)

    def _check_nodes(self, query: exp.Expr) -> None:
        """Raise UserError for what a query must not contain, and replace operators on bits below `query`."""
        left: list[tuple[exp.Expr, int]] = [(query, 0)]
        while left:
            node, depth = left.pop()
            node = without_quantifier(without_bit_operator(node))
            left.extend((child, depth + 1) for child in node.iter_expressions())
            if depth > DEPTH_MAX:
                raise too_deep(span_of(node))
            if isinstance(node, exp.Window) and node.alias:
                raise UserError(
                    SqlState.SYNTAX_ERROR,
                    f"the window {printed(node.alias)} is not defined",
                    hint="Add WINDOW w AS (PARTITION BY … ORDER BY …) to the same SELECT, after HAVING.",
                    span=span_of(node),
                )
            if type(node) not in _NODES:
                raise UserError(
                    SqlState.FEATURE_NOT_SUPPORTED,
                    f"{re.sub('(?<=[a-z])(?=[A-Z])', ' ', type(node).__name__).upper()} is not supported yet",
                    span=span_of(node),
                )

    # -- the query and its clauses

    def _parse_query(self) -> exp.Query:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise too_nested(self.source.span(self._curr.start, self._curr.end + 1))
        query = self._parse_whole_query()
        self._nesting -= 1
        return query

    def _parse_whole_query(self) -> exp.Query:
        with_ = self._parse_named_subqueries() if self._match(TokenType.WITH, advance=False) else None
        query = self._parse_intersection()
        while self._match_set((TokenType.UNION, TokenType.EXCEPT), advance=False):
            kind = exp.Union if self._curr.token_type is TokenType.UNION else exp.Except
            distinct = self._parse_set_quantifier()
            query = kind(this=query, expression=self._parse_intersection(), distinct=distinct)
        if self._match(TokenType.ORDER_BY, advance=False):
            query.set("order", self._parse_order())
        if self._match(TokenType.LIMIT):
            query.set("limit", exp.Limit(expression=self._parse_count("LIMIT")))
        if self._match(TokenType.OFFSET):
            query.set("offset", exp.Offset(expression=self._parse_count("OFFSET")))
            self._parse_row_word()
        if query.args.get("limit") is None and (self.take("FETCH", "FIRST") or self.take("FETCH", "NEXT")):
            query.set("limit", exp.Limit(expression=self._parse_fetch_count()))
        self._refuse_clauses_of_other_dialects()
        if with_ is not None:
            query.set("with_", with_)
        return query

    def _parse_fetch_count(self) -> exp.Expr:
        """Parse the rest of FETCH FIRST 10 ROWS ONLY; without a number it is one row."""
        count = (
            self._parse_count("FETCH FIRST")
            if self._curr.token_type is TokenType.NUMBER
            else exp.Literal.number(1)
        )
        if not self._parse_row_word():
            self._fail("ROWS ONLY")
        if self.cursor.at("WITH", "TIES"):
            raise self.cursor.unsupported(
                "WITH TIES", hint="Filter RANK() OVER (ORDER BY …) in an outer query.", words=2
            )
        if not self.take("ONLY"):
            self._fail("ONLY")
        return count

    def _parse_row_word(self) -> bool:
        return self.take("ROWS") or self.take("ROW")

    def _parse_intersection(self) -> exp.Query:
        query = self._parse_operand_query()
        while self._match(TokenType.INTERSECT, advance=False):
            distinct = self._parse_set_quantifier()
            query = exp.Intersect(this=query, expression=self._parse_operand_query(), distinct=distinct)
        return query

    def _parse_set_quantifier(self) -> bool:
        """Parse ALL or DISTINCT after UNION, INTERSECT or EXCEPT; False for ALL."""
        self._advance()
        distinct = not self._match(TokenType.ALL)
        self._match(TokenType.DISTINCT)
        return distinct

    def _parse_named_subqueries(self) -> exp.With:
        self._match(TokenType.WITH)
        expressions: list[exp.Expr] = []
        while True:
            name = self._require(self._parse_id_var(any_token=True), "the name of a subquery")
            columns = self._parse_column_names() if self._match(TokenType.L_PAREN) else None
            self._expect(TokenType.ALIAS, "AS")
            self._expect(TokenType.L_PAREN, "'(' and a query")
            query = self._parse_query()
            self._expect(TokenType.R_PAREN, "')' at the end of the subquery")
            expressions.append(exp.CTE(this=query, alias=exp.TableAlias(this=name, columns=columns)))
            if not self._match(TokenType.COMMA):
                return exp.With(expressions=expressions)

    def _parse_operand_query(self) -> exp.Query:
        if self._match(TokenType.L_PAREN):
            query = self._parse_query()
            self._expect(TokenType.R_PAREN, "')' at the end of the query")
            return exp.Subquery(this=query)
        self._expect(TokenType.SELECT, "SELECT")
        distinct = None
        if not self._match(TokenType.ALL) and self._match(TokenType.DISTINCT):
            if self.cursor.at("ON", "("):
                self._fail("an expression", hint=remedy(Place.CLAUSE, "DISTINCT ON"))
            distinct = exp.Distinct()
        query = exp.Select(distinct=distinct, expressions=self._parse_items())
        if self._match(TokenType.FROM):
            query.set("from_", exp.From(this=self._parse_source()))
            joins = list(iter(self._parse_join_clause, None))
            query.set("joins", joins or None)
        if self._match(TokenType.WHERE):
            query.set("where", exp.Where(this=self._require(self._parse_disjunction())))
        if self._match(TokenType.GROUP_BY):
            query.set("group", exp.Group(expressions=self._parse_required_csv(self._parse_grouping)))
        if self._match(TokenType.HAVING):
            query.set("having", exp.Having(this=self._require(self._parse_disjunction())))
        windows = self._parse_named_windows() if self._at_window_clause() else {}
        if self.at("QUALIFY"):
            self._advance()
            query.set("qualify", exp.Qualify(this=self._require(self._parse_disjunction())))
        for node in (*query.expressions, *filter(None, [query.args.get("qualify")])):
            _define(node, windows)
        return windowed(query)

    def _parse_grouping(self, within: str | None = None) -> exp.Expr | None:
        """Parse an expression of GROUP BY, or GROUPING SETS, ROLLUP or CUBE; `within` these, it may be a list in parentheses."""
        token = self._curr
        kind = next((words for words in _GROUPINGS if self.at(*words, "(")), None)
        if kind is not None and within in (None, "GROUPING SETS"):
            self._nesting += 1
            if self._nesting > NESTING_MAX:
                raise too_nested(self.source.span(token.start, token.end + 1))
            self._advance(len(kind) + 1)
            name = " ".join(kind)
            members = self._parse_required_csv(lambda: self._parse_grouping(name))
            self._expect(TokenType.R_PAREN, f"',' or ')' at the end of {name}")
            self._nesting -= 1
            return GroupingSets(kind=name, expressions=members).update_positions(token)
        if within and self._match(TokenType.L_PAREN):
            members = [] if self.at(")") else self._parse_required_csv(self._parse_disjunction)
            self._expect(TokenType.R_PAREN, "',' or ')' at the end of the set")
            return exp.Tuple(expressions=members)
        return self._parse_disjunction()

    def _parse_named_windows(self) -> dict[str, exp.Expr]:
        """Parse `WINDOW w AS (…), …`."""
        named: dict[str, exp.Expr] = {}
        self._advance()
        while True:
            name = self._require(self._parse_id_var(any_token=True), "the name of a window")
            window = self._parse_window(name, alias=True)
            if window is None or window.args.get("alias"):
                raise self.cursor.unsupported(
                    "a window that extends a named window", hint="Write w AS (PARTITION BY … ORDER BY …)."
                )
            named[name.name] = window
            if not self._match(TokenType.COMMA):
                return named

    def _parse_items(self) -> list[exp.Expr]:
        return self._parse_required_csv(self._parse_item)

    def _parse_item(self) -> exp.Expr | None:
        token = self._curr
        this = (
            exp.Star().update_positions(token) if self._match(TokenType.STAR) else self._parse_disjunction()
        )
        star = star_of(this)
        if star is not None and (self.at("EXCEPT", "(") or self.at("EXCLUDE", "(")):
            self._advance(2)
            star.set("except_", self._parse_column_names())
        if this is None or star is not None:
            return this
        alias = self._parse_alias_name(self.ALIAS_TOKENS)
        return exp.Alias(this=this, alias=alias) if alias else this

    def _parse_count(self, clause: str) -> exp.Expr:
        token = self._curr
        if token.token_type is not TokenType.NUMBER or not token.text.isdigit():
            self._fail(f"a whole number after {clause}")
        return self._parse_literal()


def _define(node: exp.Expr, windows: Mapping[str, exp.Expr]) -> None:
    """Write the windows of WINDOW where calls name them."""
    for over in node.find_all(exp.Window):
        if over.alias in windows:
            definition = windows[over.alias].copy()
            over.set("alias", None)
            for part in ("partition_by", "order", "spec"):
                over.set(part, definition.args.get(part))
