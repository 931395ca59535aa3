"""ENTITY: create, update, optimize, drop, describe, list, its partitions, print, insert into. Grammar: dialect section 8."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.errors import Span
from headrace.core.names import Identifier, QualifiedName
from headrace.sql.ast import Properties, Statement, quoted_text
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

_PATH_PARTS_MAX = 8


@dataclass(frozen=True)
class CreateEntity(Statement):
    """`CREATE ENTITY path [IN STORE store] [WITH (…)]`."""

    name: QualifiedName
    store: Identifier | None
    properties: Properties

    def sql(self) -> str:
        return f"CREATE ENTITY {self.name}{_in_store(self.store)}{self.properties.sql()}"


@grammar("CREATE ENTITY")
def create_entity(cursor: Cursor) -> CreateEntity:
    return CreateEntity(*cursor.origin, _path(cursor), _accept_store(cursor), cursor.properties())


@dataclass(frozen=True)
class UpdateEntity(Statement):
    """`UPDATE ENTITY path [IN STORE store] WITH (…)`."""

    name: QualifiedName
    store: Identifier | None
    properties: Properties

    def sql(self) -> str:
        return f"UPDATE ENTITY {self.name}{_in_store(self.store)}{self.properties.sql()}"


@grammar("UPDATE ENTITY")
def update_entity(cursor: Cursor) -> UpdateEntity:
    name, store = _path(cursor), _accept_store(cursor)
    if not cursor.at("WITH"):
        raise cursor.error("WITH ( 'property' = value, … )")
    return UpdateEntity(*cursor.origin, name, store, cursor.properties())


@dataclass(frozen=True)
class OptimizeEntity(Statement):
    """`OPTIMIZE ENTITY path [IN STORE store] [WITH (…)]`."""

    name: QualifiedName
    store: Identifier | None
    properties: Properties

    def sql(self) -> str:
        return f"OPTIMIZE ENTITY {self.name}{_in_store(self.store)}{self.properties.sql()}"


@grammar("OPTIMIZE ENTITY")
def optimize_entity(cursor: Cursor) -> OptimizeEntity:
    return OptimizeEntity(*cursor.origin, _path(cursor), _accept_store(cursor), cursor.properties())


@dataclass(frozen=True)
class DropEntity(Statement):
    """`DROP ENTITY path [IN STORE store]`."""

    name: QualifiedName
    store: Identifier | None

    def sql(self) -> str:
        return f"DROP ENTITY {self.name}{_in_store(self.store)}"


@grammar("DROP ENTITY")
def drop_entity(cursor: Cursor) -> DropEntity:
    return DropEntity(*cursor.origin, _path(cursor), _accept_store(cursor))


@dataclass(frozen=True)
class DescribeEntity(Statement):
    """`DESCRIBE ENTITY path [IN STORE store]`."""

    name: QualifiedName
    store: Identifier | None

    def sql(self) -> str:
        return f"DESCRIBE ENTITY {self.name}{_in_store(self.store)}"


@grammar("DESCRIBE ENTITY")
def describe_entity(cursor: Cursor) -> DescribeEntity:
    return DescribeEntity(*cursor.origin, _path(cursor), _accept_store(cursor))


@dataclass(frozen=True)
class ListEntities(Statement):
    """`LIST ENTITIES [IN path] [IN STORE store]`."""

    path: QualifiedName | None
    store: Identifier | None

    def sql(self) -> str:
        # A path whose first part is called store would read as IN STORE when bare.
        inside = ""
        if self.path is not None:
            inside = (
                f' IN "store"{str(self.path)[5:]}'
                if self.path.parts[0].name == "store"
                else f" IN {self.path}"
            )
        return f"LIST ENTITIES{inside}{_in_store(self.store)}"


@grammar("LIST ENTITIES")
def list_entities(cursor: Cursor) -> ListEntities:
    path = None
    if cursor.at("IN") and not cursor.at("IN", "STORE"):
        cursor.expect("IN")
        path = _path(cursor)
    return ListEntities(*cursor.origin, path, _accept_store(cursor))


@dataclass(frozen=True)
class ListPartitions(Statement):
    """`LIST PARTITIONS IN path [IN STORE store]`."""

    name: QualifiedName
    store: Identifier | None

    def sql(self) -> str:
        return f"LIST PARTITIONS IN {self.name}{_in_store(self.store)}"


@grammar("LIST PARTITIONS")
def list_partitions(cursor: Cursor) -> ListPartitions:
    cursor.expect("IN")
    return ListPartitions(*cursor.origin, _path(cursor), _accept_store(cursor))


@dataclass(frozen=True)
class PrintEntity(Statement):
    """`PRINT ENTITY path [IN STORE store] [WITH ('from_beginning')]`."""

    name: QualifiedName
    store: Identifier | None
    properties: Properties

    def sql(self) -> str:
        return f"PRINT ENTITY {self.name}{_in_store(self.store)}{self.properties.sql()}"


@grammar("PRINT ENTITY")
def print_entity(cursor: Cursor) -> PrintEntity:
    return PrintEntity(*cursor.origin, _path(cursor), _accept_store(cursor), cursor.properties())


@dataclass(frozen=True)
class InsertIntoEntity(Statement):
    """`INSERT INTO ENTITY path [IN STORE store] VALUE ('…') [WITH (…)]`; `value` is the text of one record."""

    name: QualifiedName
    store: Identifier | None
    value: str
    properties: Properties
    place: Span | None = field(default=None, compare=False)
    """The position of the value."""

    def sql(self) -> str:
        return (
            f"INSERT INTO ENTITY {self.name}{_in_store(self.store)}"
            f" VALUE ({quoted_text(self.value)}){self.properties.sql()}"
        )


@grammar("INSERT INTO ENTITY")
def insert_into_entity(cursor: Cursor) -> InsertIntoEntity:
    name = _path(cursor)
    store = _accept_store(cursor)
    hint = 'Write one record per statement: VALUE(\'{"name": "value"}\').' if cursor.at("VALUES") else None
    cursor.expect("VALUE", "(", hint=hint)
    start = cursor.index
    value = cursor.string("the record as a string")
    place = cursor.span_from(start)
    cursor.expect(")")
    return InsertIntoEntity(*cursor.origin, name, store, value, cursor.properties(), place)


def _path(cursor: Cursor) -> QualifiedName:
    return cursor.qualified_name("the name of an entity", _PATH_PARTS_MAX)


def _accept_store(cursor: Cursor) -> Identifier | None:
    if not cursor.at("IN"):
        return None
    cursor.expect("IN", "STORE")
    return cursor.identifier("the name of the store")


def _in_store(store: Identifier | None) -> str:
    return f" IN STORE {store}" if store is not None else ""
