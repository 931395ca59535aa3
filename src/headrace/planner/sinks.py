"""Sinks of queries, and how CREATE … AS and INSERT INTO determine them.

Pure: what must be asked of a store (does the entity exist, how many partitions has the source) comes in as
`EntityDescription`s. Rules: dialect sections 9.1, 10 and 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.analyzer import properties as dialect
from headrace.analyzer.checks import refuse_repeated_names
from headrace.analyzer.logical import Aggregate, Limit, LogicalNode, Project
from headrace.analyzer.plan import LogicalPlan
from headrace.analyzer.traits import Place, output_place, place_of, traits, window_groups
from headrace.catalog.objects import EntityFormat, Relation, RelationKind, Store
from headrace.connectors.base import EntityDescription, Guarantee, StoreDescriptor
from headrace.core.errors import UserError
from headrace.core.names import EntityPath, RelationName, path_text, printed
from headrace.core.properties import PropertyReader, Scope, Specs, of_scope, value_of
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import is_primitive
from headrace.formats.base import Format
from headrace.formats.known import KEY_FORMATS, AnyFormat, registry_of
from headrace.planner import physical
from headrace.planner.column_matching import left_out, matched, output_items
from headrace.planner.keys import WITH_SCHEMAS, Key, changelog_key, stream_key
from headrace.planner.sink_properties import (
    SchemaPlaces,
    Subjects,
    check_key,
    check_written,
    creation_options,
    guarantee,
    key_format,
    record_format,
    record_sink,
    row_sink,
    sink_reader,
    subjects,
    table_reader,
    timestamp_column,
    value_format,
)
from headrace.sql.ast import Properties


@dataclass(frozen=True)
class EntitySink:
    """An entity, written as a stream or a changelog.

    `creation` are the properties of an entity that must be made first. `properties` are what the new
    relation keeps. With `carried_key` the record key is the source's own. `left_out` are the columns that the query does not
    give, which are NULL. With `keyless` the statement has a format for keys, and the records have none.
    """

    relation: RelationName
    kind: RelationKind
    store: str
    connector: str
    entity: EntityPath
    schema: Schema
    format: EntityFormat
    guarantee: Guarantee = "at_least_once"
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    creation: Mapping[str, str] | None = None
    carried_key: bool = False
    keyless: bool = False
    left_out: tuple[str, ...] = ()
    subjects: Subjects = field(default_factory=Subjects)


@dataclass(frozen=True)
class TableSink:
    """A table of a store: rows are appended, or upserted by `key_columns`.

    `creation` are the properties of one that must be made first. `properties` are what the new relation keeps.
    `left_out` are the columns that the query does not give, which are NULL.
    """

    relation: RelationName
    store: str
    connector: str
    entity: EntityPath
    schema: Schema
    key_columns: tuple[str, ...] = ()
    guarantee: Guarantee = "at_least_once"
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    creation: Mapping[str, str] | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class ViewSink:
    """A materialized view: rows are appended, or upserted by `key_columns`. `view` is the relation's id.

    With `signed` nothing tells the rows apart: each comes and goes as it is, and may be there several times. Rows that were not written
    again for `retention_ms` are purged; None: kept for ever.
    """

    relation: RelationName
    view: str
    schema: Schema
    retention_ms: int | None = None
    signed: bool = False

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The primary key of an upserted view; empty: append."""
        return self.schema.primary_key

    @property
    def columns(self) -> list[physical.Column]:
        """The columns in the form of steps and the view store."""
        return physical_columns(self.schema)


@dataclass(frozen=True)
class ResultSink:
    """The result channel of an interactive SELECT."""


Sink = EntitySink | TableSink | ViewSink | ResultSink


def physical_columns(schema: Schema) -> list[physical.Column]:
    """Return the columns as plan data."""
    return [
        physical.Column(name=column.name, type=str(column.type), nullable=column.nullable)
        for column in schema.columns
    ]


