"""Lists of kinds of objects that cannot be made yet: clients ask for them and take an error for a broken server."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

KINDS = ("FUNCTIONS", "FUNCTION_SOURCES")


@dataclass(frozen=True)
class ListNothing(Statement):
    """`LIST kind`; `kind` is one of `KINDS`."""

    kind: str

    def sql(self) -> str:
        return f"LIST {self.kind}"


@grammar(*(f"LIST {kind}" for kind in KINDS))
def list_nothing(cursor: Cursor) -> ListNothing:
    return ListNothing(*cursor.origin, cursor.tokens[cursor.index - 1].text.upper())
