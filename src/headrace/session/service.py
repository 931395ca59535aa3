"""Execution of statement texts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.kinds.spec import KindSpec
from headrace.catalog.kinds.store import STORE
from headrace.catalog.objects import Principal
from headrace.catalog.policy import check_role
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError, UserError
from headrace.core.names import printed
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.engine.results import ResultChannel
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.sql.statements.session import Use
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

    async def execute(
        self,
        text: str,
        *,
        principal: Principal,
        context: SessionContext,
        files: Mapping[str, bytes] | None = None,
    ) -> Executed:
        """`text` holds zero or more statements; none at all is an empty success. `files` are those that they name.

        A live result is only possible for the last statement (0A000 otherwise). The organization and the role of `context` are
        checked at once (3D004, 3D001, 42501) unless the first statement chooses another; its other names when a statement
        resolves them, since some clients go on naming what was dropped. Raises HeadraceError.
        """
        # In a thread: a text of megabytes takes seconds, in which other sessions want their answers.
        statements = await asyncio.to_thread(parse, text)
        first = statements[0] if statements else None
        context = self._begun(context, principal, chooses=first.kind if isinstance(first, Use) else None)
        identifiers: list[str] = []
        outcome: ResultSet | ResultChannel = ResultSet()
        for statement in statements:
            await self._refuse_unfinished(outcome, statement)
            identifiers.append(str(uuid.uuid4()))
            run = Execution(self._services, principal, context, files=files or {})
            try:
                answer = await execute(statement, run)
            except HeadraceError as error:
                self._log(statement, identifiers[-1], run, error.state)
                raise
            self._log(statement, identifiers[-1], run, SqlState.SUCCESS)
            outcome = answer.result
            context = answer.context or context
        context = self.settled(context, principal)
        return Executed(tuple(identifiers) or (str(uuid.uuid4()),), outcome, context)

    def settled(self, context: SessionContext, principal: Principal) -> SessionContext:
        """`context` as an answer tells it, whatever came of the statement: defaults filled in, and nothing in it that does not
        exist or that its role may not know of, nor a role that `principal` may not take on."""
        state = self._services.catalog.snapshot()
        allowed = state.graph.roles_of(principal)
        role = context.role if context.role in allowed else principal.default_role

        def known(spec: KindSpec[Any], *path: str | None) -> bool:
            found = state.get(spec, tuple(part or "" for part in path))
            return found is not None and state.policy.known(role, found)

        database, schema, store, pool = context.database, context.schema, context.store, context.compute_pool
        if not known(DATABASE, database):
            database = None
        if not known(SCHEMA, database, schema):
            schema = None
        return replace(
            context,
            organization_id=state.organization.id,
            role=role,
            database=database,
            schema=schema or ("public" if database else None),
            store=store if known(STORE, store) else None,
            compute_pool=pool if known(COMPUTE_POOL, pool) else None,
        )

    def _begun(self, context: SessionContext, principal: Principal, *, chooses: str | None) -> SessionContext:
        """`context` with its organization and role checked, unless the first statement `chooses` that very name."""
        organization = self._services.catalog.organization()
        named = context.organization_id
        if chooses != "ORGANIZATION" and named not in ("", organization.id, organization.name):
            raise UserError(
                SqlState.ORGANIZATION_NOT_FOUND,
                f"the session's organization {named!r} does not exist",
                hint=f"Connect to {organization.id}, or say USE ORGANIZATION {printed(organization.name)}.",
            )
        role = context.role or principal.default_role
        graph = self._services.catalog.snapshot().graph
        if chooses == "ROLE" and role not in graph.roles_of(principal):
            role = principal.default_role
        check_role(graph, principal, role, exists=self._services.catalog.role(role) is not None)
        schema = context.schema or ("public" if context.database else None)
        return replace(context, organization_id=organization.id, role=role, schema=schema)

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
