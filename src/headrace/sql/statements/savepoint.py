"""SAVEPOINT: create, drop, describe, list."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.names import Identifier, QualifiedName
from headrace.sql.ast import Properties, Statement, quoted_text
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar
from headrace.sql.statements.query import reference_text

_NAME = "the name of the savepoint"


@dataclass(frozen=True)
class CreateSavepoint(Statement):
    """`CREATE SAVEPOINT [IF NOT EXISTS] name ON QUERY reference [WITH (…)]`, by id, name or the relation that it writes."""

    name: Identifier
    reference: QualifiedName
    properties: Properties = field(default_factory=Properties)
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        reference = reference_text(self.reference)
        return f"CREATE SAVEPOINT {exists}{self.name} ON QUERY {reference}{self.properties.sql()}"


@dataclass(frozen=True)
class ImportSavepoint(Statement):
    """`CREATE SAVEPOINT [IF NOT EXISTS] name FROM 'id'`, of a folder that another server has written."""

    name: Identifier
    identifier: str
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        return f"CREATE SAVEPOINT {exists}{self.name} FROM {quoted_text(self.identifier)}"


@grammar("CREATE SAVEPOINT")
def create_savepoint(cursor: Cursor) -> CreateSavepoint | ImportSavepoint:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier(_NAME)
    if cursor.accept("FROM"):
        return ImportSavepoint(*cursor.origin, name, cursor.string("the id of a savepoint"), if_not_exists)
    cursor.expect("ON", "QUERY", hint="CREATE SAVEPOINT name ON QUERY id-or-name;")
    reference = cursor.query_reference()
    return CreateSavepoint(*cursor.origin, name, reference, cursor.properties(), if_not_exists)


@dataclass(frozen=True)
class DropSavepoint(Statement):
    """`DROP SAVEPOINT name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DROP SAVEPOINT {self.name}"


@grammar("DROP SAVEPOINT")
def drop_savepoint(cursor: Cursor) -> DropSavepoint:
    return DropSavepoint(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class DescribeSavepoint(Statement):
    """`DESCRIBE SAVEPOINT name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE SAVEPOINT {self.name}"


@grammar("DESCRIBE SAVEPOINT")
def describe_savepoint(cursor: Cursor) -> DescribeSavepoint:
    return DescribeSavepoint(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class ListSavepoints(Statement):
    """`LIST SAVEPOINTS`."""

    def sql(self) -> str:
        return "LIST SAVEPOINTS"


@grammar("LIST SAVEPOINTS")
def list_savepoints(cursor: Cursor) -> ListSavepoints:
    return ListSavepoints(*cursor.origin)
