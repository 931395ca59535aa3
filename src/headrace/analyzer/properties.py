"""The dialect's own properties, each declared once; what a store type adds is in its folder. Source: dialect sections 6 to 11.

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
    "the [schema registry](statements.md#schema-registries) that has the schemas of its records",
    default="none",
    synonyms=STORE_REGISTRY_SYNONYMS,
)
FROM_BEGINNING = PropertySpec(
    "from_beginning",
    FLAG,
    Scope.PRINT,
    "another way to say `'starting.position' = 'earliest'`; may stand without a value",
    default="FALSE",
)
RECORD_KEY = PropertySpec("key", TEXT, Scope.RECORD, "the record key as text", default="none")

# --- relations, and what queries write

STORE = PropertySpec(
    "store",
    TEXT,
    _DEFINED | Scope.ENTITY | Scope.PRINT | Scope.OPTIMIZE | Scope.RECORD,
    "the store; for entities another way to say IN STORE",
    default="the session's; in CREATE … AS then the leftmost source's",
)
VALUE_FORMAT = PropertySpec(
    "value.format",
    _FORMATS,
    _DEFINED,
    "`JSON`, `AVRO`, `PROTOBUF`, `CSV`, `PRIMITIVE` or `RAW`, see [formats](formats.md)",
    default="needed; in CREATE … AS the leftmost source's",
)
KEY_FORMAT = PropertySpec(
    "key.format",
    _FORMATS,
    _WRITTEN,
    "`PRIMITIVE`, `JSON`, `AVRO` or `PROTOBUF`; none: keys are not read. Of sinks see [keys](queries.md#sinks)",
    default="none",
)
VALUE_DESCRIPTOR = PropertySpec(
    "value.descriptor.name",
    TEXT,
    _DEFINED,
    "PROTOBUF: the message, `'source.package.Message'` of a [descriptor source](statements.md#descriptor-sources), or "
    "`'package.Message'` of the registry's schemas",
    default="with a registry whatever message a record is; of what is written the first",
    synonyms=("value.descriptor",),
)
_STRATEGY = PropertyType("topic_name, record_name or topic_record_name", _strategy)
VALUE_STRATEGY = PropertySpec(
    "value.subject.name.strategy",
    _STRATEGY,
    _WRITTEN,
    "AVRO, PROTOBUF by a registry: the subject of the schema is called after the topic (`<topic>-value`), the record, or both "
    "(`<topic>-<record>`); Confluent's words such as `RecordNameStrategy` too",
    default="topic_name",
)
_RECORD = PropertyType("a name of Avro's, as shop.Order", _record_name)
VALUE_RECORD = PropertySpec(
    "value.record.name",
    _RECORD,
    _WRITTEN,
    "AVRO: the full name of the record, as `shop.Order`; needed with the other strategies. PROTOBUF's is `value.descriptor.name`",
    default="made of the topic's",
)
KEY_STRATEGY = PropertySpec(
    "key.subject.name.strategy", _STRATEGY, _WRITTEN, "likewise, for keys", default="topic_name"
)
KEY_RECORD = PropertySpec(
    "key.record.name", _RECORD, _WRITTEN, "likewise, for keys", default="made of the topic's"
)
BASE_VALUE = PropertySpec(
    "avro.base.subject.value",
    TEXT,
    _WRITTEN,
    "AVRO: a subject whose newest schema says more of the fields that it shares with what is written, see [AVRO](formats.md#avro)",
    default="none",
)
BASE_KEY = PropertySpec("avro.base.subject.key", TEXT, _WRITTEN, "likewise, for keys", default="none")
BASE_STORE = PropertySpec(
    "avro.base.schema.store",
    TEXT,
    _WRITTEN,
    "the store whose registry has these subjects; needs USAGE",
    default="the sink's",
    synonyms=("avro.base.store.name",),
)
KEY_DESCRIPTOR = PropertySpec(
    "key.descriptor.name",
    TEXT,
    _DEFINED,
    "likewise, for keys",
    synonyms=("key.descriptor",),
)
KEY_TYPE = PropertySpec(
    "key.type",
    TEXT,
    Scope.RELATION,
    "`'VARCHAR'`, SMALLINT, INTEGER, BIGINT, DOUBLE for PRIMITIVE; `'STRUCT<id INTEGER>'` for JSON. Needed with `key.format`, "
    "unless the primary key or `key.columns` says it",
    default="a changelog's primary key",
)
KEY_COLUMNS = PropertySpec(
    "key.columns",
    NAMES,
    _WRITTEN,
    "`'a, b'`: columns that the key is made of where records are written; streams only, instead of PARTITION BY and `key.type`",
)
TIMESTAMP = PropertySpec(
    "timestamp",
    TEXT,
    _DEFINED | Scope.SOURCE,
    "the column that is the event time: BIGINT milliseconds, TIMESTAMP or TIMESTAMP_LTZ",
    default="the record's own time; of a source the relation's",
)
TIMESTAMP_FORMAT = PropertySpec(
    "timestamp.format",
    PropertyType[TimestampFormat]("sql or iso8601", _timestamp_format),
    _DEFINED | Scope.SOURCE,
    "JSON and CSV: how timestamps are written and must be written: `sql` (`2026-01-31 10:00:00.000`) or `iso8601` "
    "(`2026-01-31T10:00:00.000`)",
    default="in CREATE … AS the leftmost source's; else sql is written, and both are read",
)
DELIMITER = PropertySpec(
    "csv.delimiter",
    PropertyType("one character that is no quote, letter, digit, backslash or line break", _delimiter),
    _DEFINED,
    "CSV: what stands between two fields",
    default="`,`; in CREATE … AS the leftmost source's",
)
UPSERT_MODE = PropertySpec(
    "enable.upsert.mode",
    BOOLEAN,
    _DEFINED,
    "changelogs: a record without a value deletes its key. Needs `key.format`",
    default="FALSE; TRUE for changelogs that a query writes",
)
GUARANTEE = PropertySpec(
    "delivery.guarantee",
    choice("at_least_once", "exactly_once", "none"),
    _WRITTEN,
    "`at_least_once`, `exactly_once`; `none` is at_least_once. Of a relation: for INSERT INTO it",
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
    "TRUE lets the query read what it writes, see [INSERT INTO](statements.md#insert-into)",
    default="FALSE",
)
RETENTION = PropertySpec(
    "retention.millis",
    number(1, RETENTION_MS_MAX, f"milliseconds, 1 to {RETENTION_MS_MAX}"),
    Scope.VIEW,
    "a row that was not written again for so long, by the server's clock, is deleted for good, some seconds later. It cannot be changed",
    default="for ever",
)

# --- sources

POSITION = PropertySpec(
    "starting.position",
    choice("earliest", "latest", "timestamp"),
    _READ | Scope.SINK | Scope.PRINT,
    "`earliest`, `latest`, `timestamp`: where a query begins that has no checkpoint yet, or PRINT. Of a sink: for those who read it",
    default="latest",
)
POSITION_TIMESTAMP = PropertySpec(
    "starting.position.timestamp",
    MILLISECONDS,
    _READ | Scope.PRINT,
    "needed with the position `timestamp`: milliseconds since 1970, of the records' own timestamps",
)
TIME = PropertySpec(
    "source.time",
    choice("EVENT", "ARRIVAL", fold=str.upper),
    _READ,
    "`EVENT`; or `ARRIVAL`: windows go by the time at which a record was read, see [arrival time](queries.md#windows). "
    "A query that gives `timestamp` alone goes by that",
    default="EVENT",
)
LATENCY = PropertySpec(
    "source.allow.latency.millis",
    MILLISECONDS,
    _READ,
    "how far the watermark stays behind the newest event time of a partition",
    default="0",
)
IDLE_TIMEOUT = PropertySpec(
    "source.idle.timeout.millis",
    MILLISECONDS,
    _READ,
    "after this long seen empty, a partition no longer holds the watermark; see [time](queries.md#time)",
    default="0: never",
)
AHEAD = PropertySpec(
    "source.allow.future.millis",
    MILLISECONDS,
    _READ,
    "in windows and joins: a record whose event time is further ahead of the clock is a bad record; 0: no bound. "
    "See [time](queries.md#time)",
    default="86400000: a day",
)
_ERRORS = "source.deserialization.error"
ON_ERROR = PropertySpec(
    f"{_ERRORS}.handling",
    choice("TERMINATE", "IGNORE", "IGNORE_AND_LOG", "DEAD_LETTER", fold=str.upper),
    _READ,
    "`TERMINATE`: a record that cannot be read ends the query; `IGNORE`: it is skipped. `DEAD_LETTER`, or DeltaStream's word "
    "`IGNORE_AND_LOG`: it is skipped and kept, see [bad records](queries.md#sinks)",
    default="TERMINATE",
)
LETTERS_ENTITY = PropertySpec(
    f"{_ERRORS}.log.topic",
    TEXT,
    _READ,
    "with `DEAD_LETTER`: the topic that keeps them; made if it is missing",
    default="the source's topic and `-dead-letters`",
)
LETTERS_STORE = PropertySpec(
    f"{_ERRORS}.log.store", TEXT, _READ, "its store; needs USAGE", default="the source's"
)
LETTERS_PARTITIONS = PropertySpec(
    f"{_ERRORS}.log.topic.partitions", COUNT, _READ, "of a dead-letter topic that is made", default="1"
)
LETTERS_REPLICAS = PropertySpec(
    f"{_ERRORS}.log.topic.replicas", COUNT, _READ, "likewise", default="the broker's"
)
_LATE = "source.late.rows"
ON_LATE = PropertySpec(
    f"{_LATE}.handling",
    choice("IGNORE", "LOG", fold=str.upper),
    _READ,
    "rows too late for their window: `IGNORE`: they are dropped and counted; `LOG`: their records are kept too, "
    "see [late rows](queries.md#time)",
    default="IGNORE",
)
LATE_ENTITY = PropertySpec(
    f"{_LATE}.log.topic",
    TEXT,
    _READ,
    "with `LOG`: the topic that keeps them; made if it is missing",
    default="the source's topic and `-late-rows`",
)
LATE_STORE = PropertySpec(f"{_LATE}.log.store", TEXT, _READ, "its store; needs USAGE", default="the source's")
LATE_PARTITIONS = PropertySpec(
    f"{_LATE}.log.topic.partitions", COUNT, _READ, "of a topic of late rows that is made", default="1"
)
LATE_REPLICAS = PropertySpec(f"{_LATE}.log.topic.replicas", COUNT, _READ, "likewise", default="the broker's")

LOOKUP_REFRESH_MS = 60_000
LOOKUP_REFRESH = PropertySpec(
    "lookup.refresh.millis",
    number(1000, MILLISECONDS_MAX, f"milliseconds, 1000 to {MILLISECONDS_MAX}"),
    Scope.TABLE,
    "of a table that a stream is joined with: read it whole, and again so often, in place of asking for the keys of each batch",
    default="where the store finds rows by key: each batch asks; else 60000",
)

# --- queries

QUERY_NAME = PropertySpec(
    "query.name",
    TEXT,
    Scope.QUERY | Scope.SINK | Scope.INSERT | Scope.VIEW,
    "a name for the query, to be used wherever its id is; unique. What QUERY WITH says counts",
    default="none",
)
EXECUTION_MODE = PropertySpec(
    "execution.mode",
    choice("micro_batch", "real_time"),
    Scope.QUERY,
    "`micro_batch` or `real_time`; the latter is refused (0A000, with the reasons) where it is not possible",
    default="real-time where it is possible",
)
STATE_TTL = PropertySpec(
    "state.ttl.millis",
    MILLISECONDS,
    Scope.QUERY,
    "how long state is kept, in event time, after it was last touched",
    default="0: for ever",
)
RESUME = PropertySpec(
    "resume.from.",
    TEXT,
    Scope.QUERY,
    "0A000: RESTART QUERY continues a query from its checkpoint",
    open=True,
)

OF_TABLES: Specs = (STORE, GUARANTEE, ALLOW_CYCLE, QUERY_NAME)
"""Those that may be said of a TABLE, or where one is written: it has no records."""

DIALECT: Specs = tuple(value for value in globals().values() if isinstance(value, PropertySpec))
"""All of them, in the order in which they are documented."""
