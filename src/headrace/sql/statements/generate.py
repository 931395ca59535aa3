"""GENERATE: what is known of an entity's columns. Grammar: dialect section 21."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import QualifiedName
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class GenerateDdl(Statement):
    """`GENERATE kind DDL name WITH (…)`; `kind` is STREAM or CHANGELOG."""

    kind: str
    name: QualifiedName
    properties: Properties

    def sql(self) -> str:
        return f"GENERATE {self.kind} DDL {self.name}{self.properties.sql()}"


@grammar("GENERATE STREAM", "GENERATE CHANGELOG")
def generate_ddl(cursor: Cursor) -> GenerateDdl:
    kind = cursor.tokens[cursor.index - 1].text.upper()
    cursor.expect("DDL")
    name = cursor.qualified_name(f"the name of the {kind.lower()}")
    return GenerateDdl(*cursor.origin, kind, name, cursor.properties())


@dataclass(frozen=True)
class GenerateColumns(Statement):
    """`GENERATE COLUMNS WITH (…)`."""

    properties: Properties

    def sql(self) -> str:
        return f"GENERATE COLUMNS{self.properties.sql()}"


@grammar("GENERATE COLUMNS")
def generate_columns(cursor: Cursor) -> GenerateColumns:
    properties = cursor.properties()
    if not properties:
        raise cursor.error("WITH ( 'topic' = …, 'value.format' = AVRO )")
    return GenerateColumns(*cursor.origin, properties)
