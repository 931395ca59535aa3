"""Privileges: CAN I."""

from __future__ import annotations

from headrace.analyzer.catalog_view import suggestion
from headrace.catalog.access import Privilege
from headrace.core.errors import UserError
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.sql.statements.privilege import CanI
from headrace.statements.base import Execution, Outcome, handles


@handles(CanI, requires=None)
async def can_i(statement: CanI, run: Execution) -> Outcome:
    """Whether the active role holds the privilege, and if not, why."""
    privilege = _privilege(statement)
    target = run.object(statement.kind, statement.name) if statement.kind and statement.name else None
    reason = None
    try:
        run.authorize(privilege, target)
    except UserError as error:
        if error.state is not SqlState.INSUFFICIENT_PRIVILEGE:
            raise
        reason = f"{error.message}; {error.hint}"
    return Outcome(result([("Allowed", BOOLEAN), ("Reason", VARCHAR)], [(reason is None, reason)]))


def _privilege(statement: CanI) -> Privilege:
    word = statement.privilege.name.upper()
    if word not in Privilege.__members__:
        known = list(Privilege.__members__)
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"expected a privilege, found {word}",
            hint=suggestion(word, known, otherwise=f"There is {', '.join(known)}."),
            span=statement.privilege.span,
        )
    return Privilege[word]
