"""GENERATE: the columns of an entity, as rows or as the statement that creates a relation over it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from headrace.catalog.access import Privilege
from headrace.catalog.policy import Requirement
from headrace.core.resultset import result
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.sql.statements.generate import GenerateColumns, GenerateDdl
from headrace.sql.statements.relation import CreateRelation
from headrace.statements.base import Execution, Outcome, handles
from headrace.statements.inference import inferred, with_columns
from headrace.statements.relation import store_name


def _usage(statement: GenerateDdl | GenerateColumns, run: Execution) -> list[Requirement]:
    return [Requirement(Privilege.USAGE, run.store(store_name(statement.properties))[0])]


@handles(GenerateDdl, requires=_usage)
async def generate_ddl(statement: GenerateDdl, run: Execution) -> Outcome:
    """Return one row: a CREATE STREAM or CREATE CHANGELOG that can be run as it is. Nothing is created."""
    store, kind = run.store(store_name(statement.properties))
    bare = CreateRelation(
        statement.span, statement.text, statement.kind, statement.name, (), (), statement.properties
    )
    listed, notes = await asyncio.to_thread(with_columns, bare, run, store, kind)
    remarks = "".join(f"-- {note}\n" for note in notes)
    return Outcome(result([("Statement", VARCHAR)], [(remarks + _laid_out(listed),)]))


@handles(GenerateColumns, requires=_usage)
async def generate_columns(statement: GenerateColumns, run: Execution) -> Outcome:
    """Return a row for each column."""
    store, kind = run.store(store_name(statement.properties))
    inference = await asyncio.to_thread(inferred, statement.properties, run, store, kind, "")
    titles = [("Name", VARCHAR), ("Type", VARCHAR), ("Nullable", BOOLEAN), ("IsPrimaryKey", BOOLEAN)]
    rows = [
        (column.name, str(column.type), column.nullable, column.name in inference.primary_key)
        for column in inference.columns
    ]
    return Outcome(replace(result(titles, rows), message="; ".join(inference.notes) or None))


def _laid_out(statement: CreateRelation) -> str:
    """Return the statement with a line for each column."""
    lines = [column.sql() for column in statement.columns]
    if statement.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(map(str, statement.primary_key))})")
    body = ",\n  ".join(lines)
    given = ",\n  ".join(entry.sql() for entry in statement.properties.entries)
    return f"CREATE {statement.kind} {statement.name} (\n  {body}\n) WITH (\n  {given}\n);"
