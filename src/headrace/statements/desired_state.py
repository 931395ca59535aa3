"""Comparison of a text, as the desired state, with what exists: which statements would create or change an object, and which are fulfilled.

Works on a draft of the catalog, as the check of a text does: nothing is run, and no store is contacted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from headrace.analyzer import properties as dialect
from headrace.analyzer.full_names import PARTS
from headrace.catalog.access import Privilege
from headrace.catalog.kinds import BY_NAME, described
from headrace.catalog.objects import (
    Query,
    QueryKind,
    Relation,
    RelationKind,
    SchemaRegistry,
    Store,
    UserFunction,
)
from headrace.catalog.state import CatalogState
from headrace.connectors.schema_registry.options import TYPE, TYPES
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, Span, UserError
from headrace.core.names import Identifier, QualifiedName
from headrace.core.properties import MASKED, Specs, value_of
from headrace.core.sqlstate import SqlState
from headrace.sql import parse
from headrace.sql.ast import Properties, Property, Statement
from headrace.sql.statements.alter import DescribeAs
from headrace.sql.statements.application import Application
from headrace.sql.statements.compute_pool import CreateComputePool
from headrace.sql.statements.database import CreateDatabase
from headrace.sql.statements.descriptor_source import CreateDescriptorSource
from headrace.sql.statements.function import CreateFunction
from headrace.sql.statements.function_source import CreateFunctionSource
from headrace.sql.statements.query import InsertInto, ReplaceQuery, TerminateQuery
from headrace.sql.statements.relation import CreateRelation, CreateRelationAs, DropRelation, ReplaceRelation
from headrace.sql.statements.schema import CreateSchema
from headrace.sql.statements.schema_registry import CreateSchemaRegistry, UpdateSchemaRegistry
from headrace.sql.statements.secret import CreateSecret
from headrace.sql.statements.session import Use
from headrace.sql.statements.store import CreateStore, UpdateStore
from headrace.statements.base import REQUIREMENTS, Execution, UncheckedError
from headrace.statements.definitions import (
    function_statement,
    normal_form,
    properties_of_texts,
    stored_statement,
)
from headrace.statements.function import declared_function
from headrace.statements.registry import check
from headrace.statements.relation import declare
from headrace.statements.replacement import prepare_replacement, resolved
from headrace.statements.schema_registry import declared_registry
from headrace.statements.store import declared_store


class Action(Enum):
    """Effect of a step. A conflict cannot be applied: the object must be dropped first, or the text changed."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    LEAVE = "leave"
    DROP = "drop"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class PlanStep:
    """A step towards the desired state: the statement that takes it, None if there is none, in `context`."""

    action: Action
    kind: str
    name: str
    statement: str | None
    context: SessionContext
    notes: tuple[str, ...] = ()
    span: Span | None = None


@dataclass(frozen=True)
class Plan:
    """The steps towards a desired state, in an order that runs, and the errors of its text; with errors it cannot be applied."""

    steps: tuple[PlanStep, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class _Verdict:
    """Comparison of a statement with an existing object."""

    action: Action
    notes: tuple[str, ...] = ()
    statement: str | None = None


_LEAVE = _Verdict(Action.LEAVE)


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
        if type(compared) not in _COMPARED:
            words = " ".join(statement.text.split()[:2]).upper()
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"expected statements that describe objects, found {words}",
                hint="A desired state consists of CREATE, INSERT INTO … SELECT, ALTER … SET description, BEGIN APPLICATION and USE.",
                span=statement.span,
            )
        if isinstance(compared, CreateDatabase):
            self.databases.append(compared.name.name)
        kind, name, verdict = await asyncio.to_thread(self._compared, compared, run)
        context = run.context
        if verdict is not None:
            new = _selected(compared, run)
            self.steps.append(
                PlanStep(
                    verdict.action, kind, name, verdict.statement, context, verdict.notes, statement.span
                )
            )
            return new
        _refuse_placeholders(compared)
        step = PlanStep(Action.CREATE, kind, name, statement.text, context, span=statement.span)
        try:
            context = await check(compared, run)
        except UncheckedError:
            self.steps.append(step)
            raise
        self.steps.append(step)
        return context

    def _compared(self, statement: Statement, run: Execution) -> tuple[str, str, _Verdict | None]:
        """Return kind and name of the object that a statement describes, and the comparison; None if the object does not exist."""
        kind, compare = _COMPARED[type(statement)]
        if isinstance(statement, InsertInto):
            target: Any = _present_insert(statement, run, self.desired)
            name = (
                _query_name(target)
                if target is not None
                else f"INSERT INTO {run.relation_name(statement.name)}"
            )
        else:
            target, name = _target(statement, kind, run)
        if isinstance(target, Relation):
            kind = target.kind.value.replace("_", " ")
        elif isinstance(statement, CreateRelation | CreateRelationAs):
            kind = statement.kind.lower()
        if target is None:
            return kind, name, None
        self._describe(target, run)
        if not run.knows(target):
            return kind, name, _Verdict(Action.CONFLICT, ("it exists, and is not authorized",))
        return kind, name, compare((statement, target), run)

    def _describe(self, target: Any, run: Execution) -> None:
        """Record that the text describes an existing object, with the query that created it or the relations that the query created."""
        self.desired.add(target.id)
        if isinstance(target, Relation):
            self.desired.update(query.id for query in _creators(target, run))
        elif isinstance(target, Query) and target.kind is QueryKind.APPLICATION:
            sinks = (run.catalog.relation(name) for name in target.sinks)
            self.desired.update(sink.id for sink in sinks if sink is not None)

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
            end = TerminateQuery(*_UNWRITTEN, _reference(query))
            yield PlanStep(Action.DROP, "query", _query_name(query), end.sql(), run.context)
        for relation in sorted(relations, key=lambda relation: relation.created_at, reverse=True):
            name = QualifiedName(tuple(map(Identifier, relation.name.path)))
            drop = DropRelation(*_UNWRITTEN, _WORDS[relation.kind], name)
            kind = relation.kind.value.replace("_", " ")
            yield PlanStep(Action.DROP, kind, str(relation.name), drop.sql(), run.context)


