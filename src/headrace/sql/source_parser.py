"""Sources in FROM: relations, subqueries, VALUES, table functions and joins, each with its alias and properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from headrace.core.errors import UserError
from headrace.core.idioms import CLAUSES
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.sql.ast import (
    TIME_WINDOWS,
    ChangelogFunction,
    MatchRecognize,
    TimeWindow,
    span_of,
)
from headrace.sql.cursor import Cursor
from headrace.sql.expectations import Slot
from headrace.sql.expression_parser import ExpressionParser
from headrace.sql.group_windows import length_ms
from headrace.sql.lexer import folded
from headrace.sql.pattern_parser import match_recognize

_TABLE_FUNCTIONS = (*TIME_WINDOWS, "TO_CHANGELOG", "FROM_CHANGELOG")
_ARGUMENTS = {
    "SIZE": "size_ms",
    "SLIDE": "advance_ms",
    "STEP": "advance_ms",
    "GAP": "size_ms",
    "OFFSET": "offset_ms",
}
_NEVER_ALIASES = (("QUERY", "WITH"), ("FETCH", "FIRST"), ("FETCH", "NEXT"))


class SourceParser(ExpressionParser):
    """Reads the sources of a query from the tokens of a statement."""

    def _parse_source(self) -> exp.Expr:
        token = self._curr
        cursor = self.cursor
        if cursor.token is None and self.source.expectations is not None:
            for word in _TABLE_FUNCTIONS:
                self.source.expectations.add_words((word,), certain=True)
        if self.at("LATERAL", "TABLE", "("):
            return self._parse_lateral_table()
        lateral = self._match(TokenType.LATERAL) or None
        if lateral and not self.at("("):
            self._fail("a subquery in parentheses, or TABLE(function(…))")
        if cursor.at("TABLE", "(") and (after := cursor.peek(2)) and folded(after) in _TABLE_FUNCTIONS:
            self._advance(2)
            this: exp.Expr = self._parse_table_function()
            self._expect(TokenType.R_PAREN, "')' at the end of TABLE")
            return self._parse_after_rows(this)
        if cursor.at("TABLE", "("):
            raise cursor.unsupported("TABLE(…)", hint="Write TUMBLE(relation, SIZE 5 MINUTES).")
        if self._match(TokenType.UNNEST, advance=False):
            return self._parse_unnest_source()
        if self._match(TokenType.L_PAREN):
            this = exp.Subquery(this=self._parse_values() if self.at("VALUES") else self._parse_query())
            this.set("lateral", lateral)
            self._expect(TokenType.R_PAREN, "')' at the end of the subquery")
        elif self._next.token_type is TokenType.L_PAREN and folded(token) in _TABLE_FUNCTIONS:
            this = self._parse_table_function()
        else:
            this = self._parse_relation()
            if self.take("FOR", "SYSTEM_TIME", "AS", "OF"):
                this.set("system_time", self.parse_operand())
        return self._parse_after_rows(this)

    def _parse_values(self) -> exp.Query:
        """Parse VALUES as a UNION ALL of its rows; the columns of the first are called column1, column2, …."""
        self._advance()
        rows: list[exp.Query] = []
        while True:
            values = self._parse_value_row()
            if not rows:
                names = (exp.to_identifier(f"column{number}") for number in range(1, len(values) + 1))
                values = [
                    exp.Alias(this=value, alias=name) for value, name in zip(values, names, strict=True)
                ]
            elif len(values) != len(rows[0].expressions):
                raise UserError(
                    SqlState.SYNTAX_ERROR,
                    f"this row of VALUES has {counted(len(values), 'value')}, the first has {len(rows[0].expressions)}",
                    hint="Write the same number of values in each row, NULL for a missing one.",
                    span=span_of(values[0]),
                )
            rows.append(exp.Select(expressions=values))
            if not self._match(TokenType.COMMA):
                return _united(rows)

    def _parse_value_row(self) -> list[exp.Expr]:
        self._expect(TokenType.L_PAREN, "'(' and the values of a row")
        values = self._parse_required_csv(self._parse_disjunction)
        self._expect(TokenType.R_PAREN, "',' or ')' after a value")
        return values

    def _parse_after_rows(self, this: exp.Expr) -> exp.Expr:
        """Parse what follows the rows of a source: a pattern, the alias, and the properties."""
        if self.at("MATCH_RECOGNIZE", "("):
            if isinstance(this, TimeWindow | ChangelogFunction):
                raise self.cursor.unsupported(
                    f"MATCH_RECOGNIZE over {this.function}", hint="Match the rows of the relation itself."
                )
            this = match_recognize(self, this)
        self._refuse_clauses_of_other_dialects()
        this.set("alias", self._parse_source_alias())
        self._parse_source_properties(this)
        return this

    def _parse_relation(self) -> exp.Table:
        self._expects(Slot.RELATION)
        parts = [self._require(self._parse_id_var(any_token=False), "the name of a relation")]
        while self._match(TokenType.DOT):
            parts.append(self._require(self._parse_id_var(any_token=True), "a name after '.'"))
        if self._curr.token_type is TokenType.L_PAREN:
            raise self.cursor.unsupported(
                "a table function other than a time window or UNNEST",
                hint=f"Write a relation, UNNEST, or one of {', '.join(_TABLE_FUNCTIONS)}.",
            )
        names: list[exp.Expr | None] = [*reversed(parts), None, None]
        if len(parts) > 3:
            raise self.cursor.error_at(
                f"expected database.schema.relation, found {len(parts)} parts",
                hint='Put a name that contains dots in double quotes: "a.b".',
            )
        return exp.Table(this=names[0], db=names[1], catalog=names[2])

    def _parse_source_alias(self) -> exp.TableAlias | None:
        word = self.cursor.word()
        if word in ("QUALIFY", "NATURAL") or (word == "WITHIN" and self._next.token_type is TokenType.NUMBER):
            return None
        name = self._parse_alias_name(self.TABLE_ALIAS_TOKENS)
        if name is None:
            return None
        columns = self._parse_column_names() if self._match(TokenType.L_PAREN) else None
        return exp.TableAlias(this=name, columns=columns)

    def _parse_column_names(self) -> list[exp.Expr]:
        self._expects(Slot.NAME, "the name of a column")
        names = self._parse_required_csv(lambda: self._parse_id_var(any_token=True), "the name of a column")
        self._expect(TokenType.R_PAREN, "')' after the names of the columns")
        return names

    def _parse_source_properties(self, this: exp.Expr) -> None:
        cursor = self.cursor
        if not self.at("WITH", "("):
            return
        if isinstance(this, MatchRecognize):
            this = this.this
        if not isinstance(this.this if isinstance(this, TimeWindow | ChangelogFunction) else this, exp.Table):
            raise cursor.error(
                "no properties after a subquery", hint="Put WITH (…) after the relation inside."
            )
        if "properties" in this.meta:
            raise cursor.error("one WITH (…) per source")
        this.meta["properties"] = self._read(Cursor.properties)
        if self.cursor.at("AS"):
            raise self.cursor.error("the alias before WITH (…)", hint="Write relation AS alias WITH (…).")

    def _parse_table_function(self) -> exp.Expr:
        return (
            self._parse_time_window()
            if folded(self._curr) in TIME_WINDOWS
            else self._parse_changelog_function()
        )

    def _parse_input_rows(self) -> exp.Expr:
        """Parse `[TABLE] relation` or a subquery, as the first argument of a function in FROM."""
        if self.at("TABLE") and self._next.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            self._advance()
        if not self._match(TokenType.L_PAREN):
            return self._parse_relation()
        this = exp.Subquery(this=self._parse_query())
        self._expect(TokenType.R_PAREN, "')' at the end of the subquery")
        return this

    def _parse_changelog_function(self) -> ChangelogFunction:
        """Parse `TO_CHANGELOG(input => TABLE t [PARTITION BY k] [, op => DESCRIPTOR(c)] [, op_mapping => MAP['INSERT', 'c']])`."""
        token = self._curr
        self._advance(2)
        self.take("INPUT", "=", ">")
        kind = folded(token).partition("_")[0]
        node = ChangelogFunction(this=self._parse_input_rows(), kind=kind).update_positions(token)
        node.set(
            "partition_by", self._parse_partition_columns(lambda: self.parse_name("the name of a column"))
        )
        while self._match(TokenType.COMMA):
            if (self.take("OP", "=", ">") or self.at("DESCRIPTOR")) and not node.args.get("op"):
                if not self.take("DESCRIPTOR", "("):
                    self._fail("DESCRIPTOR(column)")
                node.set("op", self.parse_name("the column with the operation"))
                self._expect(TokenType.R_PAREN, "')' after the column of DESCRIPTOR")
            elif (self.take("OP_MAPPING", "=", ">") or self.at("MAP", "[")) and not node.args.get("mapping"):
                node.set("mapping", self._parse_op_mapping())
            else:
                self._fail("op => DESCRIPTOR(column) or op_mapping => MAP[…]")
        self._expect(TokenType.R_PAREN, f"',' or ')' at the end of {folded(token)}")
        return node

    def _parse_op_mapping(self) -> list[exp.Expr]:
        if not self.take("MAP", "["):
            self._fail("MAP['key', 'value', …]")
        texts = self._parse_required_csv(self._parse_text, "a text")
        if len(texts) % 2:
            self._fail("',' and the value of the last key")
        self._expect(TokenType.R_BRACKET, "']' at the end of MAP")
        return texts

    def _parse_text(self) -> exp.Expr | None:
        return self._parse_literal() if self._curr.token_type is TokenType.STRING else None

    def _parse_time_window(self) -> TimeWindow:
        token = self._curr
        kind = token.text.upper()
        self._advance(2)
        self.take("DATA", "=", ">")
        this = self._parse_input_rows()
        window = TimeWindow(this=this, kind=kind).update_positions(token)
        if kind != "SESSION" and self._curr.token_type is TokenType.PARTITION_BY:
            raise self.cursor.unsupported(f"PARTITION BY in {kind}", hint="Add its columns to GROUP BY.")
        columns = self._parse_partition_columns(
            lambda: self._require(self._parse_column(), "the name of a column")
        )
        window.set("partition_by", columns)
        self._expect(TokenType.COMMA, f"',' and {'GAP' if kind == 'SESSION' else 'SIZE'} n unit")
        self._parse_descriptor(window)
        if self._curr.token_type is TokenType.INTERVAL or self._named_argument() is not None:
            self._parse_intervals(window)
        else:
            self._parse_lengths(window)
        self._expect(TokenType.R_PAREN, f"')' at the end of {kind}")
        return window

    def _parse_partition_columns(self, column: Callable[[], exp.Expr]) -> list[exp.Expr] | None:
        """Parse `PARTITION BY column, …`, with or without parentheses; without, another argument may follow the last comma."""
        if not self._match(TokenType.PARTITION_BY):
            return None
        enclosed = self._match(TokenType.L_PAREN)
        columns = [column()]
        while self.at(",") and (enclosed or getattr(self.cursor.peek(2), "text", "") in (",", ")", ".")):
            self._advance()
            columns.append(column())
        if enclosed:
            self._expect(TokenType.R_PAREN, "')' after the columns of PARTITION BY")
        return columns

    def _parse_descriptor(self, window: TimeWindow) -> None:
        self.take("TIMECOL", "=", ">")
        if self.take("DESCRIPTOR", "("):
            window.set("time", self._require(self._parse_column(), "the column with the event time"))
            self._expect(TokenType.R_PAREN, "')' after the column of DESCRIPTOR")
            self._expect(TokenType.COMMA, "',' and the length of the window")

    def _parse_lengths(self, window: TimeWindow) -> None:
        """Parse `SIZE n unit [, ADVANCE BY n unit] [, OFFSET [-]n unit]`, or `GAP n unit`."""
        kind = window.kind
        self._parse_length(window, "size_ms", "GAP" if kind == "SESSION" else "SIZE")
        if kind in ("HOP", "CUMULATE"):
            words = ("ADVANCE", "STEP") if kind == "HOP" else ("STEP", "ADVANCE")
            self._expect(TokenType.COMMA, f"',' and {words[0]} BY n unit")
            self._parse_length(window, "advance_ms", *words)
        if kind != "SESSION" and self._match(TokenType.COMMA):
            if not self.take("OFFSET"):
                self._fail("OFFSET and a time span such as 5 MINUTES")
            sign = -1 if self._match(TokenType.DASH) else 1
            window.set("offset_ms", sign * self._read(Cursor.duration))

    def _parse_intervals(self, window: TimeWindow) -> None:
        """Parse Flink's order: `INTERVAL '5' MINUTE, INTERVAL '10' MINUTE` are the advance and the size; then the offset."""
        if window.kind == "SESSION" and window.args.get("partition_by") is None:
            raise self.cursor.unsupported(
                "SESSION over all rows",
                hint="Write SESSION(relation, GAP n unit), and add the columns that identify a session to GROUP BY.",
            )
        order = {"TUMBLE": ["size_ms", "offset_ms"], "SESSION": ["size_ms"]}.get(
            window.kind, ["advance_ms", "size_ms", "offset_ms"]
        )
        while True:
            named = self._named_argument()
            if not order or (named is not None and named not in order):
                self._fail("')' or another argument")
            if named is not None:
                self._advance(3)
            argument = named or order[0]
            order.remove(argument)
            if self._curr.token_type is not TokenType.INTERVAL:
                self._fail("a time span such as INTERVAL '10' MINUTE")
            start = self.cursor.index
            milliseconds = length_ms(self._parse_interval_literal())
            if argument != "offset_ms" and milliseconds <= 0:
                self._retreat(start)
                self._fail("a time span longer than zero, in days or shorter units")
            window.set(argument, milliseconds or None)
            window.meta[argument] = self.cursor.span_from(start)
            if not self._match(TokenType.COMMA):
                break
        if order not in ([], ["offset_ms"]):
            self._fail(f"',' and the arguments that {window.kind} lacks")

    def _named_argument(self) -> str | None:
        """Return the argument that a name such as `SIZE =>` stands for, if one is next."""
        return next((key for word, key in _ARGUMENTS.items() if self.at(word, "=", ">")), None)

    def _parse_length(self, window: TimeWindow, argument: str, *words: str) -> None:
        start = self.cursor.index
        window.set(argument, self._read(lambda cursor: _named_duration(cursor, *words)))
        window.meta[argument] = self.cursor.span_from(start)

    def _parse_unnest_source(self) -> exp.Unnest:
        token = self._curr
        self._advance()
        self._expect(TokenType.L_PAREN, "'(' after UNNEST")
        this = self._require(self._parse_disjunction())
        self._expect(TokenType.R_PAREN, "')' at the end of UNNEST")
        ordinality = self.at("WITH", "ORDINALITY")
        if ordinality:
            self._advance(2)
        alias = self._parse_source_alias()
        return exp.Unnest(expressions=[this], alias=alias, offset=ordinality or None).update_positions(token)

    def _parse_lateral_table(self) -> exp.Unnest:
        """Parse `LATERAL TABLE(function(…)) [[AS] alias [(column, …)]]`: the rows of a table function, which are an array of rows."""
        token = self._curr
        self._advance(2)
        self._expect(TokenType.L_PAREN, "'(' after LATERAL TABLE")
        this = self._require(self._parse_disjunction())
        self._expect(TokenType.R_PAREN, "')' at the end of LATERAL TABLE")
        alias = self._parse_source_alias()
        return exp.Unnest(expressions=[this], alias=alias, function=True).update_positions(token)

    def _parse_join_clause(self) -> exp.Join | None:
        self._refuse_clauses_of_other_dialects()
        token = self._curr
        if self._match(TokenType.COMMA):
            return exp.Join(this=self._parse_source()).update_positions(token)
        method, side, kind = "NATURAL" if self.take("NATURAL") else None, None, None
        if self._match_set((TokenType.LEFT, TokenType.RIGHT, TokenType.FULL), advance=False):
            side = self._curr.text.upper()
            self._advance()
            self._match(TokenType.OUTER)
        elif method is None and self._match(TokenType.CROSS):
            kind = "CROSS"
        else:
            side = "" if self._match(TokenType.INNER) else None
        if not self._match(TokenType.JOIN):
            if (method, side, kind) == (None, None, None):
                return None
            self._fail("JOIN")
        this = self._parse_source()
        join = exp.Join(this=this, method=method, side=side or None, kind=kind).update_positions(token)
        self._parse_within(join)
        if method or kind == "CROSS":
            return join
        if self._match(TokenType.USING):
            self._expect(TokenType.L_PAREN, "'(' and the names of columns after USING")
            join.set("using", self._parse_column_names())
        else:
            self._expect(TokenType.ON, "ON and the join's condition, or USING and columns")
            join.set("on", self._require(self._parse_disjunction()))
        if self.cursor.at("WITHIN"):
            hint = "Write JOIN relation AS alias WITHIN 5 MINUTES ON condition."
            raise self.cursor.error("WITHIN before ON or USING", hint=hint)
        return join

    def _parse_within(self, join: exp.Join) -> None:
        cursor = self.cursor
        if cursor.accept("WITHIN"):
            join.meta["within_ms"] = cursor.duration()
            self._retreat(cursor.index)
            self._refuse_clauses_of_other_dialects()
            if self.cursor.at("WITH", "("):
                self._parse_source_properties(join.this)

    # -- what ends a source and an item of SELECT

    def _at_window_clause(self) -> bool:
        return self.at("WINDOW") and self.cursor.without(2).at("AS", "(")

    def _refuse_clauses_of_other_dialects(self) -> None:
        """Refuse clauses of other dialects if their first word would be read as an alias or as another clause."""
        cursor = self.cursor
        if cursor.token is None:
            return
        for words, idiom in CLAUSES:
            if cursor.at(*words):
                if idiom.known:
                    raise cursor.unsupported(idiom.words, hint=idiom.remedy, words=len(words))
                message = f"{idiom.words} is not a clause of this language"
                raise cursor.error_at(message, hint=idiom.remedy, words=len(words))

    def _parse_alias_name(self, tokens: set[TokenType]) -> exp.Identifier | None:
        if self._match(TokenType.ALIAS):
            hint = "Use single quotes for a string, and double quotes or none for a name."
            if self._curr.token_type is TokenType.STRING:
                self._fail("a name after AS", hint=hint)
            return cast(exp.Identifier, self._require(self._parse_id_var(any_token=True), "a name after AS"))
        if self._curr and (any(self.at(*words) for words in _NEVER_ALIASES) or self._at_window_clause()):
            return None
        return cast("exp.Identifier | None", self._parse_id_var(any_token=False, tokens=tokens))


def _named_duration(cursor: Cursor, *words: str) -> int:
    """Parse `WORD [BY] n unit`."""
    if cursor.accept_any(*words) is None:
        raise cursor.error(f"{words[0]} and a time span such as 5 MINUTES")
    cursor.accept("BY")
    return cursor.duration()


def _united(queries: Sequence[exp.Query]) -> exp.Query:
    """Return a UNION ALL of queries in their order, as a tree with the fewest levels."""
    if len(queries) == 1:
        return queries[0]
    middle = (len(queries) + 1) // 2
    last = _united(queries[middle:])
    if isinstance(last, exp.Union):
        last = exp.Subquery(this=last)
    return exp.Union(this=_united(queries[:middle]), expression=last, distinct=False)
