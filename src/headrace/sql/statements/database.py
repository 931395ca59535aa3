"""DATABASE: create, drop, describe, list. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class CreateDatabase(Statement):
    """`CREATE DATABASE [IF NOT EXISTS] name`."""

    name: Identifier
    if_not_exists: bool = False

    def sql(self) -> str:
        return f"CREATE DATABASE {'IF NOT EXISTS ' if self.if_not_exists else ''}{self.name}"


@grammar("CREATE DATABASE")
def create_database(cursor: Cursor) -> CreateDatabase:
    if_not_exists = cursor.if_not_exists()
    return CreateDatabase(*cursor.origin, cursor.identifier("the name of the database"), if_not_exists)


@dataclass(frozen=True)
class DropDatabase(Statement):
    """`DROP DATABASE name [CASCADE]`."""

    name: Identifier
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP DATABASE {self.name}{' CASCADE' if self.cascade else ''}"


@grammar("DROP DATABASE")
def drop_database(cursor: Cursor) -> DropDatabase:
    return DropDatabase(*cursor.origin, cursor.identifier("the name of the database"), cursor.cascade())


@dataclass(frozen=True)
class DescribeDatabase(Statement):
    """`DESCRIBE DATABASE name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE DATABASE {self.name}"


@grammar("DESCRIBE DATABASE")
def describe_database(cursor: Cursor) -> DescribeDatabase:
    return DescribeDatabase(*cursor.origin, cursor.identifier("the name of the database"))


@dataclass(frozen=True)
class ListDatabases(Statement):
    """`LIST DATABASES`."""

    def sql(self) -> str:
        return "LIST DATABASES"


@grammar("LIST DATABASES")
def list_databases(cursor: Cursor) -> ListDatabases:
    return ListDatabases(*cursor.origin)
