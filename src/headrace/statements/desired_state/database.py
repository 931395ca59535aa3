"""Databases."""

from __future__ import annotations

from typing import Any

from headrace.core.context import SessionContext
from headrace.sql.statements.database import CreateDatabase
from headrace.statements.base import Execution
from headrace.statements.desired_state.comparison import LEAVE, Verdict, by_name, compares


def _selected(statement: CreateDatabase, run: Execution) -> SessionContext:
    """Return the context after a statement whose database exists: a session selects its first one."""
    if run.context.database is None:
        return run.with_context(database=statement.name.name, schema="public")
    return run.context


@compares(CreateDatabase, find=by_name("database"), after=_selected)
def compare(_statement: CreateDatabase, _database: Any, _run: Execution) -> Verdict:
    """Leave a database."""
    return LEAVE
