"""ORGANIZATION: update, rename, describe, list. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar
from headrace.sql.listing import STARTS

_NAME = "the name or the id of the organization"


@dataclass(frozen=True)
class UpdateOrganization(Statement):
    """`UPDATE ORGANIZATION name WITH ('key' = value [, …])`; the name may be the id."""

    name: Identifier
    properties: Properties

    def sql(self) -> str:
        return f"UPDATE ORGANIZATION {self.name}{self.properties.sql()}"


@grammar("UPDATE ORGANIZATION")
def update_organization(cursor: Cursor) -> UpdateOrganization:
    return UpdateOrganization(*cursor.origin, cursor.name_or_uuid(_NAME), cursor.changes())


@dataclass(frozen=True)
class RenameOrganization(Statement):
    """`ALTER ORGANIZATION name RENAME TO name`; the first may be the id."""

    name: Identifier
    new_name: Identifier

    def sql(self) -> str:
        return f"ALTER ORGANIZATION {self.name} RENAME TO {self.new_name}"


@grammar("ALTER ORGANIZATION")
def rename_organization(cursor: Cursor) -> RenameOrganization:
    name = cursor.name_or_uuid(_NAME)
    cursor.expect("RENAME", "TO", hint="UPDATE ORGANIZATION name WITH (…) changes its properties.")
    return RenameOrganization(*cursor.origin, name, cursor.identifier("the new name, of one part"))


@dataclass(frozen=True)
class DescribeOrganization(Statement):
    """`DESCRIBE ORGANIZATION [name]`; the name may be the id."""

    name: Identifier | None = None

    def sql(self) -> str:
        return f"DESCRIBE ORGANIZATION {self.name}" if self.name else "DESCRIBE ORGANIZATION"


@grammar("DESCRIBE ORGANIZATION")
def describe_organization(cursor: Cursor) -> DescribeOrganization:
    named = cursor.token is not None and not any(map(cursor.at, STARTS))
    return DescribeOrganization(*cursor.origin, cursor.name_or_uuid(_NAME) if named else None)


@dataclass(frozen=True)
class ListOrganizations(Statement):
    """`LIST ORGANIZATIONS`."""

    def sql(self) -> str:
        return "LIST ORGANIZATIONS"


@grammar("LIST ORGANIZATIONS")
def list_organizations(cursor: Cursor) -> ListOrganizations:
    return ListOrganizations(*cursor.origin)
