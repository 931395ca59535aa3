"""Effective source and query properties, with the relation's own properties as defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.analyzer import properties as dialect
from headrace.analyzer.logical import EventTime, QueryProperties, ResumeFrom, SideTopic, SourceProperties
from headrace.catalog.objects import Relation, StoreFacts
from headrace.connectors.base import RowSource, StoreDescriptor
from headrace.core.errors import Span, UserError
from headrace.core.names import path_text, printed
from headrace.core.properties import Entry, PropertyReader, PropertySpec, Scope, Specs, of_scope
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.core.types import BIGINT, Timestamp
from headrace.formats.base import TextFormat, TimestampFormat

_ON_ERROR = {
    "TERMINATE": "terminate",
    "IGNORE": "ignore",
    "IGNORE_AND_LOG": "dead_letter",
    "DEAD_LETTER": "dead_letter",
}
"""Handling of records that cannot be read. The last two values mean the same: DeltaStream's word, and the field's."""
_ON_FUNCTION_ERROR = {"FAIL": "terminate", "NULL": "null", "DEAD_LETTER": "dead_letter"}


@dataclass(frozen=True)
class _SideProperties:
    """Properties that send records of a kind to a topic if `handling` is `word`. The default name is the source's with `suffix`, if the
    source is one entity."""

    handling: PropertySpec[str]
    word: str
    entity: PropertySpec[str]
    suffix: str
    store: PropertySpec[str]
    partitions: PropertySpec[int]
    replicas: PropertySpec[int]


_DEAD_LETTERS = _SideProperties(
    handling=dialect.ON_ERROR,
    word="DEAD_LETTER",
    entity=dialect.LETTERS_ENTITY,
    suffix="dead-letters",
    store=dialect.LETTERS_STORE,
    partitions=dialect.LETTERS_PARTITIONS,
    replicas=dialect.LETTERS_REPLICAS,
)
_LATE_ROWS = _SideProperties(
    handling=dialect.ON_LATE,
    word="LOG",
    entity=dialect.LATE_ENTITY,
    suffix="late-rows",
    store=dialect.LATE_STORE,
    partitions=dialect.LATE_PARTITIONS,
    replicas=dialect.LATE_REPLICAS,
)


def source_properties(
    relation: Relation,
    given: Iterable[Entry],
    connector: StoreDescriptor | None,
    store: Callable[[str], StoreFacts | None],
) -> SourceProperties:
    """Return the properties of a source; `store` finds a store by name.

    Raises UserError 3D008 (unknown property, bad value), 3D021 (position timestamp without a timestamp), 42703 (no such
    timestamp column), 42804 (its type) or 3D006 (no such store of a side topic), each at the property.
    """
    own = of_scope(connector.properties, Scope.SOURCE) if connector is not None else ()
    reader = PropertyReader(
        given, (*of_scope(dialect.DIALECT, Scope.SOURCE), *own), what="a source", defaults=relation.properties
    )
    rows = connector.row_source if connector is not None else None
    if rows is not None:
        _check_of_rows(reader, rows)
    follows = rows is None or rows.seeks
    position, timestamp = starting_position(reader, default="latest" if follows else "earliest")
    on_error = _ON_ERROR[reader.take(dialect.ON_ERROR) or "TERMINATE"]
    on_function_error = _ON_FUNCTION_ERROR[reader.take(dialect.ON_FUNCTION_ERROR) or "FAIL"]
    properties = SourceProperties(
        starting_position=position,
        starting_timestamp_ms=timestamp,
        has_position=reader.is_set(dialect.POSITION),
        event_time=_event_time(relation, reader),
        on_error=on_error,
        on_function_error=on_function_error,
        dead_letters=_side_topic(
            _DEAD_LETTERS,
            relation,
            reader,
            connector,
            store,
            enabled="dead_letter" in (on_error, on_function_error),
        ),
        late_rows=_side_topic(
            _LATE_ROWS, relation, reader, connector, store, enabled=reader.take(dialect.ON_LATE) == "LOG"
        ),
        timestamps=_timestamps(relation, reader),
        options=connector.source.options(reader) if connector is not None and connector.source else {},
    )
    reader.finish()
    return properties


def table_properties(
    relation: Relation,
    given: Iterable[Entry],
    connector: StoreDescriptor | None,
    span: Span | None,
    *,
    joined: bool,
) -> SourceProperties:
    """Return the properties of a TABLE in FROM, which is `joined` with a stream or read by itself.

    Raises UserError 0A000 for one that cannot be read, 3D008 at a property.
    """
    source = connector.table_source if connector is not None else None
    if connector is None or source is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the table {relation.name} can be written by queries, but not read",
            hint="Its store type does not support reading tables.",
            span=span,
        )
    specs = of_scope(connector.properties, Scope.TABLE)
    if joined:
        specs = (*of_scope(dialect.DIALECT, Scope.TABLE), *specs)
    reader = PropertyReader(given, specs, what="a table in FROM", defaults=relation.properties)
    options = source.options(reader)
    refresh_ms = reader.take(dialect.LOOKUP_REFRESH) if joined else None
    if refresh_ms is None and not source.by_key:
        refresh_ms = dialect.LOOKUP_REFRESH_MS
    reader.finish()
    return SourceProperties(options=options, refresh_ms=refresh_ms)


def starting_position(reader: PropertyReader, *, default: str = "latest") -> tuple[str, int | None]:
    """Return `earliest`, `latest` or `timestamp`, and then the milliseconds; raises UserError 3D021 where they are missing."""
    position = reader.take(dialect.POSITION) or default
    timestamp = reader.take(dialect.POSITION_TIMESTAMP)
    if position == "timestamp" and timestamp is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "'starting.position' = 'timestamp' requires 'starting.position.timestamp'",
            hint="Specify milliseconds since 1970-01-01 UTC.",
            span=reader.span(dialect.POSITION),
        )
    return position, timestamp


def _check_of_rows(reader: PropertyReader, source: RowSource) -> None:
    """Refuse properties of records for a store of typed rows: none is unreadable or kept, and none has a time to start at.

    Where its rows are lines of files some may be skipped, but there is no record of them to be kept.
    """
    if source.skips and _ON_ERROR[reader.take(dialect.ON_ERROR) or "TERMINATE"] == "dead_letter":
        raise reader.bad(dialect.ON_ERROR, "TERMINATE or IGNORE for a source of rows")
    if reader.take(dialect.ON_FUNCTION_ERROR) == "DEAD_LETTER":
        raise reader.bad(
            dialect.ON_FUNCTION_ERROR, "FAIL or NULL for a source of rows, which has no records to keep"
        )
    for spec, fits in ((dialect.POSITION, "timestamp"), (dialect.ON_ERROR, None), (dialect.ON_LATE, None)):
        if (source.skips and spec is dialect.ON_ERROR) or (source.seeks and spec is dialect.POSITION):
            continue
        if reader.is_set(spec) and (fits is None or reader.take(spec) == fits):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"'{spec.name}' {f'= {fits} ' if fits else ''}requires a source of records, not of rows",
                hint=(
                    "'starting.position' = EARLIEST reads the existing rows and then their changes, LATEST "
                    "reads only the changes."
                )
                if fits
                else "Leave it out.",
                span=reader.span(spec),
            )


def query_properties(given: Iterable[Entry]) -> QueryProperties:
    """Return the properties of QUERY WITH; raises UserError 3D008 and 3D021."""
    reader = PropertyReader(given, of_scope(dialect.DIALECT, Scope.QUERY), what="a query")
    properties = QueryProperties(
        state_ttl_ms=reader.take(dialect.STATE_TTL) or 0,
        name=reader.take(dialect.QUERY_NAME),
        resume=_resume(reader),
        replacement=reader.take(dialect.REPLACEMENT) or "compatible",
        execution_mode=reader.take(dialect.EXECUTION_MODE),
        execution_mode_span=reader.span(dialect.EXECUTION_MODE),
        state_partitions=reader.take(dialect.STATE_PARTITIONS),
        state_partitions_span=reader.span(dialect.STATE_PARTITIONS),
    )
    reader.finish()
    return properties


def _resume(reader: PropertyReader) -> ResumeFrom | None:
    origins = (dialect.RESUME_SAVEPOINT, dialect.RESUME_QUERY, dialect.RESUME_QUERY_NAME)
    given = [spec for spec in origins if reader.is_set(spec)]
    if len(given) > 1:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{given[0].name}' and '{given[1].name}' exclude each other: a query continues from one checkpoint",
            hint="Leave one of them out.",
            span=reader.span(given[1]),
        )
    version = reader.take(dialect.RESUME_QUERY_VERSION)
    if version is not None and given != [dialect.RESUME_QUERY_NAME]:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            f"'{dialect.RESUME_QUERY_VERSION.name}' requires '{dialect.RESUME_QUERY_NAME.name}'",
            hint="An id or a savepoint has no versions: leave it out.",
            span=reader.span(dialect.RESUME_QUERY_VERSION),
        )
    if not given:
        return None
    savepoint, query_id, query_name = map(reader.take, origins)
    return ResumeFrom(savepoint, query_id, query_name, version, reader.span(given[0]))


def _event_time(relation: Relation, reader: PropertyReader) -> EventTime:
    # A column that the query names takes precedence over that of the relation.
    named = reader.is_set(dialect.TIMESTAMP) and not reader.is_set(dialect.TIME)
    arrival = reader.take(dialect.TIME) == "ARRIVAL" and not named
    column = reader.take(dialect.TIMESTAMP) or relation.format.timestamp
    if column is not None:
        _check_event_time_column(relation, column, reader.span(dialect.TIMESTAMP))
    ahead = reader.take(dialect.AHEAD)
    return EventTime(
        column,
        delay_ms=reader.take(dialect.LATENCY) or 0,
        idle_timeout_ms=reader.take(dialect.IDLE_TIMEOUT) or 0,
        ahead_ms=EventTime.ahead_ms if ahead is None else ahead,
        arrival=arrival,
        arrival_span=reader.span(dialect.TIME),
    )


def _timestamps(relation: Relation, reader: PropertyReader) -> TimestampFormat | None:
    layout = reader.take(dialect.TIMESTAMP_FORMAT)
    if layout is not None and not isinstance(relation.format.value, TextFormat):
        raise reader.bad(
            dialect.TIMESTAMP_FORMAT,
            f"left out: the records of {relation.name} are {relation.format.value.label}, which has no times as text",
        )
    return layout


def _check_event_time_column(relation: Relation, name: str, span: Span | None) -> None:
    column = relation.schema.column(name)
    if column is None:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the timestamp column {printed(name)} does not exist in {relation.name}",
            hint=suggestion(
                name, relation.schema.names, otherwise=f"The columns are {', '.join(relation.schema.names)}."
            ),
            span=span,
        )
    if column.type != BIGINT and not isinstance(column.type, Timestamp):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the timestamp column {printed(name)} must be BIGINT, TIMESTAMP or TIMESTAMP_LTZ, found {column.type}",
            hint="Declare it as one of these types, or leave 'timestamp' out to use the record's timestamp.",
            span=span,
        )


def _side_topic(
    properties: _SideProperties,
    relation: Relation,
    reader: PropertyReader,
    connector: StoreDescriptor | None,
    store: Callable[[str], StoreFacts | None],
    *,
    enabled: bool,
) -> SideTopic | None:
    """Return the topic for the records, if they are kept; raises UserError 3D021 if its name has no default."""
    layout = {"topic.partitions": properties.partitions, "topic.replicas": properties.replicas}
    named: Specs = (properties.entity, properties.store, *layout.values())
    unused = next((spec for spec in named if reader.is_set(spec)), None)
    if not enabled and unused is not None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{unused.name}' requires '{properties.handling.name}' = {properties.word}",
            hint=f"Add '{properties.handling.name}' = {properties.word}, or leave '{unused.name}' out.",
            span=reader.span(unused),
        )
    entity = reader.take(properties.entity)
    counts = {name: reader.take(spec) for name, spec in layout.items()}
    name = reader.take(properties.store) or relation.store or ""
    if not enabled:
        return None
    path = relation.entity or ()
    if entity is None and connector is not None and connector.pattern(path) is not None:
        entity = reader.require(
            properties.entity, hint="The source has several entities: name the topic of this one."
        )
    topic_store = store(name)
    span = reader.span(properties.store)
    if topic_store is None:
        raise UserError(
            SqlState.STORE_NOT_FOUND,
            f"the store {name!r} does not exist or is not authorized",
            hint="LIST STORES shows the existing stores.",
            span=span,
        )
    return SideTopic(
        store=topic_store.name,
        store_type=topic_store.type,
        entity=(entity or f"{path_text(path)}-{properties.suffix}",),
        property=properties.entity.name,
        layout={name: str(count) for name, count in counts.items() if count is not None},
        span=span or reader.span(properties.entity) or reader.span(properties.handling),
    )