_UNWRITTEN = (Span(0, 0, 1, 1), "")
_REGISTRY = dialect.SCHEMA_REGISTRY.name
_KINDS = {kind.value.upper().replace("_", " "): kind for kind in RelationKind}
_WORDS = {kind: word for word, kind in _KINDS.items()}


def _target(statement: Any, kind: str, run: Execution) -> tuple[Any, str]:
    """Return the existing object that a statement describes, None if there is none, and its name."""
    state = run.catalog.snapshot()
    match statement:
        case CreateRelation() | CreateRelationAs():
            full = run.relation_name(statement.name)
            return state.relation(full), str(full)
        case DescribeAs():
            relation = run.relation(statement.name)
            return relation, str(relation.name)
        case CreateSchema():
            parts = statement.name.parts
            database = run.database_of(statement.database or (parts[0] if len(parts) == 2 else None))
            return state.get(BY_NAME["schema"], (database, parts[-1].name)), f"{database}.{parts[-1]}"
        case CreateFunction():
            function = declared_function(statement, run)
            same = [
                item for item in run.catalog.functions(function.name) if item.signature == function.signature
            ]
            return (same[0] if same else None), str(function.signature)
        case Application():
            name = statement.name.name
            queries = [
                item for item in run.catalog.unfinished_queries() if item.name == name and item.should_run
            ]
            return (queries[0] if queries else None), name
    return state.get(BY_NAME[kind.replace(" ", "_")], (statement.name.name,)), str(statement.name)


def _selected(statement: Statement, run: Execution) -> SessionContext:
    """Return the context after a statement whose object exists: a session selects its first database and its first store."""
    if isinstance(statement, CreateDatabase) and run.context.database is None:
        return run.with_context(database=statement.name.name, schema="public")
    if isinstance(statement, CreateStore) and run.context.store is None:
        return run.with_context(store=statement.name.name)
    return run.context


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


def _exists(_pair: tuple[Any, Any], _run: Execution) -> _Verdict:
    return _LEAVE


def _not_compared(_pair: tuple[Any, Any], _run: Execution) -> _Verdict:
    return _Verdict(Action.LEAVE, ("exists; its content is not compared",))


def _store(pair: tuple[CreateStore, Any], run: Execution) -> _Verdict:
    statement, facts = pair
    store, kind = run.connection(facts.name)
    given = _without_placeholders(statement.properties, store, kind.properties, run)
    desired = declared_store(replace(statement, properties=given), run)
    # Read as a statement, so that it has the defaults of this release.
    written = {dialect.TYPE.name: store.type, **store.properties, _REGISTRY: store.schema_registry}
    present = declared_store(replace(statement, properties=properties_of_texts(written)), run)
    if desired.type != store.type:
        return _Verdict(Action.CONFLICT, (f"its type is {kind.label}, which cannot be changed",))
    pairs = [
        (
            {**each.properties, **({_REGISTRY: each.schema_registry} if each.schema_registry else {})},
            each.secrets,
        )
        for each in (replace(present, secrets=store.secrets), desired)
    ]
    changes = _changes(pairs[0], pairs[1], statement.properties)
    return _updated(UpdateStore(*_UNWRITTEN, statement.name, changes), run)


