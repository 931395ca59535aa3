"""From a parsed statement to its handler."""

from __future__ import annotations

import importlib

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import Statement
from headrace.statements.base import HANDLERS, REQUIRED, Execution, Outcome

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
    "listing",
    "organization",
    "privilege",
    "query",
    "relation",
    "role",
    "schema",
    "schema_registry",
    "select",
    "session",
    "store",
)
for _module in MODULES:
    importlib.import_module(f"headrace.statements.{_module}")


async def execute(statement: Statement, run: Execution) -> Outcome:
    """Check the declared privilege and run the handler; raises HeadraceError."""
    kind = type(statement)
    if kind not in HANDLERS:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED, "this statement is not supported yet", span=statement.span
        )
    required = REQUIRED[kind]
    if required is not None:
        run.authorize(required)
    return await HANDLERS[kind](statement, run)
