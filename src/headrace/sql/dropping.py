"""`DROP … IF EXISTS`: over the DROP of any kind of object of the catalog. The words of DROP itself are with each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor


@dataclass(frozen=True)
class DropIfExists(Statement):
    """`DROP kind IF EXISTS …`; `drop` is the statement without these two words."""

    kind: str
    drop: Statement

    def sql(self) -> str:
        return f"DROP {self.kind} IF EXISTS {self.drop.sql().removeprefix(f'DROP {self.kind} ')}"


def drop_if_exists(cursor: Cursor, kind: str, grammar: Callable[[Cursor], Statement]) -> DropIfExists:
    """Parse a DROP from its IF EXISTS, where the cursor is, by the `grammar` of DROP `kind`; raises UserError 42601."""
    if kind == "ENTITY":
        raise cursor.unsupported("IF EXISTS of an entity", words=2)
    plain = cursor.without(2)
    dropped = grammar(plain)
    plain.finish()
    return DropIfExists(*cursor.origin, kind, dropped)
