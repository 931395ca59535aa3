"""ROLE: create, drop, describe, list. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class CreateRole(Statement):
    """`CREATE ROLE [IF NOT EXISTS] name [WITH ( IN ROLE ( role [, …] ) )]`: the role inherits the privileges of `granted_roles`."""

    name: Identifier
    granted_roles: tuple[Identifier, ...] = ()
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        within = f" WITH (IN ROLE ({', '.join(map(str, self.granted_roles))}))" if self.granted_roles else ""
        return f"CREATE ROLE {exists}{self.name}{within}"


@grammar("CREATE ROLE")
def create_role(cursor: Cursor) -> CreateRole:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier("the name of the role")
    granted_roles: list[Identifier] = []
    if cursor.accept("WITH"):
        cursor.expect("(", "IN", "ROLE", "(")
        granted_roles.append(cursor.identifier("the name of a role"))
        while cursor.accept(","):
            granted_roles.append(cursor.identifier("the name of a role"))
        cursor.expect(")", ")")
    return CreateRole(*cursor.origin, name, tuple(granted_roles), if_not_exists)


@dataclass(frozen=True)
class DropRole(Statement):
    """`DROP ROLE name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DROP ROLE {self.name}"


@grammar("DROP ROLE")
def drop_role(cursor: Cursor) -> DropRole:
    return DropRole(*cursor.origin, cursor.identifier("the name of the role"))


@dataclass(frozen=True)
class DescribeRole(Statement):
    """`DESCRIBE ROLE name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE ROLE {self.name}"


@grammar("DESCRIBE ROLE")
def describe_role(cursor: Cursor) -> DescribeRole:
    return DescribeRole(*cursor.origin, cursor.identifier("the name of the role"))


@dataclass(frozen=True)
class ListRoles(Statement):
    """`LIST ROLES`."""

    def sql(self) -> str:
        return "LIST ROLES"


@grammar("LIST ROLES")
def list_roles(cursor: Cursor) -> ListRoles:
    return ListRoles(*cursor.origin)
