"""The fixed tools: objects, lineage, findings, checks, queries, and statements that change something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mcp.types import CallToolResult, Tool, ToolAnnotations
from pydantic import Field

from headrace.catalog.access import Privilege
from headrace.core.names import QualifiedName, quote
from headrace.core.resultset import Cell, ResultColumn
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.server.mcp.answers import ROWS_SCHEMA, Rows, of_diagnostics, of_rows, refused
from headrace.server.mcp.arguments import Arguments, schema_of
from headrace.server.mcp.running import Caller, ToolStatements, only_statement
from headrace.sql.statements.query import SelectStatement
from headrace.sql.statements.relation import DescribeRelation
from headrace.statements.system import RELATIONS

KINDS = tuple(
    sorted(
        relation.name
        for relation in RELATIONS.values()
        if relation.schema == "sys"
        and relation.needs is None
        and any(column.name == "name" for column in relation.columns)
    )
)
"""The system relations that list objects with names."""
DESCRIBED = (
    "DATABASE",
    "SCHEMA",
    "STORE",
    "RELATION",
    "RELATION COLUMNS",
    "QUERY",
    "QUERY EVENTS",
    "QUERY METRICS",
    "QUERY STATE",
    "QUERY VERSIONS",
    "COMPUTE_POOL",
    "SCHEMA_REGISTRY",
    "DESCRIPTOR_SOURCE",
    "FUNCTION",
    "FUNCTION_SOURCE",
    "SECRET",
    "SAVEPOINT",
    "ALERT",
    "ROLE",
    "USER",
)
_TEXT_LENGTH_MAX = 1_000_000
_NAME_LENGTH_MAX = 2_000
_ROWS = Field(None, ge=1, description="Most rows.")
_SECONDS = Field(None, gt=0, description="Seconds to wait for the result, or to collect rows of a live one.")


class ListObjects(Arguments):
    """Arguments of `list_objects`."""

    kind: str = Field(json_schema_extra={"enum": list(KINDS)})
    name_like: str | None = Field(
        None, max_length=_NAME_LENGTH_MAX, description="A pattern of LIKE, such as %order%."
    )
    max_rows: int | None = _ROWS


class DescribeObject(Arguments):
    """Arguments of `describe_object`."""

    kind: str = Field(json_schema_extra={"enum": list(DESCRIBED)})
    name: str = Field(
        max_length=_NAME_LENGTH_MAX,
        description="As in SQL: database.schema.name for a relation, an id or a name for a query. Double quotes keep capitals.",
    )


class Lineage(Arguments):
    """Arguments of `lineage`."""

    relation: str | None = Field(
        None,
        max_length=_NAME_LENGTH_MAX,
        description="database.schema.name; without it, all edges are returned.",
    )
    columns: bool = Field(False, description="From which columns the relation's columns are computed.")


class QueryFindings(Arguments):
    """Arguments of `query_findings`."""

    query: str | None = Field(
        None, max_length=_NAME_LENGTH_MAX, description="The id or name of a query; without it, all queries."
    )


class Validate(Arguments):
    """Arguments of `validate`."""

    statements: str = Field(
        max_length=_TEXT_LENGTH_MAX, description="SQL, with semicolons between statements."
    )


class Complete(Arguments):
    """Arguments of `complete`."""

    statement: str = Field(max_length=_TEXT_LENGTH_MAX, description="SQL, which may be unfinished.")
    offset: int | None = Field(
        None, ge=0, description="The position, in characters from 0; the end of the text if it is left out."
    )


class Select(Arguments):
    """Arguments of `select`."""

    statement: str = Field(max_length=_TEXT_LENGTH_MAX, description="One SELECT.")
    max_rows: int | None = _ROWS
    max_seconds: float | None = _SECONDS


class SampleRelation(Arguments):
    """Arguments of `sample_relation`."""

    relation: str = Field(
        max_length=_NAME_LENGTH_MAX, description="A stream or changelog: database.schema.name."
    )
    position: Literal["earliest", "latest"] = Field(
        "earliest", description="Existing records first, or new ones only."
    )
    max_rows: int | None = Field(20, ge=1, description="Most rows.")
    max_seconds: float | None = Field(10, gt=0, description="Seconds to collect rows.")


class RunStatement(Arguments):
    """Arguments of `run_statement`."""

    statement: str = Field(max_length=_TEXT_LENGTH_MAX, description="One statement.")
    dry_run: bool = Field(
        True,
        description="Check the statement without running it. Show the user the statement before you run it.",
    )


@dataclass(frozen=True)
class FixedTool:
    """A tool that does not depend on the catalog's objects; `needs` is the privilege that it requires in addition to its statements'."""

    name: str
    description: str
    arguments: type[Arguments]
    call: Callable[[ToolStatements, Caller, Any], Awaitable[CallToolResult]]
    needs: Privilege | None = None
    returns_rows: bool = True

    def definition(self) -> Tool:
        """Return the tool as clients see it."""
        changes = self.needs is not None
        return Tool(
            name=self.name,
            description=self.description,
            input_schema=schema_of(self.arguments),
            output_schema=ROWS_SCHEMA if self.returns_rows else None,
            annotations=ToolAnnotations(
                read_only_hint=not changes, destructive_hint=changes, open_world_hint=False
            ),
        )


async def _list_objects(statements: ToolStatements, caller: Caller, arguments: ListObjects) -> CallToolResult:
    if arguments.kind not in KINDS:
        raise _unknown_kind(arguments.kind, KINDS)
    limits = statements.limits(arguments.max_rows)
    where = f" WHERE name LIKE {_literal(arguments.name_like)}" if arguments.name_like else ""
    text = f'SELECT * FROM deltastream.sys."{arguments.kind}"{where} ORDER BY name LIMIT {limits.rows + 1}'  # noqa: S608 - quoted
    return of_rows(await statements.rows(caller, text, limits))


async def _describe_object(
    statements: ToolStatements, caller: Caller, arguments: DescribeObject
) -> CallToolResult:
    if arguments.kind not in DESCRIBED:
        raise _unknown_kind(arguments.kind, DESCRIBED)
    statement = await only_statement(f"DESCRIBE {arguments.kind} {arguments.name}")
    return of_rows(await statements.rows(caller, statement.sql()))


async def _lineage(statements: ToolStatements, caller: Caller, arguments: Lineage) -> CallToolResult:
    relation = await _full_name(arguments.relation) if arguments.relation else None
    if arguments.columns:
        where = f" WHERE relation = {_literal(relation)}" if relation else ""
        text = f"SELECT * FROM deltastream.sys.column_lineage{where}"  # noqa: S608 - quoted
        return of_rows(await statements.rows(caller, text))
    edges = await statements.rows(
        caller, "SELECT source_kind, source, target_kind, target FROM deltastream.sys.lineage"
    )
    if relation is None:
        return of_rows(edges)
    return of_rows(
        Rows(edges.columns, _connected(edges.cells, ("relation", relation)), truncated=edges.truncated)
    )


async def _query_findings(
    statements: ToolStatements, caller: Caller, arguments: QueryFindings
) -> CallToolResult:
    if arguments.query is None:
        return of_rows(await statements.rows(caller, "SELECT * FROM deltastream.sys.query_findings"))
    statement = await only_statement(f"EXPLAIN WHY QUERY {arguments.query}")
    return of_rows(await statements.rows(caller, statement.sql()))


async def _validate(statements: ToolStatements, caller: Caller, arguments: Validate) -> CallToolResult:
    return of_diagnostics(await statements.check(caller, arguments.statements))


async def _complete(statements: ToolStatements, caller: Caller, arguments: Complete) -> CallToolResult:
    text = arguments.statement
    offset = len(text) if arguments.offset is None else arguments.offset
    completion = await statements.complete(caller, text, offset)
    columns = tuple(ResultColumn(name, VARCHAR) for name in ("insert", "kind", "detail", "documentation"))
    rows = tuple((each.insert, each.kind, each.detail, each.documentation) for each in completion.candidates)
    replaced = text[completion.start : completion.end]
    message = f"Each candidate replaces {replaced!r} before the position." if replaced else None
    return of_rows(statements.limited(Rows(columns, rows, message=message)))


async def _select(statements: ToolStatements, caller: Caller, arguments: Select) -> CallToolResult:
    statement = await only_statement(arguments.statement)
    if not isinstance(statement, SelectStatement):
        raise refused(
            SqlState.FEATURE_NOT_SUPPORTED,
            "expected a SELECT, found another statement",
            "Objects are listed by list_objects and described by describe_object.",
        )
    limits = statements.limits(arguments.max_rows, arguments.max_seconds)
    return of_rows(await statements.rows(caller, arguments.statement, limits, live=True))


async def _sample_relation(
    statements: ToolStatements, caller: Caller, arguments: SampleRelation
) -> CallToolResult:
    name = await _qualified_name(arguments.relation)
    limits = statements.limits(arguments.max_rows, arguments.max_seconds)
    text = f"SELECT * FROM {name} WITH ('starting.position' = '{arguments.position}')"  # noqa: S608 - a parsed name
    return of_rows(await statements.rows(caller, text, limits, live=True))


async def _run_statement(
    statements: ToolStatements, caller: Caller, arguments: RunStatement
) -> CallToolResult:
    # One statement, since USE ROLE would change the role whose privilege was checked.
    await only_statement(arguments.statement)
    if arguments.dry_run:
        return of_diagnostics(await statements.check(caller, arguments.statement))
    return of_rows(await statements.rows(caller, arguments.statement))


TOOLS = (
    FixedTool(
        "list_objects",
        "List the objects of a kind that your role may see, such as relations, queries or stores.",
        ListObjects,
        _list_objects,
    ),
    FixedTool(
        "describe_object",
        "Describe one object; RELATION COLUMNS lists the columns of a relation.",
        DescribeObject,
        _describe_object,
    ),
    FixedTool(
        "lineage",
        "Show from which entities, relations and queries a relation comes and which it feeds, or from which columns its columns come.",
        Lineage,
        _lineage,
    ),
    FixedTool(
        "query_findings",
        "Explain why queries have no output or will have a problem, with a remedy for each finding.",
        QueryFindings,
        _query_findings,
    ),
    FixedTool(
        "validate",
        "Check SQL statements without running them: syntax, names, types and privileges. Returns their errors with positions and hints.",
        Validate,
        _validate,
        returns_rows=False,
    ),
    FixedTool(
        "complete",
        "List what can stand at a position of a SQL text: keywords, names that your role sees, functions with signatures, properties with "
        "their documentation. Helps to write a statement, and to learn what the grammar allows next.",
        Complete,
        _complete,
    ),
    FixedTool(
        "select",
        "Run one SELECT. Materialized views, tables and system relations are read once. Streams and changelogs are read from now on, "
        "for max_seconds at most; the compute pool may take a minute to start.",
        Select,
        _select,
    ),
    FixedTool(
        "sample_relation",
        "Collect a few rows of a stream or changelog. The compute pool may take a minute to start.",
        SampleRelation,
        _sample_relation,
    ),
    FixedTool(
        "run_statement",
        "Run one statement of any kind, which may change or remove objects. Without dry_run = false it is only checked.",
        RunStatement,
        _run_statement,
        Privilege.EXECUTE_BY_MCP,
        returns_rows=False,
    ),
)


def _unknown_kind(kind: str, known: Iterable[str]) -> Exception:
    return refused(
        SqlState.INVALID_PARAMETER,
        f"expected a kind of objects, found {kind[:100]!r}",
        f"The kinds are {', '.join(known)}.",
    )


async def _qualified_name(text: str) -> QualifiedName:
    """Return the name of a relation; a text with anything else is refused."""
    statement = await only_statement(f"DESCRIBE RELATION {text}")
    if not isinstance(statement, DescribeRelation) or statement.columns:
        raise refused(SqlState.SYNTAX_ERROR, f"expected the name of a relation, found {text[:100]!r}")
    return statement.name


async def _full_name(text: str) -> str:
    """Return the full name of a relation as system relations show it."""
    parts = [part.name for part in (await _qualified_name(text)).parts]
    if len(parts) != 3:
        raise refused(
            SqlState.SYNTAX_ERROR,
            f"expected database.schema.name, found {text[:100]!r}",
            "list_objects shows full names.",
        )
    return ".".join(quote(part) for part in parts)


def _connected(edges: Iterable[Iterable[Cell]], start: tuple[str, str]) -> list[tuple[Cell, ...]]:
    """Return the edges on the ways to and from `start`."""
    rows = [tuple(edge) for edge in edges]
    kept: set[tuple[Cell, ...]] = set()
    for near, far in ((slice(0, 2), slice(2, 4)), (slice(2, 4), slice(0, 2))):
        reached: set[tuple[Cell, ...]] = {start}
        waiting: list[tuple[Cell, ...]] = [start]
        while waiting:
            node = waiting.pop()
            for row in rows:
                if row[near] == node:
                    kept.add(row)
                    if row[far] not in reached:
                        reached.add(row[far])
                        waiting.append(row[far])
    return [row for row in rows if row in kept]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
