"""Source and query properties: reading, checking, and the relation's own as defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headrace.analyzer.catalog_view import suggestion
from headrace.analyzer.logical import DeadLetters, EventTime, QueryProperties, SourceProperties
from headrace.catalog.objects import Relation, Store
from headrace.connectors.base import Connector
from headrace.core.errors import Span, UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, Timestamp
from headrace.sql.ast import Properties

POSITIONS = ("earliest", "latest", "timestamp")
EXECUTION_MODES = ("micro_batch", "real_time")
TIMESTAMP_FORMATS = ("sql", "iso8601")
MILLISECONDS_MAX = 2**53
CONSUMER_PREFIX = "kafka.consumer."

SOURCE_PROPERTIES = {
    "starting.position": "earliest, latest or timestamp (latest)",
    "starting.position.timestamp": "milliseconds since 1970, for the position timestamp",
    "timestamp": "the column that is the event time: BIGINT milliseconds, TIMESTAMP or TIMESTAMP_LTZ",
    "timestamp.format": "sql or iso8601: how a textual timestamp is written (sql)",
    "source.idle.timeout.millis": "after this long without records a partition no longer holds the watermark back (0: never)",
    "source.allow.latency.millis": "how far behind the newest event time a record may be (0)",
    "source.allow.future.millis": "how far ahead of the clock an event time may be, where it matters (86400000; 0: any may be)",
    "source.deserialization.error.handling": "TERMINATE, IGNORE, IGNORE_AND_LOG or DEAD_LETTER (TERMINATE)",
    "source.deserialization.error.log.topic": "the dead-letter topic (the source's topic and -dead-letters)",
    "source.deserialization.error.log.store": "its store (the source's)",
    "source.deserialization.error.log.topic.partitions": "of a dead-letter topic that is made (1)",
    "source.deserialization.error.log.topic.replicas": "of a dead-letter topic that is made (the broker's default)",
}
"""The source properties and what each takes; `kafka.consumer.…` is the connector's."""

QUERY_PROPERTIES = {
    "state.ttl.millis": "how long state is kept after it was last touched (0: for ever)",
    "query.name": "a name for the query",
    "execution.mode": "micro_batch or real_time (real-time where it is possible)",
}


def source_properties(
    relation: Relation,
    given: Properties,
    connector: Connector | None,
    store: Callable[[str], Store | None],
) -> SourceProperties:
    """What is in force for one source; `store` finds one by its name.

    Raises UserError 3D008 (unknown property, bad value), 3D021 (position timestamp without a timestamp), 42703 (no such
    timestamp column), 42804 (its type) or 3D006 (no such store of dead letters), each at the property.
    """
    defaults = _Values(relation.properties, None)
    values = _Values(dict(given.items()), given)
    for key in given:
        if key not in SOURCE_PROPERTIES and not key.startswith(CONSUMER_PREFIX):
            raise _unknown(key, tuple(SOURCE_PROPERTIES), "source property", given.span(key))
    result = _with_position(_with_position(SourceProperties(), defaults), values)
    if result.starting_position == "timestamp" and result.starting_timestamp_ms is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "'starting.position' = 'timestamp' needs 'starting.position.timestamp'",
            hint="Give milliseconds since 1970-01-01 UTC.",
            span=values.span("starting.position"),
        )
    options = (
        {} if connector is None else passed_through(connector.source_options, given, relation.properties)
    )
    return replace(
        result,
        event_time=_event_time(relation, defaults, values),
        on_error=_on_error(defaults, values),
        dead_letters=_dead_letters(relation, defaults, values, store),
        options=options,
    )


def passed_through(
    read: Callable[[Mapping[str, str]], dict[str, str]], given: Properties, defaults: Mapping[str, str]
) -> dict[str, str]:
    """The client options that a connector reads from `defaults` and, over them, from what the statement gives.

    Raises the connector's UserError with the place of the property that it refuses.
    """
    for key, value in _texts(given):
        try:
            read({key: value})
        except UserError as error:
            raise UserError(error.state, error.message, hint=error.hint, span=given.span(key)) from None
    return read({**defaults, **dict(_texts(given))})


def query_properties(given: Properties) -> QueryProperties:
    """What follows QUERY WITH; raises UserError 3D008."""
    values = _Values(dict(given.items()), given)
    for key in given:
        if key.startswith("resume.from."):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the query property '{key}' is not supported yet",
                hint="RESTART QUERY continues a query from its checkpoint.",
                span=given.span(key),
            )
        if key not in QUERY_PROPERTIES:
            raise _unknown(key, tuple(QUERY_PROPERTIES), "query property", given.span(key))
    return QueryProperties(
        state_ttl_ms=values.milliseconds("state.ttl.millis") or 0,
        name=values.text("query.name"),
        execution_mode=values.choice("execution.mode", EXECUTION_MODES),
        execution_mode_span=values.span("execution.mode"),
        state_ttl_span=values.span("state.ttl.millis"),
    )


_ERRORS = "source.deserialization.error"
_ON_ERROR = {
    "TERMINATE": "terminate",
    "IGNORE": "ignore",
    "IGNORE_AND_LOG": "dead_letter",
    "DEAD_LETTER": "dead_letter",
}
"""What may be said of records that cannot be read. The last two are one: DeltaStream's word for it, and the field's."""


