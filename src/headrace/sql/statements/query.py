"""Queries: SELECT, INSERT INTO, and the care of running ones. Grammar: dialect sections 10, 11, 20, 21."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.core.errors import UserError
from headrace.core.names import Identifier, QualifiedName, printed
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import Properties, Select, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import QUERY_STARTS, accept_start, grammar, row_of_values, select, statement

_ASPECTS = ("HISTORY", "METRICS", "EVENTS", "STATE", "VERSIONS")
_UUID_SHAPE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class SelectStatement(Statement):
    """A query that returns its rows to the client."""

    select: Select

    def sql(self) -> str:
        return self.select.sql()


@grammar(*QUERY_STARTS)
def select_statement(cursor: Cursor) -> SelectStatement:
    cursor.index -= 1
    return SelectStatement(*cursor.origin, select(cursor))


@dataclass(frozen=True)
class InsertInto(Statement):
    """`INSERT INTO relation [(column, …)] [WITH (…)] select`; with `columns`, `select` names its columns after them."""

    name: QualifiedName
    properties: Properties
    select: Select
    columns: tuple[Identifier, ...] = field(default=(), compare=False)

    def sql(self) -> str:
        return f"INSERT INTO {_target_text(self.name)}{self.properties.sql()} {self.select.sql()}"


@dataclass(frozen=True)
class InsertValues(Statement):
    """`INSERT INTO relation [(column, …)] VALUES (value, …), …`; each of `rows` is a SELECT of its values."""

    name: QualifiedName
    columns: tuple[Identifier, ...]
    rows: tuple[Select, ...]

    def sql(self) -> str:
        columns = f" ({', '.join(map(str, self.columns))})" if self.columns else ""
        rows = (
            ", ".join(value.sql(dialect="headrace") for value in row.expression.expressions)
            for row in self.rows
        )
        listed = ", ".join(f"({row})" for row in rows)
        return f"INSERT INTO {_target_text(self.name)}{columns} VALUES {listed}"  # noqa: S608 - not run as SQL


@grammar("INSERT INTO")
def insert_into(cursor: Cursor) -> InsertInto | InsertValues:
    name = cursor.qualified_name("the name of the relation")
    columns = _target_columns(cursor)
    if cursor.at("VALUES"):
        cursor.expect("VALUES")
        rows = [row_of_values(cursor)]
        while cursor.accept(","):
            rows.append(row_of_values(cursor))
        return InsertValues(*cursor.origin, name, columns, tuple(rows))
    properties = cursor.properties()
    if properties and cursor.at("VALUES"):
        raise cursor.error(
            "SELECT", hint="INSERT INTO … VALUES has no WITH: it writes as the relation declares."
        )
    chosen = select(cursor)
    return InsertInto(
        *cursor.origin, name, properties, _named(chosen, columns) if columns else chosen, columns
    )


def _named(query: Select, columns: Sequence[Identifier]) -> Select:
    """Return `SELECT * FROM (query) AS written(column, …)`: a query whose columns have the names of the sink's."""
    names = [exp.to_identifier(column.name, quoted=printed(column.name) != column.name) for column in columns]
    for name, column in zip(names, columns, strict=True):
        if column.span is not None:
            span = column.span
            name.meta.update(start=span.start, end=span.end - 1, line=span.line, col=span.column)
    alias = exp.TableAlias(this=exp.to_identifier("written"), columns=names)
    rows = exp.Subquery(this=query.expression, alias=alias)
    return replace(query, expression=exp.Select(expressions=[exp.Star()], from_=exp.From(this=rows)))


def _target_columns(cursor: Cursor) -> tuple[Identifier, ...]:
    """Parse a list of columns before VALUES; a parenthesis may also open a query."""
    if not cursor.at("(") or any(cursor.at("(", word) for word in QUERY_STARTS):
        return ()
    cursor.expect("(")
    columns = [cursor.identifier("the name of a column")]
    while cursor.accept(","):
        column = cursor.identifier("the name of a column")
        if any(column.name == other.name for other in columns):
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"the column {column} is listed twice",
                hint="List each column once.",
                span=column.span,
            )
        columns.append(column)
    cursor.expect(")")
    return tuple(columns)


def _target_text(name: QualifiedName) -> str:
    # A relation called entity would read as INSERT INTO ENTITY when bare.
    return f'"entity"{str(name)[6:]}' if name.parts[0].name == "entity" else str(name)


@dataclass(frozen=True)
class ListQueries(Statement):
    """`LIST QUERIES`."""

    def sql(self) -> str:
        return "LIST QUERIES"


@grammar("LIST QUERIES")
def list_queries(cursor: Cursor) -> ListQueries:
    return ListQueries(*cursor.origin)


