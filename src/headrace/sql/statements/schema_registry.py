"""SCHEMA_REGISTRY: create, update, drop, describe, list. Grammar: dialect section 7.1."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

_NAME = "the name of the schema registry"


@dataclass(frozen=True)
class CreateSchemaRegistry(Statement):
    """`CREATE SCHEMA_REGISTRY [IF NOT EXISTS] name WITH (…)`."""

    name: Identifier
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        return f"CREATE SCHEMA_REGISTRY {exists}{self.name}{self.properties.sql()}"


@grammar("CREATE SCHEMA_REGISTRY")
def create_schema_registry(cursor: Cursor) -> CreateSchemaRegistry:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier(_NAME)
    properties = cursor.properties()
    if not properties:
        raise cursor.error("WITH ( 'type' = CONFLUENT, 'uris' = … )")
    return CreateSchemaRegistry(*cursor.origin, name, properties, if_not_exists)


@dataclass(frozen=True)
class UpdateSchemaRegistry(Statement):
    """`UPDATE SCHEMA_REGISTRY name WITH (…)`; NULL takes a property back."""

    name: Identifier
    properties: Properties

    def sql(self) -> str:
        return f"UPDATE SCHEMA_REGISTRY {self.name}{self.properties.sql()}"


@grammar("UPDATE SCHEMA_REGISTRY")
def update_schema_registry(cursor: Cursor) -> UpdateSchemaRegistry:
    return UpdateSchemaRegistry(*cursor.origin, cursor.identifier(_NAME), cursor.changes())


@dataclass(frozen=True)
class DropSchemaRegistry(Statement):
    """`DROP SCHEMA_REGISTRY name [CASCADE]`."""

    name: Identifier
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP SCHEMA_REGISTRY {self.name}{' CASCADE' if self.cascade else ''}"


@grammar("DROP SCHEMA_REGISTRY")
def drop_schema_registry(cursor: Cursor) -> DropSchemaRegistry:
    return DropSchemaRegistry(*cursor.origin, cursor.identifier(_NAME), cursor.cascade())


@dataclass(frozen=True)
class DescribeSchemaRegistry(Statement):
    """`DESCRIBE SCHEMA_REGISTRY name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE SCHEMA_REGISTRY {self.name}"


@grammar("DESCRIBE SCHEMA_REGISTRY")
def describe_schema_registry(cursor: Cursor) -> DescribeSchemaRegistry:
    return DescribeSchemaRegistry(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class ListSchemaRegistries(Statement):
    """`LIST SCHEMA_REGISTRIES`."""

    def sql(self) -> str:
        return "LIST SCHEMA_REGISTRIES"


@grammar("LIST SCHEMA_REGISTRIES")
def list_schema_registries(cursor: Cursor) -> ListSchemaRegistries:
    return ListSchemaRegistries(*cursor.origin)
