"""Execution of statement texts."""

from __future__ import annotations

import asyncio
import datetime
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import structlog

from headrace.catalog.access import Privilege
from headrace.catalog.changes import Change, changes
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.kinds.spec import KindSpec
from headrace.catalog.kinds.store import STORE
from headrace.catalog.objects import Principal, Relation, RelationKind
from headrace.catalog.policy import Requirement, check_role
from headrace.catalog.state import CatalogState
from headrace.core import tracing
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, HeadraceError, UserError
from headrace.core.names import printed
from headrace.core.resultset import ResultColumn, ResultSet
from headrace.core.signals import Signal
from headrace.core.sqlstate import SqlState
from headrace.engine.live_queries import LiveQuery
from headrace.engine.results import ResultChannel
from headrace.session.auditing import audited, recorded_text, refused_check
from headrace.session.checking import EXISTING, Checked, CheckedStatements, Outline, outline
from headrace.session.recent_queries import RecentQueries, RecentQuery
from headrace.sql import parse, parse_each
from headrace.sql.ast import Statement
from headrace.sql.statements.query import SelectStatement
from headrace.sql.statements.session import Use
from headrace.statements.base import Execution, Outcome, Services
from headrace.statements.completion import Completion, complete
from headrace.statements.copying import file_for
from headrace.statements.desired_state import DesiredState, Plan
from headrace.statements.language import Language, language
from headrace.statements.registry import check, execute
from headrace.statements.select import columns_of

log = structlog.get_logger()

T = TypeVar("T")
STATEMENTS_MAX = 10_000
"""Of one plan."""
DIAGNOSTICS_MAX = 100
"""Of one text; there is no end to what can be wrong with one of megabytes."""


@dataclass(frozen=True)
class Executed:
    """Outcome of a text: one id for each statement, the last outcome, and the context after it."""

    statement_ids: tuple[str, ...]
    outcome: ResultSet | ResultChannel
    context: SessionContext