class _Values:
    """Typed reading of property texts, with places in errors where the statement wrote them."""

    def __init__(self, texts: Mapping[str, str | None], written: Properties | None) -> None:
        self._texts = texts
        self._written = written

    def span(self, key: str) -> Span | None:
        return self._written.span(key) if self._written is not None and key in self._texts else None

    def has(self, key: str) -> bool:
        return key in self._texts

    def text(self, key: str) -> str | None:
        value = self._texts.get(key)
        if value is None and key in self._texts:
            raise self._bad(key, "a value", "none")
        return value

    def choice(
        self, key: str, choices: tuple[str, ...], fold: Callable[[str], str] = str.lower
    ) -> str | None:
        value = self.text(key)
        if value is None:
            return None
        if fold(value) not in choices:
            raise self._bad(key, " or ".join(choices), repr(value))
        return fold(value)

    def count(self, key: str) -> str | None:
        value = self.text(key)
        if value is not None and not (value.isascii() and value.isdigit() and 0 < int(value) <= 10_000):
            raise self._bad(key, "a whole number from 1 to 10000", repr(value))
        return value

    def milliseconds(self, key: str) -> int | None:
        value = self.text(key)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or int(value) > MILLISECONDS_MAX:
            raise self._bad(key, f"milliseconds, 0 to {MILLISECONDS_MAX}", repr(value))
        return int(value)

    def _bad(self, key: str, expected: str, found: str) -> UserError:
        return UserError(
            SqlState.INVALID_PARAMETER, f"'{key}' must be {expected}, found {found}", span=self.span(key)
        )


_LOG: Mapping[str, Callable[[_Values, str], str | None]] = {
    "topic": _Values.text,
    "store": _Values.text,
    "topic.partitions": _Values.count,
    "topic.replicas": _Values.count,
}
"""What may be said of the dead-letter topic."""


def _texts(given: Properties) -> list[tuple[str, str]]:
    return [(key, value) for key, value in given.items() if value is not None]


def _unknown(key: str, known: tuple[str, ...], what: str, span: Span | None) -> UserError:
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"unknown {what} '{key}'",
        hint=suggestion(key, known, otherwise=f"There is {', '.join(known)}."),
        span=span,
    )


def _with_position(base: SourceProperties, values: _Values) -> SourceProperties:
    position = values.choice("starting.position", POSITIONS)
    timestamp = values.milliseconds("starting.position.timestamp")
    return replace(
        base,
        starting_position=position or base.starting_position,
        starting_timestamp_ms=timestamp if timestamp is not None else base.starting_timestamp_ms,
    )


def _event_time(relation: Relation, defaults: _Values, values: _Values) -> EventTime:
    column = values.text("timestamp") or relation.format.timestamp
    if column is not None:
        _check_event_time_column(relation, column, values.span("timestamp"))
    written = values.choice("timestamp.format", TIMESTAMP_FORMATS)

    def either(key: str, otherwise: int = 0) -> int:
        found = (place.milliseconds(key) for place in (values, defaults))
        return next((value for value in found if value is not None), otherwise)

    return EventTime(
        column,
        written or relation.format.timestamp_format,
        delay_ms=either("source.allow.latency.millis"),
        idle_timeout_ms=either("source.idle.timeout.millis"),
        ahead_ms=either("source.allow.future.millis", EventTime.ahead_ms),
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


def _on_error(defaults: _Values, values: _Values) -> str:
    key = f"{_ERRORS}.handling"
    found = (place.choice(key, tuple(_ON_ERROR), str.upper) for place in (values, defaults))
    return _ON_ERROR[next((value for value in found if value is not None), "TERMINATE")]


def _dead_letters(
    relation: Relation, defaults: _Values, values: _Values, store: Callable[[str], Store | None]
) -> DeadLetters | None:
    if _on_error(defaults, values) != "dead_letter":
        unused = next((key for part in _LOG if values.has(key := f"{_ERRORS}.log.{part}")), None)
        if unused is not None:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"'{unused}' is for '{_ERRORS}.handling' = DEAD_LETTER only",
                span=values.span(unused),
            )
        return None
    said: dict[str, str] = {}
    for part, read in _LOG.items():
        for place in (defaults, values):
            if (value := read(place, f"{_ERRORS}.log.{part}")) is not None:
                said[part] = value
    name = said.get("store", relation.store or "")
    found = store(name)
    span = values.span(f"{_ERRORS}.log.store")
    if found is None:
        raise UserError(
            SqlState.STORE_NOT_FOUND,
            f"the store {name!r} does not exist",
            hint="LIST STORES shows those that do.",
            span=span,
        )
    return DeadLetters(
        store=found.name,
        store_type=found.type.lower(),
        entity=said.get("topic", f"{relation.entity}-dead-letters"),
        layout={part: value for part, value in said.items() if part.startswith("topic.")},
        span=span or values.span(f"{_ERRORS}.log.topic") or values.span(f"{_ERRORS}.handling"),
    )
