"""Dispatch of parsed statements to their handlers."""

from __future__ import annotations

import asyncio
import importlib
import re

from headrace.catalog.policy import Requirement
from headrace.core.context import SessionContext
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.results import ResultChannel
from headrace.sql.ast import Statement
from headrace.sql.listing import FilteredList
from headrace.sql.statements.entity import DescribeEntity, ListEntities, ListPartitions
from headrace.sql.statements.query import Explain, SelectStatement
from headrace.statements.base import (
    CHECKED,
    HANDLERS,
    REQUIREMENTS,
    Execution,
    Outcome,
    UncheckedError,
    nothing,
)

MODULES = (
    "alert",
    "alter",
    "api_token",
    "application",
    "backup",
    "compute_pool",
    "continuous_query",
    "copying",
    "database",
    "descriptor_source",
    "drop_if_exists",
    "entity",
    "explain",
    "filtered_list",
    "function",
    "function_source",
    "future_grant",
    "generate",
    "grant",
    "insert_values",
    "listing",
    "organization",
    "privilege",
    "query",
    "relation",
    "replacement",
    "role",
    "savepoint",
    "schema",
    "schema_registry",
    "secret",
    "select",
    "session",
    "store",
    "template",
    "user",
    "view",
)
for _module in MODULES:
    importlib.import_module(f"headrace.statements.{_module}")


_READING = ("LIST", "SHOW", "DESCRIBE", "CAN", "USE", "EXPLAIN")
_ONLY_TELL = ("LIST", "SHOW", "DESCRIBE", "PRINT", "CAN", "TEST")


def only_reads_catalog(statement: Statement) -> bool:
    """True if the statement changes nothing and contacts no store, except through the engine."""
    if isinstance(statement, FilteredList):
        return only_reads_catalog(statement.listing)
    if isinstance(statement, Explain):
        # The plan of any other statement depends on what its stores and schema registries answer.
        return isinstance(statement.statement, SelectStatement)
    if isinstance(statement, ListEntities | ListPartitions | DescribeEntity):
        return False
    return isinstance(statement, SelectStatement) or first_word(statement) in _READING


def first_word(statement: Statement) -> str:
    """Return the first keyword of a statement; an empty text for a SELECT in parentheses."""
    # A comment may follow the keyword without a space.
    matched = re.match(r"\w*", statement.text)
    return matched.group().upper() if matched is not None else ""


async def execute(statement: Statement, run: Execution) -> Outcome:
    """Check the privileges that the statement requires, then run the handler. An application checks the privileges of its own statements.

    Raises HeadraceError.
    """
    fulfilled = await _authorise(statement, run)
    outcome = await HANDLERS[type(statement)](statement, run)
    if isinstance(outcome.result, ResultChannel):
        # Rows may come for days.
        outcome.result.lost = run.privilege_watch(fulfilled)
    return outcome


async def check(statement: Statement, run: Execution) -> SessionContext:
    """Return the context after a statement that is only checked: `run` is `checking`.

    Raises HeadraceError for errors that are known without contacting other systems. Raises UncheckedError if the statement's result,
    which later statements may name, is not known without contacting them.
    """
    await _authorise(statement, run)
    if type(statement) in CHECKED:
        outcome = await HANDLERS[type(statement)](statement, run)
        return outcome.context or run.context
    if first_word(statement) not in _ONLY_TELL:
        raise UncheckedError
    return run.context


async def _authorise(statement: Statement, run: Execution) -> list[Requirement]:
    kind = type(statement)
    if kind not in HANDLERS:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED, "this statement is not supported yet", span=statement.span
        )
    requires = REQUIREMENTS[kind]
    if requires is nothing:
        return []
    # In a thread: requirements may read files or bind a query first.
    return await asyncio.to_thread(lambda: run.check(requires(statement, run)))
