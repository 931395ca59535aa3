"""Execution of statement texts."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import structlog

from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError, UserError
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.engine.results import ResultChannel
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.statements.base import Execution, Services
from headrace.statements.registry import execute

log = structlog.get_logger()


@dataclass(frozen=True)
class Executed:
    """What a text led to: one id for each statement, the last outcome, and the context after it."""

    statement_ids: tuple[str, ...]
    outcome: ResultSet | ResultChannel
    context: SessionContext


class StatementService:
    """Runs the statements of a text in order and stops at the first error; what came before it stays done."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def execute(self, text: str, *, principal: Principal, context: SessionContext) -> Executed:
        """`text` holds zero or more statements; none at all is an empty success.

        A live result is only possible for the last statement (0A000 otherwise). Raises HeadraceError.
        """
        statements = parse(text)
        context = self._defaults(context, principal)
        identifiers: list[str] = []
        outcome: ResultSet | ResultChannel = ResultSet()
        for statement in statements:
            await self._refuse_unfinished(outcome, statement)
            identifiers.append(str(uuid.uuid4()))
            run = Execution(self._services, principal, context)
            try:
                answer = await execute(statement, run)
            except HeadraceError as error:
                self._log(statement, identifiers[-1], run, error.state)
                raise
            self._log(statement, identifiers[-1], run, SqlState.SUCCESS)
            outcome = answer.result
            context = answer.context or context
        return Executed(tuple(identifiers) or (str(uuid.uuid4()),), outcome, context)

    def _defaults(self, context: SessionContext, principal: Principal) -> SessionContext:
        """The organization is the only one there is; the role falls back to the principal's default."""
        values = {**context.__dict__, "organization_id": self._services.catalog.organization().id}
        values["role"] = context.role or principal.default_role
        if context.database and not context.schema:
            values["schema"] = "public"
        return SessionContext(**values)

    async def _refuse_unfinished(self, outcome: ResultSet | ResultChannel, statement: Statement) -> None:
        if isinstance(outcome, ResultChannel):
            await outcome.close()
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "a statement with a live result must be the last of its batch",
                hint="Send what follows it in a request of its own.",
                span=statement.span,
            )

    def _log(self, statement: Statement, identifier: str, run: Execution, state: SqlState) -> None:
        # The text may hold secrets (CREATE STORE): the statement's kind is logged, never its text.
        log.info(
            "statement",
            statement_id=identifier,
            kind=type(statement).__name__,
            user=run.principal.user,
            role=run.role,
            sqlstate=state.value,
        )
