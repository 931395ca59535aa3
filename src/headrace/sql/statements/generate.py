"""GENERATE: columns of an entity, and the text of a statement. Grammar: dialect section 21."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier, QualifiedName
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import accept_start, grammar


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


@dataclass(frozen=True)
class GenerateTemplate(Statement):
    """`GENERATE TEMPLATE [FOR] statement [type]`: `words` are the leading ones of a statement, `type` is a store type."""

    words: tuple[str, ...]
    type: Identifier | None = None

    def sql(self) -> str:
        of_type = f" {self.type}" if self.type else ""
        return f"GENERATE TEMPLATE FOR {' '.join(self.words)}{of_type}"


@grammar("GENERATE TEMPLATE")
def generate_template(cursor: Cursor) -> GenerateTemplate:
    cursor.accept("FOR")
    words = accept_start(cursor)
    if words is None or words == ("(",):
        raise cursor.error("the first words of a statement, such as CREATE STORE")
    return GenerateTemplate(*cursor.origin, words, cursor.accept_identifier())
