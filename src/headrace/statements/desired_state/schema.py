"""Schemas."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from headrace.catalog.kinds import BY_NAME
from headrace.sql.statements.schema import CreateSchema
from headrace.statements.base import Execution
from headrace.statements.desired_state.comparison import LEAVE, Described, Verdict, compares


def _find(statement: CreateSchema, run: Execution, _desired: Collection[str]) -> Described:
    parts = statement.name.parts
    database = run.database_of(statement.database or (parts[0] if len(parts) == 2 else None))
    target = run.catalog.snapshot().get(BY_NAME["schema"], (database, parts[-1].name))
    return Described(target, "schema", f"{database}.{parts[-1]}")


@compares(CreateSchema, find=_find)
def compare(_statement: CreateSchema, _schema: Any, _run: Execution) -> Verdict:
    """Leave a schema."""
    return LEAVE