def _registry(pair: tuple[CreateSchemaRegistry, Any], run: Execution) -> _Verdict:
    statement, facts = pair
    registry = run.catalog.opened_registry(facts)
    kind = TYPES[registry.type]
    given = _without_placeholders(statement.properties, registry, kind.properties, run)
    desired = declared_registry(replace(statement, properties=given), run)
    if desired.type != registry.type:
        return _Verdict(Action.CONFLICT, (f"its type is {kind.label}, which cannot be changed",))
    written = {TYPE.name: registry.type, **registry.properties}
    present = declared_registry(replace(statement, properties=properties_of_texts(written)), run)
    before, after = (present.properties, registry.secrets), (desired.properties, desired.secrets)
    changes = _changes(before, after, statement.properties)
    return _updated(UpdateSchemaRegistry(*_UNWRITTEN, statement.name, changes), run)


def _without_placeholders(
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


_Held = tuple[Mapping[str, str], Mapping[str, str]]
"""The properties of an object, and the secrets that they name."""


def _changes(before: _Held, after: _Held, written: Properties) -> Properties:
    """Return the properties of the UPDATE that turns some properties into others, as far as possible as they are written."""
    span, entries = _UNWRITTEN[0], []
    for name in sorted(before[0].keys() | after[0].keys()):
        if name not in after[0]:
            entries.append(Property(name, None, span, removed=True))
        elif any(one.get(name) != other.get(name) for one, other in zip(before, after, strict=True)):
            # A default may depend on the time of the statement: what is not written keeps its value.
            entries += [entry for entry in written.entries if entry.key == name]
    return Properties(tuple(entries))


def _updated(update: UpdateStore | UpdateSchemaRegistry, run: Execution) -> _Verdict:
    if not update.properties:
        return _LEAVE
    run.check(REQUIREMENTS[type(update)](update, run))
    entries = update.properties.entries
    notes = tuple(f"'{entry.key}' {'is removed' if entry.removed else 'changes'}" for entry in entries)
    return _Verdict(Action.UPDATE, notes, update.sql())


def _function(pair: tuple[CreateFunction, UserFunction], run: Execution) -> _Verdict:
    statement, function = pair
    if function_statement(declared_function(statement, run)).sql() == function_statement(function).sql():
        return _LEAVE
    return _Verdict(Action.CONFLICT, ("it is declared otherwise; DROP FUNCTION first, or use another name",))


def _relation(pair: tuple[CreateRelation, Relation], run: Execution) -> _Verdict:
    """Compare a relation over an entity: it cannot be changed, so that each difference is a conflict."""
    statement, relation = pair
    if any(query.kind is not QueryKind.INSERT_INTO for query in _creators(relation, run)):
        return _Verdict(Action.CONFLICT, ("it was created by a query",))
    try:
        desired = declare(statement, run).relation
    except UncheckedError:
        # Columns that a store or a registry defines are known when the relation is created.
        desired = replace(relation, kind=_KINDS[statement.kind], properties=_given(statement))
    differences = [
        word
        for word, one, other in (
            ("kind", relation.kind, desired.kind),
            ("columns or key", relation.schema, desired.schema),
            ("store", relation.store, desired.store),
            ("entity", relation.entity, desired.entity),
            ("format", relation.format.value.format, desired.format.value.format),
            ("properties", _folded(relation.properties), _folded(desired.properties)),
        )
        if one != other
    ]
    if not differences:
        return _LEAVE
    note = f"another {', '.join(differences)}: a relation without a query cannot be changed, DROP it first"
    return _Verdict(Action.CONFLICT, (note,))


def _given(statement: CreateRelation) -> dict[str, str]:
    return {
        key: value or "" for key, value in statement.properties.items() if not dialect.STORE.matches_name(key)
    }


def _folded(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties as they are compared: words such as JSON have no case."""
    return {name: text.casefold() for name, text in properties.items()}


def _relation_as(pair: tuple[CreateRelationAs, Relation], run: Execution) -> _Verdict:
    statement, relation = pair
    creator = next(
        (query for query in reversed(_creators(relation, run)) if query.kind is not QueryKind.INSERT_INTO),
        None,
    )
    if creator is None or not run.knows(creator):
        return _Verdict(Action.CONFLICT, ("no query created it, or the query is not authorized",))
    if creator.kind is QueryKind.APPLICATION:
        return _Verdict(Action.CONFLICT, (f"the application {_query_name(creator)} created it",))
    present = stored_statement(creator, relation)
    if present is not None and normal_form(present, _stored_name) == normal_form(statement, _names(run)):
        return _LEAVE
    try:
        replaced = resolved(ReplaceRelation(statement.span, statement.text, statement), run)
    except UserError as error:
        return _Verdict(Action.CONFLICT, (error.message,))
    if not isinstance(replaced, ReplaceQuery):
        return _Verdict(Action.CONFLICT, (f"{described(relation)} is not authorized",))
    again = ReplaceRelation(*_UNWRITTEN, replace(statement, if_not_exists=False))
    return _replaced(replaced, creator, again.sql(), run)


def _insert(pair: tuple[InsertInto, Query], run: Execution) -> _Verdict:
    statement, query = pair
    present = stored_statement(query, None)
    if present is not None and normal_form(present, _stored_name) == normal_form(statement, _names(run)):
        return _LEAVE
    replaced = ReplaceQuery(statement.span, statement.text, _reference(query), statement.select)
    return _replaced(replaced, query, replaced.sql(), run)


def _replaced(statement: ReplaceQuery, query: Query, text: str, run: Execution) -> _Verdict:
    """Return whether a query can be replaced, in the words of EXPLAIN."""
    try:
        run.check(REQUIREMENTS[ReplaceQuery](statement, run))
        replacement = prepare_replacement(statement, run)
    except UserError as error:
        return _Verdict(Action.CONFLICT, (error.message,))
    if replacement.successor.plan == query.plan and replacement.successor.incarnation == query.incarnation:
        return _LEAVE
    comparison = replacement.comparison
    notes = tuple(line.strip() for line in comparison.lines())
    possible = comparison.is_compatible or comparison.starts_anew
    if not possible and query.kind is not QueryKind.CREATE_MATERIALIZED_VIEW_AS:
        notes = (*notes, f"QUERY WITH ('{dialect.REPLACEMENT.name}' = 'anew') computes the results again")
    return _Verdict(Action.REPLACE if possible else Action.CONFLICT, notes, text if possible else None)


def _application(pair: tuple[Application, Query], _run: Execution) -> _Verdict:
    statement, query = pair
    if parse(query.sql) == [statement]:
        return _LEAVE
    return _Verdict(Action.CONFLICT, ("the query of an application cannot be replaced: TERMINATE it first",))


def _description(pair: tuple[DescribeAs, Relation], run: Execution) -> _Verdict:
    statement, relation = pair
    if relation.description == statement.description:
        return _LEAVE
    run.check(REQUIREMENTS[DescribeAs](statement, run))
    return _Verdict(Action.UPDATE, ("the description changes",), statement.sql())


def _creators(relation: Relation, run: Execution) -> list[Query]:
    """Return the queries that created a relation or were part of its creation, oldest first."""
    return [query for query in run.catalog.writers(relation) if query.kind is not QueryKind.INSERT_INTO]


def _present_insert(statement: InsertInto, run: Execution, matched: Collection[str]) -> Query | None:
    """Return the running query of the same name, or, without a name, one with an equal statement that no other statement describes."""
    relation = run.relation(statement.name)
    queries = [
        query
        for query in run.catalog.unfinished_queries()
        if query.kind is QueryKind.INSERT_INTO
        and query.should_run
        and query.sink == relation.name
        and query.id not in matched
        and run.knows(query)
    ]
    name = value_of(statement.properties.entries, dialect.QUERY_NAME) or value_of(
        statement.select.query_properties.entries, dialect.QUERY_NAME
    )
    if name is not None:
        return next((query for query in queries if query.name == name), None)
    normal = normal_form(statement, _names(run))
    return next(
        (
            query
            for query in queries
            if query.name is None
            and (present := stored_statement(query, None)) is not None
            and normal_form(present, _stored_name) == normal
        ),
        None,
    )


def _names(run: Execution) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Return the function that completes the name of a relation by the names of the session."""
    session = (run.context.database or "", run.context.schema or "public")
    return lambda parts: (*session[: PARTS - len(parts)], *parts)


def _stored_name(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the name in a stored statement, which is a full name."""
    return parts


def _query_name(query: Query) -> str:
    return query.name or query.id


def _reference(query: Query) -> QualifiedName:
    return QualifiedName((Identifier(query.id),))


_COMPARED: dict[type[Statement], tuple[str, Callable[[Any, Execution], _Verdict]]] = {
    CreateDatabase: ("database", _exists),
    CreateSchema: ("schema", _exists),
    CreateStore: ("store", _store),
    CreateSchemaRegistry: ("schema registry", _registry),
    CreateFunction: ("function", _function),
    CreateSecret: ("secret", _not_compared),
    CreateComputePool: ("compute pool", _not_compared),
    CreateDescriptorSource: ("descriptor source", _not_compared),
    CreateFunctionSource: ("function source", _not_compared),
    CreateRelation: ("relation", _relation),
    CreateRelationAs: ("relation", _relation_as),
    DescribeAs: ("description", _description),
    InsertInto: ("query", _insert),
    Application: ("application", _application),
}
"""What a statement describes, and its comparison with an existing object."""
