"""The properties of a sink's WITH (…): which there are, and how each is read. Source: dialect section 9.1."""

from __future__ import annotations

from typing import Literal

from headrace.analyzer.catalog_view import suggestion
from headrace.catalog.objects import Relation
from headrace.connectors.base import Connector, EntityDescription
from headrace.core.errors import UserError
from headrace.core.names import printed
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.planner.cycles import ALLOW_CYCLE
from headrace.sql.ast import Properties

Guarantee = Literal["at_least_once", "exactly_once"]
VALUE_FORMATS = ("json",)
KEY_FORMATS = ("json", "primitive")
LATER_FORMATS = ("avro", "protobuf")
GUARANTEES = ("at_least_once", "exactly_once")
PARTITION_PROPERTIES = ("topic.partitions", "kafka.partitions")
REPLICA_PROPERTIES = ("topic.replicas", "kafka.replicas")
SINK_PROPERTIES = (
    "topic",
    "store",
    "value.format",
    "key.format",
    "key.columns",
    "timestamp",
    "timestamp.format",
    *PARTITION_PROPERTIES,
    *REPLICA_PROPERTIES,
    "enable.upsert.mode",
    "delivery.guarantee",
    "sink.timestamp.strategy",
    "starting.position",
    "query.name",
    ALLOW_CYCLE,
)
INSERT_PROPERTIES = (
    "delivery.guarantee",
    "sink.timestamp.strategy",
    "key.format",
    "key.columns",
    "query.name",
    ALLOW_CYCLE,
)
VIEW_PROPERTIES = ("query.name", "retention.millis")
RETENTION_MS_MAX = 100 * 365 * 24 * 3600 * 1000
PRODUCER_PREFIX = "kafka.producer."
ENTITY_PREFIX = "kafka.topic."
"""The rest of a relation's properties, which the connector reads."""


def check_known(
    properties: Properties, known: tuple[str, ...], *, prefixes: tuple[str, ...], what: str
) -> None:
    """Raises UserError 3D008 for a property that is neither in `known` nor begins with one of `prefixes`."""
    for key in properties:
        if key not in known and not key.startswith(prefixes):
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"unknown {what} '{key}'",
                hint=suggestion(key, known, otherwise=f"There is {', '.join(known)}."),
                span=properties.span(key),
            )


def creation_options(
    properties: Properties, existing: EntityDescription | None, source: EntityDescription | None, entity: str
) -> dict[str, str] | None:
    """The options with which a missing entity is made; None when it exists. Raises UserError 3D008 if the layout is contradicted."""
    if existing is not None:
        check_layout(properties, existing, entity)
        return None
    partitions = _count(properties, PARTITION_PROPERTIES)
    replicas = _count(properties, REPLICA_PROPERTIES)
    options = {key: value for key, value in texts(properties).items() if key.startswith(ENTITY_PREFIX)}
    options["topic.partitions"] = str(partitions[1] if partitions else source.partitions if source else 1)
    if replicas is not None or source is not None:
        options["topic.replicas"] = str(replicas[1] if replicas else source.replicas if source else 1)
    return options


def check_layout(properties: Properties, existing: EntityDescription, entity: str) -> None:
    """Raises UserError 3D008 if the properties say another number of partitions or replicas than there are."""
    for names, actual, what in (
        (PARTITION_PROPERTIES, existing.partitions, "partitions"),
        (REPLICA_PROPERTIES, existing.replicas, "replicas"),
    ):
        given = _count(properties, names)
        if given is not None and given[1] != actual:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the topic {entity!r} exists with {actual} {what}, not {given[1]}",
                hint=f"Leave '{given[0]}' out, or say {actual}.",
                span=properties.span(given[0]),
            )


def _count(properties: Properties, names: tuple[str, ...]) -> tuple[str, int] | None:
    for name in names:
        if name in properties:
            text = properties.get(name) or ""
            if not (text.isascii() and text.isdigit() and 0 < int(text) <= 10_000):
                raise bad_property(properties, name, "a whole number from 1 to 10000")
            return name, int(text)
    return None


def record_format(properties: Properties, key: str, formats: tuple[str, ...]) -> str | None:
    """A format property in lower case, one of `formats`; raises UserError 0A000 (one that is to come) or 3D008."""
    value = properties.get(key)
    if value is not None and value.lower() in LATER_FORMATS:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the format {value.upper()} is not supported yet",
            hint=f"Use {' or '.join(formats).upper()}.",
            span=properties.span(key),
        )
    return choice(properties, key, formats)


def guarantee(properties: Properties, relation: Relation | None, connector: Connector) -> Guarantee:
    """The delivery guarantee: the statement's, else the relation's own, else at least once. Raises UserError 0A000 or 3D008."""
    strategy = choice(properties, "sink.timestamp.strategy", ("proc.time", "event.time"))
    if strategy == "event.time":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "'sink.timestamp.strategy' = event.time is not supported yet",
            hint="Select the event time as a column, and name it with 'timestamp'.",
            span=properties.span("sink.timestamp.strategy"),
        )
    chosen = choice(properties, "delivery.guarantee", (*GUARANTEES, "none"))
    if chosen is None and relation is not None:
        chosen = (relation.properties.get("delivery.guarantee") or "").lower() or None
    if chosen == "exactly_once":
        if not connector.capabilities.exactly_once_sink:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"stores of type {connector.type.upper()} cannot be written exactly once (exactly_once_sink)",
                span=properties.span("delivery.guarantee"),
            )
        return "exactly_once"
    return "at_least_once"


def retention(properties: Properties) -> int | None:
    """How long a view keeps a row that is not written again, in milliseconds; None: for ever. Raises UserError 3D008."""
    text = properties.get("retention.millis")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= RETENTION_MS_MAX):
        raise bad_property(properties, "retention.millis", f"milliseconds, 1 to {RETENTION_MS_MAX}")
    return int(text)


def timestamp_column(schema: Schema, properties: Properties) -> str | None:
    """The event-time column that 'timestamp' names, if it is given; raises UserError 42703."""
    name = properties.get("timestamp")
    if name is not None and schema.column(name) is None:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the timestamp column {printed(name)} is no column of the relation",
            hint=suggestion(name, schema.names, otherwise=f"There is {', '.join(schema.names)}."),
            span=properties.span("timestamp"),
        )
    return name


def choice(properties: Properties, key: str, choices: tuple[str, ...]) -> str | None:
    """The value of a property that has few, in lower case; raises UserError 3D008."""
    value = properties.get(key)
    if value is None:
        return None
    if value.lower() not in choices:
        raise bad_property(properties, key, " or ".join(choices))
    return value.lower()


def bad_property(properties: Properties, key: str, expected: str) -> UserError:
    """3D008: what the property takes, and what it was given."""
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"'{key}' must be {expected}, found {properties.get(key)!r}",
        span=properties.span(key),
    )


def texts(properties: Properties) -> dict[str, str]:
    """The properties that have a value."""
    return {key: value for key, value in properties.items() if value is not None}
