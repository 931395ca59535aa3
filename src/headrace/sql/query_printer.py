"""Printer of queries, for constructs that sqlglot's generator would spell differently or omit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, generator

from headrace.core.names import printed, quote
from headrace.sql import calls
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
    duration_text,
    is_comma,
    properties_of,
    quantified,
    quoted_text,
    within_of,
)
from headrace.sql.lexer import HeadraceTokenizer

# Words that would be read as something else where a name is meant.
_QUOTED_WORDS = frozenset(
    word.lower()
    for word in (
        *HeadraceTokenizer.KEYWORDS,
        *calls.CONSTRUCTORS,
        *calls.WITHOUT_PARENTHESES,
        "DATE",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMP_LTZ",
        "GROUP",
        "ORDER",
        "PARTITION",
        "SIMILAR",
        "TO",
        "BY",
        "MATCH_RECOGNIZE",
        "QUERY",
        "TABLE",
        "WITHIN",
        "FETCH",
        "SYMMETRIC",
        "ASYMMETRIC",
        "UNKNOWN",
    )
)


def _time_window(printer: generator.Generator, node: TimeWindow) -> str:
    size = "GAP" if node.kind == "SESSION" else "SIZE"
    time = f", DESCRIPTOR({printer.sql(node, 'time')})" if node.args.get("time") is not None else ""
    partition = node.args.get("partition_by")
    keys = f" PARTITION BY {', '.join(map(printer.sql, partition))}" if partition else ""
    text = f"{node.kind}({printer.sql(node, 'this')}{keys}{time}, {size} {duration_text(node.size_ms)}"
    if node.advance_ms is not None:
        word = "ADVANCE BY" if node.kind == "HOP" else "STEP BY"
        text += f", {word} {duration_text(node.advance_ms)}"
    if node.offset_ms:
        text += f", OFFSET {'-' if node.offset_ms < 0 else ''}{duration_text(abs(node.offset_ms))}"
    return f"{text}){_alias_and_properties(printer, node)}"


def _changelog_function(printer: generator.Generator, node: ChangelogFunction) -> str:
    table = "TABLE " if isinstance(node.this, exp.Table) else ""
    text = f"{node.args['kind']}_CHANGELOG(input => {table}{printer.sql(node, 'this')}"
    if partition := node.args.get("partition_by"):
        text += f" PARTITION BY {', '.join(map(printer.sql, partition))}"
    if node.args.get("op") is not None:
        text += f", op => DESCRIPTOR({printer.sql(node, 'op')})"
    if mapping := node.args.get("mapping"):
        text += f", op_mapping => MAP[{', '.join(map(printer.sql, mapping))}]"
    return f"{text}){_alias_and_properties(printer, node)}"


def _match_recognize(printer: generator.Generator, node: MatchRecognize) -> str:
    def listed(key: str) -> str:
        return ", ".join(printer.sql(item) for item in node.args[key])

    # The properties stand after the alias, though they are the relation's.
    rows = printer.table_parts(node.this) if isinstance(node.this, exp.Table) else printer.sql(node, "this")
    parts = []
    if node.args.get("partition_by"):
        parts.append(f"PARTITION BY {listed('partition_by')}")
    parts.append(printer.sql(node, "order").strip())
    if node.args.get("measures"):
        parts.append(f"MEASURES {listed('measures')}")
    if node.args.get("all_rows"):
        parts.append("ALL ROWS PER MATCH")
    if skip := node.args.get("skip"):
        to = printer.sql(node, "skip_to")
        parts.append(f"AFTER MATCH SKIP {skip}{f' {to}' if to else ''}")
    parts.append(f"PATTERN ({' '.join(map(printer.sql, node.args['pattern']))})")
    if (within := node.args.get("within_ms")) is not None:
        parts.append(f"WITHIN {duration_text(within)}")
    if node.args.get("subsets"):
        parts.append(f"SUBSET {listed('subsets')}")
    if definitions := node.args.get("define"):
        shown = (f"{printer.sql(item, 'alias')} AS {printer.sql(item, 'this')}" for item in definitions)
        parts.append(f"DEFINE {', '.join(shown)}")
    alias = printer.sql(node, "alias")
    text = f"{rows} MATCH_RECOGNIZE ({' '.join(parts)})"
    return text + (f" AS {alias}" if alias else "") + properties_of(node.this).sql()


def _pattern_variable(printer: generator.Generator, node: PatternVariable) -> str:
    arguments = node.args
    return quantified(
        printer.sql(node, "this"), arguments["least"], arguments.get("most"), arguments["greedy"]
    )


_GROUPS = {
    "SEQUENCE": ("(", " ", ")"),
    "ALTERNATION": ("(", " | ", ")"),
    "PERMUTATION": ("PERMUTE(", ", ", ")"),
    "EXCLUSION": ("{- ", " ", " -}"),
}


def _pattern_group(printer: generator.Generator, node: PatternGroup) -> str:
    before, between, after = _GROUPS[node.args["kind"]]
    text = before + between.join(map(printer.sql, node.expressions)) + after
    return quantified(text, node.args["least"], node.args.get("most"), node.args["greedy"])


def _pattern_subset(printer: generator.Generator, node: PatternSubset) -> str:
    return f"{printer.sql(node, 'this')} = ({printer.expressions(node, flat=True)})"


def _match_semantics(printer: generator.Generator, node: MatchSemantics) -> str:
    return f"{'FINAL' if node.args['final'] else 'RUNNING'} {printer.sql(node, 'this')}"


def _alias_and_properties(printer: generator.Generator, node: exp.Expr) -> str:
    alias = printer.sql(node, "alias")
    return (f" AS {alias}" if alias else "") + properties_of(node).sql()


def _json_call(printer: generator.Generator, node: JsonCall) -> str:
    text = f"{node.args['name'].upper()}({printer.sql(node, 'this')}, {printer.sql(node, 'path')}"
    if node.args.get("returning"):
        text += f" RETURNING {printer.sql(node, 'returning')}"
    if wrapper := node.args.get("wrapper"):
        text += f" {wrapper if wrapper == 'WITHOUT' else f'WITH {wrapper}'} ARRAY WRAPPER"
    for key, event in (("on_empty", "EMPTY"), ("on_error", "ERROR")):
        value = node.args.get(key)
        if value:
            text += f" {value if isinstance(value, str) else 'DEFAULT ' + printer.sql(value)} ON {event}"
    return text + ")"


class QueryPrinter(generator.Generator):
    """Prints the trees of `QueryParser`."""

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **generator.Generator.TRANSFORMS,
        TimeWindow: _time_window,
        ChangelogFunction: _changelog_function,
        GroupingSets: lambda printer, node: f"{node.args['kind']} ({printer.expressions(node, flat=True)})",
        MatchRecognize: _match_recognize,
        MatchSemantics: _match_semantics,
        PatternGroup: _pattern_group,
        PatternSubset: _pattern_subset,
        PatternVariable: _pattern_variable,
        TypeName: lambda _, node: str(node.this),
        JsonCall: _json_call,
    }

    def identifier_sql(self, expression: exp.Identifier) -> str:
        name = expression.name
        return quote(name) if name in _QUOTED_WORDS else printed(name)

    def literal_sql(self, expression: exp.Literal) -> str:
        return quoted_text(expression.name) if expression.is_string else expression.name

    def table_sql(self, expression: exp.Table, *_arguments: Any, **_options: Any) -> str:
        time = self.sql(expression, "system_time")
        as_of = f" FOR SYSTEM_TIME AS OF {time}" if time else ""
        return self.table_parts(expression) + as_of + _alias_and_properties(self, expression)

    def subquery_sql(self, expression: exp.Subquery, *arguments: Any, **options: Any) -> str:
        lateral = "LATERAL " if expression.args.get("lateral") else ""
        return f"{lateral}{super().subquery_sql(expression, *arguments, **options)}"

    def unnest_sql(self, expression: exp.Unnest) -> str:
        alias = self.sql(expression, "alias")
        ordinality = " WITH ORDINALITY" if expression.args.get("offset") else ""
        word = "LATERAL TABLE" if expression.args.get("function") else "UNNEST"
        return f"{word}({self.expressions(expression, flat=True)}){ordinality}" + (
            f" AS {alias}" if alias else ""
        )

    def join_sql(self, expression: exp.Join, *_arguments: Any, **_options: Any) -> str:
        if is_comma(expression):
            return f", {self.sql(expression, 'this')}"
        words = " ".join(
            word for word in (expression.method, expression.side, expression.kind, "JOIN") if word
        )
        within = within_of(expression)
        text = f"{self.seg(words)} {self.sql(expression, 'this')}"
        if within is not None:
            text += f" WITHIN {duration_text(within)}"
        if expression.args.get("using"):
            return f"{text} USING ({self.expressions(expression, key='using', flat=True)})"
        condition = self.sql(expression, "on")
        return f"{text} ON {condition}" if condition else text

    def dot_sql(self, expression: exp.Dot) -> str:
        return f"{self.sql(expression, 'this')}->{self.sql(expression, 'expression')}"

    def bracket_sql(self, expression: exp.Bracket) -> str:
        return f"{self.sql(expression, 'this')}[{self.expressions(expression, flat=True)}]"

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name, arguments = expression.name, expression.expressions
        if name in ("floor", "ceil") and arguments and isinstance(arguments[-1], exp.Var):
            *values, unit = arguments
            return f"{name.upper()}({', '.join(self.sql(value) for value in values)} TO {self.sql(unit)})"
        nulls = ""
        if arguments and isinstance(arguments[-1], exp.Var) and arguments[-1].name.endswith(" ON NULL"):
            *arguments, clause = arguments
            nulls = f"{' ' if arguments else ''}{clause.name}"
        if name in calls.JSON_OBJECTS:
            members = zip(arguments[::2], arguments[1::2], strict=False)
            text = ", ".join(f"KEY {self.sql(key)} VALUE {self.sql(value)}" for key, value in members)
            return f"{name.upper()}({text}{nulls})"
        text = ", ".join(self.sql(argument) for argument in arguments) + nulls
        if name.upper() in calls.WITHOUT_PARENTHESES and not arguments:
            return name.upper()
        plain = printed(name) == name and name.upper() not in HeadraceTokenizer.KEYWORDS
        return f"{name.upper() if plain else quote(name)}({text})"

    def trim_sql(self, expression: exp.Trim) -> str:
        this, what, position = expression.this, expression.expression, expression.args.get("position")
        if position or what:
            words = (position, self.sql(what) if what else "", "FROM", self.sql(this))
            return f"TRIM({' '.join(word for word in words if word)})"
        return f"TRIM({self.sql(this)})"

    def extract_sql(self, expression: exp.Extract) -> str:
        return f"EXTRACT({self.sql(expression, 'this')} FROM {self.sql(expression, 'expression')})"

    def interval_sql(self, expression: exp.Interval) -> str:
        return f"INTERVAL {self.sql(expression, 'this')} {self.sql(expression, 'unit')}"

    def exists_sql(self, expression: exp.Exists) -> str:
        return f"EXISTS {self.sql(expression, 'this')}"

    def not_sql(self, expression: exp.Not) -> str:
        """Return `a NOT LIKE b` instead of `NOT a LIKE b`, which would read differently as an operand."""
        return self._predicate(expression.this, negated=True) or f"NOT {self.sql(expression, 'this')}"

    def like_sql(self, expression: exp.Like) -> str:
        return self._predicate(expression)

    def similarto_sql(self, expression: exp.SimilarTo) -> str:
        return self._predicate(expression)

    def escape_sql(self, expression: exp.Escape) -> str:
        return self._predicate(expression)

    def is_sql(self, expression: exp.Is) -> str:
        return self._predicate(expression)

    def in_sql(self, expression: exp.In) -> str:
        return self._predicate(expression)

    def between_sql(self, expression: exp.Between) -> str:
        return self._predicate(expression)

    def _predicate(self, node: exp.Expr, *, negated: bool = False) -> str:
        """Return a predicate with its NOT inside; empty for other nodes."""
        word = "NOT " if negated else ""
        if isinstance(node, exp.Escape):
            return f"{self._predicate(node.this, negated=negated)} ESCAPE {self.sql(node, 'expression')}"
        if not isinstance(node, exp.Is | exp.Like | exp.SimilarTo | exp.In | exp.Between):
            return ""
        this = self.sql(node, "this")
        if isinstance(node, exp.Is):
            return f"{this} IS {word}{self.sql(node, 'expression')}"
        if isinstance(node, exp.Like | exp.SimilarTo):
            operator = "LIKE" if isinstance(node, exp.Like) else "SIMILAR TO"
            return f"{this} {word}{operator} {self.sql(node, 'expression')}"
        if isinstance(node, exp.In):
            query = self.sql(node, "query")
            return f"{this} {word}IN {query or '(' + self.expressions(node, flat=True) + ')'}"
        between = "BETWEEN SYMMETRIC" if node.args.get("symmetric") else "BETWEEN"
        return f"{this} {word}{between} {self.sql(node, 'low')} AND {self.sql(node, 'high')}"

    def maybe_comment(self, sql: str, *_arguments: Any, **_options: Any) -> str:
        return sql
