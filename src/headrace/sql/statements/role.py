"""ROLE: list. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class ListRoles(Statement):
    """`LIST ROLES`."""

    def sql(self) -> str:
        return "LIST ROLES"


@grammar("LIST ROLES")
def list_roles(cursor: Cursor) -> ListRoles:
    return ListRoles(*cursor.origin)
