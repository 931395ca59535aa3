"""`MATCH_RECOGNIZE ( … )`: the clauses between its brackets, in the order in which SQL has them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import NESTING_MAX
from headrace.sql.ast import MatchRecognize, PatternGroup, PatternSubset, PatternVariable
from headrace.sql.cursor import UNIT_MS, Cursor
from headrace.sql.expression_parser import ExpressionParser
from headrace.sql.limits import LIST_MAX, too_many_items, too_nested

ROWS_MAX = 1_000_000
"""Rows that a quantifier with numbers may ask for."""
_PERMUTED_MAX = 8
_ARRANGED_MAX = 5
"""Parts of a PERMUTE, if each is a variable or a sequence of variables, and else, when each of 120 orders is tried in turn."""
_ONCE = {"least": 1, "most": 1, "greedy": True}
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
    if parser.take("MEASURES"):
        node.set("measures", _listed(parser, _measure))
    _rows_per_match(parser, node)
    if not node.args.get("measures") and not node.args.get("all_rows"):
        parser.fail("MEASURES expression AS name", hint="They are the columns of a match.")
    _skip(parser, node)
    _expect(
        parser,
        "PATTERN",
        hint="After MEASURES come [ONE ROW | ALL ROWS PER MATCH] [AFTER MATCH SKIP …] PATTERN (…).",
    )
    _expect(parser, "(")
    node.set("pattern", _whole_pattern(parser))
    if parser.take("WITHIN"):
        node.set("within_ms", _within(parser))
    if parser.take("SUBSET"):
        node.set("subsets", _listed(parser, _subset))
    if parser.take("DEFINE"):
        node.set("define", _listed(parser, _definition))
    _expect(
        parser,
        ")",
        hint="The clauses are PARTITION BY, ORDER BY, MEASURES, AFTER MATCH, PATTERN, WITHIN, SUBSET, DEFINE, in this order.",
    )
    return node


def _expect(parser: ExpressionParser, word: str, *, hint: str | None = None) -> None:
    if not parser.take(word):
        parser.fail(f"{word} in MATCH_RECOGNIZE" if word.isalpha() else f"'{word}'", hint=hint)


def _rows_per_match(parser: ExpressionParser, node: MatchRecognize) -> None:
    if not (all_rows := parser.take("ALL")) and not parser.take("ONE"):
        return
    for word in ("ROWS" if all_rows else "ROW", "PER", "MATCH"):
        _expect(parser, word)
    node.set("all_rows", all_rows or None)
    if all_rows and parser.at("WITH", "UNMATCHED", "ROWS"):
        raise parser.cursor.unsupported(
            "WITH UNMATCHED ROWS",
            hint="LEFT JOIN the stream with the rows of the matches, and keep the rows without a match.",
            words=3,
        )
    # No match is empty, so both words ask for the same rows.
    if all_rows and (parser.take("SHOW") or parser.take("OMIT")):
        for word in ("EMPTY", "MATCHES"):
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


def _whole_pattern(parser: ExpressionParser) -> list[exp.Expr]:
    """Parse a PATTERN up to its closing parenthesis, as the items of a sequence."""
    limit = _Limit(parser)
    branches = [_sequence(parser, limit)]
    while parser.take("|"):
        branches.append(_sequence(parser, limit))
    if not parser.take(")"):
        parser.fail("a variable of the pattern, or ')'")
    return branches[0] if len(branches) == 1 else [_alternation(branches)]


class _Limit:
    """Counter of a pattern's variables and of its open groups."""

    def __init__(self, parser: ExpressionParser) -> None:
        self._parser = parser
        self._variables = 0
        self._depth = 0

    def count(self) -> None:
        """Count a variable; raises UserError 53000 for too many."""
        if self._variables == LIST_MAX:
            raise _too_many(self._parser)
        self._variables += 1

    def descend(self, by: int) -> None:
        """Enter (1) or leave (-1) a group; raises UserError 53000 for too many open ones."""
        self._depth += by
        if self._depth > NESTING_MAX // 2:
            token = self._parser.next_token
            raise too_nested(self._parser.source.span(token.start, token.end + 1))


