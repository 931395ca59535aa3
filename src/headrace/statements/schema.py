"""SCHEMA: create, list, describe, drop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from headrace.catalog.access import Privilege
from headrace.catalog.objects import Database
from headrace.catalog.policy import Requirement
from headrace.core.errors import UserError
from headrace.core.names import INFORMATION_SCHEMA
from headrace.core.sqlstate import SqlState
from headrace.sql.statements.schema import CreateSchema, DescribeSchema, DropSchema, ListSchemas, ManageAccess
from headrace.statements.base import Execution, Outcome, ddl, handles, nothing
from headrace.statements.dropping import drop, ownership
from headrace.statements.listing import SCHEMAS


def _database(statement: CreateSchema, run: Execution) -> Database:
    parts = statement.name.parts
    return run.database(statement.database or (parts[0] if len(parts) == 2 else None))


@handles(
    CreateSchema,
    requires=lambda statement, run: [
        Requirement(Privilege.USAGE, _database(statement, run)),
        Requirement(Privilege.CREATE_SCHEMA, _database(statement, run)),
    ],
    checked=True,
)
async def create_schema(statement: CreateSchema, run: Execution) -> Outcome:
    database, name = _database(statement, run).name, statement.name.last.name
    if name == INFORMATION_SCHEMA:
        raise UserError(
            SqlState.DUPLICATE_SCHEMA,
            f"the schema {name!r} already exists: each database has it for system relations",
            hint="Choose another name.",
            span=statement.name.last.span,
        )
    exists = statement.if_not_exists and run.knows(run.catalog.schema(database, name))
    if not exists:
        await asyncio.to_thread(
            run.catalog.create_schema, database, name, run.role, managed=statement.managed
        )
    done = "already exists" if exists else "was created"
    return Outcome(
        ddl("schema", name, "CREATE", f"schema {name} {done} in database {database}", [database, name])
    )


def _to_manage(statement: ManageAccess, run: Execution) -> Iterator[Requirement]:
    """Yield MANAGE_GRANTS too: owners of objects in the schema lose the right to share them, or get it."""
    yield from ownership(run.schema(statement.name), run)
    yield Requirement(Privilege.MANAGE_GRANTS)


@handles(ManageAccess, requires=_to_manage, checked=True)
async def manage_access(statement: ManageAccess, run: Execution) -> Outcome:
    """Change managed access of a schema; existing grants stay."""
    schema = run.schema(statement.name)
    if schema.managed != statement.managed:
        await asyncio.to_thread(run.catalog.update_schema, replace(schema, managed=statement.managed))
    done = f"schema {schema.name} {'has' if statement.managed else 'has no'} managed access"
    return Outcome(ddl("schema", schema.name, "ALTER", done, [schema.database, schema.name]))


@handles(
    DropSchema,
    requires=lambda statement, run: ownership(run.schema(statement.name), run, cascade=statement.cascade),
    checked=True,
)
async def drop_schema(statement: DropSchema, run: Execution) -> Outcome:
    """Drop a schema. Refused with 2BP01 while a relation is in it, unless CASCADE drops it too."""
    schema = run.schema(statement.name)
    suffix = await drop(schema, run, cascade=statement.cascade, span=statement.name.span)
    path = [schema.database, schema.name]
    return Outcome(ddl("schema", schema.name, "DROP", f"schema {schema.name} was dropped{suffix}", path))


@handles(ListSchemas, requires=nothing)
async def list_schemas(statement: ListSchemas, run: Execution) -> Outcome:
    database = run.listed_database(statement.database)
    return Outcome(await SCHEMAS.rows(run, database_name=database))


@handles(
    DescribeSchema,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.schema(statement.name))],
)
async def describe_schema(statement: DescribeSchema, run: Execution) -> Outcome:
    """Return one row of the list."""
    schema = run.schema(statement.name)
    return Outcome(await SCHEMAS.rows(run, database_name=schema.database, name=schema.name))