class StatementService:
    """Runs the statements of a text in order and stops at the first error; what came before it stays done."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._audit = services.catalog.audit
        self._recent = RecentQueries()

    async def execute(
        self,
        text: str,
        *,
        principal: Principal,
        context: SessionContext,
        files: Mapping[str, bytes] | None = None,
        bounded: bool = False,
    ) -> Executed:
        """Execute the statements of `text`; an empty text succeeds. `files` are the uploaded ones that they name.

        A live result is only possible for the last statement (0A000 otherwise). With `bounded`, every result must have an end (0A000).
        The organization and the role of `context` are checked at once (3D004, 3D001, 42501) unless the first statement chooses
        another; its other names when a statement resolves them, since some clients go on naming what was dropped. Raises HeadraceError.
        """
        recent = self._repeated(text, principal, context)
        if recent is not None:
            return await self._run_again(recent, principal)
        state = self._services.catalog.snapshot()
        statements = await self._parsed(text, principal, context)
        first = statements[0] if statements else None
        context = self._begun(context, principal, first)
        identifiers: list[str] = []
        outcome: ResultSet | ResultChannel = ResultSet()
        for statement in statements:
            await self._refuse_unfinished(outcome, statement)
            identifiers.append(str(uuid.uuid4()))
            run = Execution(self._services, principal, context, files=files or {}, bounded=bounded)
            answer = await self._run(statement, identifiers[-1], run)
            if len(statements) == 1:
                self._keep(text, statement, run, state)
            outcome = answer.result
            context = answer.context or context
        context = self.settled(context, principal)
        return Executed(tuple(identifiers) or (str(uuid.uuid4()),), outcome, context)

    async def check(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> Checked:
        """Return the statements of `text` with their errors, the first `DIAGNOSTICS_MAX`; nothing is run, and only the catalog is read.

        What exists already is a warning. Raises HeadraceError for the session's organization and role.
        """
        statements = parse_each(text)
        diagnostics: list[Diagnostic] = []
        outlines: list[Outline] = []
        checked: CheckedStatements | None = None
        while len(diagnostics) < DIAGNOSTICS_MAX:
            statement = await asyncio.to_thread(next, statements, None)
            if statement is None:
                break
            if isinstance(statement, Statement):
                outlines.append(outline(statement))
            checked = checked or self._checked(principal, context, files, statement)
            diagnostics += await checked.errors(statement, check)
        shown = (
            replace(each, severity="warning") if SqlState(each.sqlstate) in EXISTING else each
            for each in diagnostics
        )
        return Checked(tuple(shown), tuple(outlines))

    async def plan(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> Plan:
        """Return the steps from what exists to the state that the statements of `text` describe; nothing is run, and only the catalog is
        read.

        What exists in a database that the text creates, and is not in the text, has a step that drops it. Raises HeadraceError for the
        session's organization and role.
        """
        desired = DesiredState(self._services.catalog.snapshot())
        statements = await asyncio.to_thread(lambda: list(islice(parse_each(text), STATEMENTS_MAX + 1)))
        checked = self._checked(principal, context, files, statements[0] if statements else None)
        diagnostics: list[Diagnostic] = []
        for statement in statements:
            diagnostics += await checked.errors(statement, desired.add, desired.add_uncertain)
        if len(statements) > STATEMENTS_MAX:
            diagnostics.append(_too_many_statements())
        if diagnostics:
            # What is missing in the text may be in the statement that is wrong.
            return Plan(tuple(desired.steps), tuple(diagnostics[:DIAGNOSTICS_MAX]))
        run = Execution(self._services, principal, checked.context, checking=True)
        return Plan((*desired.steps, *await asyncio.to_thread(lambda: list(desired.surplus(run)))))

    async def complete(
        self, text: str, offset: int, *, principal: Principal, context: SessionContext
    ) -> Completion:
        """Return what can be typed at `offset` of `text`, from the catalog as the role sees it. Raises HeadraceError for the session's
        organization and role."""
        run = Execution(
            self._services, principal, self._entered(context, principal, chooses=None), checking=True
        )
        return await asyncio.to_thread(complete, text, offset, run)

    async def language(self) -> Language:
        """Return the language of this version."""
        return await asyncio.to_thread(language)

    async def columns(
        self, text: str, *, principal: Principal, context: SessionContext
    ) -> tuple[ResultColumn, ...] | None:
        """Return the columns of a SELECT, which is not run; None for any other statement. Raises HeadraceError as running it would."""
        statements = await self._parsed(text, principal, context)
        if not statements or not isinstance(statements[0], SelectStatement):
            return None
        context = self._begun(context, principal, statements[0])
        return await columns_of(statements[0], Execution(self._services, principal, context, bounded=True))

    async def read(
        self,
        text: str | Statement,
        read: Callable[[Execution], T],
        *,
        principal: Principal,
        context: SessionContext,
        repeated: bool = False,
    ) -> T:
        """Call `read`, which answers `text` from the catalog or by a query of the views' workers, in one of their readers.

        For texts that a door answers itself. They are logged and audited as statements are, but for a `repeated` one only if it fails.
        Raises HeadraceError.
        """
        context = self._begun(context, principal, None)
        run = Execution(self._services, principal, context)
        began, state = time.perf_counter(), SqlState.INTERNAL_ERROR
        try:
            answer = await self._services.engine.read_views(principal.user, lambda: read(run))
            state = SqlState.SUCCESS
            return answer
        except HeadraceError as error:
            state = error.state
            raise
        finally:
            if not repeated or state is not SqlState.SUCCESS:
                identifier = str(uuid.uuid4())
                self._log("CatalogQuery", identifier, run, state)
                self._audit.record(
                    audited(text, principal, run.role, state, began=began, statement_id=identifier)
                )

    @property
    def committed(self) -> Signal:
        """The signal of each commit of the catalog."""
        return self._services.catalog.committed

    @property
    def progressed(self) -> Signal:
        """The signal of each progress of a continuous query."""
        return self._services.engine.progressed

    @property
    def pushed(self) -> Mapping[str, Signal]:
        """The signals of changes that are not in the catalog, by system relation."""
        return self._services.engine.pushed

    def state(self) -> CatalogState:
        """Return the catalog's current state, for `changes`."""
        return self._services.catalog.snapshot()

    async def changes(
        self, since: CatalogState, kinds: Collection[str], *, principal: Principal, context: SessionContext
    ) -> tuple[CatalogState, list[Change]]:
        """Return the current state, and what changed since another one for the role of `context`. Raises HeadraceError for the context."""
        role, state = self._role(principal, context), self.state()
        # In a thread: other privileges require a look at all objects.
        return state, await asyncio.to_thread(lambda: list(changes(since, state, role, kinds)))

    def settled(self, context: SessionContext, principal: Principal) -> SessionContext:
        """Return the `context` for an answer: with defaults, and without names of missing objects."""
        state = self._services.catalog.snapshot()
        allowed = state.graph.roles_of(principal)
        role = context.role if context.role in allowed else state.graph.first_role(principal)

        def known(spec: KindSpec[Any], *path: str | None) -> bool:
            target = state.get(spec, tuple(part or "" for part in path))
            return target is not None and state.policy.known(role, target)

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

    def readable_views(self, principal: Principal, context: SessionContext) -> list[Relation]:
        """Return the materialized views that the role of `context` may SELECT, by name. Raises HeadraceError for the organization and the
        role."""
        role = self._role(principal, context)
        state = self._services.catalog.snapshot()
        return sorted(
            (
                relation
                for relation in state.relations()
                if relation.kind is RelationKind.MATERIALIZED_VIEW
                and state.policy.fulfils(role, Requirement(Privilege.SELECT, relation))
            ),
            key=lambda relation: relation.name.path,
        )

    def holds(self, privilege: Privilege, principal: Principal, context: SessionContext) -> bool:
        """True if the role of `context` has a privilege on the organization. Raises HeadraceError for the organization and the role."""
        role = self._role(principal, context)
        return self._services.catalog.snapshot().policy.check(role, privilege)

    def download(self, principal: Principal, kind: str, organization: str, name: str) -> bytes | None:
        """Return the file of a function source or descriptor source, None if it is missing or `principal` may not use it."""
        return file_for(self._services.catalog, principal, kind, organization, name)

    async def _parsed(self, text: str, principal: Principal, context: SessionContext) -> list[Statement]:
        began = time.perf_counter()
        try:
            # In a thread: a text of megabytes takes seconds, in which other sessions want their answers.
            return await asyncio.to_thread(parse, text)
        except HeadraceError as error:
            role = context.role or principal.default_role
            self._audit.record(audited(text, principal, role, error.state, began=began))
            raise

    def _repeated(self, text: str, principal: Principal, context: SessionContext) -> RecentQuery | None:
        """Return the query of a text that ran in the same context since the last commit of the catalog. Raises HeadraceError for the
        organization and the role."""
        queries = self._recent.find(text, self._services.catalog.snapshot())
        if not queries:
            return None
        statement = next(iter(queries.values())).statement
        return queries.get(self._begun(context, principal, statement))

    async def _run_again(self, recent: RecentQuery, principal: Principal) -> Executed:
        """Run a query that is bound and compiled. Its privileges are checked as those of any other statement."""
        context, identifier = recent.context, str(uuid.uuid4())
        run = Execution(
            self._services,
            principal,
            context,
            bindings={False: recent.logical},
            compiled={False: recent.compiled},
        )
        answer = await self._run(recent.statement, identifier, run)
        return Executed((identifier,), answer.result, self.settled(context, principal))

    def _keep(self, text: str, statement: Statement, run: Execution, state: CatalogState) -> None:
        """Keep a query that ran for the next time, unless the catalog changed after `state`: the query may be bound to either."""
        compiled = run.compiled.get(False)
        if compiled is None or not isinstance(statement, SelectStatement):
            return
        if self._services.catalog.snapshot() is state:
            self._recent.keep(text, RecentQuery(statement, run.context, run.bindings[False], compiled), state)

    async def _run(self, statement: Statement, identifier: str, run: Execution) -> Outcome:
        """Run a statement, and record its outcome in the log and the audit log."""
        if self._audit.is_full:
            await asyncio.to_thread(self._audit.flush)
        began, state = time.perf_counter(), SqlState.INTERNAL_ERROR
        try:
            with tracing.span(
                "statement",
                {
                    "headrace.statement.kind": type(statement).__name__,
                    "headrace.statement.id": identifier,
                },
            ):
                answer = await execute(statement, run)
            state = SqlState.SUCCESS
            if isinstance(answer.result, ResultChannel):
                self._services.engine.live_queries.add(
                    LiveQuery(
                        identifier,
                        run.principal.user,
                        run.role,
                        recorded_text(statement),
                        datetime.datetime.now(datetime.UTC),
                        answer.result,
                    )
                )
            return answer
        except HeadraceError as error:
            state = error.state
            raise
        finally:
            self._log(type(statement).__name__, identifier, run, state)
            self._audit.record(
                audited(statement, run.principal, run.role, state, began=began, statement_id=identifier)
            )

    def _checked(
        self,
        principal: Principal,
        context: SessionContext,
        files: Mapping[str, bytes],
        first: Statement | UserError | None,
    ) -> CheckedStatements:
        """Return what looks at the statements of a text from the `first` one on. Raises HeadraceError for the organization and the role."""
        services = replace(self._services, catalog=self._services.catalog.draft())
        context = self._begun(context, principal, first, checking=True)
        return CheckedStatements(services, principal, context, files, self._audit)

    def _begun(
        self,
        context: SessionContext,
        principal: Principal,
        first: Statement | UserError | None,
        *,
        checking: bool = False,
    ) -> SessionContext:
        try:
            return self._entered(context, principal, chooses=first.kind if isinstance(first, Use) else None)
        except HeadraceError as error:
            if checking:
                if isinstance(first, Statement) and error.state is SqlState.INSUFFICIENT_PRIVILEGE:
                    self._audit.record(refused_check(first, principal, context.role))
            elif isinstance(first, Statement):
                began = time.perf_counter()
                self._audit.record(audited(first, principal, context.role, error.state, began=began))
            raise

    def _entered(
        self, context: SessionContext, principal: Principal, *, chooses: str | None
    ) -> SessionContext:
        """Return `context` with its organization and role checked, unless the first statement `chooses` that very name."""
        organization = self._services.catalog.organization()
        named = context.organization_id
        if chooses != "ORGANIZATION" and named not in ("", organization.id, organization.name):
            raise UserError(
                SqlState.ORGANIZATION_NOT_FOUND,
                f"the session's organization {named!r} does not exist",
                hint=f"Connect to {organization.id}, or run USE ORGANIZATION {printed(organization.name)}.",
            )
        graph = self._services.catalog.snapshot().graph
        role = context.role or graph.first_role(principal)
        if chooses == "ROLE" and role not in graph.roles_of(principal):
            role = graph.first_role(principal)
        check_role(graph, principal, role, exists=self._services.catalog.role(role) is not None)
        context = replace(context, organization_id=organization.id, role=role)
        return self._with_defaults(context, principal.user, role)

    def _role(self, principal: Principal, context: SessionContext) -> str:
        return self._entered(context, principal, chooses=None).role or principal.default_role

    def _with_defaults(self, context: SessionContext, user: str, role: str) -> SessionContext:
        """Return `context` with the defaults of the user where it names nothing, as far as they exist and `role` may use them."""
        state = self._services.catalog.snapshot()
        member = state.members.users.get(user)

        def default(kind: str) -> Any:
            chosen = member.defaults.get(kind) if member is not None else None
            stored = state.by_id.get(chosen) if chosen is not None else None
            return (
                stored if stored is not None and state.policy.check(role, Privilege.USAGE, stored) else None
            )

        database, schema = context.database, context.schema
        if database is None and (default_database := default("database")) is not None:
            database, chosen = default_database.name, default("schema")
            within = chosen is not None and chosen.database == database
            schema = schema or (chosen.name if within else None)
        store, pool = default("store"), default("compute_pool")
        return replace(
            context,
            database=database,
            schema=schema or ("public" if database else None),
            store=context.store or (store.name if store is not None else None),
            compute_pool=context.compute_pool or (pool.name if pool is not None else None),
        )

    async def _refuse_unfinished(self, outcome: ResultSet | ResultChannel, statement: Statement) -> None:
        if isinstance(outcome, ResultChannel):
            await outcome.close()
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "a statement with a live result must be the last of its batch",
                hint="Send the statements after it in a separate request.",
                span=statement.span,
            )

    def _log(self, kind: str, identifier: str, run: Execution, state: SqlState) -> None:
        # The text may hold secrets (CREATE STORE): the statement's kind is logged, never its text.
        log.info(
            "statement",
            statement_id=identifier,
            kind=kind,
            user=run.principal.user,
            role=run.role,
            sqlstate=state.value,
        )


def _too_many_statements() -> Diagnostic:
    error = UserError(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        f"expected at most {STATEMENTS_MAX} statements in a plan",
        hint="Plan each database on its own.",
    )
    return error.diagnostic()
