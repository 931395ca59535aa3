"""`MATCH_RECOGNIZE ( … )`: the clauses between its brackets, in the order in which SQL has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sqlglot import exp

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import MatchRecognize, PatternVariable
from headrace.sql.cursor import UNIT_MS, Cursor
from headrace.sql.expression_parser import ExpressionParser
from headrace.sql.limits import LIST_MAX, too_many_items

ROWS_MAX = 1_000_000
"""Rows that a quantifier with numbers may ask for."""
_SKIPS = ("TO NEXT ROW", "PAST LAST ROW", "TO FIRST variable", "TO LAST variable")


def match_recognize(parser: ExpressionParser, rows: exp.Expr) -> MatchRecognize:
    """Parse MATCH_RECOGNIZE over `rows`; raises UserError 42601, and 0A000 for standard SQL that is not supported."""
    node = MatchRecognize(this=rows).update_positions(parser.next_token)
    parser.take("MATCH_RECOGNIZE")
    _expect(parser, "(")
    if parser.take("PARTITION BY"):
        node.set("partition_by", _listed(parser, ExpressionParser.parse_condition))
    order = parser.parse_order()
    if order is None:
        parser.fail(
            "ORDER BY and the event time", hint="Write ORDER BY and the relation's 'timestamp' column."
        )
    node.set("order", order)
    if not parser.take("MEASURES"):
        parser.fail("MEASURES expression AS name", hint="They are the columns of a match.")
    node.set("measures", _listed(parser, _measure))
    _rows_per_match(parser)
    _skip(parser, node)
    if parser.at("SUBSET"):
        raise parser.cursor.unsupported("SUBSET", hint="Name the variables one by one.")
    _expect(
        parser, "PATTERN", hint="After MEASURES come [ONE ROW PER MATCH] [AFTER MATCH SKIP …] PATTERN (…)."
    )
    _expect(parser, "(")
    node.set("pattern", _pattern(parser))
    if parser.take("WITHIN"):
        node.set("within_ms", _within(parser))
    if parser.at("SUBSET"):
        raise parser.cursor.unsupported("SUBSET", hint="Name the variables one by one.")
    if parser.take("DEFINE"):
        node.set("define", _listed(parser, _definition))
    _expect(
        parser,
        ")",
        hint="The clauses are PARTITION BY, ORDER BY, MEASURES, AFTER MATCH, PATTERN, DEFINE, in this order.",
    )
    return node


def _expect(parser: ExpressionParser, word: str, *, hint: str | None = None) -> None:
    if not parser.take(word):
        parser.fail(f"{word} in MATCH_RECOGNIZE" if word.isalpha() else f"'{word}'", hint=hint)


def _rows_per_match(parser: ExpressionParser) -> None:
    if parser.at("ALL", "ROWS"):
        raise parser.cursor.unsupported("ALL ROWS PER MATCH", hint="A match is one row: ONE ROW PER MATCH.")
    if parser.take("ONE"):
        for word in ("ROW", "PER", "MATCH"):
            _expect(parser, word)


def _skip(parser: ExpressionParser, node: MatchRecognize) -> None:
    if not parser.take("AFTER"):
        return
    for word in ("MATCH", "SKIP"):
        _expect(parser, word)
    if parser.take("PAST", "LAST", "ROW"):
        node.set("skip", "PAST LAST ROW")
    elif parser.take("TO", "NEXT", "ROW"):
        node.set("skip", "TO NEXT ROW")
    elif parser.take("TO"):
        which = "FIRST" if parser.take("FIRST") else "LAST"
        parser.take("LAST")
        node.set("skip", f"TO {which}")
        node.set("skip_to", parser.parse_name("a variable of the pattern"))
    else:
        parser.fail(f"one of {', '.join(_SKIPS)} after SKIP")


def _pattern(parser: ExpressionParser) -> list[PatternVariable]:
    variables: list[PatternVariable] = []
    while not parser.take(")"):
        if parser.at("|") or parser.at("PERMUTE", "("):
            _unsupported(parser, "an alternative in a PATTERN")
        if parser.at("(") or parser.at("{", "-") or parser.at("^") or parser.at("$"):
            _unsupported(parser, "a group in a PATTERN")
        if len(variables) == LIST_MAX:
            raise _too_many(parser)
        name = parser.parse_name("a variable of the pattern, or ')'")
        least, most = _quantifier(parser)
        quantified = (least, most) != (1, 1)
        greedy = not (quantified and parser.take("?"))
        variables.append(PatternVariable(this=name, least=least, most=most, greedy=greedy))
    if not variables:
        parser.fail("a variable of the pattern")
    return variables


def _unsupported(parser: ExpressionParser, what: str) -> NoReturn:
    raise parser.cursor.unsupported(
        what, hint="A pattern is a sequence of variables, each with +, *, ? or {n,m}."
    )


def _quantifier(parser: ExpressionParser) -> tuple[int, int | None]:
    """Return the least and the greatest number of rows; None: any number."""
    if parser.take("+"):
        return 1, None
    if parser.take("*"):
        return 0, None
    if parser.take("?"):
        return 0, 1
    return parser.read(_numbers) if parser.take("{") else (1, 1)


def _numbers(cursor: Cursor) -> tuple[int, int | None]:
    """Parse a quantifier after `{`: `n}`, `n,}`, `n,m}` or `,m}`."""
    start = cursor.index
    least = 0 if cursor.at(",") else cursor.whole_number("the number of rows")
    most: int | None = least
    if cursor.accept(","):
        most = None if cursor.at("}") else cursor.whole_number("the greatest number of rows")
    span = cursor.span_from(start)
    if not cursor.accept("}"):
        raise cursor.error("'}'")
    if (most is not None and (most < least or most == 0)) or max(least, most or 0) > ROWS_MAX:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"expected from 1 to {ROWS_MAX} rows, the smaller number first, found {{{least},{'' if most is None else most}}}",
            span=span,
        )
    return least, most


def _within(parser: ExpressionParser) -> int:
    """Parse `n unit`, or `INTERVAL 'n' unit`, as Flink writes it, and return milliseconds."""
    if not parser.at("INTERVAL"):
        return parser.read(Cursor.duration)
    place = parser.cursor
    interval = parser.parse_operand()
    count, unit = int(interval.this.name), str(interval.args["unit"])
    if unit not in UNIT_MS or count <= 0:
        raise place.error("a time span longer than zero, such as 5 MINUTES")
    return count * UNIT_MS[unit]


def _measure(parser: ExpressionParser) -> exp.Expr:
    expression = parser.parse_condition()
    if not parser.take("AS"):
        parser.fail("AS and the name of the measure", hint="Write LAST(a.price) AS price, for example.")
    return exp.Alias(this=expression, alias=parser.parse_name("the name of the measure"))


def _definition(parser: ExpressionParser) -> exp.Expr:
    name = parser.parse_name("a variable of the pattern")
    _expect(parser, "AS")
    return exp.Alias(this=parser.parse_condition(), alias=name)


def _listed(parser: ExpressionParser, read: Callable[[ExpressionParser], exp.Expr]) -> list[exp.Expr]:
    """Parse one or more items, separated by commas."""
    items = [read(parser)]
    while parser.take(","):
        if len(items) == LIST_MAX:
            raise _too_many(parser)
        items.append(read(parser))
    return items


def _too_many(parser: ExpressionParser) -> UserError:
    token = parser.next_token
    return too_many_items(parser.source.span(token.start, token.end + 1))
