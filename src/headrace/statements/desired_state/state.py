"""The desired state while its statements are read."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.catalog.state import CatalogState
from headrace.core.context import SessionContext
from headrace.core.errors import UserError
from headrace.core.names import Identifier, QualifiedName
from headrace.core.properties import MASKED
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import Properties, Statement
from headrace.sql.statements.database import CreateDatabase
from headrace.sql.statements.query import TerminateQuery
from headrace.sql.statements.relation import DropRelation, ReplaceRelation
from headrace.sql.statements.session import Use
from headrace.statements.base import Execution, UncheckedError
from headrace.statements.desired_state.comparison import (
    COMPARISONS,
    UNWRITTEN,
    Comparison,
    Described,
    Verdict,
)
from headrace.statements.desired_state.query import query_name, reference
from headrace.statements.desired_state.relation import RELATION_WORDS
from headrace.statements.desired_state.steps import Action, PlanStep
from headrace.statements.registry import check

MODULES = (
    "application",
    "database",
    "function",
    "query",
    "relation",
    "schema",
    "schema_registry",
    "store",
    "uncompared",
)
for _module in MODULES:
    importlib.import_module(f"headrace.statements.desired_state.{_module}")


@dataclass
class DesiredState:
    """The desired state while its statements are read: `state` is the catalog before the first one.

    `steps` are those of the statements so far. `databases` are those that the text creates: it describes all that is in them. `desired` are
    the ids of what it describes.
    """

    state: CatalogState
    steps: list[PlanStep] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    desired: set[str] = field(default_factory=set)

    async def add(self, statement: Statement, run: Execution) -> SessionContext:
        """Add the step that a statement requires, none for USE, and return the context after the statement.

        Raises HeadraceError for a statement that would fail, or that does not describe a state. Raises UncheckedError if the result of the
        statement, which later statements may name, is not known before it runs.
        """
        if isinstance(statement, Use):
            return await check(statement, run)
        compared = statement.create if isinstance(statement, ReplaceRelation) else statement
        comparison = COMPARISONS.get(type(compared))
        if comparison is None:
            words = " ".join(statement.text.split()[:2]).upper()
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"expected statements that describe objects, found {words}",
                hint="A desired state consists of CREATE, INSERT INTO … SELECT, ALTER … SET description, BEGIN APPLICATION and USE.",
                span=statement.span,
            )
        if isinstance(compared, CreateDatabase):
            self.databases.append(compared.name.name)
        described, verdict = await asyncio.to_thread(self._compared, comparison, compared, run)
        kind, name, context = described.kind, described.name, run.context
        if verdict is not None:
            action, text, notes = verdict.action, verdict.statement, verdict.notes
            self.steps.append(PlanStep(action, kind, name, text, context, notes, statement.span))
            return comparison.after(compared, run)
        _refuse_placeholders(compared)
        step = PlanStep(Action.CREATE, kind, name, statement.text, context, span=statement.span)
        try:
            context = await check(compared, run)
        except UncheckedError:
            self.steps.append(step)
            raise
        self.steps.append(step)
        return context

    def _compared(
        self, comparison: Comparison, statement: Statement, run: Execution
    ) -> tuple[Described, Verdict | None]:
        """Return the object that a statement describes, and the comparison; None if the object does not exist."""
        described = comparison.find(statement, run, self.desired)
        target = described.target
        if target is None:
            return described, None
        self.desired.update((target.id, *comparison.covers(target, run)))
        if not run.knows(target):
            return described, Verdict(Action.CONFLICT, ("it exists, and is not authorized",))
        return described, comparison.compare(statement, target, run)

    def add_uncertain(self, statement: Statement, run: Execution) -> None:
        """Add the step of a statement that names what an earlier one creates with a result that is not known yet."""
        words = " ".join(statement.text.split()[:2]).lower()
        note = "checked when it runs: it depends on a statement before it"
        step = PlanStep(Action.CREATE, words, "", statement.text, run.context, (note,), statement.span)
        self.steps.append(step)

    def surplus(self, run: Execution) -> Iterator[PlanStep]:
        """Yield the steps that drop what exists in the databases of the text and is not in it: first the queries end."""
        relations = [
            relation
            for database in self.databases
            for relation in run.visible(self.state.relations(database))
            if relation.id not in self.desired
        ]
        inside = [relation for database in self.databases for relation in self.state.relations(database)]
        names = {relation.name for relation in inside}
        queries = [
            query
            for query in run.visible(self.state.queries.values())
            if query.should_run and names & set(query.sinks) and query.id not in self.desired
        ]
        for query in sorted(queries, key=lambda query: query.created_at, reverse=True):
            end = TerminateQuery(*UNWRITTEN, reference(query))
            yield PlanStep(Action.DROP, "query", query_name(query), end.sql(), run.context)
        for relation in sorted(relations, key=lambda relation: relation.created_at, reverse=True):
            name = QualifiedName(tuple(map(Identifier, relation.name.path)))
            drop = DropRelation(*UNWRITTEN, RELATION_WORDS[relation.kind], name)
            kind = relation.kind.value.replace("_", " ")
            yield PlanStep(Action.DROP, kind, str(relation.name), drop.sql(), run.context)


def _refuse_placeholders(statement: Any) -> None:
    """Raise UserError 3D008 for a property that still has the placeholder of an exported secret."""
    for entry in getattr(statement, "properties", Properties()).entries:
        if entry.value == MASKED:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"'{entry.key}' is the placeholder of a secret, expected its value",
                hint=f"Write the value, SECRET name, or a variable: '{entry.key}' = :'name' and -v name=….",
                span=entry.span,
            )