# --- questions of the statement handler


def leftmost(logical: LogicalPlan) -> Relation | None:
    """Return the leftmost source in FROM, whose store, layout and formats are a sink's defaults; None for a query of constants."""
    return logical.scans[0].relation if logical.scans else None


def _source_format(logical: LogicalPlan) -> EntityFormat:
    source = leftmost(logical)
    return source.format if source is not None else EntityFormat()


def sink_store_name(logical: LogicalPlan, properties: Properties, *, session_store: str | None) -> str:
    """Return the property `store`, else the session's store, else the leftmost source's."""
    source = leftmost(logical)
    name = value_of(properties.entries, dialect.STORE) or session_store
    if name is None and source is not None:
        name = source.store
    if name is None:
        raise UserError(
            SqlState.STORE_NOT_FOUND,
            "no store is selected for the new relation",
            hint="Run USE STORE name, or add 'store' = name to WITH (…).",
            span=logical.span,
        )
    return name


def sink_path(
    kind: RelationKind, name: RelationName, properties: Properties, connector: StoreDescriptor
) -> EntityPath:
    """Return the entity that the properties name, else one of the relation's name."""
    table = kind is RelationKind.TABLE
    reader = (table_reader if table else sink_reader)(properties.entries, Scope.SINK, connector)
    path = connector.path(reader, name.name.lower())
    named = (entry.span for entry in properties.entries if entry.value == path_text(path))
    check_written(connector, path, next(named, None))
    return path


# --- the sinks


def entity_sink(
    logical: LogicalPlan,
    *,
    kind: RelationKind,
    name: RelationName,
    properties: Properties,
    store: Store,
    connector: StoreDescriptor,
    existing: EntityDescription | None,
    leftmost: EntityDescription | None,
    descriptors: Mapping[str, bytes] | None = None,
) -> EntitySink:
    """Return the sink of CREATE STREAM AS or CREATE CHANGELOG AS.

    `existing` describes the sink's entity if there is one, `leftmost` the leftmost source's; `descriptors` are the descriptor sources.
    Raises UserError 42P16 (kind, key), 3D008 (property), 42703 (key column), 0A000 (format, store type).
    """
    _check_continuous(logical)
    reader = sink_reader(properties.entries, Scope.SINK, connector)
    statement = f"CREATE_{kind.name}_AS"
    if logical.kind is not kind:
        raise wrong_kind(statement, logical, kind)
    facet = record_sink(connector, kind, logical.span)
    source = _source_format(logical)
    inherited = source.value if logical.scans else None
    entity = connector.path(reader, name.name.lower())
    for spec in (*_OF_STATEMENT, dialect.UPSERT_MODE):
        reader.take(spec)
    primary = logical.schema.primary_key if kind is RelationKind.CHANGELOG else ()
    schema = _keyed(logical.schema, primary)
    places = SchemaPlaces(store.schema_registry, descriptors or {})
    value = value_format(reader, schema, logical.span, places=places, inherited=inherited)
    key = _key(logical, kind, reader, value)
    key_layout = _checked_key(key, value, places, source, reader)
    sink = EntitySink(
        relation=name,
        kind=kind,
        store=store.name,
        connector=store.type,
        entity=entity,
        schema=schema,
        format=EntityFormat(
            value=value,
            key=key_layout,
            key_type=key.type,
            key_columns=key.columns,
            timestamp=timestamp_column(logical.schema, reader),
            upsert=kind is RelationKind.CHANGELOG,
        ),
        guarantee=guarantee(reader, facet, connector),
        options=facet.options(reader),
        properties=_kept(properties),
        creation=creation_options(reader, connector, entity, existing=existing, source=leftmost),
        carried_key=key.carried,
        keyless=key.format is None and reader.is_set(dialect.KEY_FORMAT),
        subjects=subjects(reader, value, key_layout),
    )
    reader.leave(Scope.SOURCE)
    reader.finish()
    return sink


