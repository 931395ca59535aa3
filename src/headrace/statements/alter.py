"""ALTER of any kind of object: its name and owner, and a relation's comment and properties."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from headrace.analyzer import views
from headrace.catalog.kinds import kind_of, spec_of
from headrace.catalog.objects import ComputePool, Database, Query, Relation, SchemaObject, UserFunction
from headrace.catalog.policy import Requirement, named
from headrace.core.context import SessionContext
from headrace.core.errors import UserError
from headrace.core.names import INFORMATION_SCHEMA, SYSTEM_DATABASE, Identifier, QualifiedName
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.sql.statements.alter import RELATIONS, ChangeOwner, DescribeAs, Rename
from headrace.statements.base import CatalogObject, Execution, Outcome, ddl, handles, now, relation_ddl
from headrace.statements.continuous_query import refuse_taken_name
from headrace.statements.dropping import ownership
from headrace.statements.function import refuse_built_in
from headrace.statements.grant import give, giving
from headrace.statements.relation import relation_of_kind

_RESERVED = {"DATABASE": SYSTEM_DATABASE, "SCHEMA": INFORMATION_SCHEMA}


def _ownership(statement: Rename | DescribeAs, run: Execution) -> Iterator[Requirement]:
    return ownership(_named(statement.kind, statement.name, run), run)


@handles(Rename, requires=_ownership)
async def rename(statement: Rename, run: Execution) -> Outcome:
    """Rename an object. Its id, secrets, dependents and queries are kept; a session that had it selected keeps it under the new name."""
    target, name = _named(statement.kind, statement.name, run), statement.new_name
    if _RESERVED.get(statement.kind) == name.name:
        message = f"the {statement.kind.lower()} {name} contains the system relations: its name is reserved"
        raise UserError(kind_of(target).duplicate, message, hint="Choose another name.", span=name.span)
    if isinstance(target, Query):
        if name.name != target.name:
            refuse_taken_name(name.name, name.span, run)
        await asyncio.to_thread(run.catalog.rename_query, target, name.name)
        return Outcome(_answer(target, f"is named {name}"))
    try:
        changed = await asyncio.to_thread(_renamed, target, name, run)
    except UserError as error:
        error.span = error.span or name.span
        raise
    return Outcome(
        _answer(changed, f"was {target.name.name if isinstance(target, Relation) else target.name}"),
        _context(target, changed, run),
    )


def _renamed(target: CatalogObject, name: Identifier, run: Execution) -> Any:
    if isinstance(target, ComputePool) and run.services.engine.has_process(target.name):
        raise UserError(
            SqlState.DEPENDENT_OBJECTS_EXIST,
            f"the compute pool {target.name!r} is running, and its process keeps the name that it was started "
            "with",
            hint=f"STOP COMPUTE_POOL {Identifier(target.name)}; first.",
        )
    called = name.name
    if isinstance(target, UserFunction):
        refuse_built_in(name)
        _refuse_in_views(target, run)
        called = str(replace(target, name=name.name).signature)
    with run.catalog.transaction():
        changed = run.catalog.rename(target, called)
        if isinstance(target, Database | SchemaObject | Relation):
            old, new = spec_of(target).path(target), spec_of(changed).path(changed)
            for relation in run.catalog.relations():
                if relation.definition is not None:
                    definition = views.renamed(relation.definition, old, new)
                    if definition != relation.definition:
                        run.catalog.update_relation(replace(relation, definition=definition))
            run.catalog.versions.redefine(lambda definition: views.renamed(definition, old, new))
        return changed


def _refuse_in_views(function: UserFunction, run: Execution) -> None:
    """Raise UserError 2BP01 for a function that the query of a view calls by its name."""
    views = run.catalog.snapshot().dependents(function)
    if views:
        known = next((named(view) for view in views if run.knows(view)), "a view that you may not see")
        raise UserError(
            SqlState.DEPENDENT_OBJECTS_EXIST,
            f"cannot rename the function {function.signature}: {known} calls it by its name",
            hint="Drop the view, rename the function, and create the view again.",
        )


def _giving(statement: ChangeOwner, run: Execution) -> Iterator[Requirement]:
    return giving(_named(statement.kind, statement.name, run), statement.owner, run)


@handles(ChangeOwner, requires=_giving)
async def change_owner(statement: ChangeOwner, run: Execution) -> Outcome:
    target = _named(statement.kind, statement.name, run)
    await give(target, statement.owner, run)
    return Outcome(_answer(target, f"belongs to the role {statement.owner}"))


@handles(DescribeAs, requires=_ownership)
async def describe_as(statement: DescribeAs, run: Execution) -> Outcome:
    relation = relation_of_kind(statement.kind, statement.name, run, "ALTER")
    changed = replace(relation, description=statement.description, updated_at=now())
    await asyncio.to_thread(run.catalog.update_relation, changed)
    return Outcome(relation_ddl(changed, "ALTER", "was changed"))


def _named(kind: str, name: QualifiedName, run: Execution) -> CatalogObject:
    """Return the object of that kind; raises UserError as `Execution.object`."""
    if kind in RELATIONS:
        return relation_of_kind(kind, name, run, "ALTER")
    return run.object(kind, name)


def _answer(target: Any, done: str) -> ResultSet:
    if isinstance(target, Relation):
        return relation_ddl(target, "ALTER", done)
    kind = kind_of(target)
    path = kind.path(target)
    return ddl(kind.kind, path[-1], "ALTER", f"{kind.word} {path[-1]} {done}", path)


def _context(target: Any, changed: Any, run: Execution) -> SessionContext | None:
    """Return the session's context with the new name, if it named the renamed object."""
    fields = {"database": "database", "store": "store", "compute_pool": "compute_pool", "schema": "schema"}
    field = fields.get(kind_of(target).kind)
    if field is None or getattr(run.context, field) != target.name:
        return None
    if isinstance(target, SchemaObject) and run.context.database != target.database:
        return None
    return run.with_context(**{field: changed.name})
