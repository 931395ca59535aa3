"""The properties of WITH (…). Each is declared once as a `PropertySpec`, and `PropertyReader` reads them.

Whoever knows what a property means declares it: the dialect's own are in `analyzer.properties`, a store type's in its folder. From the
declarations follow what is read and refused, what is masked, and the tables of the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any, Generic, Protocol, TypeVar

from headrace.core.errors import InternalError, Span, UserError
from headrace.core.idioms import Place, Remedy, remedy
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import nearest

T = TypeVar("T")

MASKED = "****"
MILLISECONDS_MAX = 2**53
COUNT_MAX = 10_000


class Scope(Flag):
    """Statements and clauses that accept a property; many properties have several."""

    STORE = auto()
    """CREATE STORE."""
    ENTITY = auto()
    """CREATE ENTITY."""
    RELATION = auto()
    """CREATE STREAM and CREATE CHANGELOG over an entity."""
    SOURCE = auto()
    """A relation in FROM."""
    TABLE = auto()
    """A TABLE in FROM."""
    SINK = auto()
    """CREATE STREAM … AS and CREATE CHANGELOG … AS."""
    INSERT = auto()
    """INSERT INTO."""
    VIEW = auto()
    """CREATE MATERIALIZED VIEW … AS."""
    QUERY = auto()
    """QUERY WITH."""
    SECRET = auto()
    """CREATE SECRET."""
    PRINT = auto()
    """PRINT ENTITY."""
    OPTIMIZE = auto()
    """OPTIMIZE ENTITY."""
    RECORD = auto()
    """INSERT INTO ENTITY."""
    REGISTRY = auto()
    """CREATE SCHEMA_REGISTRY."""
    DESCRIPTORS = auto()
    """CREATE DESCRIPTOR_SOURCE."""
    FUNCTIONS = auto()
    """CREATE FUNCTION_SOURCE."""
    FUNCTION = auto()
    """CREATE FUNCTION."""
    ORGANIZATION = auto()
    """UPDATE ORGANIZATION."""
    TOKEN = auto()
    """CREATE API_TOKEN."""
    INVITATION = auto()
    """INVITE USER."""
    POOL = auto()
    """CREATE COMPUTE_POOL."""
    SAVEPOINT = auto()
    """CREATE SAVEPOINT."""
    ALERT = auto()
    """CREATE ALERT."""


@dataclass(frozen=True)
class PropertyType(Generic[T]):
    """Parser of a property's text.

    `read` raises ValueError for a text that is none of the type. Its error is then that the property "must be `expected`", or,
    where that is empty, the ValueError's own words. `alone` is what a property says that stands without a value. `words` are all values
    of a type that has only a few.
    """

    expected: str
    read: Callable[[str], T]
    alone: str | None = None
    words: tuple[str, ...] = ()


def choice(*words: str, fold: Callable[[str], str] = str.lower) -> PropertyType[str]:
    """Return a type of several words, in any case."""

    def read(text: str) -> str:
        if fold(text) not in words:
            raise ValueError(text)
        return fold(text)

    return PropertyType(" or ".join(words), read, words=words)


def matching(pattern: str, expected: str) -> PropertyType[str]:
    """Return a type of texts that match a pattern as a whole, of ASCII letters and digits; surrounding blanks are ignored."""

    def read(text: str) -> str:
        if not re.fullmatch(pattern, text.strip(), re.ASCII):
            raise ValueError(text)
        return text.strip()

    return PropertyType(expected, read)


def number(least: int, most: int, expected: str) -> PropertyType[int]:
    """Return a whole number in decimal digits."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise ValueError(text)
        return int(text)

    return PropertyType(expected, read)


def _is_line(text: str) -> bool:
    return not any(ord(character) < 0x20 or ord(character) == 0x7F for character in text)


def _line(text: str) -> str:
    if not _is_line(text):
        raise ValueError(text)
    return text


def _login(text: str) -> str:
    if ":" in text:
        raise ValueError(text)
    return _line(text)