def insert_sink(
    logical: LogicalPlan,
    *,
    relation: Relation,
    properties: Properties,
    store: Store,
    connector: StoreDescriptor,
) -> tuple[LogicalPlan, EntitySink]:
    """Return the sink of INSERT INTO, and the query with its columns matched to the relation's.

    Columns match by name when every output name is a column of the relation, else by position. Nullable columns that are not
    given become NULL. Raises UserError 42804 (count, type), 42P16 (rows that are updated, into a stream), 3D008, 0A000.
    """
    _check_continuous(logical)
    reader = sink_reader(properties.entries, Scope.INSERT, connector, relation=relation)
    if relation.kind not in (RelationKind.STREAM, RelationKind.CHANGELOG):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"INSERT INTO a {relation.kind.value.replace('_', ' ')} is not supported",
            hint="The sink must be a STREAM, a CHANGELOG or a TABLE.",
            span=logical.span,
        )
    # Rows that come once and stay, as a time window's groups do, are a stream's too.
    if relation.kind is RelationKind.STREAM and not logical.traits.insert_only:
        raise wrong_kind("INSERT_INTO", logical, relation.kind)
    facet = record_sink(connector, relation.kind, logical.span)
    check_written(connector, relation.entity or (), logical.span)
    aligned = matched(logical, relation.schema)
    key = _insert_key(logical, aligned, relation, reader)
    reader.take(dialect.QUERY_NAME)
    reader.take(dialect.ALLOW_CYCLE)
    key_layout = _checked_key(
        key,
        relation.format.value,
        SchemaPlaces(store.schema_registry),
        _source_format(logical),
        reader,
        relation.format.key,
    )
    sink = EntitySink(
        relation=relation.name,
        kind=relation.kind,
        store=store.name,
        connector=store.type,
        entity=relation.entity or (),
        schema=relation.schema,
        format=replace(
            relation.format,
            key=key_layout,
            key_type=key.type,
            key_columns=key.columns,
        ),
        guarantee=guarantee(reader, facet, connector),
        options=facet.options(reader),
        properties=relation.properties,
        carried_key=key.carried,
        left_out=left_out(logical, relation.schema),
        subjects=subjects(reader, relation.format.value, key_layout),
    )
    reader.finish()
    return aligned, sink


def table_sink(
    logical: LogicalPlan,
    *,
    name: RelationName,
    properties: Properties,
    store: Store,
    connector: StoreDescriptor,
    exists: bool,
) -> TableSink:
    """Return the sink of CREATE TABLE AS: with the query's key, if it has one, rows are upserted, and appended else.

    `exists` says whether the table is there. Raises UserError 42P16 (key), 3D008 (property), 0A000 (store type).
    """
    _check_continuous(logical)
    reader = table_reader(properties.entries, Scope.SINK, connector)
    facet = row_sink(connector, logical, properties.span(dialect.STORE.name) or logical.span)
    _check_key(logical, "CREATE_TABLE_AS")
    entity = connector.path(reader, name.name.lower())
    for spec in _OF_STATEMENT:
        reader.take(spec)
    made_with = of_scope(connector.properties, Scope.ENTITY)
    stored = _kept(properties)
    schema = _keyed(logical.schema, logical.schema.primary_key)
    sink = TableSink(
        relation=name,
        store=store.name,
        connector=store.type,
        entity=entity,
        schema=schema,
        key_columns=schema.primary_key if facet.upserts else (),
        guarantee=guarantee(reader, facet, connector),
        options=facet.options(reader),
        properties=stored,
        creation=None
        if exists
        else {item: stored[item] for item in stored if any(spec.matches_name(item) for spec in made_with)},
    )
    reader.leave(Scope.ENTITY)
    reader.finish()
    return sink


