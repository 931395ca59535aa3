"""The dialect's own properties, each declared once; a store type's further properties are in its folder. Source: dialect sections 6 to 11.

`scripts/make_reference.py` makes the tables of docs/reference/properties.md of these.
"""

from __future__ import annotations

import re

from headrace.connectors.registry import STORE_REGISTRY_SYNONYMS
from headrace.core.properties import (
    BOOLEAN,
    COUNT,
    FLAG,
    MILLISECONDS,
    MILLISECONDS_MAX,
    NAMES,
    TEXT,
    PropertySpec,
    PropertyType,
    Scope,
    Specs,
    choice,
    number,
)
from headrace.formats.base import TimestampFormat


def _timestamp_format(text: str) -> TimestampFormat:
    match text.lower():
        case "sql":
            return "sql"
        case "iso8601":
            return "iso8601"
    raise ValueError(text)


def _delimiter(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text.isalnum() or text in '"\\\r\n\0':
        raise ValueError(text)
    return text


def _numbers(text: str) -> frozenset[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", part, re.ASCII) for part in parts):
        raise ValueError(text)
    return frozenset(map(int, parts))


def _record_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", text, re.ASCII):
        raise ValueError(text)
    return text


def _strategy(text: str) -> str:
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text.removesuffix("Strategy")).lower()
    if word not in ("topic_name", "record_name", "topic_record_name"):
        raise ValueError(text)
    return word


_DEFINED = Scope.RELATION | Scope.SINK
_READ = Scope.RELATION | Scope.SOURCE
_WRITTEN = Scope.RELATION | Scope.SINK | Scope.INSERT
_FORMATS = choice("json", "primitive", "csv", "raw", "avro", "protobuf", "parquet")
RETENTION_MS_MAX = 100 * 365 * 24 * 3600 * 1000

# --- stores and entities

TYPE = PropertySpec("type", TEXT, Scope.STORE, "the store type, one of those below", default="needed")
REGION = PropertySpec("access_region", TEXT, Scope.STORE, "accepted and ignored", synonyms=("access.region",))
DESCRIPTION = PropertySpec("description", TEXT, Scope.STORE, "accepted and ignored")
SCHEMA_REGISTRY = PropertySpec(
    "schema_registry.name",
    TEXT,
    Scope.STORE,
    "the [schema registry](statements.md#schema-registries) with the schemas of its records",
    default="none",
    synonyms=STORE_REGISTRY_SYNONYMS,
)
FROM_BEGINNING = PropertySpec(
    "from_beginning",
    FLAG,
    Scope.PRINT,
    "same as `'starting.position' = 'earliest'`; may be written without a value",
    default="FALSE",
)
PRINT_PARTITIONS = PropertySpec(
    "print.partitions",
    PropertyType("numbers from 0, separated by commas", _numbers),
    Scope.PRINT,
    "`'0, 2'`: only records of these partitions or shards",
    default="all",
)
PRINT_FILTER = PropertySpec(
    "print.filter",
    TEXT,
    Scope.PRINT,
    "only records whose key, value or headers contain this text; or a comparison of a field of the JSON value, such as "
    "`'$.user.id = 7'`, with `=`, `<>`, `<`, `<=`, `>`, `>=` or `~` (contains); `'$.user'`: the field exists",
    default="none",
)
PRINT_LIMIT = PropertySpec(
    "print.limit",
    number(1, 1_000_000, "a whole number from 1 to 1000000"),
    Scope.PRINT,
    "the result ends after so many records",
    default="none",
)
PRINT_DETAILS = PropertySpec(
    "print.details",
    FLAG,
    Scope.PRINT,
    "`partition`, `offset`, `timestamp` and `headers` as columns, in place of `metadata`; may be written without a value",
    default="FALSE",
)
PRINT_NEWEST = PropertySpec(
    "print.newest",
    number(1, 10_000, "a whole number from 1 to 10000"),
    Scope.PRINT,
    "in place of a starting position: the newest records that exist, at most so many, by time; then the result ends",
    default="none",
)
_PRINT_FORMATS = choice("text", "base64", "registry")
PRINT_KEY_FORMAT = PropertySpec(
    "print.key.format",
    _PRINT_FORMATS,
    Scope.PRINT,
    "same as `print.value.format`, for the keys",
    default="text",
)
PRINT_VALUE_FORMAT = PropertySpec(
    "print.value.format",
    _PRINT_FORMATS,
    Scope.PRINT,
    "`text`: as it is, or as base64 if it is not UTF-8; `base64`: always as base64; `registry`: Avro, Protobuf or JSON that refers to a "
    "schema of the store's schema registry, as JSON",
    default="text",
)
RECORD_KEY = PropertySpec("key", TEXT, Scope.RECORD, "the record key as text", default="none")

# --- relations and sinks

STORE = PropertySpec(
    "store",
    TEXT,
    _DEFINED | Scope.ENTITY | Scope.PRINT | Scope.OPTIMIZE | Scope.RECORD,
    "the store; for entities, same as IN STORE",
    default="the session's; in CREATE … AS the leftmost source's",
)
VALUE_FORMAT = PropertySpec(
    "value.format",
    _FORMATS,
    _DEFINED,
    "`JSON`, `AVRO`, `PROTOBUF`, `CSV`, `PRIMITIVE` or `RAW`, see [formats](formats.md)",
    default="required; in CREATE … AS the leftmost source's",
)
KEY_FORMAT = PropertySpec(
    "key.format",
    _FORMATS,
    _WRITTEN,
    "`PRIMITIVE`, `JSON`, `AVRO` or `PROTOBUF`. If it is not set, keys are not read. For sinks, see "
    "[keys](queries.md#sinks)",
    default="none",
)
VALUE_DESCRIPTOR = PropertySpec(
    "value.descriptor.name",
    TEXT,
    _DEFINED,
    "PROTOBUF: the message, `'source.package.Message'` of a [descriptor source](statements.md#descriptor-sources), or "
    "`'package.Message'` of the registry's schemas",
    default="with a registry, the message of each record; the first message when writing",
    synonyms=("value.descriptor",),
)
_STRATEGY = PropertyType("topic_name, record_name or topic_record_name", _strategy)
VALUE_STRATEGY = PropertySpec(
    "value.subject.name.strategy",
    _STRATEGY,
    _WRITTEN,
    "AVRO, PROTOBUF with a registry: the subject of the schema is named after the topic (`<topic>-value`), "
    "the record, or both (`<topic>-<record>`); Confluent's names such as `RecordNameStrategy` are accepted "
    "too",
    default="topic_name",
)
_RECORD = PropertyType("a name of Avro's, as shop.Order", _record_name)
VALUE_RECORD = PropertySpec(
    "value.record.name",
    _RECORD,
    _WRITTEN,
    "AVRO: the full name of the record, such as `shop.Order`; required with the other strategies. For "
    "PROTOBUF, use `value.descriptor.name`",
    default="derived from the topic's name",
)
KEY_STRATEGY = PropertySpec(
    "key.subject.name.strategy", _STRATEGY, _WRITTEN, "the same, for keys", default="topic_name"
)
KEY_RECORD = PropertySpec(
    "key.record.name", _RECORD, _WRITTEN, "the same, for keys", default="derived from the topic's name"
)
BASE_VALUE = PropertySpec(
    "avro.base.subject.value",
    TEXT,
    _WRITTEN,
    "AVRO: a subject whose newest schema describes the shared fields of the written records in more detail, "
    "see [AVRO](formats.md#avro)",
    default="none",
)
BASE_KEY = PropertySpec("avro.base.subject.key", TEXT, _WRITTEN, "the same, for keys", default="none")
BASE_STORE = PropertySpec(
    "avro.base.schema.store",
    TEXT,
    _WRITTEN,
    "the store whose registry contains these subjects; requires USAGE",
    default="the sink's",
    synonyms=("avro.base.store.name",),
)
KEY_DESCRIPTOR = PropertySpec(
    "key.descriptor.name",
    TEXT,
    _DEFINED,
    "the same, for keys",
    synonyms=("key.descriptor",),
)
KEY_TYPE = PropertySpec(
    "key.type",
    TEXT,
    Scope.RELATION,
    "`'VARCHAR'`, SMALLINT, INTEGER, BIGINT, DOUBLE for PRIMITIVE; `'STRUCT<id INTEGER>'` for JSON. Required "
    "with `key.format`, unless the primary key or `key.columns` specifies it",
    default="a changelog's primary key",
)
KEY_COLUMNS = PropertySpec(
    "key.columns",
    NAMES,
    _WRITTEN,
    "`'a, b'`: the columns of the key of written records; streams only, instead of PARTITION BY and "
    "`key.type`",
)
TIMESTAMP = PropertySpec(
    "timestamp",
    TEXT,
    _DEFINED | Scope.SOURCE,
    "the column with the event time: BIGINT milliseconds, TIMESTAMP or TIMESTAMP_LTZ",
    default="the record's timestamp; in a source the relation's",
)
TIMESTAMP_FORMAT = PropertySpec(
    "timestamp.format",
    PropertyType[TimestampFormat]("sql or iso8601", _timestamp_format),
    _DEFINED | Scope.SOURCE,
    "JSON and CSV: format of timestamps: `sql` (`2026-01-31 10:00:00.000`) or `iso8601` "
    "(`2026-01-31T10:00:00.000`)",
    default="in CREATE … AS the leftmost source's; otherwise sql is written, and both are read",
)
DELIMITER = PropertySpec(
    "csv.delimiter",
    PropertyType("one character other than a quote, letter, digit, backslash or line break", _delimiter),
    _DEFINED,
    "CSV: the delimiter between two fields",
    default="`,`; in CREATE … AS the leftmost source's",
)
UPSERT_MODE = PropertySpec(
    "enable.upsert.mode",
    BOOLEAN,
    _DEFINED,
    "changelogs: a record without a value deletes its key. Requires `key.format`",
    default="FALSE; TRUE for changelogs that a query writes",
)
GUARANTEE = PropertySpec(
    "delivery.guarantee",
    choice("at_least_once", "exactly_once", "none"),
    _WRITTEN,
    "`at_least_once`, `exactly_once`; `none` means at_least_once. Of a relation: the default for INSERT INTO",
    default="at_least_once",
)
TIMESTAMP_STRATEGY = PropertySpec(
    "sink.timestamp.strategy",
    choice("proc.time", "event.time"),
    Scope.SINK | Scope.INSERT,
    "`proc.time`; `event.time` is 0A000",
    default="proc.time",
)
ALLOW_CYCLE = PropertySpec(
    "allow.cycle",
    BOOLEAN,
    Scope.SINK | Scope.INSERT,
    "TRUE lets the query read the relation that it writes, see [INSERT INTO](statements.md#insert-into)",
    default="FALSE",
)
RETENTION = PropertySpec(
    "retention.millis",
    number(1, RETENTION_MS_MAX, f"milliseconds, 1 to {RETENTION_MS_MAX}"),
    Scope.VIEW,
    "a row that was not rewritten for this long, by the server's clock, is deleted for good, some seconds "
    "later. It cannot be changed",
    default="for ever",
)

# --- sources

POSITION = PropertySpec(
    "starting.position",
    choice("earliest", "latest", "timestamp"),
    _READ | Scope.SINK | Scope.PRINT,
    "`earliest`, `latest`, `timestamp`: where PRINT starts, or a query without a checkpoint. Of a sink: the "
    "default for its readers",
    default="latest",
)
POSITION_TIMESTAMP = PropertySpec(
    "starting.position.timestamp",
    MILLISECONDS,
    _READ | Scope.PRINT,
    "required with the position `timestamp`: milliseconds since 1970, compared with the records' timestamps",
)
TIME = PropertySpec(
    "source.time",
    choice("EVENT", "ARRIVAL", fold=str.upper),
    _READ,
    "`EVENT`; or `ARRIVAL`: windows use the time at which a record was read, see [arrival "
    "time](queries.md#windows). A query with the property `timestamp` uses the event time",
    default="EVENT",
)
LATENCY = PropertySpec(
    "source.allow.latency.millis",
    MILLISECONDS,
    _READ,
    "how far the watermark lags behind the newest event time of a partition",
    default="0",
)
IDLE_TIMEOUT = PropertySpec(
    "source.idle.timeout.millis",
    MILLISECONDS,
    _READ,
    "after a partition was empty for this long, it no longer holds the watermark back; see "
    "[time](queries.md#time)",
    default="0: never",
)
AHEAD = PropertySpec(
    "source.allow.future.millis",
    MILLISECONDS,
    _READ,
    "in windows and joins: a record whose event time is further ahead of the clock is a bad record; 0: no "
    "bound. See [time](queries.md#time)",
    default="86400000: a day",
)
_ERRORS = "source.deserialization.error"
ON_ERROR = PropertySpec(
    f"{_ERRORS}.handling",
    choice("TERMINATE", "IGNORE", "IGNORE_AND_LOG", "DEAD_LETTER", fold=str.upper),
    _READ,
    "`TERMINATE`: a record that cannot be read stops the query; `IGNORE`: the record is skipped. "
    "`DEAD_LETTER`, or DeltaStream's word `IGNORE_AND_LOG`: the record is skipped and kept, see [bad "
    "records](queries.md#sinks)",
    default="TERMINATE",
)
ON_FUNCTION_ERROR = PropertySpec(
    "source.function.error.handling",
    choice("FAIL", "NULL", "DEAD_LETTER", fold=str.upper),
    _READ,
    "a row for which a [function of a user](statements.md#functions) throws, returns a value of another type, or takes too long: "
    "`FAIL`: it stops the query; `NULL`: the result is NULL; `DEAD_LETTER`: the row is left out and its record is kept as a bad record",
    default="FAIL",
)
LETTERS_ENTITY = PropertySpec(
    f"{_ERRORS}.log.topic",
    TEXT,
    _READ,
    "with `DEAD_LETTER`, of records or of functions: the topic for bad records; created if it is missing",
    default="the source's topic and `-dead-letters`",
)
LETTERS_STORE = PropertySpec(
    f"{_ERRORS}.log.store", TEXT, _READ, "the store of that topic; requires USAGE", default="the source's"
)
LETTERS_PARTITIONS = PropertySpec(
    f"{_ERRORS}.log.topic.partitions", COUNT, _READ, "of a created dead-letter topic", default="1"
)
LETTERS_REPLICAS = PropertySpec(
    f"{_ERRORS}.log.topic.replicas", COUNT, _READ, "of a created dead-letter topic", default="the broker's"
)
_LATE = "source.late.rows"
ON_LATE = PropertySpec(
    f"{_LATE}.handling",
    choice("IGNORE", "LOG", fold=str.upper),
    _READ,
    "rows too late for their window: `IGNORE`: the rows are dropped and counted; `LOG`: their records are "
    "kept too, see [late rows](queries.md#time)",
    default="IGNORE",
)
LATE_ENTITY = PropertySpec(
    f"{_LATE}.log.topic",
    TEXT,
    _READ,
    "with `LOG`: the topic for late rows; created if it is missing",
    default="the source's topic and `-late-rows`",
)
LATE_STORE = PropertySpec(
    f"{_LATE}.log.store", TEXT, _READ, "the store of that topic; requires USAGE", default="the source's"
)
LATE_PARTITIONS = PropertySpec(
    f"{_LATE}.log.topic.partitions", COUNT, _READ, "of a created topic of late rows", default="1"
)
LATE_REPLICAS = PropertySpec(
    f"{_LATE}.log.topic.replicas", COUNT, _READ, "of a created topic of late rows", default="the broker's"
)

LOOKUP_REFRESH_MS = 60_000
LOOKUP_REFRESH = PropertySpec(
    "lookup.refresh.millis",
    number(1000, MILLISECONDS_MAX, f"milliseconds, 1000 to {MILLISECONDS_MAX}"),
    Scope.TABLE,
    "for a table that a stream is joined with: read the whole table, and again at this interval, instead of "
    "looking up the keys of each batch",
    default="if the store can look up rows by key, each batch looks them up; otherwise 60000",
)

# --- queries

QUERY_NAME = PropertySpec(
    "query.name",
    TEXT,
    Scope.QUERY | Scope.SINK | Scope.INSERT | Scope.VIEW,
    "a unique name for the query, accepted wherever its id is. The name in QUERY WITH takes precedence",
    default="none",
)
EXECUTION_MODE = PropertySpec(
    "execution.mode",
    choice("micro_batch", "real_time"),
    Scope.QUERY,
    "`micro_batch` or `real_time`; `real_time` is refused (0A000, with the reasons) if the query does not "
    "support it",
    default="real-time if the query supports it",
)
STATE_TTL = PropertySpec(
    "state.ttl.millis",
    MILLISECONDS,
    Scope.QUERY,
    "how long state is kept, in event time, after its last use",
    default="0: for ever",
)
STATE_PARTITIONS = PropertySpec(
    "state.partitions",
    number(1, 256, "a whole number from 1 to 256"),
    Scope.QUERY,
    "into how many partitions the state of the query's operators is divided: so many tasks can compute them at once. It "
    "cannot change in a query that exists; one that continues from another query's state may have another number",
    default="`HEADRACE_SHUFFLE_PARTITIONS`; of a query that continues from another one, that one's number",
)
RESUME_SAVEPOINT = PropertySpec(
    "resume.from.savepoint",
    TEXT,
    Scope.QUERY,
    "the savepoint from whose positions and state a new query continues",
    default="none",
)
RESUME_QUERY = PropertySpec(
    "resume.from.query.id",
    TEXT,
    Scope.QUERY,
    "the query, which has ended, from whose positions and state a new query continues",
    default="none",
)
RESUME_QUERY_NAME = PropertySpec(
    "resume.from.query.name",
    TEXT,
    Scope.QUERY,
    "the same query by its `query.name`",
    default="none",
)
RESUME_QUERY_VERSION = PropertySpec(
    "resume.from.query.version",
    number(1, 2**31 - 1, "a whole number above 0"),
    Scope.QUERY,
    "with `resume.from.query.name`: the version, if several queries had the name",
    default="the newest",
)
REPLACEMENT = PropertySpec(
    "query.replacement",
    choice("compatible", "partly", "anew"),
    Scope.QUERY,
    "of a query that is replaced: `compatible` continues from its checkpoint, or is refused; with `partly`, the branches of a UNION ALL "
    "that change start at the first records of their sources or at their `starting.position`, and the others continue; `anew` starts "
    "without state, with all sources. No effect on a query that is created",
    default="compatible",
)

OF_TABLES: Specs = (STORE, GUARANTEE, ALLOW_CYCLE, QUERY_NAME)
"""Properties of a TABLE and of a query that writes one. A table has no records."""

DIALECT: Specs = tuple(value for value in globals().values() if isinstance(value, PropertySpec))
"""All of them, in the order in which they are documented."""
