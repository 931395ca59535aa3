"""ORGANIZATION: list."""

from __future__ import annotations

from headrace.core.resultset import result
from headrace.core.types import VARCHAR
from headrace.sql.statements.organization import ListOrganizations
from headrace.statements.base import Execution, Outcome, handles, nothing


@handles(ListOrganizations, requires=nothing)
async def list_organizations(_statement: ListOrganizations, run: Execution) -> Outcome:
    organization = run.catalog.organization()
    return Outcome(result([("ID", VARCHAR), ("Name", VARCHAR)], [(organization.id, organization.name)]))
