"""Statements that are looked at in order, over a copy of the catalog, and not run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from headrace.catalog.audit import AuditLog
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, HeadraceError, Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.session.auditing import refused_check
from headrace.sql.ast import Select, Statement
from headrace.sql.statements.relation import ReplaceRelation
from headrace.statements.base import Execution, Services, UncheckedError

EXISTING = frozenset(state for state in SqlState if state.name.startswith("DUPLICATE_"))
_MISSING = frozenset(state for state in SqlState if state.name.endswith("_NOT_FOUND"))


@dataclass(frozen=True)
class Outline:
    """A statement of a text: its kind, which is its class in the grammar, its place, and the place of its query if it has one."""

    kind: str
    span: Span
    query: Span | None


@dataclass(frozen=True)
class Checked:
    """Result of a check: the errors of a text, and the statements that could be parsed."""

    diagnostics: tuple[Diagnostic, ...]
    statements: tuple[Outline, ...] = ()


def outline(statement: Statement) -> Outline:
    """Return the outline of a statement."""
    create = statement.create if isinstance(statement, ReplaceRelation) else statement
    query = getattr(create, "select", None)
    return Outline(
        type(statement).__name__, statement.span, query.span if isinstance(query, Select) else None
    )


def _ignore(_statement: Statement, _run: Execution) -> None:
    """Do nothing about a statement that names what may exist."""


@dataclass
class CheckedStatements:
    """The statements of a text, of which each one sees what those before it would create.

    After a statement whose result is not known, or that is wrong, a missing object is no error: that statement may create the object.
    `services` have a draft of the catalog; `context` is the context of the next statement.
    """

    services: Services
    principal: Principal
    context: SessionContext
    files: Mapping[str, bytes]
    audit: AuditLog
    _is_known: bool = field(default=True, init=False)

    async def errors(
        self,
        statement: Statement | UserError,
        look: Callable[[Statement, Execution], Awaitable[SessionContext]],
        uncertain: Callable[[Statement, Execution], None] = _ignore,
    ) -> list[Diagnostic]:
        """Return the error of the next statement, if it has one.

        `look` returns the context after the statement, and raises as `registry.check` does. `uncertain` is called for a statement whose
        missing object is no error.
        """
        if isinstance(statement, UserError):
            self._is_known = False
            return [statement.diagnostic()]
        run = Execution(self.services, self.principal, self.context, files=self.files, checking=True)
        try:
            self.context = await look(statement, run)
        except UncheckedError:
            self._is_known = False
        except HeadraceError as error:
            error.span = error.span or statement.span
            if error.state is SqlState.INSUFFICIENT_PRIVILEGE:
                self.audit.record(refused_check(statement, self.principal, run.role))
            is_certain = self._is_known or error.state not in _MISSING
            self._is_known = self._is_known and error.state in EXISTING
            if is_certain:
                return [error.diagnostic()]
            uncertain(statement, run)
        return []
