"""Lexer: tokens with their positions, quotes, and the ends of statements.

sqlglot's tokenizer does the cutting; here it gets the dialect's few keywords and loses what other dialects need (hints,
templates, commands that swallow their line). `tokens` then corrects positions (line and column of the *first* character)
and joins the two-word keywords, so that a comment between the words does no harm.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import ClassVar

from sqlglot import tokens as sqlglot_tokens
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headrace.core.errors import Span, UserError
from headrace.core.idioms import Place, Remedy, remedy
from headrace.core.internal_columns import is_internal
from headrace.core.names import reserved_name, unseen_at, unseen_character
from headrace.core.sqlstate import SqlState
from headrace.sql.expectations import Expectations
from headrace.sql.limits import NUMBER_CHARACTERS_MAX, TOKENS_MAX, too_long_number, too_long_text
from headrace.sql.splitting import PIECE

_WORD = re.compile(r"[^\W\d][\w$]*\Z")
_WORD_PAIRS = {
    ("GROUP", "BY"): TokenType.GROUP_BY,
    ("ORDER", "BY"): TokenType.ORDER_BY,
    ("PARTITION", "BY"): TokenType.PARTITION_BY,
    ("SIMILAR", "TO"): TokenType.SIMILAR_TO,
}
_NEVER_WORDS = frozenset(
    {TokenType.STRING, TokenType.IDENTIFIER, TokenType.NATIONAL_STRING, TokenType.SENTINEL}
)


class HeadraceTokenizer(sqlglot_tokens.Tokenizer):
    """The dialect's quotes, comments, symbols and keywords. A word that is not here is an ordinary name."""

    IDENTIFIERS = ['"', "`"]  # noqa: RUF012
    QUOTES = ["'"]  # noqa: RUF012
    STRING_ESCAPES = ["'"]  # noqa: RUF012 - not the backslash
    COMMENTS = ["--", ("/*", "*/")]  # noqa: RUF012
    NESTED_COMMENTS = False
    COMMANDS: ClassVar[set[TokenType]] = set()
    HINT_START = ""
    SINGLE_TOKENS = {  # noqa: RUF012
        "(": TokenType.L_PAREN,
        ")": TokenType.R_PAREN,
        "[": TokenType.L_BRACKET,
        "]": TokenType.R_BRACKET,
        ",": TokenType.COMMA,
        ".": TokenType.DOT,
        "-": TokenType.DASH,
        "=": TokenType.EQ,
        ">": TokenType.GT,
        "<": TokenType.LT,
        "%": TokenType.MOD,
        "+": TokenType.PLUS,
        ";": TokenType.SEMICOLON,
        "/": TokenType.SLASH,
        "*": TokenType.STAR,
        "&": TokenType.AMP,
        "|": TokenType.PIPE,
        "^": TokenType.CARET,
        "~": TokenType.TILDE,
        # These end a word; alone they are refused by `tokens`.
        **dict.fromkeys("'\"`!@#$?:{}\\", TokenType.UNKNOWN),
    }
    KEYWORDS = {  # noqa: RUF012
        "||": TokenType.DPIPE,
        ">=": TokenType.GTE,
        "<=": TokenType.LTE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "->": TokenType.ARROW,
        "::": TokenType.DCOLON,
        "ALL": TokenType.ALL,
        "AND": TokenType.AND,
        "AS": TokenType.ALIAS,
        "ASC": TokenType.ASC,
        "BETWEEN": TokenType.BETWEEN,
        "CASE": TokenType.CASE,
        "CROSS": TokenType.CROSS,
        "DESC": TokenType.DESC,
        "DISTINCT": TokenType.DISTINCT,
        "ELSE": TokenType.ELSE,
        "END": TokenType.END,
        "ESCAPE": TokenType.ESCAPE,
        "EXCEPT": TokenType.EXCEPT,
        "FALSE": TokenType.FALSE,
        "FILTER": TokenType.FILTER,
        "FROM": TokenType.FROM,
        "FULL": TokenType.FULL,
        "HAVING": TokenType.HAVING,
        "IN": TokenType.IN,
        "INNER": TokenType.INNER,
        "INTERSECT": TokenType.INTERSECT,
        "INTERVAL": TokenType.INTERVAL,
        "IS": TokenType.IS,
        "JOIN": TokenType.JOIN,
        "LATERAL": TokenType.LATERAL,
        "LEFT": TokenType.LEFT,
        "LIKE": TokenType.LIKE,
        "LIMIT": TokenType.LIMIT,
        "NOT": TokenType.NOT,
        "NULL": TokenType.NULL,
        "OFFSET": TokenType.OFFSET,
        "ON": TokenType.ON,
        "OR": TokenType.OR,
        "OUTER": TokenType.OUTER,
        "OVER": TokenType.OVER,
        "RANGE": TokenType.RANGE,
        "RIGHT": TokenType.RIGHT,
        "ROWS": TokenType.ROWS,
        "SELECT": TokenType.SELECT,
        "THEN": TokenType.THEN,
        "TRUE": TokenType.TRUE,
        "UNION": TokenType.UNION,
        "UNNEST": TokenType.UNNEST,
        "USING": TokenType.USING,
        "WHEN": TokenType.WHEN,
        "WHERE": TokenType.WHERE,
        "WITH": TokenType.WITH,
    }


