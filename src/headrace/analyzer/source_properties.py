"""Source and query properties: what is in force, and the relation's own as defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.analyzer import properties as dialect
from headrace.analyzer.catalog_view import suggestion
from headrace.analyzer.logical import DeadLetters, EventTime, QueryProperties, SourceProperties
from headrace.catalog.objects import Relation, Store
from headrace.connectors.base import StoreDescriptor
from headrace.core.errors import Span, UserError
from headrace.core.names import path_text, printed
from headrace.core.properties import Entry, PropertyReader, Scope, Specs, of_scope
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, Timestamp

_ON_ERROR = {
    "TERMINATE": "terminate",
    "IGNORE": "ignore",
    "IGNORE_AND_LOG": "dead_letter",
    "DEAD_LETTER": "dead_letter",
}
"""What may be said of records that cannot be read. The last two are one: DeltaStream's word for it, and the field's."""
_LAYOUT = {
    "topic.partitions": dialect.LETTERS_PARTITIONS,
    "topic.replicas": dialect.LETTERS_REPLICAS,
}


def source_properties(
    relation: Relation,
    given: Iterable[Entry],
    connector: StoreDescriptor | None,
    store: Callable[[str], Store | None],
) -> SourceProperties:
    """What is in force for one source; `store` finds one by its name.

    Raises UserError 3D008 (unknown property, bad value), 3D021 (position timestamp without a timestamp), 42703 (no such
    timestamp column), 42804 (its type) or 3D006 (no such store of dead letters), each at the property.
    """
    own = of_scope(connector.properties, Scope.SOURCE) if connector is not None else ()
    reader = PropertyReader(
        given, (*of_scope(dialect.DIALECT, Scope.SOURCE), *own), what="a source", defaults=relation.properties
    )
    position = reader.take(dialect.POSITION) or "latest"
    timestamp = reader.take(dialect.POSITION_TIMESTAMP)
    if position == "timestamp" and timestamp is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "'starting.position' = 'timestamp' needs 'starting.position.timestamp'",
            hint="Give milliseconds since 1970-01-01 UTC.",
            span=reader.span(dialect.POSITION),
        )
    on_error = _ON_ERROR[reader.take(dialect.ON_ERROR) or "TERMINATE"]
    found = SourceProperties(
        starting_position=position,
        starting_timestamp_ms=timestamp,
        event_time=_event_time(relation, reader),
        on_error=on_error,
        dead_letters=_dead_letters(relation, reader, store, kept=on_error == "dead_letter"),
        options=connector.source.options(reader) if connector is not None and connector.source else {},
    )
    reader.finish()
    return found


def query_properties(given: Iterable[Entry]) -> QueryProperties:
    """What follows QUERY WITH; raises UserError 3D008, or 0A000 for what is to come."""
    reader = PropertyReader(given, of_scope(dialect.DIALECT, Scope.QUERY), what="a query")
    for name in reader.take_all(dialect.RESUME):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query property '{dialect.RESUME.name}{name}' is not supported yet",
            hint="RESTART QUERY continues a query from its checkpoint.",
            span=reader.span(dialect.RESUME),
        )
    found = QueryProperties(
        state_ttl_ms=reader.take(dialect.STATE_TTL) or 0,
        name=reader.take(dialect.QUERY_NAME),
        execution_mode=reader.take(dialect.EXECUTION_MODE),
        execution_mode_span=reader.span(dialect.EXECUTION_MODE),
        state_ttl_span=reader.span(dialect.STATE_TTL),
    )
    reader.finish()
    return found


def _event_time(relation: Relation, reader: PropertyReader) -> EventTime:
    column = reader.take(dialect.TIMESTAMP) or relation.format.timestamp
    if column is not None:
        _check_event_time_column(relation, column, reader.span(dialect.TIMESTAMP))
    ahead = reader.take(dialect.AHEAD)
    return EventTime(
        column,
        reader.take(dialect.TIMESTAMP_FORMAT) or relation.format.timestamp_format,
        delay_ms=reader.take(dialect.LATENCY) or 0,
        idle_timeout_ms=reader.take(dialect.IDLE_TIMEOUT) or 0,
        ahead_ms=EventTime.ahead_ms if ahead is None else ahead,
    )


def _check_event_time_column(relation: Relation, name: str, span: Span | None) -> None:
    column = relation.schema.column(name)
    if column is None:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the timestamp column {printed(name)} does not exist in {relation.name}",
            hint=suggestion(
                name, relation.schema.names, otherwise=f"There is {', '.join(relation.schema.names)}."
            ),
            span=span,
        )
    if column.type != BIGINT and not isinstance(column.type, Timestamp):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the timestamp column {printed(name)} must be BIGINT, TIMESTAMP or TIMESTAMP_LTZ, found {column.type}",
            span=span,
        )


def _dead_letters(
    relation: Relation, reader: PropertyReader, store: Callable[[str], Store | None], *, kept: bool
) -> DeadLetters | None:
    """Where they go, if they are kept."""
    named: Specs = (dialect.LETTERS_ENTITY, dialect.LETTERS_STORE, *_LAYOUT.values())
    unused = next((spec for spec in named if reader.gives(spec)), None)
    if not kept and unused is not None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{unused.name}' is for '{dialect.ON_ERROR.name}' = DEAD_LETTER only",
            span=reader.span(unused),
        )
    named_entity = reader.take(dialect.LETTERS_ENTITY)
    layout = {name: reader.take(spec) for name, spec in _LAYOUT.items()}
    name = reader.take(dialect.LETTERS_STORE) or relation.store or ""
    if not kept:
        return None
    found = store(name)
    span = reader.span(dialect.LETTERS_STORE)
    if found is None:
        raise UserError(
            SqlState.STORE_NOT_FOUND,
            f"the store {name!r} does not exist",
            hint="LIST STORES shows those that do.",
            span=span,
        )
    return DeadLetters(
        store=found.name,
        store_type=found.type,
        entity=(named_entity or f"{path_text(relation.entity or ())}-dead-letters",),
        layout={name: str(count) for name, count in layout.items() if count is not None},
        span=span or reader.span(dialect.LETTERS_ENTITY) or reader.span(dialect.ON_ERROR),
    )