@dataclass(frozen=True)
class DescribeQuery(Statement):
    """`DESCRIBE QUERY [HISTORY | METRICS | EVENTS | STATE | VERSIONS] reference`, by id, name or the relation that it writes."""

    reference: QualifiedName
    aspect: str | None = None

    def sql(self) -> str:
        return f"DESCRIBE QUERY {self.aspect + ' ' if self.aspect else ''}{reference_text(self.reference)}"


@grammar("DESCRIBE QUERY")
def describe_query(cursor: Cursor) -> DescribeQuery:
    aspect = cursor.accept_any(*_ASPECTS) if cursor.peek(1) is not None else None
    return DescribeQuery(*cursor.origin, cursor.query_reference(), aspect)


@dataclass(frozen=True)
class TerminateQuery(Statement):
    """`TERMINATE QUERY reference [WITH SAVEPOINT name]`, by id, name or the relation that it writes."""

    reference: QualifiedName
    savepoint: Identifier | None = None

    def sql(self) -> str:
        savepoint = f" WITH SAVEPOINT {self.savepoint}" if self.savepoint is not None else ""
        return f"TERMINATE QUERY {reference_text(self.reference)}{savepoint}"


@grammar("TERMINATE QUERY")
def terminate_query(cursor: Cursor) -> TerminateQuery:
    reference = cursor.query_reference()
    savepoint = cursor.identifier("the name of the savepoint") if cursor.accept("WITH", "SAVEPOINT") else None
    return TerminateQuery(*cursor.origin, reference, savepoint)


@dataclass(frozen=True)
class RestartQuery(Statement):
    """`RESTART QUERY reference`, by id, name or the relation that it writes."""

    reference: QualifiedName

    def sql(self) -> str:
        return f"RESTART QUERY {reference_text(self.reference)}"


@grammar("RESTART QUERY")
def restart_query(cursor: Cursor) -> RestartQuery:
    return RestartQuery(*cursor.origin, cursor.query_reference())


@dataclass(frozen=True)
class ReplaceQuery(Statement):
    """`ALTER QUERY reference AS select`, by id, name or the relation that it writes."""

    # Read by `alter.alter`.
    reference: QualifiedName
    select: Select

    def sql(self) -> str:
        return f"ALTER QUERY {reference_text(self.reference)} AS {self.select.sql()}"


@dataclass(frozen=True)
class RollBackQuery(Statement):
    """`ALTER QUERY reference ROLLBACK TO VERSION number`."""

    # Read by `alter.alter`.
    reference: QualifiedName
    version: int

    def sql(self) -> str:
        return f"ALTER QUERY {reference_text(self.reference)} ROLLBACK TO VERSION {self.version}"


@dataclass(frozen=True)
class Explain(Statement):
    """`EXPLAIN [VERBOSE] statement` (VERBOSE has no effect), or `DESCRIBE statement` (`describe`): the plan as JSON."""

    statement: Statement
    describe: bool = False

    def sql(self) -> str:
        verb = "DESCRIBE" if self.describe else "EXPLAIN"
        return f"{verb} {self.statement.sql()}"


@dataclass(frozen=True)
class ExplainWhy(Statement):
    """`EXPLAIN WHY [QUERY] reference`, by id, name or the relation that it writes."""

    reference: QualifiedName

    def sql(self) -> str:
        return f"EXPLAIN WHY QUERY {reference_text(self.reference)}"


@grammar("EXPLAIN WHY")
def explain_why(cursor: Cursor) -> ExplainWhy:
    # A query may be named query.
    if cursor.peek(1) is not None:
        cursor.accept("QUERY")
    return ExplainWhy(*cursor.origin, cursor.query_reference())


@grammar("EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN PLAN FOR")
def explain(cursor: Cursor) -> Explain:
    return Explain(*cursor.origin, _explained(cursor))


@grammar(*(f"DESCRIBE {word}" for word in ("BEGIN", "CREATE", "INSERT", *QUERY_STARTS)))
def describe_statement(cursor: Cursor) -> Explain:
    cursor.index -= 1
    return Explain(*cursor.origin, _explained(cursor), describe=True)


def _explained(cursor: Cursor) -> Statement:
    inner = cursor.nested()
    accept_start(inner.nested())
    if inner.token is None or inner.at("EXPLAIN") or inner.at("DESCRIBE"):
        raise inner.error("a statement to explain")
    result = statement(inner)
    cursor.index = inner.index
    return result


def reference_text(reference: QualifiedName) -> str:
    """Return a reference as it must be typed; an id stays bare when it reads as one."""
    return reference.last.name if _UUID_SHAPE.fullmatch(reference.last.name) else str(reference)