def table_insert_sink(
    logical: LogicalPlan,
    *,
    relation: Relation,
    properties: Properties,
    store: Store,
    connector: StoreDescriptor,
) -> tuple[LogicalPlan, TableSink]:
    """Return the sink of INSERT INTO a table, and the query with its columns matched as `insert_sink` does.

    Raises UserError 42804 (count, type), 42P16 (rows that are updated, into a table without their key), 3D008, 0A000.
    """
    _check_continuous(logical)
    reader = table_reader(properties.entries, Scope.INSERT, connector, relation=relation)
    facet = row_sink(connector, logical, logical.span)
    key = relation.schema.primary_key
    if not key and not logical.traits.insert_only:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the rows of the query are updated and deleted, but the table {relation.name} has no PRIMARY KEY "
            "to identify them",
            hint="Declare the table with PRIMARY KEY (…), or let CREATE TABLE … AS SELECT create one.",
            span=logical.span,
        )
    aligned = matched(logical, relation.schema)
    if key and logical.kind is RelationKind.CHANGELOG:
        _check_same_key(logical, aligned, relation)
    reader.take(dialect.QUERY_NAME)
    reader.take(dialect.ALLOW_CYCLE)
    sink = TableSink(
        relation=relation.name,
        store=store.name,
        connector=store.type,
        entity=relation.entity or (),
        schema=relation.schema,
        key_columns=key if facet.upserts else (),
        guarantee=guarantee(reader, facet, connector),
        options=facet.options(reader),
        properties=relation.properties,
        left_out=left_out(logical, relation.schema),
    )
    reader.finish()
    return aligned, sink


def view_sink(
    logical: LogicalPlan,
    *,
    name: RelationName,
    properties: Properties,
    view_id: str,
    connector: StoreDescriptor | None = None,
) -> ViewSink:
    """Return the sink of CREATE MATERIALIZED VIEW AS; raises UserError 42P16 (a column that is not primitive, no key), 3D008.

    The `connector` of the leftmost source says which properties of its clients are taken, and have nothing to do here.
    """
    _check_continuous(logical)
    reader = sink_reader(properties.entries, Scope.VIEW, connector, what="a materialized view")
    for item in output_items(logical.root):
        if not is_primitive(item.expression.type):
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"a materialized view supports columns of primitive types only; {printed(item.name)} is "
                f"{item.expression.type}",
                hint="Select a field with ->, an element with [1], or CAST(… AS VARCHAR).",
                span=item.expression.span,
            )
    signed = logical.kind is RelationKind.CHANGELOG and _is_without_key(logical.root)
    if not signed:
        _check_key(logical, "CREATE_MATERIALIZED_VIEW_AS")
    reader.take(dialect.QUERY_NAME)
    sink = ViewSink(name, view_id, logical.schema, reader.take(dialect.RETENTION), signed)
    if connector is not None and connector.record_sink is not None:
        connector.record_sink.options(reader)
    reader.finish()
    return sink


def wrong_kind(statement: str, logical: LogicalPlan, kind: RelationKind) -> UserError:
    """Return the error of a query whose kind is not its sink's. Clients depend on its text."""
    result_kind = logical.kind.name
    hint = f"This query returns a {result_kind}: use CREATE {result_kind} … AS."
    views = [relation.name for relation in logical.named if relation.kind is RelationKind.MATERIALIZED_VIEW]
    if views and kind is RelationKind.STREAM:
        hint += (
            f" The rows of {views[0]} change, and so do the rows joined with it. To join each row of a stream "
            "once, use a CHANGELOG and its key."
        )
    if statement == "INSERT_INTO":
        hint = "Its rows are updated and deleted, which a STREAM cannot represent: INSERT INTO a CHANGELOG."
    return UserError(
        SqlState.INVALID_RELATION_DEFINITION,
        f"Invalid sink type detected for {statement} statement: Expected {result_kind} but got {kind.name}.",
        hint=hint,
        span=logical.span,
    )


# --- parts

