"""ORGANIZATION: list. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class ListOrganizations(Statement):
    """`LIST ORGANIZATIONS`."""

    def sql(self) -> str:
        return "LIST ORGANIZATIONS"


@grammar("LIST ORGANIZATIONS")
def list_organizations(cursor: Cursor) -> ListOrganizations:
    return ListOrganizations(*cursor.origin)
