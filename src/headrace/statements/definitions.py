"""Statements that create what exists, in an order that runs: the definition of a database as SQL.

The text of a query is the statement that created or replaced it, with full names. Secrets are replaced by a placeholder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from headrace.analyzer import properties as dialect
from headrace.analyzer.full_names import PARTS, named, with_full_names
from headrace.catalog.access import Privilege
from headrace.catalog.kinds import spec_of
from headrace.catalog.objects import (
    SECRET_STRING,
    FunctionSource,
    Language,
    Query,
    QueryKind,
    RegistryFacts,
    Relation,
    RelationKind,
    SecretFacts,
    StoreFacts,
    UserFunction,
)
from headrace.catalog.state import CatalogState
from headrace.connectors.registry import connector
from headrace.connectors.schema_registry.options import TYPES
from headrace.core.errors import Span, UserError
from headrace.core.names import Identifier, QualifiedName, RelationName, path_text, printed
from headrace.core.properties import MASKED, PropertyReader, Scope, Specs, of_scope, stored
from headrace.sql import parse
from headrace.sql.ast import Properties, Property
from headrace.sql.statements.alter import DescribeAs
from headrace.sql.statements.descriptor_source import CreateDescriptorSource
from headrace.sql.statements.function import CreateFunction, Parameter
from headrace.sql.statements.function_source import CreateFunctionSource
from headrace.sql.statements.query import InsertInto
from headrace.sql.statements.relation import ColumnDefinition, CreateRelation, CreateRelationAs
from headrace.sql.statements.schema import CreateSchema
from headrace.sql.statements.schema_registry import CreateSchemaRegistry
from headrace.sql.statements.secret import CreateSecret
from headrace.sql.statements.store import CreateStore
from headrace.statements.base import Execution
from headrace.statements.function import CLASS, DETERMINISTIC, EGRESS, HANDLER, SOURCE, VECTORIZED

_NOWHERE = Span(0, 0, 1, 1)
_BEFORE = ("secret", "schema_registry", "store", "descriptor_source", "function_source", "function")
"""Kinds of objects outside of databases, in an order in which they can be created."""
_ONCE = {
    spec.name
    for spec in (
        dialect.RESUME_SAVEPOINT,
        dialect.RESUME_QUERY,
        dialect.RESUME_QUERY_NAME,
        dialect.RESUME_QUERY_VERSION,
        dialect.REPLACEMENT,
    )
}
"""Properties that are instructions for one run of a statement, and no part of what it defines."""


@dataclass(frozen=True)
class Definition:
    """A statement that creates an object. It is None, with the reason as the note, if the role cannot see what it needs for that."""

    kind: str
    path: tuple[str, ...]
    statement: str | None
    note: str | None = None


@dataclass(frozen=True)
class _Node:
    """A relation or a query of the database: `reads` are the relations that must exist before it."""

    definition: Definition
    created_at: Any
    id: str
    creates: tuple[RelationName, ...] = ()
    reads: tuple[RelationName, ...] = ()
    pool: str | None = None
    uses: frozenset[str] = field(default_factory=frozenset)
    before: tuple[Definition, ...] = field(default=(), kw_only=True)
    more: tuple[Definition, ...] = ()


def definitions(database: str, run: Execution) -> list[Definition]:
    """Return the statements that create a database as the role sees it: what it uses, then its schemas, relations and queries."""
    state = run.catalog.snapshot()
    nodes = _ordered(list(_nodes(database, run, state)))
    used = [state.by_id[each] for each in sorted(_closure(nodes, state)) if each in state.by_id]
    result = [definition for kind in _BEFORE for definition in _of_kind(kind, used, run)]
    result += [
        Definition("relation", item.name.path, None, f"the relation {item.name} is of another database")
        for item in used
        if isinstance(item, Relation) and item.name.database != database and run.knows(item)
    ]
    result.append(Definition("database", (database,), f"CREATE DATABASE {printed(database)}"))
    for schema in run.visible(run.catalog.schemas(database)):
        if schema.name != "public" or schema.managed:
            name = QualifiedName((Identifier(schema.name),))
            # Each database is created with its schema public.
            create = CreateSchema(
                _NOWHERE, "", name, Identifier(database), schema.name == "public", schema.managed
            )
            result.append(Definition("schema", (database, schema.name), create.sql()))
    pool = run.catalog.default_compute_pool
    for node in nodes:
        if node.pool not in (None, pool):
            pool = node.pool or pool
            note = f"the compute pool {printed(pool)} must exist"
            result.append(Definition("compute_pool", (pool,), f"USE COMPUTE_POOL {printed(pool)}", note))
        result += [*node.before, node.definition, *node.more]
    return result


def stored_statement(query: Query, relation: Relation | None) -> CreateRelationAs | InsertInto | None:
    """Return the statement of a query with full names, None for an application. `relation` is the relation that it created.

    A session's names are not stored with a query, except for views: a name without a database or a schema is that of a source of the
    query, and otherwise of the schema that contains the sink.
    """
    definition = relation.definition if relation is not None else None
    (statement,) = parse(definition.sql if definition is not None else query.sql)
    if not isinstance(statement, CreateRelationAs | InsertInto):
        return None
    known = {name.path for name in (*query.sources, *query.sinks)}

    def full(parts: tuple[str, ...]) -> tuple[str, ...]:
        if definition is not None:
            session = (definition.database or query.sink.database, definition.schema or "public")
            return (*session[: PARTS - len(parts)], *parts)
        matching = [path for path in known if path[-len(parts) :] == parts]
        return matching[0] if len(matching) == 1 else (*query.sink.path[: PARTS - len(parts)], *parts)

    return replace(statement, name=_qualified(query.sink), select=with_full_names(statement.select, full))


def normal_form(
    statement: CreateRelationAs | InsertInto, full: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> str:
    """Return a text that is equal for statements that define the same: with full names and ordered properties, and without the store,
    which the session may select, the name of the query and instructions for one run."""
    left_out = {dialect.STORE.name, dialect.QUERY_NAME.name, *_ONCE}
    select = with_full_names(statement.select, full)
    select = replace(select, query_properties=_sorted(select.query_properties, left_out))
    name = _qualified(RelationName(*full(statement.name.path)))
    changed = replace(statement, name=name, select=select, properties=_sorted(statement.properties, left_out))
    return (
        replace(changed, if_not_exists=False).sql()
        if isinstance(changed, CreateRelationAs)
        else changed.sql()
    )


def relation_statement(relation: Relation) -> CreateRelation:
    """Return the statement that declares a relation over its entity."""
    columns = tuple(
        ColumnDefinition(
            Identifier(column.name),
            column.type,
            column.nullable or column.name in relation.schema.primary_key,
        )
        for column in relation.schema.columns
    )
    key = tuple(map(Identifier, relation.schema.primary_key))
    given = Properties(tuple(Property(name, value, _NOWHERE) for name, value in relation.properties.items()))
    properties = _with(given, dialect.STORE.name, relation.store)
    return CreateRelation(_NOWHERE, "", _word(relation), _qualified(relation.name), columns, key, properties)


def function_statement(function: UserFunction) -> CreateFunction:
    """Return the statement that declares a function."""
    if function.language is Language.PYTHON:
        given = {HANDLER.name: function.class_name if function.class_name != function.name else None}
        given[VECTORIZED.name] = "true" if function.vectorized else None
        given[DETERMINISTIC.name] = None if function.repeatable else "false"
    else:
        given = {SOURCE.name: function.source, CLASS.name: function.class_name}
        given[EGRESS.name] = ",".join(function.egress) or None
    parameters = tuple(Parameter(Identifier(name), kind) for name, kind in function.parameters)
    return CreateFunction(
        _NOWHERE,
        "",
        Identifier(function.name),
        parameters,
        function.returns,
        properties_of_texts(given),
        table=function.kind.value == "table",
        code=function.code,
    )


def _nodes(database: str, run: Execution, state: CatalogState) -> Iterator[_Node]:
    queries = run.visible(run.catalog.queries())
    writing: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        for identifier in query.uses:
            writing[identifier].append(query)
    inside = run.visible(run.catalog.relations(database))
    for relation in inside:
        creators = [
            query for query in writing[relation.id] if relation.name in query.sinks and _creates(query)
        ]
        creator = max(creators, key=lambda query: query.created_at, default=None)
        if creator is None or creator.kind is not QueryKind.APPLICATION:
            yield _of_relation(relation, creator, state.uses.get(relation.id, frozenset()), run)
    written = {relation.name for relation in inside}
    for query in queries:
        if query.should_run and query.kind is QueryKind.APPLICATION and written & set(query.sinks):
            yield _of_application(query, run)
        elif query.should_run and query.kind is QueryKind.INSERT_INTO and query.sink in written:
            yield _of_insert(query)


def _of_application(query: Query, run: Execution) -> _Node:
    """Return an application as it was written, after the names of a session that resolve its own."""
    relation = next((item for name in query.sinks if (item := run.catalog.relation(name)) is not None), None)
    schema = QualifiedName(tuple(map(Identifier, query.sink.path[:2])))
    names = [Definition("session", query.sink.path[:2], f"USE SCHEMA {schema}")]
    if relation is not None and relation.store is not None:
        use = f"USE STORE {printed(relation.store)}"
        names.append(Definition("session", (relation.store,), use))
    definition = Definition("application", (*query.sink.path[:2], query.name or query.id), query.sql)
    return _Node(
        definition,
        query.created_at,
        query.id,
        creates=query.sinks,
        reads=query.sources,
        pool=query.compute_pool,
        uses=query.uses,
        before=tuple(names),
    )


def _creates(query: Query) -> bool:
    return query.kind is not QueryKind.INSERT_INTO


def _of_relation(relation: Relation, creator: Query | None, uses: frozenset[str], run: Execution) -> _Node:
    common = (relation.created_at, relation.id, (relation.name,))
    kind, path, more = relation.kind.value, relation.name.path, _description(relation)
    statement = stored_statement(creator, relation) if creator is not None else None
    if creator is not None and isinstance(statement, CreateRelationAs):
        statement = _exported(statement, creator, relation.store)
        reads = tuple(RelationName(*name) for name in named(statement.select) if len(name) == PARTS)
        text, note = statement.sql(), _note_of_entity(relation, statement.properties, run)
        definition = Definition(kind, path, text, note)
        return _Node(definition, *common, reads, creator.compute_pool, uses | creator.uses, more)
    if relation.kind is RelationKind.MATERIALIZED_VIEW:
        note = f"the query of the materialized view {relation.name} is missing or not authorized"
        return _Node(Definition(kind, path, None, note), *common, uses=uses)
    declared = relation_statement(relation)
    note = _note_of_entity(relation, declared.properties, run)
    return _Node(Definition(kind, path, declared.sql(), note), *common, uses=uses, more=more)


def _description(relation: Relation) -> tuple[Definition, ...]:
    if relation.description is None:
        return ()
    describe = DescribeAs(_NOWHERE, "", _word(relation), _qualified(relation.name), relation.description)
    return (Definition(relation.kind.value, relation.name.path, describe.sql()),)


def _word(relation: Relation) -> str:
    """Return the kind of a relation as its statements write it."""
    return relation.kind.value.upper().replace("_", " ")


def _of_insert(query: Query) -> _Node:
    statement = stored_statement(query, None)
    text = query.sql
    reads: tuple[RelationName, ...] = (*query.sources, query.sink)
    if isinstance(statement, InsertInto):
        exported = _exported(statement, query, None)
        text = exported.sql()
        reads = (query.sink, *(RelationName(*name) for name in named(exported.select) if len(name) == PARTS))
    definition = Definition("query", (*query.sink.path[:2], query.name or query.id), text)
    return _Node(definition, query.created_at, query.id, (), reads, query.compute_pool, query.uses)


def _exported(statement: Any, query: Query, store: str | None) -> Any:
    """Return the statement with the store and the name of the query, and without instructions for one run."""
    properties = _with(statement.properties, dialect.STORE.name, store)
    of_query = statement.select.query_properties
    if not any(dialect.QUERY_NAME.matches_name(key) for key in properties):
        of_query = _with(of_query, dialect.QUERY_NAME.name, query.name)
    kept = Properties(tuple(entry for entry in of_query.entries if entry.key not in _ONCE))
    select = replace(statement.select, query_properties=kept)
    changed = replace(statement, properties=properties, select=select)
    return replace(changed, if_not_exists=False) if isinstance(changed, CreateRelationAs) else changed


def _note_of_entity(relation: Relation, properties: Properties, run: Execution) -> str | None:
    """Return a warning if the statement would use another entity than the relation, which was renamed."""
    store = run.catalog.store(relation.store) if relation.store is not None else None
    if store is None or relation.entity is None:
        return None
    kind = connector(store.type)
    specs = of_scope((*dialect.DIALECT, *kind.properties), Scope.RELATION | Scope.SINK)
    reader = PropertyReader(properties.entries, specs, what="a relation")
    if kind.path(reader, relation.name.name.lower()) == relation.entity:
        return None
    return f"the relation was renamed: name its entity {path_text(relation.entity)} in WITH"


def _ordered(nodes: list[_Node]) -> list[_Node]:
    """Return the nodes in an order in which each one finds what it reads; of those, the oldest first."""
    creators = {name: node.id for node in nodes for name in node.creates}
    by_id = {node.id: node for node in nodes}
    graph = {
        node.id: {creators[name] for name in node.reads if creators.get(name, node.id) != node.id}
        for node in nodes
    }
    age = {node.id: (node.created_at, node.definition.path) for node in nodes}
    sorter = TopologicalSorter(graph)
    result: list[str] = []
    try:
        sorter.prepare()
    except CycleError:
        # Queries may form a cycle ('allow.cycle'): only the order of their creation is left.
        return sorted(nodes, key=lambda node: age[node.id])
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=lambda each: age[each])
        sorter.done(*ready)
        result += ready
    return [by_id[each] for each in result]


def _closure(nodes: Iterable[_Node], state: CatalogState) -> set[str]:
    """Return the ids of all that the nodes use, directly or not."""
    result: set[str] = set()
    new = {identifier for node in nodes for identifier in node.uses}
    while new:
        result |= new
        new = {used for each in new for used in state.uses.get(each, ())} - result
    return result


def _of_kind(kind: str, used: Iterable[Any], run: Execution) -> Iterator[Definition]:
    """Yield the definitions of the objects of a kind outside of databases."""
    for item in used:
        spec = spec_of(item) if not isinstance(item, Query) else None
        if spec is None or spec.kind != kind or not run.knows(item):
            continue
        path = spec.path(item)
        if not run.may(Privilege.USAGE, item):
            yield Definition(kind, path, None, f"the {spec.word} {path[-1]} requires USAGE to be exported")
        else:
            yield _of_object(item, kind, path, run)


def _of_object(item: Any, kind: str, path: tuple[str, ...], run: Execution) -> Definition:
    match item:
        case UserFunction():
            return Definition(kind, path, function_statement(item).sql())
        case StoreFacts():
            store, descriptor = run.connection(item.name)
            registry = {dialect.SCHEMA_REGISTRY.name: store.schema_registry}
            of_store: dict[str, str | None] = {
                dialect.TYPE.name: descriptor.type.upper(),
                **_without_defaults(store.properties, descriptor.properties, descriptor.read),
                **registry,
            }
            properties, hidden = _without_secrets(of_store, descriptor.properties, store.secrets)
            text = CreateStore(_NOWHERE, "", Identifier(store.name), properties).sql()
        case RegistryFacts():
            opened = run.catalog.opened_registry(item)
            of_type = TYPES[item.type]
            of_registry: dict[str, str | None] = {
                dialect.TYPE.name: of_type.type.upper(),
                **_without_defaults(opened.properties, of_type.properties, of_type.read),
            }
            properties, hidden = _without_secrets(of_registry, of_type.properties, item.secrets)
            text = CreateSchemaRegistry(_NOWHERE, "", Identifier(item.name), properties).sql()
        case SecretFacts():
            of_secret = {"type": item.type, SECRET_STRING: MASKED, "description": item.description}
            text, hidden = (
                CreateSecret(_NOWHERE, "", Identifier(item.name), properties_of_texts(of_secret)).sql(),
                [SECRET_STRING],
            )
        case _:
            create: type[CreateFunctionSource | CreateDescriptorSource] = (
                CreateFunctionSource if isinstance(item, FunctionSource) else CreateDescriptorSource
            )
            suffix = "jar" if isinstance(item, FunctionSource) else "desc"
            of_source = {"file": f"@{path[-1]}.{suffix}", "description": item.description}
            copy = f"COPY {kind.upper()} {printed(path[-1])} TO '{path[-1]}.{suffix}'"
            missing = f"the file is not part of the export: {copy} writes it"
            return Definition(
                kind,
                path,
                create(_NOWHERE, "", Identifier(path[-1]), properties_of_texts(of_source)).sql(),
                missing,
            )
    note = f"secrets are not exported: replace {MASKED} of {', '.join(hidden)}" if hidden else None
    return Definition(kind, path, text, note)


def _without_defaults(
    given: Mapping[str, str], specs: Specs, read: Callable[[PropertyReader], Mapping[str, str]]
) -> Mapping[str, str]:
    """Return the properties without those that have the same value if they are not written: `read` adds the defaults."""
    kept = dict(given)
    for name in given:
        fewer = {other: value for other, value in kept.items() if other != name}
        with suppress(UserError):
            if read(PropertyReader(stored(fewer), specs, what="an object")) == given:
                kept = fewer
    return kept


def _without_secrets(
    given: Mapping[str, str | None], specs: Specs, secrets: Mapping[str, str]
) -> tuple[Properties, list[str]]:
    """Return properties with a placeholder for each secret text, and the names of those; a property that names a secret keeps its name."""
    entries, hidden = [], []
    for name, value in given.items():
        if value is None:
            continue
        if name in secrets:
            entries.append(Property(name, secrets[name], _NOWHERE, names_secret=True))
        elif any(spec.secret and spec.matches_name(name) for spec in specs):
            entries.append(Property(name, MASKED, _NOWHERE))
            hidden.append(name)
        else:
            entries.append(Property(name, value, _NOWHERE))
    return Properties(tuple(entries)), hidden


def properties_of_texts(given: Mapping[str, str | None]) -> Properties:
    """Return the properties that have a value, as if they were written in a statement."""
    return Properties(
        tuple(Property(name, value, _NOWHERE) for name, value in given.items() if value is not None)
    )


def _with(properties: Properties, name: str, value: str | None) -> Properties:
    """Return the properties with one more, unless it is there already or has no value."""
    if value is None or name in properties:
        return properties
    return Properties((Property(name, value, _NOWHERE), *properties.entries))


def _sorted(properties: Properties, left_out: Collection[str]) -> Properties:
    kept = (entry for entry in properties.entries if entry.key not in left_out)
    return Properties(tuple(sorted(kept, key=lambda entry: entry.key)))


def _qualified(name: RelationName) -> QualifiedName:
    return QualifiedName(tuple(map(Identifier, name.path)))
