"""SCHEMA: create, drop, describe, list. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier, QualifiedName
from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class CreateSchema(Statement):
    """`CREATE SCHEMA [IF NOT EXISTS] [database.]name [IN DATABASE database] [WITH MANAGED ACCESS]`."""

    name: QualifiedName
    database: Identifier | None
    if_not_exists: bool = False
    managed: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        managed = " WITH MANAGED ACCESS" if self.managed else ""
        return f"CREATE SCHEMA {exists}{self.name}{_in_database(self.database)}{managed}"


@grammar("CREATE SCHEMA")
def create_schema(cursor: Cursor) -> CreateSchema:
    if_not_exists = cursor.if_not_exists()
    name = _name(cursor)
    if len(name.parts) > 1 and cursor.at("IN"):
        raise cursor.error(
            "the end of the statement", hint="Name the database once: db.name or name IN DATABASE db."
        )
    database = _accept_database(cursor)
    managed = cursor.accept("WITH", "MANAGED", "ACCESS")
    return CreateSchema(*cursor.origin, name, database, if_not_exists, managed)


@dataclass(frozen=True)
class ManageAccess(Statement):
    """`ALTER SCHEMA [database.]name { ENABLE | DISABLE } MANAGED ACCESS`."""

    name: QualifiedName
    managed: bool

    def sql(self) -> str:
        return f"ALTER SCHEMA {self.name} {'ENABLE' if self.managed else 'DISABLE'} MANAGED ACCESS"


@dataclass(frozen=True)
class DropSchema(Statement):
    """`DROP SCHEMA [database.]name [CASCADE]`."""

    name: QualifiedName
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP SCHEMA {self.name}{' CASCADE' if self.cascade else ''}"


@grammar("DROP SCHEMA")
def drop_schema(cursor: Cursor) -> DropSchema:
    return DropSchema(*cursor.origin, _name(cursor), cursor.cascade())


@dataclass(frozen=True)
class DescribeSchema(Statement):
    """`DESCRIBE SCHEMA [database.]name`."""

    name: QualifiedName

    def sql(self) -> str:
        return f"DESCRIBE SCHEMA {self.name}"


@grammar("DESCRIBE SCHEMA")
def describe_schema(cursor: Cursor) -> DescribeSchema:
    return DescribeSchema(*cursor.origin, _name(cursor))


@dataclass(frozen=True)
class ListSchemas(Statement):
    """`LIST SCHEMAS [IN DATABASE database]`."""

    database: Identifier | None

    def sql(self) -> str:
        return f"LIST SCHEMAS{_in_database(self.database)}"


@grammar("LIST SCHEMAS")
def list_schemas(cursor: Cursor) -> ListSchemas:
    return ListSchemas(*cursor.origin, _accept_database(cursor))


def _name(cursor: Cursor) -> QualifiedName:
    return cursor.qualified_name("the name of the schema", 2)


def _accept_database(cursor: Cursor) -> Identifier | None:
    if not cursor.at("IN"):
        return None
    cursor.expect("IN", "DATABASE")
    return cursor.identifier("the name of the database")


def _in_database(database: Identifier | None) -> str:
    return f" IN DATABASE {database}" if database is not None else ""