def _sequence(parser: ExpressionParser, limit: _Limit) -> list[exp.Expr]:
    """Parse one or more items that follow each other, up to a symbol that ends them."""
    items: list[exp.Expr] = []
    while not any(parser.at(*end) for end in ((")",), ("|",), (",",), ("-", "}"))):
        items.append(_quantified(parser, _primary(parser, limit)))
    if not items:
        parser.fail("a variable of the pattern")
    return items


def _primary(parser: ExpressionParser, limit: _Limit) -> exp.Expr:
    if parser.at("^") or parser.at("$"):
        raise parser.cursor.unsupported(
            "an anchor in a PATTERN",
            hint="A stream has no last row; compare PREV(x) with NULL for the first.",
        )
    place = parser.next_token
    if parser.take("{", "-"):
        branches = _branches(parser, limit, "|", ("-", "}"))
        items = branches[0] if len(branches) == 1 else [_alternation(branches)]
        return PatternGroup(kind="EXCLUSION", expressions=items).update_positions(place)
    if parser.take("PERMUTE", "("):
        parts = [_one(items) for items in _branches(parser, limit, ",", (")",))]
        _check_permuted(parts, parser.source.span(place.start, place.end + 1))
        return PatternGroup(kind="PERMUTATION", expressions=parts).update_positions(place)
    if parser.take("("):
        branches = _branches(parser, limit, "|", (")",))
        if len(branches) > 1:
            return _alternation(branches).update_positions(place)
        return PatternGroup(kind="SEQUENCE", expressions=branches[0]).update_positions(place)
    limit.count()
    return PatternVariable(this=parser.parse_name("a variable of the pattern, or ')'"))


def _branches(
    parser: ExpressionParser, limit: _Limit, separator: str, end: tuple[str, ...]
) -> list[list[exp.Expr]]:
    """Parse sequences with a separator between them, and the symbols that end them."""
    limit.descend(1)
    branches = [_sequence(parser, limit)]
    while parser.take(separator):
        branches.append(_sequence(parser, limit))
    if not parser.take(*end):
        parser.fail(f"a variable of the pattern, '{separator}' or '{''.join(end)}'")
    limit.descend(-1)
    return branches


def _check_permuted(parts: list[exp.Expr], span: Span) -> None:
    most = _PERMUTED_MAX if all(map(_is_plain, parts)) else _ARRANGED_MAX
    if len(parts) > most:
        kind = "parts" if most == _PERMUTED_MAX else "parts, where some have quantifiers or alternatives,"
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"expected at most {most} {kind} in PERMUTE, found {len(parts)}",
            span=span,
        )


def _is_plain(part: exp.Expr) -> bool:
    """True if a part is a sequence of variables, which matches rows in one way only."""
    once = (part.args["least"], part.args.get("most")) == (1, 1)
    kinds = ("SEQUENCE", "EXCLUSION")
    is_sequence = isinstance(part, PatternVariable) or part.args["kind"] in kinds
    return once and is_sequence and all(map(_is_plain, part.expressions))


def _one(items: list[exp.Expr]) -> exp.Expr:
    return items[0] if len(items) == 1 else PatternGroup(kind="SEQUENCE", expressions=items, **_ONCE)


def _alternation(branches: list[list[exp.Expr]]) -> PatternGroup:
    return PatternGroup(kind="ALTERNATION", expressions=[_one(items) for items in branches], **_ONCE)


def _quantified(parser: ExpressionParser, item: exp.Expr) -> exp.Expr:
    least, most = _quantifier(parser)
    item.set("least", least)
    item.set("most", most)
    item.set("greedy", not ((least, most) != (1, 1) and parser.take("?")))
    return item


def _quantifier(parser: ExpressionParser) -> tuple[int, int | None]:
    """Return the least and the greatest number of rows; None: any number."""
    if parser.take("+"):
        return 1, None
    if parser.take("*"):
        return 0, None
    if parser.take("?"):
        return 0, 1
    return parser.read(_numbers) if not parser.at("{", "-") and parser.take("{") else (1, 1)


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


def _subset(parser: ExpressionParser) -> exp.Expr:
    name = parser.parse_name("a name for several variables")
    _expect(parser, "=")
    _expect(parser, "(")
    members = _listed(parser, lambda parser: parser.parse_name("a variable of the pattern"))
    _expect(parser, ")")
    return PatternSubset(this=name, expressions=members)


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
