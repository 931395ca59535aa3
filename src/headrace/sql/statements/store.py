"""STORE: create, update, drop, describe, list. Grammar: dialect section 6."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class CreateStore(Statement):
    """`CREATE STORE [IF NOT EXISTS] name WITH (…)`."""

    name: Identifier
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        return f"CREATE STORE {exists}{self.name}{self.properties.sql()}"


@grammar("CREATE STORE")
def create_store(cursor: Cursor) -> CreateStore:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier("the name of the store")
    properties = cursor.properties()
    if not properties:
        raise cursor.error("WITH ( 'type' = …, 'uris' = … )")
    return CreateStore(*cursor.origin, name, properties, if_not_exists)


@dataclass(frozen=True)
class UpdateStore(Statement):
    """`UPDATE STORE name WITH (…)`; NULL takes a property back."""

    name: Identifier
    properties: Properties

    def sql(self) -> str:
        return f"UPDATE STORE {self.name}{self.properties.sql()}"


@grammar("UPDATE STORE")
def update_store(cursor: Cursor) -> UpdateStore:
    return UpdateStore(*cursor.origin, cursor.identifier("the name of the store"), cursor.changes())


@dataclass(frozen=True)
class DropStore(Statement):
    """`DROP STORE name [CASCADE]`."""

    name: Identifier
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP STORE {self.name}{' CASCADE' if self.cascade else ''}"


@grammar("DROP STORE")
def drop_store(cursor: Cursor) -> DropStore:
    return DropStore(*cursor.origin, cursor.identifier("the name of the store"), cursor.cascade())


@dataclass(frozen=True)
class DescribeStore(Statement):
    """`DESCRIBE STORE name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE STORE {self.name}"


@grammar("DESCRIBE STORE")
def describe_store(cursor: Cursor) -> DescribeStore:
    return DescribeStore(*cursor.origin, cursor.identifier("the name of the store"))


@dataclass(frozen=True)
class CheckStore(Statement):
    """`TEST STORE name`."""

    name: Identifier

    def sql(self) -> str:
        return f"TEST STORE {self.name}"


@grammar("TEST STORE")
def check_store(cursor: Cursor) -> CheckStore:
    return CheckStore(*cursor.origin, cursor.identifier("the name of the store"))


@dataclass(frozen=True)
class ListStores(Statement):
    """`LIST STORES`."""

    def sql(self) -> str:
        return "LIST STORES"


@grammar("LIST STORES")
def list_stores(cursor: Cursor) -> ListStores:
    return ListStores(*cursor.origin)
