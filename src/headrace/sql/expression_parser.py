"""Parser of expressions: items of a select list, conditions, arguments.

The ladder of operators (OR … unary minus) is sqlglot's. What stands at its foot (names, calls, literals, types) is ours,
and so are the operators where sqlglot accepts what no engine of ours could run. `ast` describes the tree.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import Any, ClassVar, NoReturn, TypeVar, cast

from sqlglot import exp, parser
from sqlglot.parser import binary_range_parser
from sqlglot.tokenizer_core import Token, TokenType

from headrace.core.errors import UserError
from headrace.core.idioms import Place, Remedy, remedy
from headrace.core.names import Identifier, printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import NESTING_MAX
from headrace.sql import calls
from headrace.sql.ast import MatchSemantics, TypeName, span_of
from headrace.sql.cursor import Cursor
from headrace.sql.expectations import Slot
from headrace.sql.lexer import KEYWORDS, Source, folded, is_word
from headrace.sql.limits import LIST_MAX, too_many_items, too_nested

T = TypeVar("T")
_BYTES = re.compile(r"([0-9A-Fa-f]{2})*")
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\Z")
_TYPED_LITERALS = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIME")
_QUANTIFIERS = ("ALL", "ANY", "SOME")
_INSTEAD_OF_QUANTIFIERS = (
    "Write = ANY or <> ALL; or compare with the MIN or the MAX: x > (SELECT MAX(y) FROM …)."
)
_BITS: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "BITAND",
    exp.BitwiseOr: "BITOR",
    exp.BitwiseXor: "BITXOR",
    exp.BitwiseNot: "BITNOT",
    exp.BitwiseLeftShift: "SHIFTLEFT",
    exp.BitwiseRightShift: "SHIFTRIGHT",
}
"""Operators that are other spellings of functions."""
INTERVAL_UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
_WHOLE_EXAMPLE = "a whole number of up to 18 digits such as '5' after INTERVAL"
_DAY_TIME_EXAMPLE = "a time span such as '1 10:30:00.250' DAY TO SECOND or '10:30' HOUR TO MINUTE"
_DAY_TIME_MS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
# Keywords that may still be names of columns and relations where they stand alone.
_SOFT_KEYWORDS = frozenset(
    {
        TokenType.ESCAPE,
        TokenType.FILTER,
        TokenType.FULL,
        TokenType.INTERVAL,
        TokenType.LATERAL,
        TokenType.LEFT,
        TokenType.OFFSET,
        TokenType.OUTER,
        TokenType.OVER,
        TokenType.RANGE,
        TokenType.RIGHT,
        TokenType.ROWS,
    }
)
# Keywords that are never names without quotes; otherwise the clause after a missing name would be read as the name.
_NEVER_NAMES = frozenset(
    {
        TokenType.SELECT,
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.HAVING,
        TokenType.UNION,
        TokenType.LIMIT,
        TokenType.JOIN,
        TokenType.ON,
        TokenType.ALIAS,
        TokenType.AND,
        TokenType.OR,
        TokenType.WITH,
        TokenType.GROUP_BY,
        TokenType.ORDER_BY,
        TokenType.PARTITION_BY,
        TokenType.SIMILAR_TO,
    }
)
_LITERALS: dict[TokenType, Callable[[Token], exp.Expr]] = {
    TokenType.STRING: lambda token: exp.Literal.string(token.text),
    TokenType.NUMBER: lambda token: exp.Literal.number(token.text),
    TokenType.NULL: lambda _: exp.Null(),
    TokenType.TRUE: lambda _: exp.Boolean(this=True),
    TokenType.FALSE: lambda _: exp.Boolean(this=False),
}


_OPERANDS = (*_LITERALS, TokenType.CASE, TokenType.INTERVAL)
"""Kinds of tokens that only start an operand."""


def _day_time_ms(text: str, first: str, last: str) -> int | None:
    """Return the milliseconds of a text such as `1 10:30:00` with the fields from `first` to `last`; None if it is no such text.

    A whole number of a single unit is not read here.
    """
    fields = list(_DAY_TIME_MS)
    if first not in fields or last not in fields or fields.index(first) > fields.index(last):
        return None
    parts = fields[fields.index(first) : fields.index(last) + 1]
    if len(parts) == 1 and first != "SECOND":
        return None
    pattern = r"(-?)(\d{1,9})" + "".join(f"{' ' if at == 'HOUR' else ':'}(\\d{{1,2}})" for at in parts[1:])
    if last == "SECOND":
        pattern += r"\.(\d{1,3})" if len(parts) == 1 else r"(?:\.(\d{1,3}))?"
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        return None
    sign, *numbers = match.groups()
    fraction = (numbers.pop() or "0") if last == "SECOND" else "0"
    counts = [int(number) for number in numbers]
    if any(count > (23 if part == "HOUR" else 59) for part, count in zip(parts[1:], counts[1:], strict=True)):
        return None
    total = sum(count * _DAY_TIME_MS[part] for part, count in zip(parts, counts, strict=True))
    return (-1 if sign else 1) * (total + int(fraction.ljust(3, "0")))


def _balanced(node: exp.Expr | None, kind: type[exp.Connector]) -> exp.Expr | None:
    """Parse a chain of AND or OR into as few levels as possible: a walk recurses into each level."""
    terms: list[exp.Expr] = []
    rest = node
    while isinstance(rest, kind):
        terms.append(rest.expression)
        rest = rest.this
    if rest is None or len(terms) < 3:
        return node
    level = [rest, *reversed(terms)]
    while len(level) > 1:
        pairs = [
            kind(this=left, expression=right) for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = [*pairs, *level[2 * len(pairs) :]]
    return level[0]


def without_quantifier(node: exp.Expr) -> exp.Expr:
    """Return the IN that replaces `x = ANY (query)` and `x <> ALL (query)` in its tree; any other node as it is.

    Raises UserError 0A000 for ANY and ALL after other operators.
    """
    query = node.args.get("expression")
    if isinstance(node, exp.EQ) and isinstance(query, exp.Any):
        return node.replace(exp.In(this=node.this, query=query.this))
    if isinstance(node, exp.NEQ) and isinstance(query, exp.All):
        return node.replace(exp.Not(this=exp.In(this=node.this, query=query.this)))
    if isinstance(node, exp.Any | exp.All):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{type(node).__name__.upper()} (SELECT …) is not supported yet",
            hint=_INSTEAD_OF_QUANTIFIERS,
            span=span_of(node),
        )
    return node


def without_bit_operator(node: exp.Expr) -> exp.Expr:
    """Return the call that replaces an operator on bits in its tree; any other node as it is."""
    if type(node) not in _BITS:
        return node
    operands = [node.args[name] for name in ("this", "expression") if name in node.args]
    return node.replace(exp.Anonymous(this=_BITS[type(node)], expressions=operands))


class ExpressionParser(parser.Parser):
    """A strict form of sqlglot's parser. Its errors are UserErrors with a position in the text."""

    source: Source
    _nesting = 0

    ID_VAR_TOKENS: ClassVar[set[TokenType]] = {TokenType.VAR, *_SOFT_KEYWORDS}
    ALIAS_TOKENS: ClassVar[set[TokenType]] = {TokenType.VAR}
    TABLE_ALIAS_TOKENS: ClassVar[set[TokenType]] = {TokenType.VAR}
    FUNC_TOKENS: ClassVar[set[TokenType]] = {TokenType.VAR, TokenType.IDENTIFIER, *_SOFT_KEYWORDS}
    RANGE_PARSERS: ClassVar[dict[TokenType, Any]] = {
        TokenType.BETWEEN: lambda self, this: self._parse_between(this),
        TokenType.IN: lambda self, this: self._parse_in_list(this),
        TokenType.IS: lambda self, this: self._parse_is(this),
        TokenType.LIKE: binary_range_parser(exp.Like),
        TokenType.SIMILAR_TO: binary_range_parser(exp.SimilarTo),
    }
    JSON_OPERATORS: ClassVar[dict[TokenType, Any]] = {}
    BITWISE: ClassVar[dict[TokenType, Any]] = {
        TokenType.AMP: exp.BitwiseAnd,
        TokenType.PIPE: exp.BitwiseOr,
        TokenType.CARET: exp.BitwiseXor,
    }

    # -- errors

    @property
    def cursor(self) -> Cursor:
        """A cursor at the next token, for the clauses that queries share with statements."""
        return Cursor(self.source, self._tokens, self._index)

    def _read(self, read: Callable[[Cursor], T]) -> T:
        """Let a cursor read something and step over it."""
        cursor = self.cursor
        result = read(cursor)
        self._retreat(cursor.index)
        return result

    def _fail(self, expected: str, *, hint: Remedy | str | None = None) -> NoReturn:
        raise self.cursor.error(expected, hint=hint)

    def raise_error(self, message: str, *_arguments: Any, **_options: Any) -> None:
        """Raise sqlglot's own errors in our words."""
        if message.startswith("Required"):
            self._fail("an expression")
        expected = re.match(r"Expect(?:ed|ing) (.+)", message)
        if expected:
            self._fail(f"'{expected[1]}'" if len(expected[1]) == 1 else expected[1])
        raise self.cursor.error_at(message[:1].lower() + message[1:])

    def _require(self, node: exp.Expr | None, expected: str = "an expression") -> exp.Expr:
        if node is None:
            self._fail(expected)
        return node

    def _match(self, token_type: TokenType, advance: bool = True, expression: exp.Expr | None = None) -> bool:
        if not self._curr:
            self._record_kinds((token_type,))
        return super()._match(token_type, advance, expression)

    def _match_set(self, types: Collection[TokenType], advance: bool = True) -> bool:
        if not self._curr:
            self._record_kinds(types)
        return super()._match_set(types, advance)

    def _match_text_seq(self, *texts: str, advance: bool = True) -> bool:
        if not self._curr and self.source.expectations is not None:
            self.source.expectations.add_words(texts, certain=True)
        return super()._match_text_seq(*texts, advance=advance)

    def _record_kinds(self, kinds: Collection[TokenType]) -> None:
        """Record the keywords of these kinds of tokens as accepted at the end of the tokens."""
        expectations = self.source.expectations
        if expectations is None:
            return
        for word in filter(None, map(KEYWORDS.get, kinds)):
            expectations.add_words((word,), certain=True)

    def _expects(self, slot: Slot, what: str = "") -> None:
        """Record what is accepted here, if the tokens end here."""
        if not self._curr and self.source.expectations is not None:
            self.source.expectations.add_slot(slot, what)

    def _expect(self, kind: TokenType, expected: str, *, hint: Remedy | str | None = None) -> None:
        if not self._match(kind):
            self._fail(expected, hint=hint)

    @abstractmethod
    def _parse_query(self) -> exp.Query:
        """Parse a subquery."""

    # -- limits

    def _parse_unary(self) -> exp.Expr | None:
        # Whatever is in something else passes here on its way down: brackets, calls, CASE, NOT, a minus.
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise too_nested(self.source.span(self._curr.start, self._curr.end + 1))
        operand = super()._parse_unary()
        self._nesting -= 1
        return operand

    def _parse_conjunction(self) -> exp.Expr | None:
        return _balanced(super()._parse_conjunction(), exp.And)

    def _parse_disjunction(self) -> exp.Expr | None:
        return _balanced(super()._parse_disjunction(), exp.Or)

    # -- operators, where sqlglot is too lenient

    def _parse_csv(self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA) -> list[T]:
        first = parse_method()
        if first is None:
            return []
        items = [first]
        while self._match(sep):
            token = self._curr
            item = parse_method()
            if item is None:
                self._fail("an expression after ','")
            if len(items) == LIST_MAX:
                raise too_many_items(self.source.span(token.start, token.end + 1))
            items.append(item)
        return items

    def _parse_required_csv(
        self, parse_method: Callable[[], exp.Expr | None], expected: str = "an expression"
    ) -> list[exp.Expr]:
        items = self._parse_csv(parse_method)
        if not items:
            self._fail(expected)
        return items

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = True) -> exp.Expr | None:
        this = super()._parse_range(this, parse_is)
        cursor = self.cursor
        cursor.accept("NOT")
        word, following = cursor.word(), cursor.peek(1)
        if word is not None and following is not None and following.token_type is TokenType.STRING:
            hint = remedy(Place.OPERATOR, word)
            if hint is not None:
                raise cursor.error_at(f"{word} is not an operator of this language", hint=hint)
        return this

    def _negate_range(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return exp.Not(this=this) if this else this

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        word, after = self.cursor.word(), self._next.token_type
        symmetric = word == "SYMMETRIC" and after is not TokenType.AND
        if symmetric or (word == "ASYMMETRIC" and after is not TokenType.AND):
            self._advance()
        low = self._require(self._parse_bitwise())
        self._expect(TokenType.AND, "AND and the upper bound")
        high = self._require(self._parse_bitwise())
        return exp.Between(this=this, low=low, high=high, symmetric=symmetric or None)

    def _parse_in_list(self, this: exp.Expr | None) -> exp.In:
        self._expect(TokenType.L_PAREN, "'(' after IN")
        if self._match_set((TokenType.SELECT, TokenType.WITH), advance=False):
            membership = exp.In(this=this, query=exp.Subquery(this=self._parse_query()))
        else:
            membership = exp.In(this=this, expressions=self._parse_required_csv(self._parse_disjunction))
        self._expect(TokenType.R_PAREN, "',' or ')'")
        return membership

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        negated = self._match(TokenType.NOT)
        cursor = self.cursor
        if cursor.accept("DISTINCT", "FROM"):
            self._retreat(cursor.index)
            other = self._require(self._parse_bitwise())
            return (exp.NullSafeEQ if negated else exp.NullSafeNEQ)(this=this, expression=other)
        if self._match_set((TokenType.NULL, TokenType.TRUE, TokenType.FALSE), advance=False):
            right = self._parse_literal()
        elif cursor.at("UNKNOWN"):
            right = exp.Null().update_positions(self._curr)
            self._advance()
        elif cursor.at("JSON"):
            right = self._parse_json_kind()
        else:
            self._fail("NULL, TRUE, FALSE, UNKNOWN, JSON or DISTINCT FROM after IS")
        predicate: exp.Expr = exp.Is(this=this, expression=right)
        return exp.Not(this=predicate) if negated else predicate

    def _parse_json_kind(self) -> exp.Expr:
        """Parse `JSON [VALUE | SCALAR | ARRAY | OBJECT]`."""
        token = self._curr
        self._advance()
        kind = next((f" {word}" for word in ("SCALAR", "ARRAY", "OBJECT") if self.take(word)), "")
        if not kind:
            self.take("VALUE")
        return exp.Var(this=f"JSON{kind}").update_positions(token)

    # -- operands

    def _parse_type(self, *_arguments: Any, **_options: Any) -> exp.Expr | None:
        this = self._parse_operand()
        if this is None:
            return None
        while True:
            if self._match(TokenType.ARROW):
                token = self._curr
                if self._match(TokenType.STAR):
                    return exp.Dot(this=this, expression=exp.Star().update_positions(token))
                field = self._require(self._parse_id_var(any_token=True), "the name of a field after '->'")
                this = exp.Dot(this=this, expression=field)
            elif self._match(TokenType.L_BRACKET):
                key = self._require(self._parse_disjunction())
                self._expect(TokenType.R_BRACKET, "']'")
                this = exp.Bracket(this=this, expressions=[key])
            elif self._at_field():
                self._advance()
                token = self._curr
                if self._match(TokenType.STAR):
                    return exp.Dot(this=this, expression=exp.Star().update_positions(token))
                this = exp.Dot(this=this, expression=self._require(self._parse_id_var(any_token=True)))
            elif self._match(TokenType.DCOLON):
                this = exp.Cast(this=this, to=self.parse_type_name())
            else:
                return this

    def _at_field(self) -> bool:
        """True at the dot of `people[1].name` or `(person).name`: after a column, the dots are parts of its name."""
        following = self._next
        return self._curr.token_type is TokenType.DOT and (
            following.token_type in (TokenType.IDENTIFIER, TokenType.STAR) or is_word(following)
        )

    def _parse_operand(self) -> exp.Expr | None:
        token, following = self._curr, self._next.token_type
        kind, word = token.token_type, folded(token)
        if not token and self.source.expectations is not None:
            self._expects(Slot.EXPRESSION)
            self._record_kinds(_OPERANDS)
            self.source.expectations.add_words(("EXISTS",), certain=True)
            self.source.expectations.is_closed = True
        if word in _QUANTIFIERS and (
            self.cursor.at(word, "(", "SELECT") or self.cursor.at(word, "(", "WITH")
        ):
            self._advance(2)
            query = exp.Subquery(this=self._parse_query())
            self._expect(TokenType.R_PAREN, f"')' at the end of {word}")
            quantified = exp.All(this=query) if word == "ALL" else exp.Any(this=query)
            return quantified.update_positions(token)
        if kind in _LITERALS:
            return self._parse_literal()
        if kind is TokenType.DOT and following is TokenType.NUMBER and self._next.start == token.end + 1:
            self._advance(2)
            return exp.Literal.number(f"0.{self._prev.text}").update_positions(self._prev)
        if kind is TokenType.L_PAREN:
            return self._parse_paren()
        if kind is TokenType.CASE:
            self._advance()
            return self._parse_case()
        if kind is TokenType.INTERVAL and following in (TokenType.STRING, TokenType.NUMBER, TokenType.DASH):
            return self._parse_interval_literal()
        if kind is TokenType.VAR and following is TokenType.STRING and word in _TYPED_LITERALS:
            to = self.parse_type_name()
            return exp.Cast(this=self._parse_literal(), to=to)
        if word == "X" and following is TokenType.STRING and self._next.start == token.end + 1:
            return self._parse_bytes_literal()
        if kind is TokenType.VAR and following is TokenType.L_BRACKET and word in calls.CONSTRUCTORS:
            return calls.constructor(self)
        if kind is TokenType.VAR and following is TokenType.L_PAREN and word == "EXISTS":
            return self._parse_exists_query()
        if following is TokenType.L_PAREN and kind in self.FUNC_TOKENS:
            return self._parse_call()
        if kind is TokenType.VAR and word in ("RUNNING", "FINAL") and is_word(self._next):
            paren = self.cursor.peek(2)
            if paren is not None and paren.token_type is TokenType.L_PAREN:
                self._advance()
                call = self._parse_call()
                return MatchSemantics(this=call, final=word == "FINAL").update_positions(token)
        if kind is TokenType.VAR and word in calls.WITHOUT_PARENTHESES and following is not TokenType.DOT:
            self._advance()
            return exp.Anonymous(this=word.lower(), expressions=[]).update_positions(token)
        return self._parse_column()

    def _parse_literal(self) -> exp.Expr:
        token = self._curr
        if token.token_type is TokenType.NUMBER:
            glued = self._next.start == token.end + 1 and is_word(self._next)
            if glued or not _NUMBER.match(token.text):
                raise self.cursor.error_at(
                    f"expected a number, found {token.text + (self._next.text if glued else '')!r}"
                )
        literal = _LITERALS[token.token_type](token).update_positions(token)
        self._advance()
        return literal

    def _parse_bytes_literal(self) -> exp.Expr:
        """Parse X'0F', bytes in base 16."""
        token = self._curr
        self._advance()
        if not _BYTES.fullmatch(self._curr.text):
            raise self.cursor.error_at("expected pairs of hexadecimal digits", hint="Write X'0F'.")
        return exp.Anonymous(this="unhex", expressions=[self._parse_literal()]).update_positions(token)

    def _parse_column(self) -> exp.Expr | None:
        first = self._parse_id_var(any_token=False)
        if first is None:
            return None
        parts: list[exp.Expr] = [first]
        while self._match(TokenType.DOT):
            token = self._curr
            if self._match(TokenType.STAR):
                parts.append(exp.Star().update_positions(token))
                break
            parts.append(self._require(self._parse_id_var(any_token=True), "a name or * after '.'"))
        if len(parts) > 4:
            raise self.cursor.error_at(
                f"expected at most database.schema.relation.column, found {len(parts)} parts",
                hint="Write fields of a STRUCT as column->field.",
            )
        names: list[exp.Expr | None] = [*reversed(parts), None, None, None]
        return exp.Column(this=names[0], table=names[1], db=names[2], catalog=names[3])

    def _parse_paren(self) -> exp.Expr | None:
        self._advance()
        if self._match_set((TokenType.SELECT, TokenType.WITH), advance=False):
            this: exp.Expr = exp.Subquery(this=self._parse_query())
        else:
            items = self._parse_required_csv(self._parse_disjunction)
            this = exp.Paren(this=items[0]) if len(items) == 1 else exp.Tuple(expressions=items)
        self._expect(TokenType.R_PAREN, "',' or ')'" if isinstance(this, exp.Tuple) else "')'")
        if isinstance(this, exp.Tuple) and self.take("OVERLAPS"):
            return exp.Overlaps(this=this, expression=self._parse_period())
        return this

    def _parse_period(self) -> exp.Expr:
        """Parse the `(start, end)` after OVERLAPS."""
        cursor = self.cursor
        period = self._parse_paren() if cursor.at("(") else None
        if not isinstance(period, exp.Tuple):
            raise cursor.error("(start, end) after OVERLAPS")
        return period

    def _parse_exists_query(self) -> exp.Exists:
        token = self._curr
        self._advance(2)
        if self._curr.token_type not in (TokenType.SELECT, TokenType.WITH):
            self._fail("a query in EXISTS (…)")
        exists = exp.Exists(this=exp.Subquery(this=self._parse_query())).update_positions(token)
        self._expect(TokenType.R_PAREN, "')' at the end of EXISTS")
        return exists

    def _parse_case(self) -> exp.Expr | None:
        this = (
            None if self._match(TokenType.WHEN, advance=False) else self._require(self._parse_disjunction())
        )
        ifs: list[exp.Expr] = []
        while self._match(TokenType.WHEN):
            condition = self._require(self._parse_disjunction())
            self._expect(TokenType.THEN, "THEN")
            ifs.append(exp.If(this=condition, true=self._require(self._parse_disjunction())))
        if not ifs:
            self._fail("WHEN")
        default = self._require(self._parse_disjunction()) if self._match(TokenType.ELSE) else None
        self._expect(TokenType.END, "WHEN, ELSE or END")
        return exp.Case(this=this, ifs=ifs, default=default)

    def _parse_interval_literal(self) -> exp.Interval:
        token = self._curr
        self._advance()
        sign = "-" if self._match(TokenType.DASH) else ""
        number, unit = self._curr.text.strip(), self._next
        first = last = folded(unit).removesuffix("S") if is_word(unit) else ""
        to, end = self.cursor.peek(2), self.cursor.peek(3)
        if to is not None and end is not None and folded(to) == "TO":
            last = folded(end).removesuffix("S")
        milliseconds = _day_time_ms(number, first, last)
        if milliseconds is not None:
            number = str(milliseconds)
        elif first != last or not re.fullmatch(r"-?\d{1,18}", number, re.ASCII):
            self._fail(_DAY_TIME_EXAMPLE if first != last else _WHOLE_EXAMPLE)
        self._advance()
        if first not in INTERVAL_UNITS:
            self._fail(f"a time unit, one of {', '.join(INTERVAL_UNITS)}")
        self._advance(1 if first == last else 3)
        name = first if milliseconds is None else "MILLISECOND"
        if sign and number.startswith("-"):
            sign, number = "", number[1:]
        interval = exp.Interval(this=exp.Literal.string(sign + number), unit=exp.Var(this=name))
        interval.args["unit"].update_positions(unit)
        return interval.update_positions(token)

    def _parse_id_var(self, any_token: bool = True, tokens: Any = None) -> exp.Expr | None:
        token = self._curr
        if token.token_type is TokenType.IDENTIFIER:
            name = token.text
        elif token.token_type in (tokens or self.ID_VAR_TOKENS) or (
            any_token and is_word(token) and token.token_type not in _NEVER_NAMES
        ):
            name = token.text.lower()
        else:
            return None
        Identifier(name, self.source.span(token.start, token.end + 1))  # checks its length
        self._advance()
        return exp.Identifier(this=name, quoted=printed(name) != name).update_positions(token)

    # -- calls

    def _parse_call(self) -> exp.Expr | None:
        token = self._curr
        quoted = token.token_type is TokenType.IDENTIFIER
        name = token.text if quoted else token.text.lower()
        Identifier(name, self.source.span(token.start, token.end + 1))  # checks its length
        self._advance(2)
        special = None if quoted else calls.SPECIAL.get(name)
        call = special(self) if special else exp.Anonymous(this=name, expressions=self.parse_arguments())
        call.update_positions(token)
        self._expect(TokenType.R_PAREN, f"',' or ')' in the arguments of {name}")
        if not self._match_set((TokenType.OVER, TokenType.FILTER), advance=False):
            return call
        window = self._parse_window(call)
        # Without a parenthesis, FILTER is no part of the call, which comes back as it is.
        # `OVER w` is completed where WINDOW defines w.
        if window is not None and window.args.get("alias") and "order" in window.args:
            raise self.cursor.unsupported(
                "a window that extends a named window", hint="Write OVER (PARTITION BY … ORDER BY …)."
            )
        return window

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        if isinstance(this, exp.Window):  # sqlglot goes on, for Oracle's KEEP (…) OVER (…)
            self._fail("one OVER for each call", hint="Write a call for each window.")
        return super()._parse_window(this, alias)

    def parse_arguments(self) -> list[exp.Expr]:
        """Parse arguments up to the closing parenthesis: `*`, `DISTINCT a, b`, or expressions."""
        token = self._curr
        if self._match(TokenType.STAR):
            return [exp.Star().update_positions(token)]
        if self._match(TokenType.DISTINCT):
            return [exp.Distinct(expressions=self._parse_required_csv(self._parse_disjunction))]
        self._match(TokenType.ALL)
        return self._parse_csv(self._parse_disjunction)

    def parse_operand(self) -> exp.Expr:
        """Parse an expression without AND, OR and comparisons; for calls with a syntax of their own."""
        return self._require(self._parse_bitwise())

    def parse_condition(self) -> exp.Expr:
        """Parse an expression of any kind."""
        return self._require(self._parse_disjunction())

    def parse_type_name(self) -> TypeName:
        """Parse a data type."""
        token = self._curr
        kind = self._read(Cursor.data_type)
        return TypeName(this=str(kind)).update_positions(token)

    @property
    def next_token(self) -> Token:
        """The next token; falsy at the end."""
        return self._curr

    def take(self, *words: str) -> bool:
        """Step over these words if they are next, and return whether they were."""
        cursor = self.cursor
        accepted = cursor.accept(*words)
        self._retreat(cursor.index)
        return accepted

    def at(self, *words: str) -> bool:
        """True when the next tokens are these words or symbols, which start a clause of the language."""
        return self.cursor.at(*words, certain=True)

    def read(self, read: Callable[[Cursor], T]) -> T:
        """Let a cursor read something and step over it."""
        return self._read(read)

    def parse_name(self, what: str) -> exp.Identifier:
        """Parse a name; `what` describes it in errors."""
        self._expects(Slot.NAME, what)
        return cast(exp.Identifier, self._require(self._parse_id_var(any_token=True), what))

    def parse_order(self) -> exp.Order | None:
        """Parse ORDER BY and its keys, if it is next."""
        if not self._match(TokenType.ORDER_BY, advance=False):
            return None
        return cast(exp.Order, self._parse_order())

    def fail(self, expected: str, *, hint: str | None = None) -> NoReturn:
        """Raise 42601 at the next token."""
        self._fail(expected, hint=hint)