TEXT = PropertyType("a text", str)
LINE = PropertyType("a text without control characters", _line)
"""What reaches a client's library: one written in C ends a text at its first NUL."""
LOGIN = PropertyType("a name without ':' and control characters", _login)
"""Who asks over HTTP, where a colon ends the name and begins the password."""
BOOLEAN = PropertyType(
    "true or false", lambda text: choice("true", "false").read(text) == "true", words=("true", "false")
)
FLAG = PropertyType("true or false", BOOLEAN.read, alone="true", words=("true", "false"))
MILLISECONDS = number(0, MILLISECONDS_MAX, f"milliseconds, 0 to {MILLISECONDS_MAX}")
NAMES = PropertyType("names", lambda text: tuple(part.strip().strip('"') for part in text.split(",")))
COUNT = number(1, COUNT_MAX, f"a whole number from 1 to {COUNT_MAX}")


@dataclass(frozen=True)
class PropertySpec(Generic[T]):
    """A property: its name, its type, its scope, a phrase for the documentation, and one for its default.

    A `secret` is masked wherever it is shown, in errors too. `synonyms` are other names of it, for which the documentation has no row
    of its own. The name of an `open` one ends with a dot and begins the names of several: they are taken together, by what follows it.
    The value of a `file` may be the name of one that is uploaded with the statement, and is then its text.
    """

    name: str
    type: PropertyType[T]
    scope: Scope
    doc: str
    default: str = ""
    secret: bool = False
    synonyms: tuple[str, ...] = ()
    open: bool = False
    file: bool = False

    def matches_name(self, name: str) -> bool:
        """True if a property of that name is this one, or one of this open property's."""
        if self.open:
            return name.startswith(self.name) and _is_line(name)
        return name in (self.name, *self.synonyms)


Specs = tuple[PropertySpec[Any], ...]


def of_scope(specs: Iterable[PropertySpec[Any]], scope: Scope) -> Specs:
    """Return the specs of properties that `scope` accepts."""
    return tuple(spec for spec in specs if spec.scope & scope)


class Entry(Protocol):
    """A property as it was written; see `sql.ast.Property`."""

    @property
    def key(self) -> str:
        """Its name."""

    @property
    def value(self) -> str | None:
        """The value; None if only the name is specified."""

    @property
    def names_secret(self) -> bool:
        """True if the value is the name of a secret."""

    @property
    def span(self) -> Span | None:
        """The position of the property in the statement; None if it is not part of a statement."""


@dataclass(frozen=True)
class Stored:
    """A stored property, which has no position in a statement."""

    key: str
    value: str | None = field(repr=False)
    span: Span | None = None
    names_secret: bool = False


def stored(texts: Mapping[str, str]) -> tuple[Stored, ...]:
    """Return stored properties in the form that a reader takes."""
    return tuple(Stored(key, value) for key, value in texts.items())


