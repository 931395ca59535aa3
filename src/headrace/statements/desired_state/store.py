"""Stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.analyzer import properties as dialect
from headrace.core.context import SessionContext
from headrace.sql.statements.store import CreateStore, UpdateStore
from headrace.statements.base import Execution
from headrace.statements.definitions import properties_of_texts
from headrace.statements.desired_state.comparison import UNWRITTEN, Verdict, by_name, compares
from headrace.statements.desired_state.properties import changed_properties, updated, without_placeholders
from headrace.statements.desired_state.steps import Action
from headrace.statements.store import declared_store

_REGISTRY = dialect.SCHEMA_REGISTRY.name


def _selected(statement: CreateStore, run: Execution) -> SessionContext:
    """Return the context after a statement whose store exists: a session selects its first one."""
    return run.with_context(store=statement.name.name) if run.context.store is None else run.context


@compares(CreateStore, find=by_name("store"), after=_selected)
def compare(statement: CreateStore, facts: Any, run: Execution) -> Verdict:
    """Update the properties that differ; the type cannot be changed."""
    store, kind = run.connection(facts.name)
    given = without_placeholders(statement.properties, store, kind.properties, run)
    desired = declared_store(replace(statement, properties=given), run)
    # Read as a statement, so that it has the defaults of this release.
    written = {dialect.TYPE.name: store.type, **store.properties, _REGISTRY: store.schema_registry}
    present = declared_store(replace(statement, properties=properties_of_texts(written)), run)
    if desired.type != store.type:
        return Verdict(Action.CONFLICT, (f"its type is {kind.label}, which cannot be changed",))
    pairs = [
        (
            {**each.properties, **({_REGISTRY: each.schema_registry} if each.schema_registry else {})},
            each.secrets,
        )
        for each in (replace(present, secrets=store.secrets), desired)
    ]
    changes = changed_properties(pairs[0], pairs[1], statement.properties)
    return updated(UpdateStore(*UNWRITTEN, statement.name, changes), run)