_OF_STATEMENT: Specs = (dialect.STORE, dialect.QUERY_NAME, dialect.ALLOW_CYCLE)
"""Properties that say nothing of the relation that is made."""


def _kept(properties: Properties) -> dict[str, str]:
    return {
        item: value
        for item, value in properties.items()
        if value is not None and not any(spec.matches_name(item) for spec in _OF_STATEMENT)
    }


def _keyed(schema: Schema, key: tuple[str, ...]) -> Schema:
    columns = (
        replace(column, nullable=column.nullable and column.name not in key) for column in schema.columns
    )
    return Schema(tuple(columns), key)


def _check_continuous(logical: LogicalPlan) -> None:
    if logical.has_end:
        refuse_repeated_names(output_items(logical.root))
        return
    if logical.snapshot:
        raise _no_source(logical)
    if isinstance(logical.root, Limit):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a continuous query requires a LIMIT of 1 or more, and OFFSET only with LIMIT",
            hint="Leave it out, or move it to the SELECT that reads the result.",
            span=logical.span,
        )


def _no_source(logical: LogicalPlan) -> UserError:
    return UserError(
        SqlState.INVALID_RELATION_DEFINITION,
        "a continuous query requires a source in FROM",
        hint="Name a stream, a changelog, a table or a materialized view. INSERT INTO … VALUES writes single rows.",
        span=logical.span,
    )


_CAST_OF_KEY = (
    "A CAST of a column replaces it if the CAST keeps different values different: INTEGER AS BIGINT, not "
    "BIGINT AS DOUBLE."
)


def _check_key(logical: LogicalPlan, statement: str) -> None:
    if logical.kind is RelationKind.STREAM or logical.schema.primary_key:
        return
    root = logical.root
    if isinstance(root, Aggregate) and not root.group_by:
        message = "an aggregate without GROUP BY has no key for its row"
        hint = "Add GROUP BY."
    elif isinstance(root, Aggregate):
        message = "the GROUP BY columns are the primary key of the result, but not all of them are selected"
        columns = ", ".join(_groups_not_selected(root)) or "every GROUP BY column"
        one = " (of window_start and window_end, one is enough)" if window_groups(root) else ""
        hint = f"Add {columns} to the SELECT list{one}. {_CAST_OF_KEY}"
    elif (key := _key_below(root)) is not None:
        message = f"the primary key ({', '.join(key)}) must be selected unchanged"
        hint = f"Add {', '.join(_key_below(root, missing=True) or key)} to the SELECT list. {_CAST_OF_KEY}"
    else:
        message = "the rows of the result have no key: an update cannot be matched to its row"
        hint = "GROUP BY the columns of a key, or filter ROW_NUMBER() OVER (PARTITION BY key …) = 1."
    raise UserError(
        SqlState.INVALID_RELATION_DEFINITION, f"{message} ({statement})", hint=hint, span=logical.span
    )


def _is_without_key(root: LogicalNode) -> bool:
    """True if no column that could be selected would distinguish the rows."""
    return traits(root).key is None and not isinstance(root, Aggregate) and _key_below(root) is None


def _key_below(root: LogicalNode, *, missing: bool = False) -> list[str] | None:
    """Return the columns that a select list must contain, in SQL; with `missing`, only the columns that it lacks."""
    if not isinstance(root, Project):
        return None
    key = traits(root.input).key
    if not key:
        return None
    return _named(
        root.input, [place for place in key if not missing or output_place(place, root.items) is None]
    )


def _named(node: LogicalNode, columns: Iterable[Place]) -> list[str]:
    """Return columns of a node's rows as a statement names them."""
    several = len(node.sources) > 1
    return [f"{printed(alias)}.{printed(name)}" if several else printed(name) for alias, name in columns]