KEYWORDS = {
    **{kind: word for word, kind in HeadraceTokenizer.KEYWORDS.items() if word.isalpha()},
    **{kind: " ".join(pair) for pair, kind in _WORD_PAIRS.items()},
}
"""The keyword of each kind of token that has one."""


class Source:
    """A text and its lines; turns offsets into spans. With `expectations`, its parsers record what they accept where the tokens end."""

    def __init__(self, text: str, expectations: Expectations | None = None) -> None:
        self.text = text
        self.expectations = expectations
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> Span:
        """Return the place from `start` up to `end`, offsets from 0."""
        line = bisect_right(self._starts, start)
        return Span(start, end, line, start - self._starts[line - 1] + 1)


def folded(token: Token) -> str:
    """Return a word in the form for comparing keywords. Non-ASCII letters that upper-case to ASCII (ſ → S) never form a keyword."""
    return token.text.upper() if token.text.isascii() else token.text


def is_word(token: Token) -> bool:
    """True for unquoted words, keywords or not."""
    return token.token_type not in _NEVER_WORDS and _WORD.match(token.text) is not None


_QUANTIFIERS = ("?", "{", "}", "$")
"""Characters with a meaning in a PATTERN only. The last one is refused there by name."""


def tokens(source: Source, begin: int = 0, end: int | None = None) -> list[Token]:
    """Return the tokens of the whole text, or of a part of it, semicolons included, comments dropped.

    Raises UserError 42601 for an unclosed string, name or comment and for characters that the dialect does not know.
    """
    end = len(source.text) if end is None else end
    _check_closed(source, begin, end)
    try:
        lexed = HeadraceTokenizer().tokenize(_quoted(source.text[begin:end]))
    except TokenError as error:
        place = begin + (error.start or 0), begin + (error.end or 0)
        raise _error(source, "cannot read this text", *place) from None
    if len(lexed) > TOKENS_MAX:
        extra = lexed[TOKENS_MAX]
        raise too_long_text(len(lexed), source.span(begin + extra.start, begin + extra.end + 1))
    placed: list[Token] = []
    pattern = 0
    for token in lexed:
        pair, last = _pair(placed, token), begin + token.end
        if pair is not None:
            first = placed.pop()
            text, start, kind = f"{first.text} {token.text}".upper(), first.start, pair
        else:
            text, start, kind = token.text, begin + token.start, token.token_type
            if kind is TokenType.STRING and source.text.startswith("$$", start):
                text = source.text[start + 2 : last - 1]
            if not text.isascii() and text.upper() in HeadraceTokenizer.KEYWORDS and kind not in _NEVER_WORDS:
                kind = TokenType.VAR
        span = source.span(start, last + 1)
        placed.append(Token(kind, text, span.line, span.column, start, last))
        pattern = _depth_in_pattern(placed, pattern)
        if not (pattern and token.text in _QUANTIFIERS):
            _check_token(source, placed[-1])
    return placed


