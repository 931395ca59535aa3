"""FUNCTION_SOURCE: create, drop, describe, list. Grammar: dialect section 7.3."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar
from headrace.sql.statements.descriptor_source import uploaded

_NAME = "the name of the function source"


@dataclass(frozen=True)
class CreateFunctionSource(Statement):
    """`CREATE FUNCTION_SOURCE [IF NOT EXISTS] name WITH ('file' = '@path' [, …])`, or `FROM '@path'`."""

    name: Identifier
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        return f"CREATE FUNCTION_SOURCE {exists}{self.name}{self.properties.sql()}"


@grammar("CREATE FUNCTION_SOURCE")
def create_function_source(cursor: Cursor) -> CreateFunctionSource:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier(_NAME)
    return CreateFunctionSource(*cursor.origin, name, uploaded(cursor, "udfs.jar"), if_not_exists)


@dataclass(frozen=True)
class DropFunctionSource(Statement):
    """`DROP FUNCTION_SOURCE name [RESTRICT | CASCADE]`."""

    name: Identifier
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP FUNCTION_SOURCE {self.name}{' CASCADE' if self.cascade else ''}"


@grammar("DROP FUNCTION_SOURCE")
def drop_function_source(cursor: Cursor) -> DropFunctionSource:
    return DropFunctionSource(*cursor.origin, cursor.identifier(_NAME), cursor.cascade())


@dataclass(frozen=True)
class DescribeFunctionSource(Statement):
    """`DESCRIBE FUNCTION_SOURCE name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE FUNCTION_SOURCE {self.name}"


@grammar("DESCRIBE FUNCTION_SOURCE")
def describe_function_source(cursor: Cursor) -> DescribeFunctionSource:
    return DescribeFunctionSource(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class ListFunctionSources(Statement):
    """`LIST FUNCTION_SOURCES`."""

    def sql(self) -> str:
        return "LIST FUNCTION_SOURCES"


@grammar("LIST FUNCTION_SOURCES")
def list_function_sources(cursor: Cursor) -> ListFunctionSources:
    return ListFunctionSources(*cursor.origin)
