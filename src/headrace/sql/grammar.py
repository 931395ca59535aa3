"""Leading words of statements, and `parse`.

Every statement's grammar function registers itself under its leading words; the longest match wins. Nothing else is a
statement: what the language has but we do not is answered with 0A000, the rest with 42601 and the nearest statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.core.errors import InternalError, UserError
from headrace.core.idioms import Place, Remedy, remedy
from headrace.core.suggestions import nearest
from headrace.sql import lexer, listing
from headrace.sql.ast import Properties, Select, Statement
from headrace.sql.catalogue import HINTS, NOT_SUPPORTED
from headrace.sql.cursor import Cursor
from headrace.sql.dialect import Headrace
from headrace.sql.dropping import drop_if_exists
from headrace.sql.expectations import Expectations
from headrace.sql.limits import TOKENS_MAX, too_long_text
from headrace.sql.query_parser import QueryParser
from headrace.sql.splitting import split

S = TypeVar("S", bound=Statement)
Words = tuple[str, ...]
Grammar = Callable[[Cursor], Statement]
GRAMMAR: dict[Words, Grammar] = {}
QUERY_STARTS = ("SELECT", "WITH", "(")
_UNSHOWN = ("(", "BEGIN", "WITH")
_SYNONYMS = {"SHOW": "LIST"}


def grammar(*starts: str) -> Callable[[Callable[[Cursor], S]], Callable[[Cursor], S]]:
    """Register a grammar function under leading words such as `"CREATE STORE"`.

    The function gets a cursor just after those words, whose `origin` is the statement's place and text. It reads the
    statement to its end; what it leaves over is an error.
    """

    def register(function: Callable[[Cursor], S]) -> Callable[[Cursor], S]:
        for start in starts:
            words = tuple(start.split())
            if words in GRAMMAR:
                raise InternalError(f"two grammars for {start}")
            GRAMMAR[words] = function
        return function

    return register


def parse(text: str) -> list[Statement]:
    """Parse the statements of `text`, in order; none for blanks and comments.

    Raises UserError 42601 (syntax) or 0A000 (known, not supported yet), with a span in `text`. Nothing is returned unless
    every statement reads.
    """
    source = lexer.Source(text)
    tokens = lexer.tokens(source)
    return [statement(Cursor(source, part)) for part in _parts(text, tokens)]


def parse_each(text: str) -> Iterator[Statement | UserError]:
    """Yield each statement of `text` in order, or its syntax error; lazily.

    A text of too many words and symbols ends with the error that says so.
    """
    source, words = lexer.Source(text), 0
    for start, end in split(text):
        try:
            tokens = lexer.tokens(source, start, end)
            words += len(tokens)
            if words > TOKENS_MAX:
                yield too_long_text(words, source.span(start, end))
                return
            yield statement(Cursor(source, tokens))
        except UserError as error:
            yield error


def expectations(text: str) -> Expectations:
    """Return what may follow `text`, the start of one statement, by its grammar. Empty if the text is wrong before its end.

    Raises UserError 42601 if the text cannot be split into tokens.
    """
    source = lexer.Source(text, Expectations())
    tokens = lexer.tokens(source)
    recorded = source.expectations or Expectations()
    with suppress(UserError):
        statement(Cursor(source, tokens))
        recorded.is_whole = True
    recorded.words = {
        phrase: True for phrase, certain in recorded.words.items() if certain or _continues(text, phrase)
    }
    return recorded


def _continues(text: str, phrase: str) -> bool:
    """True if the grammar accepts `phrase` after `text`: its error, if there is one, is behind the phrase."""
    source = lexer.Source(f"{text} {phrase}")
    try:
        statement(Cursor(source, lexer.tokens(source)))
    except UserError as error:
        return error.span is not None and error.span.start >= len(source.text)
    return True


def statement(cursor: Cursor) -> Statement:
    """Parse the statement at the cursor, up to the last token."""
    words = [
        _SYNONYMS.get(word, word) if index == 0 else word for index, word in enumerate(_leading_words(cursor))
    ]
    _record_starts(cursor, words)
    for length in range(len(words), 0, -1):
        rule = GRAMMAR.get(tuple(words[:length]))
        if rule is not None:
            cursor.index += length
            if words[0] == "DROP" and cursor.at("IF", "EXISTS"):
                return drop_if_exists(cursor, " ".join(words[1:length]), rule)
            result = rule(cursor)
            if words[0] in ("LIST", "DESCRIBE") and any(cursor.at(word) for word in listing.STARTS):
                return listing.filtered(cursor, result)
            cursor.finish()
            return result
    raise _unknown(cursor, words)


def accept_start(cursor: Cursor) -> Words | None:
    """Step over the leading words of a statement, and return them as the grammar spells them."""
    words = [_SYNONYMS.get(word, word) for word in _leading_words(cursor)]
    _record_starts(cursor, words)
    for length in range(len(words), 0, -1):
        leading = tuple(words[:length])
        if leading in GRAMMAR:
            cursor.index += length
            return leading
    return None


def select(cursor: Cursor) -> Select:
    """Parse a query with its trailing PARTITION BY and QUERY WITH (…)."""
    start = cursor.index
    if not any(cursor.at(word) for word in QUERY_STARTS):
        raise cursor.error("SELECT")
    parser = QueryParser(dialect=Headrace)
    expression, cursor.index = parser.parse_query(cursor.source, cursor.tokens, start)
    partition_by = []
    if cursor.accept("PARTITION BY"):
        partition_by.append(cursor.identifier("the name of an output column"))
        while cursor.accept(","):
            partition_by.append(cursor.identifier("the name of an output column"))
    query_properties = None
    if cursor.accept("QUERY"):
        query_properties = cursor.properties()
        if not query_properties:
            raise cursor.error("WITH ( 'key' = value ) after QUERY")
    return Select(expression, query_properties or Properties(), tuple(partition_by), cursor.span_from(start))


def call_of_values(cursor: Cursor) -> Select:
    """Parse the call of a function as a SELECT of its result."""
    start = cursor.index
    parser = QueryParser(dialect=Headrace)
    call, cursor.index = parser.parse_where(cursor.source, cursor.tokens, start)
    if not isinstance(call, exp.Anonymous):
        cursor.index = start
        raise cursor.error("the call of a function", hint="Write TEST FUNCTION name(value, …).")
    selected = exp.Select(expressions=[exp.alias_(call, "result")])
    return Select(selected, Properties(), (), cursor.span_from(start))


def row_of_values(cursor: Cursor) -> Select:
    """Parse a row of VALUES as a SELECT of its values."""
    start = cursor.index
    parser = QueryParser(dialect=Headrace)
    expression, cursor.index = parser.parse_row(cursor.source, cursor.tokens, start)
    return Select(expression, Properties(), (), cursor.span_from(start))


def _parts(text: str, tokens: list[Token]) -> Iterable[list[Token]]:
    first = 0
    for start, end in split(text):
        while tokens[first].start < start:
            first += 1
        last = first
        while last < len(tokens) and tokens[last].start < end:
            last += 1
        yield tokens[first:last]
        first = last


def _unknown(cursor: Cursor, words: list[str]) -> UserError:
    written = _leading_words(cursor)
    for length in range(len(words), 0, -1):
        start = " ".join(words[:length])
        if start in NOT_SUPPORTED:
            named = NOT_SUPPORTED[start] or " ".join(written[:length])
            return cursor.unsupported(named, hint=HINTS.get(start), words=length)
    known = sorted({" ".join(start) for start in GRAMMAR if start[-1] not in _UNSHOWN})
    first = words[0] if words else ""
    foreign = _foreign(cursor, words, known)
    if foreign is not None:
        return foreign
    same_verb = [start.partition(" ")[2] for start in known if start.startswith(first + " ")]
    if same_verb:
        cursor.index += 1
        hint = _object_hint(cursor, written[0], words[1:], same_verb)
        what = f"one of {', '.join(same_verb)}" if len(same_verb) > 1 else same_verb[0]
        return cursor.error(f"{what} after {written[0]}", hint=hint)
    return cursor.error("a statement", hint=_nearest(" ".join(words[:2]) or first, known, first))


def _foreign(cursor: Cursor, words: list[str], known: list[str]) -> UserError | None:
    """Return the error for a statement of another system. One word is enough where no statement of ours begins with it."""
    for length in range(len(words), 0, -1):
        start = " ".join(words[:length])
        if length == 1 and len(words) > 1 and any(ours.startswith(start + " ") for ours in known):
            continue
        hint = remedy(Place.STATEMENT, start)
        if hint is not None:
            # The user's own words: SHOW is read as LIST.
            written = " ".join(_leading_words(cursor)[:length])
            return cursor.error_at(f"{written} is not a statement of this language", hint=hint, words=length)
    return None


def _object_hint(cursor: Cursor, verb: str, words: list[str], objects: list[str]) -> Remedy | str | None:
    """Return the hint for a misspelt kind of object, or for a name without one."""
    for text in (" ".join(words[:2]), *words[:1]):
        close = nearest(text, objects, count=3)
        if close:
            return f"Did you mean {' or '.join(f'{verb} {kind}' for kind in close)}?"
    kind = objects[0] if len(objects) == 1 else "DATABASE" if verb == "USE" else "RELATION"
    if cursor.token is None or kind not in objects:
        return None
    try:
        name = cursor.nested().qualified_name("a name")
        if verb == "USE" and len(name.parts) == 2:
            kind = "SCHEMA"
        return f"Did you mean {verb} {kind} {name}?"
    except UserError:
        return None


def _nearest(text: str, known: list[str], *others: str) -> str:
    for candidate in (text, *others):
        close = nearest(candidate, known, count=3)
        if close:
            return f"Did you mean {' or '.join(close)}?"
    verbs = sorted({start.partition(" ")[0] for start in known})
    close = nearest(text.partition(" ")[0], verbs, count=1)
    return f"Did you mean {close[0]}?" if close else f"A statement starts with {', '.join(verbs)}."


def _record_starts(cursor: Cursor, words: list[str]) -> None:
    """Record how the leading words can continue, if the tokens end with them."""
    expectations, count = cursor.source.expectations, len(words)
    if expectations is None or cursor.index + count < len(cursor.tokens):
        return
    for start in GRAMMAR:
        if len(start) > count and list(start[:count]) == words:
            expectations.add_words(start[count:], certain=True)


def _leading_words(cursor: Cursor) -> list[str]:
    words: list[str] = []
    while len(words) < 5:
        token = cursor.peek(len(words))
        if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            break
        words.append(lexer.folded(token))
    return words
