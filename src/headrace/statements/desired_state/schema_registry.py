"""Schema registries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.connectors.schema_registry.options import TYPE, TYPES
from headrace.sql.statements.schema_registry import CreateSchemaRegistry, UpdateSchemaRegistry
from headrace.statements.base import Execution
from headrace.statements.definitions import properties_of_texts
from headrace.statements.desired_state.comparison import UNWRITTEN, Verdict, by_name, compares
from headrace.statements.desired_state.properties import changed_properties, updated, without_placeholders
from headrace.statements.desired_state.steps import Action
from headrace.statements.schema_registry import declared_registry


@compares(CreateSchemaRegistry, find=by_name("schema registry"))
def compare(statement: CreateSchemaRegistry, facts: Any, run: Execution) -> Verdict:
    """Update the properties that differ; the type cannot be changed."""
    registry = run.catalog.opened_registry(facts)
    kind = TYPES[registry.type]
    given = without_placeholders(statement.properties, registry, kind.properties, run)
    desired = declared_registry(replace(statement, properties=given), run)
    if desired.type != registry.type:
        return Verdict(Action.CONFLICT, (f"its type is {kind.label}, which cannot be changed",))
    written = {TYPE.name: registry.type, **registry.properties}
    present = declared_registry(replace(statement, properties=properties_of_texts(written)), run)
    before, after = (present.properties, registry.secrets), (desired.properties, desired.secrets)
    changes = changed_properties(before, after, statement.properties)
    return updated(UpdateSchemaRegistry(*UNWRITTEN, statement.name, changes), run)
