"""STREAM, CHANGELOG, TABLE, MATERIALIZED VIEW, VIEW: define, drop, start, stop, describe, list. Grammar: dialect section 9.

`CREATE … AS SELECT` belongs to queries, see `query`; `create_relation` hands over to it at AS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.core.errors import UserError
from headrace.core.idioms import Place, remedy
from headrace.core.names import Identifier, QualifiedName
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType
from headrace.sql.ast import Properties, Select, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar, select
from headrace.sql.limits import COLUMNS_MAX, too_many_columns

KINDS = ("STREAM", "CHANGELOG", "TABLE", "MATERIALIZED VIEW")
ALL_KINDS = (*KINDS, "VIEW")
_PLURALS = {f"{kind}S": kind for kind in ALL_KINDS}


@dataclass(frozen=True)
class ColumnDefinition:
    """`name type [NOT NULL]`."""

    name: Identifier
    type: DataType
    nullable: bool = True

    def sql(self) -> str:
        """Return canonical text."""
        return f"{self.name} {self.type}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True)
class CreateRelation(Statement):
    """`CREATE kind [IF NOT EXISTS] name [( columns [, PRIMARY KEY (…)] )] [WITH (…)]`.

    `kind` is STREAM, CHANGELOG or TABLE. Without `columns`, they are inferred from the entity.
    """

    kind: str
    name: QualifiedName
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[Identifier, ...]
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        parts = [column.sql() for column in self.columns]
        if self.primary_key:
            parts.append(f"PRIMARY KEY ({', '.join(str(name) for name in self.primary_key)})")
        columns = f" ({', '.join(parts)})" if parts else ""
        return f"{_create(self.kind, self.name, self.if_not_exists)}{columns}{self.properties.sql()}"


@dataclass(frozen=True)
class CreateRelationAs(Statement):
    """`CREATE kind [IF NOT EXISTS] name [WITH (…)] AS select [WITH (…)]`; `kind` is STREAM, CHANGELOG, TABLE or MATERIALIZED VIEW."""

    kind: str
    name: QualifiedName
    properties: Properties
    select: Select
    if_not_exists: bool = False

    def sql(self) -> str:
        start = _create(self.kind, self.name, self.if_not_exists)
        return f"{start}{self.properties.sql()} AS {self.select.sql()}"


@grammar(*(f"CREATE {kind}" for kind in KINDS))
def create_relation(cursor: Cursor) -> CreateRelation | CreateRelationAs:
    kind = kind_before(cursor)
    if_not_exists = cursor.if_not_exists()
    name = cursor.qualified_name(f"the name of the {kind.lower()}")
    columns: tuple[ColumnDefinition, ...] = ()
    primary_key: tuple[Identifier, ...] = ()
    if cursor.at("("):
        if kind == "MATERIALIZED VIEW":
            raise cursor.error("WITH or AS", hint="A materialized view takes its columns from the query.")
        columns, primary_key = _columns(cursor)
    properties = cursor.properties()
    if not columns and cursor.accept("AS"):
        chosen = select(cursor)
        late = cursor.properties()
        if late and properties:
            raise cursor.error_at("expected WITH once, found it before AS and after the query")
        _check_late(late)
        return CreateRelationAs(*cursor.origin, kind, name, properties or late, chosen, if_not_exists)
    if kind == "MATERIALIZED VIEW":
        raise cursor.error("AS and a query" if properties else "WITH or AS")
    if columns and cursor.at("AS"):
        raise cursor.error(
            "the end of the statement", hint="With AS the query decides the columns: leave out the list."
        )
    if not properties:
        expected = "WITH ( 'value.format' = …, … )" if columns else "columns in parentheses, WITH or AS"
        raise cursor.error(expected)
    return CreateRelation(*cursor.origin, kind, name, columns, primary_key, properties, if_not_exists)


def _check_late(properties: Properties) -> None:
    """Raise UserError for a property of a source in the WITH after a query: there it would be one of the new relation."""
    for entry in properties.entries:
        if entry.key.startswith(("starting.", "source.")):
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"'{entry.key}' after the query would be a property of the new relation, not of a source",
                hint="Write FROM source WITH (…), before WHERE; or WITH (…) before AS, for the readers of the new relation.",
                span=entry.span,
            )


@dataclass(frozen=True)
class ReplaceRelation(Statement):
    """`CREATE OR REPLACE kind name [WITH (…)] AS select`; `kind` is STREAM, CHANGELOG, TABLE or MATERIALIZED VIEW."""

    create: CreateRelationAs
    """The statement without OR REPLACE."""

    def sql(self) -> str:
        return self.create.sql().replace("CREATE ", "CREATE OR REPLACE ", 1)


@grammar(*(f"CREATE OR REPLACE {kind}" for kind in KINDS))
def replace_relation(cursor: Cursor) -> ReplaceRelation:
    if cursor.at("IF"):
        raise cursor.error(
            "the name of the relation", hint="OR REPLACE and IF NOT EXISTS exclude each other."
        )
    create = create_relation(cursor)
    if not isinstance(create, CreateRelationAs):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"CREATE OR REPLACE {create.kind} is not supported without AS SELECT",
            hint="DROP the relation first, or write CREATE … IF NOT EXISTS.",
            span=create.span,
        )
    # A query keeps the text of the statement that created it.
    return ReplaceRelation(*cursor.origin, replace(create, text=create.sql()))


@dataclass(frozen=True)
class CreateView(Statement):
    """`CREATE VIEW [IF NOT EXISTS] name AS select`."""

    name: QualifiedName
    select: Select
    if_not_exists: bool = False

    def sql(self) -> str:
        return f"{_create('VIEW', self.name, self.if_not_exists)} AS {self.select.sql()}"


@grammar("CREATE VIEW")
def create_view(cursor: Cursor) -> CreateView:
    if_not_exists = cursor.if_not_exists()
    name = cursor.qualified_name("the name of the view")
    if cursor.at("(") or cursor.at("WITH"):
        raise cursor.error(
            "AS and a query", hint="A view takes its columns from the query, and has no properties."
        )
    cursor.expect("AS")
    return CreateView(*cursor.origin, name, select(cursor), if_not_exists)


@dataclass(frozen=True)
class DropRelation(Statement):
    """`DROP kind name [CASCADE]`; `kind` is STREAM, CHANGELOG, TABLE, MATERIALIZED VIEW, VIEW or RELATION."""

    kind: str
    name: QualifiedName
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP {self.kind} {self.name}{' CASCADE' if self.cascade else ''}"


@grammar(*(f"DROP {kind}" for kind in (*ALL_KINDS, "RELATION")))
def drop_relation(cursor: Cursor) -> DropRelation:
    kind = kind_before(cursor)
    return DropRelation(
        *cursor.origin, kind, cursor.qualified_name("the name of the relation"), cursor.cascade()
    )


@dataclass(frozen=True)
class StartRelation(Statement):
    """`START kind name`: the queries that write it; `kind` is STREAM, CHANGELOG, TABLE, MATERIALIZED VIEW or RELATION."""

    kind: str
    name: QualifiedName

    def sql(self) -> str:
        return f"START {self.kind} {self.name}"


@grammar(*(f"START {kind}" for kind in (*KINDS, "RELATION")))
def start_relation(cursor: Cursor) -> StartRelation:
    kind = kind_before(cursor)
    return StartRelation(*cursor.origin, kind, cursor.qualified_name("the name of the relation"))


@dataclass(frozen=True)
class StopRelation(Statement):
    """`STOP kind name`: the queries that write it; `kind` is STREAM, CHANGELOG, TABLE, MATERIALIZED VIEW or RELATION."""

    kind: str
    name: QualifiedName

    def sql(self) -> str:
        return f"STOP {self.kind} {self.name}"


@grammar(*(f"STOP {kind}" for kind in (*KINDS, "RELATION")))
def stop_relation(cursor: Cursor) -> StopRelation:
    kind = kind_before(cursor)
    return StopRelation(*cursor.origin, kind, cursor.qualified_name("the name of the relation"))


@dataclass(frozen=True)
class DescribeRelation(Statement):
    """`DESCRIBE RELATION [COLUMNS] name`, or with STREAM, CHANGELOG, TABLE, MATERIALIZED VIEW, VIEW."""

    name: QualifiedName
    columns: bool = False

    def sql(self) -> str:
        return f"DESCRIBE RELATION {'COLUMNS ' if self.columns else ''}{_after_columns(self.name)}"


@grammar(*(f"DESCRIBE {kind}" for kind in (*ALL_KINDS, "RELATION")))
def describe_relation(cursor: Cursor) -> DescribeRelation:
    following = cursor.peek(1)
    columns = cursor.at("COLUMNS") and following is not None and following.text != "."
    if columns:
        cursor.expect("COLUMNS")
    return DescribeRelation(*cursor.origin, cursor.qualified_name("the name of the relation"), columns)


@dataclass(frozen=True)
class ListRelations(Statement):
    """`LIST RELATIONS | STREAMS | CHANGELOGS | TABLES | MATERIALIZED VIEWS | VIEWS [IN SCHEMA name]`; `kind` None means all."""

    kind: str | None
    schema: QualifiedName | None

    def sql(self) -> str:
        inside = f" IN SCHEMA {self.schema}" if self.schema is not None else ""
        return f"LIST {self.kind or 'RELATION'}S{inside}"


@grammar("LIST RELATIONS", *(f"LIST {plural}" for plural in _PLURALS))
def list_relations(cursor: Cursor) -> ListRelations:
    kind = _PLURALS.get(kind_before(cursor))
    schema = None
    if cursor.at("IN"):
        cursor.expect("IN", "SCHEMA")
        schema = cursor.qualified_name("the name of the schema", 2)
    return ListRelations(*cursor.origin, kind, schema)


def _columns(cursor: Cursor) -> tuple[tuple[ColumnDefinition, ...], tuple[Identifier, ...]]:
    cursor.expect("(")
    columns: dict[str, ColumnDefinition] = {}
    primary_key: tuple[Identifier, ...] = ()
    while True:
        if cursor.at("CONSTRAINT") and cursor.without(2).at("PRIMARY", "KEY", "("):
            cursor.index += 2
        if cursor.at("PRIMARY", "KEY", "("):
            if primary_key:
                raise cursor.error("one PRIMARY KEY")
            cursor.expect("PRIMARY", "KEY")
            primary_key = _key_columns(cursor)
            # Flink's only mode; no key is enforced here either.
            cursor.accept("NOT", "ENFORCED")
        elif cursor.at("WATERMARK", "FOR"):
            raise cursor.error("the name of a column", hint=remedy(Place.COLUMN, "WATERMARK"))
        else:
            column = _column(cursor, columns)
            columns[column.name.name] = column
        if cursor.accept(")"):
            break
        if not cursor.accept(","):
            hint = remedy(Place.COLUMN, cursor.word() or "")
            raise cursor.error("NOT NULL, ',' or ')' after a column", hint=hint)
    if not columns:
        raise cursor.error("at least one column")
    _check_key(primary_key, columns)
    return tuple(columns.values()), primary_key


def _column(cursor: Cursor, others: Mapping[str, ColumnDefinition]) -> ColumnDefinition:
    name = cursor.identifier("the name of a column")
    if len(others) == COLUMNS_MAX:
        raise too_many_columns(name.span)
    if name.name in others:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"the column {name} is declared twice",
            hint="Keep one of them; names that differ by case need double quotes.",
            span=name.span,
        )
    if cursor.at("AS"):
        raise cursor.error("a data type", hint=remedy(Place.COLUMN, "AS"))
    kind = cursor.data_type()
    nullable = not cursor.at("NOT")
    if not nullable:
        cursor.expect("NOT", "NULL")
    else:
        cursor.accept("NULL")
    return ColumnDefinition(name, kind, nullable)


def _key_columns(cursor: Cursor) -> tuple[Identifier, ...]:
    cursor.expect("(")
    names = [cursor.identifier("the name of a column")]
    while cursor.accept(","):
        names.append(cursor.identifier("the name of a column"))
    cursor.expect(")")
    return tuple(names)


def _check_key(primary_key: tuple[Identifier, ...], columns: Mapping[str, ColumnDefinition]) -> None:
    for name in primary_key:
        if name.name not in columns:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"the PRIMARY KEY names {name}, which is not a column",
                hint=f"The columns are {', '.join(str(column.name) for column in columns.values())}.",
                span=name.span,
            )


def kind_before(cursor: Cursor) -> str:
    """Return the kind of relation that the words before the cursor name, in the singular or the plural."""
    before, last = (token.text.upper() for token in cursor.tokens[cursor.index - 2 : cursor.index])
    return f"{before} {last}" if before == "MATERIALIZED" else last


def _create(kind: str, name: QualifiedName, if_not_exists: bool) -> str:
    return f"CREATE {kind} {'IF NOT EXISTS ' if if_not_exists else ''}{name}"


def _after_columns(name: QualifiedName) -> str:
    """Return `name`, quoted where a relation called columns would read as the keyword."""
    return '"columns"' if str(name) == "columns" else str(name)
