"""DATABASE: create, describe, drop."""

from __future__ import annotations

import asyncio

from headrace.catalog.access import Privilege
from headrace.catalog.policy import Requirement
from headrace.core.errors import UserError
from headrace.core.names import SYSTEM_DATABASE
from headrace.core.sqlstate import SqlState
from headrace.sql.statements.database import CreateDatabase, DescribeDatabase, DropDatabase
from headrace.statements.base import Execution, Outcome, ddl, handles, on_organization
from headrace.statements.dropping import drop, ownership
from headrace.statements.listing import DATABASES


@handles(CreateDatabase, requires=on_organization(Privilege.CREATE_DATABASE), checked=True)
async def create_database(statement: CreateDatabase, run: Execution) -> Outcome:
    """Create a database with its schema `public`, and select both when the session has no database yet."""
    name = statement.name.name
    if name == SYSTEM_DATABASE:
        raise UserError(
            SqlState.DUPLICATE_DATABASE,
            f"the database {name!r} already exists: it contains the system relations",
            hint="Choose another name.",
            span=statement.name.span,
        )
    exists = statement.if_not_exists and run.knows(run.catalog.database(name))
    if not exists:
        await asyncio.to_thread(run.catalog.create_database, name, run.role)
    selected = run.context.database and run.knows(run.catalog.database(run.context.database))
    context = None if selected else run.with_context(database=name, schema="public")
    return Outcome(
        ddl(
            "database",
            name,
            "CREATE",
            f"database {name} {'already exists' if exists else 'was created'}",
            [name],
        ),
        context,
    )


@handles(
    DropDatabase,
    requires=lambda statement, run: ownership(run.database(statement.name), run, cascade=statement.cascade),
    checked=True,
)
async def drop_database(statement: DropDatabase, run: Execution) -> Outcome:
    """Drop a database with its schemas. Refused with 2BP01 while a relation is in one, unless CASCADE drops it too."""
    name = run.database_of(statement.name)
    suffix = await drop(run.catalog.database(name), run, cascade=statement.cascade, span=statement.name.span)
    was_current = run.context.database == name
    context = run.with_context(database=None, schema=None) if was_current else None
    return Outcome(ddl("database", name, "DROP", f"database {name} was dropped{suffix}", [name]), context)


@handles(
    DescribeDatabase,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.database(statement.name))],
)
async def describe_database(statement: DescribeDatabase, run: Execution) -> Outcome:
    """Return one row of the list."""
    return Outcome(await DATABASES.rows(run, name=run.database(statement.name).name))