class PropertyReader:
    """Takes the properties of one WITH (…), each once.

    `specs` are those that may stand there, and `what` is what has them, for errors: "a source". What is not given is looked for in
    `defaults`, of which no more is read. `lacking` is where an error points to that says that a property is missing.

    Raises UserError 3D008 for the first that is none of `specs`, at its own place.
    """

    def __init__(
        self,
        given: Iterable[Entry],
        specs: Specs,
        *,
        what: str,
        defaults: Mapping[str, str] | None = None,
        lacking: Span | None = None,
    ) -> None:
        self._given = {entry.key: entry for entry in given}
        self._specs = specs
        self._what = what
        self._defaults = defaults or {}
        self._lacking = lacking
        for entry in self._given.values():
            if entry.names_secret:
                raise UserError(
                    SqlState.INVALID_PARAMETER,
                    f"the property '{entry.key}' does not accept a secret",
                    hint=(
                        "Only properties of stores and schema registries that contain a credential, such as "
                        "a password, accept SECRET name."
                    ),
                    span=entry.span,
                )
            if not any(spec.matches_name(entry.key) for spec in specs):
                raise UserError(
                    SqlState.INVALID_PARAMETER,
                    f"{what} has no property '{entry.key}'",
                    hint=self._known(entry.key),
                    span=entry.span,
                )
        self._left = set(self._given)

    def take(self, spec: PropertySpec[T]) -> T | None:
        """Return the value of a property; None if it is not specified. Raises UserError 3D008 at its position."""
        name = self._name(spec)
        entry = self._given.get(name) or self._default(name)
        self._left.discard(name)
        return None if entry is None else self._read(spec, entry)

    def require(self, spec: PropertySpec[T], *, hint: str | None = None) -> T:
        """Return the same as `take`. Raises UserError 3D021 if the property is not specified."""
        value = self.take(spec)
        if value is None:
            raise UserError(
                SqlState.MISSING_PARAMETER,
                f"{self._what} needs the property '{spec.name}'",
                hint=hint or f"It is {spec.doc}.",
                span=self._lacking,
            )
        return value

    def take_all(self, spec: PropertySpec[T]) -> dict[str, T]:
        """Return the values of an open property by the rest of their names."""
        values = {
            entry.key: entry
            for entry in (*stored(self._defaults), *self._given.values())
            if spec.matches_name(entry.key)
        }
        self._left -= values.keys()
        return {key.removeprefix(spec.name): self._read(spec, entry) for key, entry in values.items()}

    def leave(self, scope: Scope) -> None:
        """Ignore properties that another reader reads: all that `scope` accepts."""
        specs = of_scope(self._specs, scope)
        self._left -= {name for name in self._left if any(spec.matches_name(name) for spec in specs)}

    def finish(self) -> None:
        """Check, after all properties were taken, that each was read. Raises InternalError for a property that is allowed and that
        nothing reads."""
        if self._left:
            raise InternalError(f"unread properties of {self._what}: {', '.join(sorted(self._left))}")

    def is_set(self, spec: PropertySpec[Any]) -> bool:
        """True if the statement itself specifies the property."""
        return any(spec.matches_name(name) for name in self._given)

    def span(self, spec: PropertySpec[Any]) -> Span | None:
        """Return the property's position in the statement."""
        return next((entry.span for entry in self._given.values() if spec.matches_name(entry.key)), None)

    def bad(self, spec: PropertySpec[Any], expected: str) -> UserError:
        """Return error 3D008 for a value that is wrong in its context."""
        entry = self._given.get(self._name(spec)) or self._default(self._name(spec))
        return self._refusal(spec, entry or Stored(spec.name, None), f"must be {expected}")

    def _name(self, spec: PropertySpec[Any]) -> str:
        names = (spec.name, *spec.synonyms)
        given = (name for place in (self._given, self._defaults) for name in names if name in place)
        return next(given, spec.name)

    def _default(self, name: str) -> Entry | None:
        return Stored(name, self._defaults[name]) if name in self._defaults else None

    def _read(self, spec: PropertySpec[T], entry: Entry) -> T:
        text = spec.type.alone if entry.value is None else entry.value
        if text is None:
            raise self._refusal(spec, entry, "must be a value")
        try:
            return spec.type.read(text)
        except ValueError as error:
            if spec.type.expected or spec.secret:
                expected = spec.type.expected or "something else"
                raise self._refusal(spec, entry, f"must be {expected}") from None
            raise UserError(SqlState.INVALID_PARAMETER, f"'{entry.key}': {error}", span=entry.span) from None

    def _refusal(self, spec: PropertySpec[Any], entry: Entry, rule: str) -> UserError:
        received = "none" if entry.value is None else MASKED if spec.secret else repr(entry.value)
        return UserError(
            SqlState.INVALID_PARAMETER, f"'{entry.key}' {rule}, found {received}", span=entry.span
        )

    def _known(self, name: str) -> Remedy | str:
        names = [f"{spec.name}…" if spec.open else spec.name for spec in self._specs]
        others = [other for spec in self._specs for other in spec.synonyms]
        near = nearest(name, [*names, *others])
        # The error points at the whole property, so that a name alone would not be a replacement for it.
        known = f"The properties are {', '.join(names)}." if names else "It has no properties."
        suggested = f"Did you mean {' or '.join(near)}?" if near else known
        return remedy(Place.PROPERTY, name) or suggested


def value_of(given: Iterable[Entry], spec: PropertySpec[T]) -> T | None:
    """Return the value of a property, and ignore all others. Raises UserError 3D008 at its position."""
    entries = [entry for entry in given if spec.matches_name(entry.key)]
    return PropertyReader(entries, (spec,), what="a statement").take(spec)


def secret_values(properties: Mapping[str, str], specs: Specs) -> tuple[str, ...]:
    """Return the values of stored properties that must not be shown."""
    return tuple(text for spec in specs if spec.secret and (text := properties.get(spec.name)))


def masked(properties: Mapping[str, str], specs: Specs, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return stored properties as they may be shown: a property that names one of `secrets` shows its name."""
    hidden = {spec.name: MASKED for spec in specs if spec.secret}
    hidden |= {key: f"SECRET {name}" for key, name in secrets.items()}
    return {key: hidden.get(key, value) for key, value in properties.items()}
