"""Comparison of the properties of stores and schema registries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.catalog.access import Privilege
from headrace.catalog.objects import SchemaRegistry, Store
from headrace.core.properties import MASKED, Specs
from headrace.sql.ast import Properties, Property
from headrace.sql.statements.schema_registry import UpdateSchemaRegistry
from headrace.sql.statements.store import UpdateStore
from headrace.statements.base import REQUIREMENTS, Execution
from headrace.statements.desired_state.comparison import LEAVE, UNWRITTEN, Verdict
from headrace.statements.desired_state.steps import Action


def without_placeholders(
    given: Properties, target: Store | SchemaRegistry, specs: Specs, run: Execution
) -> Properties:
    """Return the properties with the present secrets in place of placeholders, which then change nothing.

    Only the owner's secrets are compared: others would learn whether they guessed one.
    """
    is_owner = run.may(Privilege.OWNERSHIP, target)
    entries = []
    for entry in given.entries:
        spec = next((spec for spec in specs if spec.secret and spec.matches_name(entry.key)), None)
        if spec is None or (is_owner and entry.value != MASKED):
            entries.append(entry)
        elif entry.key in target.secrets:
            entries.append(replace(entry, value=target.secrets[entry.key], names_secret=True))
        elif entry.key in target.properties:
            entries.append(replace(entry, value=target.properties[entry.key], names_secret=False))
    return Properties(tuple(entries))


Held = tuple[Mapping[str, str], Mapping[str, str]]
"""The properties of an object, and the secrets that they name."""


def changed_properties(before: Held, after: Held, written: Properties) -> Properties:
    """Return the properties of the UPDATE that turns some properties into others, as far as possible as they are written."""
    span, entries = UNWRITTEN[0], []
    for name in sorted(before[0].keys() | after[0].keys()):
        if name not in after[0]:
            entries.append(Property(name, None, span, removed=True))
        elif any(one.get(name) != other.get(name) for one, other in zip(before, after, strict=True)):
            # A default may depend on the time of the statement: what is not written keeps its value.
            entries += [entry for entry in written.entries if entry.key == name]
    return Properties(tuple(entries))


def updated(update: UpdateStore | UpdateSchemaRegistry, run: Execution) -> Verdict:
    """Return the update, or nothing if no property differs. Raises UserError 42501."""
    if not update.properties:
        return LEAVE
    run.check(REQUIREMENTS[type(update)](update, run))
    entries = update.properties.entries
    notes = tuple(f"'{entry.key}' {'is removed' if entry.removed else 'changes'}" for entry in entries)
    return Verdict(Action.UPDATE, notes, update.sql())
