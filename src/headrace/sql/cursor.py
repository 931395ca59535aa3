"""Reading a statement token by token: words, names, values and the clauses that many statements share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from headrace.core.errors import Span, UserError
from headrace.core.idioms import Place, Remedy, remedy
from headrace.core.names import Identifier, QualifiedName, quote
from headrace.core.signature import Signature
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType, parse_type
from headrace.sql.ast import Properties, Property
from headrace.sql.expectations import Slot
from headrace.sql.lexer import Source, folded, is_word
from headrace.sql.limits import DURATION_MAX_MS, LIST_MAX, too_long_time, too_many_items

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])")
UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_SHOWN_LENGTH = 40


class Cursor:
    """A position in the tokens of one statement. Methods named `accept…` may find nothing; the others raise 42601."""

    def __init__(self, source: Source, tokens: Sequence[Token], index: int = 0) -> None:
        self.source = source
        self.tokens = tokens
        self.index = index
        self._first = index

    # -- where we are

    @property
    def token(self) -> Token | None:
        """The next token, or None at the end of the statement."""
        return self.peek()

    def peek(self, ahead: int = 0) -> Token | None:
        """Return the token `ahead` of the next one, or None beyond the end."""
        index = self.index + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    @property
    def origin(self) -> tuple[Span, str]:
        """Place and text of the statement that this cursor was made for: the first two fields of a `Statement`."""
        start, end = self.tokens[self._first].start, self.tokens[-1].end + 1
        return self.source.span(start, end), self.source.text[start:end]

    def span_from(self, index: int) -> Span:
        """Return the span from the token at `index` to the one before the next."""
        return self.source.span(self.tokens[index].start, self.tokens[max(index, self.index - 1)].end + 1)

    def nested(self) -> Cursor:
        """Return a cursor for the statement that begins at the next token."""
        return Cursor(self.source, self.tokens, self.index)

    def without(self, count: int) -> Cursor:
        """Return a cursor at the same place of the statement without its next `count` tokens."""
        tokens = [*self.tokens[: self.index], *self.tokens[self.index + count :]]
        other = Cursor(self.source, tokens, self._first)
        other.index = self.index
        return other

    # -- errors

    def error(self, expected: str, *, hint: Remedy | str | None = None) -> UserError:
        """Return error 42601 at the next token: `expected …, found …`."""
        return self.error_at(f"expected {expected}, found {self.token_description()}", hint=hint)

    def error_at(
        self,
        message: str,
        *,
        state: SqlState = SqlState.SYNTAX_ERROR,
        hint: Remedy | str | None = None,
        words: int = 1,
    ) -> UserError:
        """Return an error at the next `words` tokens."""
        if self.token is None:
            end = self.tokens[-1].end + 1 if self.tokens else len(self.source.text)
            return UserError(state, message, hint=hint, span=self.source.span(end, end))
        last = self.peek(words - 1) or self.tokens[-1]
        return UserError(state, message, hint=hint, span=self.source.span(self.token.start, last.end + 1))

    def unsupported(self, what: str, *, hint: Remedy | str | None = None, words: int = 1) -> UserError:
        """Return error 0A000 `… is not supported yet` at the next `words` tokens."""
        message = f"{what} is not supported yet"
        return self.error_at(message, state=SqlState.FEATURE_NOT_SUPPORTED, hint=hint, words=words)

    def token_description(self) -> str:
        """Return the next token as an error message names it; never the content of a string, which may be a password."""
        if self.token is None:
            return "the end of the statement"
        if self.token.token_type in (TokenType.STRING, TokenType.NATIONAL_STRING):
            return "a string"
        text = self.source.text[self.token.start : self.token.end + 1]
        if len(text) > _SHOWN_LENGTH:
            text = text[:_SHOWN_LENGTH] + "…"
        return text if self.token.token_type is TokenType.IDENTIFIER else repr(text)

    # -- words and symbols

    def at(self, *words: str, certain: bool = False) -> bool:
        """True when the next tokens are these words or symbols; `certain` if the grammar accepts them, rather than refuses them."""
        for ahead, word in enumerate(words):
            if not self._is(ahead, word):
                expectations = self.source.expectations
                if expectations is not None and self.index + ahead == len(self.tokens):
                    expectations.add_words(words[ahead:], certain=certain)
                return False
        return True

    def accept(self, *words: str) -> bool:
        """Step over these words or symbols if they are next, and return whether they were."""
        if not self.at(*words, certain=True):
            return False
        self.index += len(words)
        return True

    def expect(self, *words: str, hint: Remedy | str | None = None) -> None:
        """Step over these words or symbols; raises UserError 42601 if they are not next."""
        for word in words:
            if not self.accept(word):
                raise self.error(word if word.isalpha() else f"{word!r}", hint=hint)

    def accept_any(self, *words: str) -> str | None:
        """Step over the first of `words` that is next, and return it."""
        return next((word for word in words if self.accept(word)), None)

    def finish(self, expected: str = "the end of the statement") -> None:
        """Check that nothing follows."""
        if self.token is not None:
            raise self.error(expected)

    def word(self) -> str | None:
        """Return the next token in upper case if it is an unquoted word; does not step over it."""
        return folded(self.token) if self.token is not None and is_word(self.token) else None

    def _expects(self, slot: Slot, what: str = "") -> None:
        """Record what is accepted here, if the tokens end here."""
        if self.source.expectations is not None and self.token is None:
            self.source.expectations.add_slot(slot, what)

    def _is(self, ahead: int, word: str) -> bool:
        token = self.peek(ahead)
        if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return False
        return folded(token) == word

    # -- names

    def accept_identifier(self) -> Identifier | None:
        """Parse a name if one is next: quoted as written, or a word in lower case."""
        token = self.token
        if token is None:
            return None
        if token.token_type is TokenType.IDENTIFIER:
            name = token.text
        elif is_word(token):
            name = token.text.lower()
        else:
            return None
        self.index += 1
        return Identifier(name, self.source.span(token.start, token.end + 1))

    def identifier(self, what: str = "a name") -> Identifier:
        """Parse a name; `what` describes it in errors."""
        self._expects(Slot.NAME, what)
        hint = None
        if self.token is not None and self.token.token_type is TokenType.STRING:
            hint = "Use single quotes for a string, and double quotes or none for a name."
        name = self.accept_identifier()
        if name is None:
            raise self.error(what, hint=hint)
        return name

    def qualified_name(self, what: str = "a name", most: int = 3) -> QualifiedName:
        """Parse a dotted name of at most `most` parts."""
        parts = [self.identifier(what)]
        while self.accept("."):
            parts.append(self.identifier(f"the next part of {what} after '.'"))
        name = QualifiedName(tuple(parts))
        if len(parts) > most:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"expected {what} of at most {most} parts, found {len(parts)}: {name}",
                hint='Put a part that contains dots in double quotes: "a.b".',
                span=name.span,
            )
        return name

    def query_reference(self) -> QualifiedName:
        """Parse a query's id, bare or quoted, its name, or the name of the relation that it writes."""
        start = self.index
        if self.token is not None and self.token.token_type is TokenType.STRING:
            return QualifiedName((Identifier(self.string(), self.span_from(start)),))
        first = self.name_or_uuid("the id or the name of a query, or of the relation that it writes")
        if not self.accept("."):
            return QualifiedName((first,))
        rest = self.qualified_name("the rest of the relation's name", 2)
        return QualifiedName((first, *rest.parts))

    def name_or_uuid(self, what: str) -> Identifier:
        """Parse a name or a bare UUID, which would otherwise read as numbers and words."""
        match = _UUID.match(self.source.text, self.token.start) if self.token is not None else None
        if match is None:
            return self.identifier(what)
        while self.token is not None and self.token.start < match.end():
            self.index += 1
        return Identifier(match.group().lower(), self.source.span(*match.span()))

    def signature(self) -> Signature:
        """Parse a function's name, with the types of its arguments in brackets, each behind a parameter's name."""
        start = self.index
        name = self.identifier("the name of a function").name
        if not self.accept("("):
            return Signature(name, self.span_from(start))
        types: list[DataType] = []
        while not self.accept(")"):
            if types:
                self.expect(",")
            following = self.peek(1)
            if following is not None and (is_word(following) and following.text.upper() != "WITH"):
                self.identifier("the name of a parameter")
            types.append(self.data_type())
        return Signature(name, self.span_from(start), types=tuple(types))

    def if_not_exists(self) -> bool:
        """Step over `IF NOT EXISTS` if it is next, and return whether it was."""
        if self.accept("IF", "NOT", "EXISTS"):
            return True
        following = self.peek(1)
        if self.word() == "IF" and following is not None and folded(following) == "NOT":
            self.expect("IF", "NOT", "EXISTS")
        return False

    # -- values

    def cascade(self) -> bool:
        """Parse the end of a DROP; True if it is CASCADE. RESTRICT is the default."""
        return self.accept_any("CASCADE", "RESTRICT") == "CASCADE"

    def string(self, what: str = "a string") -> str:
        """Parse a string literal."""
        token = self.token
        if token is None or token.token_type is not TokenType.STRING:
            raise self.error(what, hint="Use single quotes for a string: 'text'.")
        self.index += 1
        return token.text

    def whole_number(self, what: str) -> int:
        """Parse a number in decimal digits."""
        token = self.token
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            raise self.error(f"{what}, a whole number")
        self.index += 1
        return int(token.text)

    def changes(self) -> Properties:
        """Parse `WITH ( 'key' = value [, …] )`, in which a NULL removes the property."""
        properties = self.properties(removable=True)
        if not properties:
            raise self.error(
                "WITH ( 'key' = value [, …] )", hint="Use NULL as the value to remove a property."
            )
        return properties

    def properties(self, *, removable: bool = False) -> Properties:
        """Parse `WITH ( 'key' [= value] [, …] )` if it is next; empty otherwise. `removable`: NULL is not a text."""
        if not self.at("WITH", "(", certain=True):
            return Properties()
        self.index += 2
        entries: dict[str, Property] = {}
        while True:
            entry = self._property(removable)
            if entry.key in entries:
                raise UserError(
                    SqlState.SYNTAX_ERROR,
                    f"the property '{entry.key}' is specified twice",
                    hint="Keep one of them.",
                    span=entry.span,
                )
            if len(entries) == LIST_MAX:
                raise too_many_items(entry.span)
            entries[entry.key] = entry
            if self.accept(")"):
                return Properties(tuple(entries.values()))
            if not self.accept(","):
                raise self.error("',' or ')' after a property")

    def _property(self, removable: bool) -> Property:
        self._expects(Slot.PROPERTY)
        start = self.index
        token = self.token
        if token is None or token.token_type is not TokenType.STRING:
            hint: Remedy | str | None = None
            if token is not None and (is_word(token) or token.token_type is TokenType.IDENTIFIER):
                hint = remedy(Place.PROPERTY, token.text) or f"Write '{token.text}' = value."
            raise self.error("a property name in single quotes", hint=hint)
        self.index += 1
        value, removed, secret = None, False, False
        if self.accept("="):
            removed = removable and self.accept("NULL")
            following = self.peek(1)
            secret = self.at("SECRET") and following is not None and following.text not in (",", ")")
            if secret:
                self.index += 1
                value = self.identifier("the name of a secret").name
            else:
                value = None if removed else self._property_value()
        return Property(token.text, value, self.span_from(start), removed, secret)

    def _property_value(self) -> str:
        if not self.accept("("):
            return self._single_value()
        names = [self._single_value()]
        while self.accept(","):
            names.append(self._single_value())
        self.expect(")")
        return ",".join(names)

    def _single_value(self) -> str:
        self._expects(Slot.VALUE)
        token = self.token
        if token is not None and token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            self.index += 1
            return (
                token.text + self._further_parts() if token.token_type is TokenType.IDENTIFIER else token.text
            )
        sign = self.accept_any("-", "+") or ""
        token = self.token
        if token is not None and token.token_type is TokenType.NUMBER:
            self.index += 1
            return ("-" if sign == "-" else "") + token.text
        if token is None or sign or not is_word(token):
            raise self.error("a property value: 'text', a number, TRUE, FALSE or a word")
        self.index += 1
        return token.text + self._further_parts()

    def _further_parts(self) -> str:
        """Parse the rest of a name of several parts, such as `descriptor_source."Message"`; return it without quotes, in its own case."""
        parts = ""
        while self.accept("."):
            token = self.token
            if token is None or not (is_word(token) or token.token_type is TokenType.IDENTIFIER):
                raise self.error("a further part of the name")
            parts += f".{token.text}"
            self.index += 1
        return parts

    def duration(self, what: str = "a time span") -> int:
        """Parse `n unit` and return milliseconds; n is a positive whole number."""
        token = self.token
        start = self.index
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            raise self.error(f"{what} such as 5 MINUTES")
        if not token.text.strip("0"):
            raise self.error(f"{what} longer than zero")
        self.index += 1
        if self.token is None and self.source.expectations is not None:
            for known in UNIT_MS:
                self.source.expectations.add_words((known + "S",), certain=True)
        unit = self.word() or ""
        size = UNIT_MS.get(unit.removesuffix("S"))
        if size is None:
            raise self.error(f"a time unit, one of {', '.join(UNIT_MS)}")
        self.index += 1
        if len(token.text) > 18 or int(token.text) * size > DURATION_MAX_MS:
            raise too_long_time(DURATION_MAX_MS, self.span_from(start))
        return int(token.text) * size

    def data_type(self) -> DataType:
        """Parse a data type, nested ones included."""
        self._expects(Slot.TYPE)
        start = self.index
        word = self.word()
        if word is None:
            raise self.error("a data type")
        self.index += 1
        if self.at("("):
            self._skip_nested("(", ")")
        elif self.at("<"):
            self._skip_nested("<", ">")
        if self.at("WITH", "LOCAL", "TIME", "ZONE"):
            self.index += 4
        elif self.at("WITHOUT", "TIME", "ZONE"):
            self.index += 3
        elif word == "DOUBLE":
            self.accept("PRECISION")
        text = " ".join(self._type_text(token) for token in self.tokens[start : self.index])
        return parse_type(text, span=self.span_from(start))

    def _skip_nested(self, opening: str, closing: str) -> None:
        depth = 0
        while self.token is not None:
            depth += self.at(opening)
            depth -= self.at(closing)
            self.index += 1
            if depth == 0:
                return
        raise self.error(f"{closing!r} in the data type")

    def _type_text(self, token: Token) -> str:
        if token.token_type is TokenType.IDENTIFIER:
            return quote(token.text)
        return quote(token.text.lower()) if is_word(token) and not token.text.isascii() else token.text
