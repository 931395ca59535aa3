"""USE: the session's current names. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import QualifiedName
from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

USABLE = ("ORGANIZATION", "ROLE", "DATABASE", "SCHEMA", "STORE", "COMPUTE_POOL")


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
    most = 2 if kind == "SCHEMA" else 1
    return Use(*cursor.origin, kind, cursor.qualified_name(f"the name of the {kind.lower()}", most))
