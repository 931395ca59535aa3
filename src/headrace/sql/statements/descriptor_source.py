"""DESCRIPTOR_SOURCE: create, drop, describe, list, and the list of their descriptors. Grammar: dialect section 7.2."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Property, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

_NAME = "the name of the descriptor source"


@dataclass(frozen=True)
class CreateDescriptorSource(Statement):
    """`CREATE DESCRIPTOR_SOURCE [IF NOT EXISTS] name WITH ('file' = '@path' [, …])`, or `FROM '@path'`."""

    name: Identifier
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        return f"CREATE DESCRIPTOR_SOURCE {exists}{self.name}{self.properties.sql()}"


@grammar("CREATE DESCRIPTOR_SOURCE")
def create_descriptor_source(cursor: Cursor) -> CreateDescriptorSource:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier(_NAME)
    return CreateDescriptorSource(*cursor.origin, name, uploaded(cursor, "x.desc"), if_not_exists)


def uploaded(cursor: Cursor, example: str) -> Properties:
    """Parse the file that comes with a statement: `WITH ('file' = '@path' [, …])` or `FROM '@path'`."""
    if cursor.accept("FROM"):
        start = cursor.index
        path = cursor.string("the path of a file")
        return Properties((Property("file", path, cursor.span_from(start)),))
    properties = cursor.properties()
    if not properties:
        raise cursor.error(f"WITH ( 'file' = '@path/{example}' )")
    return properties


@dataclass(frozen=True)
class DropDescriptorSource(Statement):
    """`DROP DESCRIPTOR_SOURCE name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DROP DESCRIPTOR_SOURCE {self.name}"


@grammar("DROP DESCRIPTOR_SOURCE")
def drop_descriptor_source(cursor: Cursor) -> DropDescriptorSource:
    return DropDescriptorSource(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class DescribeDescriptorSource(Statement):
    """`DESCRIBE DESCRIPTOR_SOURCE name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE DESCRIPTOR_SOURCE {self.name}"


@grammar("DESCRIBE DESCRIPTOR_SOURCE")
def describe_descriptor_source(cursor: Cursor) -> DescribeDescriptorSource:
    return DescribeDescriptorSource(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class ListDescriptorSources(Statement):
    """`LIST DESCRIPTOR_SOURCES`."""

    def sql(self) -> str:
        return "LIST DESCRIPTOR_SOURCES"


@grammar("LIST DESCRIPTOR_SOURCES")
def list_descriptor_sources(cursor: Cursor) -> ListDescriptorSources:
    return ListDescriptorSources(*cursor.origin)


@dataclass(frozen=True)
class ListDescriptors(Statement):
    """`LIST DESCRIPTORS`."""

    def sql(self) -> str:
        return "LIST DESCRIPTORS"


@grammar("LIST DESCRIPTORS")
def list_descriptors(cursor: Cursor) -> ListDescriptors:
    return ListDescriptors(*cursor.origin)
