"""ROLE: list."""

from __future__ import annotations

from headrace.core.resultset import result
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.sql.statements.role import ListRoles
from headrace.statements.base import Execution, Outcome, handles, nothing


@handles(ListRoles, requires=nothing)
async def list_roles(_statement: ListRoles, run: Execution) -> Outcome:
    """Those that the user may take on."""
    rows = [(name, name == run.role) for name in sorted(run.policy.graph.roles_of(run.principal))]
    return Outcome(result([("Name", VARCHAR), ("IsCurrent", BOOLEAN)], rows))