def _quoted(text: str) -> str:
    """Return a text with a string of the same length in place of each `$$ … $$`, which the tokenizer does not know."""
    if "$$" not in text:
        return text
    pieces = ((match.lastgroup, match.group()) for match in PIECE.finditer(text))
    return "".join(f"'{'x' * (len(piece) - 2)}'" if kind == "dollars" else piece for kind, piece in pieces)


def _check_closed(source: Source, begin: int, end: int) -> None:
    for match in PIECE.finditer(source.text, begin, end):
        text = match.group()
        what = None
        if match.lastgroup == "unclosed":
            what, closing = "comment", "*/"
        elif match.lastgroup == "string" and text.count("'") % 2:
            what, closing = "string", "'"
        elif match.lastgroup == "dollars" and (len(text) < 4 or not text.endswith("$$")):
            what, closing = "text", "$$"
        elif match.lastgroup == "quoted" and text.count(text[0]) % 2:
            what, closing = "quoted name", text[0]
        if what is not None:
            raise _error(
                source,
                f"expected {closing} at the end of the {what} that starts here, found the end of the text",
                match.start(),
                match.start() + (2 if what == "comment" else 1),
            )


def _pair(placed: list[Token], token: Token) -> TokenType | None:
    if token.token_type is not TokenType.VAR or not placed or placed[-1].token_type is not TokenType.VAR:
        return None
    return _WORD_PAIRS.get((folded(placed[-1]), folded(token)))


def _depth_in_pattern(placed: list[Token], depth: int) -> int:
    """Return how many brackets are open, counted from that of a PATTERN, after the last of the tokens."""
    kind = placed[-1].token_type
    if kind is TokenType.L_PAREN:
        begins = (
            len(placed) > 1 and placed[-2].token_type is TokenType.VAR and folded(placed[-2]) == "PATTERN"
        )
        return depth + 1 if depth or begins else 0
    return depth - 1 if depth and kind is TokenType.R_PAREN else depth


def _check_token(source: Source, token: Token) -> None:
    if token.token_type is TokenType.IDENTIFIER:
        unseen = unseen_at(source.text[token.start : token.end + 1])
        if unseen is not None:
            place = token.start + unseen
            raise unseen_character(source.text[place], source.span(place, place + 1))
    if token.token_type in (TokenType.IDENTIFIER, TokenType.VAR) and is_internal(token.text):
        raise reserved_name(token.text, source.span(token.start, token.end + 1))
    if token.token_type is TokenType.NUMBER and len(token.text) > NUMBER_CHARACTERS_MAX:
        raise too_long_number(len(token.text), source.span(token.start, token.end + 1))
    if token.token_type is TokenType.UNKNOWN or (
        token.token_type is TokenType.VAR and not _WORD.match(token.text)
    ):
        bad = next((i for i, char in enumerate(token.text) if not (char.isalnum() or char in "_$")), 0)
        start = token.start + bad
        raise _error(
            source,
            f"unexpected character {token.text[bad]!r}",
            start,
            start + 1,
            hint=remedy(Place.CHARACTER, source.text[start])
            or 'Put names with special characters in double quotes: "my-name".',
        )


def _error(
    source: Source, message: str, start: int, end: int, *, hint: Remedy | str | None = None
) -> UserError:
    return UserError(SqlState.SYNTAX_ERROR, message, hint=hint, span=source.span(start, end))
