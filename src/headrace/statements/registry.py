"""From a parsed statement to its handler."""

from __future__ import annotations

import asyncio
import importlib

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import Statement
from headrace.statements.base import HANDLERS, REQUIREMENTS, Execution, Outcome, nothing

MODULES = (
    "alter",
    "api_token",
    "compute_pool",
    "continuous_query",
    "database",
    "descriptor_source",
    "drop_if_exists",
    "entity",
    "explain",
    "generate",
    "grant",
    "listing",
    "organization",
    "privilege",
    "query",
    "relation",
    "role",
    "schema",
    "schema_registry",
    "secret",
    "select",
    "session",
    "store",
    "user",
)
for _module in MODULES:
    importlib.import_module(f"headrace.statements.{_module}")


async def execute(statement: Statement, run: Execution) -> Outcome:
    """Check what the statement requires, which is done here and nowhere else, and run the handler; raises HeadraceError."""
    kind = type(statement)
    if kind not in HANDLERS:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED, "this statement is not supported yet", span=statement.span
        )
    requires = REQUIREMENTS[kind]
    if requires is not nothing:
        # In a thread: what a statement is about may have to be read or bound first.
        await asyncio.to_thread(lambda: run.check(requires(statement, run)))
    return await HANDLERS[kind](statement, run)