def _groups_not_selected(root: Aggregate) -> list[str]:
    """Return GROUP BY columns that the select list lacks, as a statement names them; none if it lacks an expression, which has no name."""
    selected = [item.expression for item in root.items]
    groups = [place_of(key) for key in root.group_by if key not in selected]
    columns = [place for place in groups if place is not None]
    if len(columns) < len(groups):
        return []
    return _named(root.input, [place for place in columns if output_place(place, root.items) is None])


def _key(logical: LogicalPlan, kind: RelationKind, reader: PropertyReader, value: AnyFormat) -> Key:
    source = _source_format(logical)
    specified_format = record_format(reader, dialect.KEY_FORMAT, KEY_FORMATS)
    if kind is RelationKind.CHANGELOG:
        _check_key(logical, "CREATE_CHANGELOG_AS")
        _refuse_key_columns(reader)
        if logical.partition_by:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                "PARTITION BY requires a stream: a CHANGELOG's record key is its primary key",
                span=logical.partition_by[0].span,
            )
        return changelog_key(
            logical.schema, _tag(source.key), specified_format, reader.span(dialect.KEY_FORMAT)
        )
    # Clients set 'key.format' for every stream that they create.
    return stream_key(logical, reader, specified_format, value.format, required=False)


def _refuse_key_columns(reader: PropertyReader) -> None:
    if reader.take(dialect.KEY_COLUMNS) is not None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{dialect.KEY_COLUMNS.name}' cannot be set for a CHANGELOG: its record key is its primary key",
            span=reader.span(dialect.KEY_COLUMNS),
        )


def _insert_key(
    logical: LogicalPlan, aligned: LogicalPlan, relation: Relation, reader: PropertyReader
) -> Key:
    own = relation.format
    specified_format = record_format(reader, dialect.KEY_FORMAT, KEY_FORMATS) or _tag(own.key)
    if relation.kind is RelationKind.CHANGELOG:
        _refuse_key_columns(reader)
        if logical.kind is RelationKind.CHANGELOG:
            _check_same_key(logical, aligned, relation)
        return changelog_key(relation.schema, _tag(own.key), _tag(own.key), None)
    if logical.partition_by or reader.is_set(dialect.KEY_COLUMNS):
        return stream_key(aligned, reader, specified_format, own.value.format)
    if own.key is not None and own.key_columns:
        return Key(own.key.format, own.key_type, own.key_columns)
    if own.key is not None:
        return stream_key(aligned, reader, own.key.format, own.value.format)
    return Key()


def _check_same_key(logical: LogicalPlan, aligned: LogicalPlan, relation: Relation) -> None:
    key = relation.schema.primary_key
    if set(aligned.schema.primary_key) != set(key):
        primary_key = ", ".join(aligned.schema.primary_key) or "none"
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the query's primary key ({primary_key}) differs from the key of {relation.name} ({', '.join(key)})",
            hint=(
                "Change the query to return that key, or write to another relation: CREATE CHANGELOG … AS "
                "creates one with the query's key."
            ),
            span=logical.span,
        )


def _checked_key(
    key: Key,
    value: AnyFormat,
    places: SchemaPlaces,
    source: EntityFormat,
    reader: PropertyReader,
    own: AnyFormat | None = None,
) -> AnyFormat | None:
    """Return `own` is the key's format of a relation that is there. Raises UserError 3D009 without a registry where one is needed, 42P16
    for a key that its schema cannot hold, 0A000 for keys whose schemas another one knows."""
    carried = source.key
    span = reader.span(dialect.KEY_FORMAT)
    if key.carried and carried is not None and carried.format in WITH_SCHEMAS:
        if registry_of(carried) not in (None, places.registry):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the keys of the source are {carried.label} with schemas of another registry than the sink's",
                hint="Specify the key's columns with 'key.columns' or PARTITION BY.",
                span=span,
            )
        return carried
    if own is not None and own.format == key.format:
        return own
    layout = key_format(key.format, value, reader, places=places)
    check_key(layout, key.type, span)
    return layout


def _tag(key: Format | None) -> str | None:
    return None if key is None else key.format
