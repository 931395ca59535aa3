"""Identifiers and qualified names, with the dialect's case rule.

Rule (dialect section 2): an unquoted identifier folds to lower case; `"…"` and `` `…` `` keep case.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from headrace.core.errors import Span, UserError
from headrace.core.internal_columns import PREFIX, is_internal
from headrace.core.sqlstate import SqlState

NAME_LENGTH_MAX = 255
SYSTEM_DATABASE, SYSTEM_SCHEMA = "deltastream", "sys"
"""Where the system relations are."""
INFORMATION_SCHEMA = "information_schema"
"""A schema of every database."""
VIRTUAL_DATABASE = "virtual"
"""Where the virtual relations of an application are."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


EntityPath = tuple[str, ...]
"""Where an entity is in its store, outermost part first: ("topic",), ("schema", "table")."""


def path_text(path: EntityPath) -> str:
    """Return a path for display, with unquoted parts."""
    return ".".join(path)


def quote(name: str) -> str:
    """Return `name` as a double-quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def printed(name: str) -> str:
    """Return `name` as SQL: bare if the case rule preserves it, else in double quotes."""
    return name if _PLAIN.match(name) else quote(name)


def unseen_at(name: str) -> int | None:
    """Return the index of the first invisible character of `name`: NUL and other controls, zero-width ones, line separators, and those
    that change the direction of text. With them two different names may look equal."""
    if name.isascii() and name.isprintable():
        return None
    return next((index for index, char in enumerate(name) if unicodedata.category(char) in _UNSEEN), None)


def unseen_character(char: str, span: Span | None) -> UserError:
    """Return error 42601 for a name with such a character."""
    title = unicodedata.name(char, "a control character")
    return UserError(
        SqlState.SYNTAX_ERROR,
        f"expected a name of visible characters, found U+{ord(char):04X} ({title}) in it",
        hint="Remove the character from the name.",
        span=span,
    )


def reserved_name(name: str, span: Span | None) -> UserError:
    """Return 42601 for a name with the prefix of internal columns."""
    return UserError(
        SqlState.SYNTAX_ERROR,
        f"the name {printed(name)} starts with {PREFIX}, which is reserved for the columns of queries",
        hint="Choose another name.",
        span=span,
    )


@dataclass(frozen=True)
class Identifier:
    """A resolved part of a name, case already folded, with its position in the statement."""

    name: str
    span: Span | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise UserError(
                SqlState.SYNTAX_ERROR, "expected a name, found an empty identifier", span=self.span
            )
        if len(self.name) > NAME_LENGTH_MAX:
            raise UserError(
                SqlState.NAME_TOO_LONG,
                f"expected a name of at most {NAME_LENGTH_MAX} characters, found {len(self.name)}",
                span=self.span,
            )
        if is_internal(self.name):
            raise reserved_name(self.name, self.span)
        unseen = unseen_at(self.name)
        if unseen is not None:
            raise unseen_character(self.name[unseen], self.span)

    def __str__(self) -> str:
        return printed(self.name)


@dataclass(frozen=True)
class QualifiedName:
    """A dotted name of one to three parts as written: `relation`, `schema.relation`, `database.schema.relation`.

    Entities (store paths) use it too, with any number of parts.
    """

    parts: tuple[Identifier, ...]

    @property
    def path(self) -> EntityPath:
        """The name as the path of an entity."""
        return tuple(part.name for part in self.parts)

    @property
    def last(self) -> Identifier:
        """The final part."""
        return self.parts[-1]

    @property
    def span(self) -> Span | None:
        """The span from the first character of the first part to the last of the last."""
        first, last = self.parts[0].span, self.parts[-1].span
        if first is None or last is None:
            return None
        return Span(first.start, last.end, first.line, first.column)

    def __str__(self) -> str:
        return ".".join(str(part) for part in self.parts)


@dataclass(frozen=True, order=True)
class RelationName:
    """A fully resolved relation name."""

    database: str
    schema: str
    name: str

    @property
    def fqn(self) -> str:
        """Three double-quoted parts, as the system relations print it."""
        # Lists of ten thousand relations print it.
        plain = f'"{self.database}"."{self.schema}"."{self.name}"'
        return plain if plain.count('"') == 6 else ".".join(map(quote, self.path))

    @property
    def path(self) -> tuple[str, str, str]:
        """The parts, outermost first."""
        return (self.database, self.schema, self.name)

    def __str__(self) -> str:
        return ".".join(printed(part) for part in self.path)
