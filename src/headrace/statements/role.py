"""ROLE: list."""

from __future__ import annotations

from headrace.catalog.access import roles_of
from headrace.core.resultset import result
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.sql.statements.role import ListRoles
from headrace.statements.base import Execution, Outcome, handles


@handles(ListRoles, requires=None)
async def list_roles(_statement: ListRoles, run: Execution) -> Outcome:
    """Those that the user may take on."""
    rows = [(name, name == run.role) for name in sorted(roles_of(run.principal))]
    return Outcome(result([("Name", VARCHAR), ("IsCurrent", BOOLEAN)], rows))
