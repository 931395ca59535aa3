"""DROP … IF EXISTS, over the DROP of any kind of object."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.catalog.policy import Requirement
from headrace.core.errors import UserError
from headrace.core.names import Identifier, QualifiedName
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.sql.dropping import DropIfExists
from headrace.statements.base import CHECKED, HANDLERS, REQUIREMENTS, Execution, Outcome, ddl, handles

_MISSING = frozenset(
    {
        SqlState.DATABASE_NOT_FOUND,
        SqlState.SCHEMA_NOT_FOUND,
        SqlState.STORE_NOT_FOUND,
        SqlState.SCHEMA_REGISTRY_NOT_FOUND,
        SqlState.DESCRIPTOR_SOURCE_NOT_FOUND,
        SqlState.FUNCTION_SOURCE_NOT_FOUND,
        SqlState.FUNCTION_NOT_FOUND,
        SqlState.SECRET_NOT_FOUND,
        SqlState.RELATION_NOT_FOUND,
        SqlState.ROLE_NOT_FOUND,
        SqlState.COMPUTE_POOL_NOT_FOUND,
        SqlState.API_TOKEN_NOT_FOUND,
        SqlState.USER_NOT_FOUND,
        SqlState.SAVEPOINT_NOT_FOUND,
        SqlState.ALERT_NOT_FOUND,
    }
)
_NO_OBJECTS = ("API_TOKEN", "USER")
"""What only the handler of its DROP finds, or says is missing."""


def _of_drop(statement: DropIfExists, run: Execution) -> Iterable[Requirement]:
    """Yield the DROP's requirements for an object that the role may know; nothing for any other."""
    try:
        yield from REQUIREMENTS[type(statement.drop)](statement.drop, run)
    except UserError as error:
        if error.state not in _MISSING:
            raise


@handles(DropIfExists, requires=_of_drop, checked=True)
async def drop_if_exists(statement: DropIfExists, run: Execution) -> Outcome:
    """Run the DROP if the object exists."""
    name: Identifier | QualifiedName = getattr(statement.drop, "name")  # noqa: B009 - each DROP has one
    full = name if isinstance(name, QualifiedName) else QualifiedName((name,))
    try:
        if statement.kind not in _NO_OBJECTS:
            run.object(statement.kind, full)
        elif not run.checking:
            return await HANDLERS[type(statement.drop)](statement.drop, run)
    except UserError as error:
        if error.state not in _MISSING:
            raise
        kind = statement.kind.lower().replace(" ", "_")
        done = f"nothing was dropped: {error.message}"
        return Outcome(ddl(kind, full.last.name, "DROP", done, full.path))
    if run.checking and type(statement.drop) not in CHECKED:
        return Outcome(ResultSet())
    return await HANDLERS[type(statement.drop)](statement.drop, run)
