"""USE and SET DEFAULT: the session's current names, and the initial names of a user's sessions. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import QualifiedName
from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

DEFAULTS = ("ROLE", "DATABASE", "SCHEMA", "STORE", "COMPUTE_POOL")
USABLE = ("ORGANIZATION", *DEFAULTS)


@dataclass(frozen=True)
class Use(Statement):
    """`USE kind name`; `kind` is one of `USABLE`, `name` has one part (two for a schema with its database)."""

    kind: str
    name: QualifiedName

    def sql(self) -> str:
        return f"USE {self.kind} {self.name}"


@grammar(*(f"USE {kind}" for kind in USABLE))
def use(cursor: Cursor) -> Use:
    kind = cursor.tokens[cursor.index - 1].text.upper()
    if kind == "ORGANIZATION":
        name = cursor.name_or_uuid("the name or the id of the organization")
        return Use(*cursor.origin, kind, QualifiedName((name,)))
    return Use(*cursor.origin, kind, _name(cursor, kind))


@dataclass(frozen=True)
class SetDefault(Statement):
    """`SET DEFAULT kind name`; `name` has one part, or two for a schema with its database."""

    kind: str
    name: QualifiedName

    def sql(self) -> str:
        return f"SET DEFAULT {self.kind} {self.name}"


@grammar(*(f"SET DEFAULT {kind}" for kind in DEFAULTS))
def set_default(cursor: Cursor) -> SetDefault:
    kind = cursor.tokens[cursor.index - 1].text.upper()
    return SetDefault(*cursor.origin, kind, _name(cursor, kind))


def _name(cursor: Cursor, kind: str) -> QualifiedName:
    return cursor.qualified_name(f"the name of the {kind.lower()}", 2 if kind == "SCHEMA" else 1)
