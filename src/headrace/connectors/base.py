"""Interface of a store type: a `StoreDescriptor` with its facets. If the type lacks an ability, the facet is missing.

A store contains either *records*, which are bytes that a format reads and writes (`RecordSource`, `RecordSink`), or *rows*, whose
columns the store itself types, as in a database's tables (`RowSource`, and for TABLEs `TableSource` and `RowSink`). The functions that
read and write on Spark are in the folder's `spark` module: see `connectors.streaming`. ADRs 15 and 21 give the reasons.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader, PropertySpec, Specs
from headrace.core.resultset import Cell
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import Struct

Guarantee = Literal["at_least_once", "exactly_once"]


@dataclass(frozen=True)
class EntityDescription:
    """An entity as its store describes it.

    `layout` contains the numbers of its parts, such as partitions, by their names in `StoreDescriptor.layout`. `columns` and `key`
    describe rows; they are empty for records, which the store does not type. `notes` are remarks on columns that the store inferred.
    """

    path: EntityPath
    layout: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrintedRecord:
    """A record of an entity as text (undecodable bytes as base64).

    `metadata` is its position in words. Stores with `print_positions` set the other fields too; `headers` is a JSON object. Stores with
    `print_formats` set `key_bytes` and `value_bytes`.
    """

    key: Cell
    value: Cell
    metadata: str
    partition: int | None = None
    offset: str | None = None
    timestamp_ms: int | None = None
    headers: str | None = None
    key_bytes: bytes | None = None
    value_bytes: bytes | None = None


TakeOptions = Callable[[PropertyReader], dict[str, str]]
"""Takes what a relation or a query passes on to the store's client, and gives it as `request.options` has it."""


CheckRows = Callable[[Mapping[str, str], EntityPath, Schema, Mapping[str, str], bool], None]
"""Of a store's properties: an entity, the relation's schema, its options, and whether rows come as versions of keys. Raises UserError."""


CheckTable = Callable[[Mapping[str, str], EntityPath, Schema], None]
"""Of a store's properties: an entity and a TABLE's schema. Raises UserError."""


CreateRows = Callable[[Mapping[str, str], EntityPath, Schema, PropertyReader], None]
"""Of a store's properties: makes an entity with these columns and key, and what the type's properties of scope ENTITY say of it."""


def no_options(_reader: PropertyReader) -> dict[str, str]:
    """Return no options."""
    return {}


@dataclass(frozen=True)
class RecordSource:
    """Facet of a store whose entities `spark.source` reads as records. `metadata` is the type of ROWMETA(), the record's position.

    `headers`: records may have headers, which ROWHEADERS() returns. `movable_positions`: a checkpoint contains the positions as one JSON
    object by entity, so that they can be moved to another checkpoint.
    """

    metadata: Struct
    options: TakeOptions = no_options
    real_time: bool = False
    headers: bool = False
    movable_positions: bool = False


@dataclass(frozen=True)
class RowSource:
    """Facet of a store whose entities `spark.rows` reads as rows; with `upserts` also as a changelog by primary key. `metadata` is as in
    `RecordSource`.

    `needs` are the required source properties. `check` compares a declared relation with the store. `formats` are the possible values of
    'value.format'. `changes`: a stream contains the changes of rows in an envelope, not the rows themselves. `skips`: unreadable rows may
    be skipped. `exclusive` returns, for a store's properties and `options`, the name of an object that allows one reader at a time, such as
    a replication slot. `seeks`: reading may start at a time, and starts with new rows by default.
    """

    metadata: Struct
    options: TakeOptions = no_options
    upserts: bool = False
    real_time: bool = False
    needs: Specs = ()
    check: CheckRows | None = None
    formats: tuple[str, ...] = ("json",)
    changes: bool = True
    skips: bool = False
    exclusive: Callable[[Mapping[str, str], Mapping[str, str]], str] | None = None
    seeks: bool = False


@dataclass(frozen=True)
class TableSource:
    """Facet of a store whose entities `spark.table` reads as TABLEs, with their rows at one time. `options` are of scope TABLE.

    `by_key`: `spark.lookup` reads the rows of a set of keys. `check` compares a schema with the entity in the store, and raises
    UserError 42703 or 42P16 with the columns that do not fit.
    """

    options: TakeOptions = no_options
    by_key: bool = False
    check: CheckTable | None = None


@dataclass(frozen=True)
class RecordSink:
    """Facet of a store whose entities `spark.sink` writes as records; with `upserts` also as a changelog.

    `side_topics` are the properties of new entities for the records that a query leaves out, which `spark.side_topic` writes; None if
    the type has no such function. With `batches`, the type also has `spark.write`.
    """

    options: TakeOptions = no_options
    upserts: bool = False
    exactly_once: bool = False
    real_time: bool = False
    side_topics: Mapping[str, str] | None = None
    batches: bool = False


@dataclass(frozen=True)
class RowSink:
    """Facet of a store whose entities `spark.write_rows` writes as rows; with `upserts` it also updates and deletes rows by primary key.

    `create` creates an entity with the columns and the key of a table, and raises UserError 42710 if it exists. `check` compares the
    columns with an existing entity, and raises UserError 42P16 or 42703 with the columns that do not fit.
    """

    create: CreateRows
    check: CheckRows
    options: TakeOptions = no_options
    upserts: bool = False
    exactly_once: bool = False


@dataclass(frozen=True)
class Optimizer:
    """Facet of a store whose entities consist of files that `spark.optimize` compacts; the result is one row of `columns`.

    `options` reads the type's properties of scope OPTIMIZE.
    """

    columns: tuple[Column, ...]
    options: TakeOptions = no_options


# The facets below act, in the control plane. `store` are the checked properties of a store. Their methods block (callers use a
# thread), but for `print_entity`; all raise `UserError` or `ExternalError`, classified, with a hint.


class EntityAdmin(Protocol):
    """Entities can be listed, described, made and dropped."""

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        """List the names directly below a path, () for the top, and whether each name is an entity."""
        ...

    def describe_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        """Raises UserError 3D007 when there is none."""
        ...

    def create_entity(
        self, store: Mapping[str, str], path: EntityPath, options: PropertyReader
    ) -> EntityDescription:
        """Create an entity with the type's properties of scope ENTITY in `options`. Raises UserError 42710 when it exists, 3D008."""
        ...

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        """Raises UserError 3D007 when there is none."""
        ...


class Inserter(Protocol):
    """Single records can be written."""

    def insert(
        self,
        store: Mapping[str, str],
        path: EntityPath,
        *,
        key: bytes | None,
        value: bytes,
        options: Mapping[str, str],
    ) -> None:
        """Append one record and wait until the store has it. `options` is the result of `StoreDescriptor.record_options`."""
        ...


class RowInserter(Protocol):
    """Rows can be written into a table by a statement."""

    def insert_rows(
        self, store: Mapping[str, str], path: EntityPath, columns: Sequence[str], rows: Sequence[str]
    ) -> None:
        """Insert rows, all or none. Each is a JSON object, without BYTES.

        A column of `columns` that a row lacks is NULL; other columns get their defaults.
        """
        ...


@dataclass(frozen=True)
class PrintStart:
    """Start of printing: `at` is the start of the entity, the time of the call, or a time in milliseconds since 1970.

    `newest`: in place of `at`, the newest records at the time of the call, at most so many, which are all that is printed.
    `options` is the result of `StoreDescriptor.print_options`. `partitions` are the numbers of the printed partitions or shards; None: all.
    With `declared_entities`, options and columns are those of the stream that declares the entity.
    """

    at: Literal["earliest", "latest"] | int
    options: Mapping[str, str] = field(default_factory=dict)
    partitions: frozenset[int] | None = None
    columns: tuple[Column, ...] = ()
    newest: int | None = None

    def refuse_missing(self, present: Iterable[int]) -> None:
        """Raise UserError 3D008 for a partition that the entity does not have."""
        present = sorted(present)
        missing = sorted((self.partitions or frozenset()).difference(present))
        if missing:
            raise no_partition(missing[0], present)


def no_partition(number: int, present: Sequence[int]) -> UserError:
    """Return the error 3D008 for a partition that an entity does not have."""
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"the entity has no partition {number}",
        hint=f"Its partitions are {', '.join(map(str, present[:10]))}{', …' if len(present) > 10 else ''}.",
    )


@dataclass(frozen=True)
class PartitionDescription:
    """A partition or shard: the positions of its first record and of its end, as the store writes them, and what else the store reports.

    `end` is None for a part that records are still added to, if the store does not report its end.
    """

    number: int
    start: str | None
    end: str | None
    records: int | None = None
    details: Mapping[str, object] = field(default_factory=dict)


class PartitionAdmin(Protocol):
    """Facet of a store whose entities consist of partitions."""

    def list_partitions(self, store: Mapping[str, str], path: EntityPath) -> list[PartitionDescription]:
        """Return the partitions by number. Raises UserError 3D007 when there is no such entity."""
        ...


class Printer(Protocol):
    """Facet of a store whose entities can be printed."""

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        """Yield records, until the iterator is closed."""
        ...


@dataclass(frozen=True)
class Sample:
    """Records of an entity as bytes. `header` is the line with the names of the columns, if the entity has such a line."""

    records: tuple[bytes, ...]
    header: bytes | None = None


class Sampler(Protocol):
    """Facet of a store whose records carry no schema: a sample of them shows their columns."""

    def sample(
        self, store: Mapping[str, str], path: EntityPath, reader: PropertyReader, *, from_start: bool
    ) -> Sample:
        """Return at most `sampling.RECORDS_MAX` records of all parts of an entity, the newest or the oldest ones. `reader` has the type's
        properties of scope RELATION. Raises UserError 3D007 when there is no such entity."""
        ...


@dataclass(frozen=True)
class EntityPattern:
    """Pattern of a path for several entities: a stream reads them together, and no query can write to it.

    `names` are the entities that it names, which must exist; `matches` is true for every entity of the pattern. Matching entities may be
    created at any time.
    """

    names: tuple[EntityPath, ...]
    matches: Callable[[EntityPath], bool]


def one_entity(_path: EntityPath) -> None:
    """Return None: every path names one entity."""


@dataclass(frozen=True)
class StoreDescriptor:
    """A store type.

    `type` is the word of CREATE STORE in lower case, as stored in catalog and plans; `label` is its name in texts, and `client_label` the
    name that the public clients expect if it differs.
    `properties` are all properties of the type, of every scope. `read` checks a store's properties and returns them as canonical text, the
    only form that the other functions receive. `test` raises ExternalError 57015 if the store does not answer. `path` reads the
    properties that identify a relation's entity; the default is the relation's name in lower case. `layout` are the properties for the
    numbers of an entity's parts: a query's new entity takes them from its leftmost source, or they are required.
    `pattern` returns the pattern of a relation's path; None if the path is a single entity.
    `print_positions`: printed records have a partition, an offset and a time. `print_formats`: they have bytes, which a format reads.
    `print_newest`: printing may start with the newest records.
    `declared_entities`: the store contains no entities of its own; a stream over it declares one.
    `no_streams` is the reason why its entities cannot be streams, for types where users expect streams.
    `jars` is the group of jars.lock that queries over such stores need in addition to Spark's; it is downloaded for the first such store.
    `on_clusters`: what its tasks need of the workers of a cluster, `java` only or Headrace's `python`; None if they need the server's
    machine, or were never tested elsewhere.
    `tested_unasked`: the server may test stores in use by itself. Not if a test costs money, as it does where it wakes a warehouse.
    `dataset_namespace` returns the namespace that OpenLineage's rules specify for the entities of a store; None for types without a rule.
    """

    type: str
    label: str
    properties: Specs
    read: Callable[[PropertyReader], dict[str, str]]
    test: Callable[[Mapping[str, str]], None]
    path: Callable[[PropertyReader, str], EntityPath]
    tested_unasked: bool
    layout: Mapping[str, PropertySpec[int]] = field(default_factory=dict)
    pattern: Callable[[EntityPath], EntityPattern | None] = one_entity
    record_source: RecordSource | None = None
    row_source: RowSource | None = None
    record_sink: RecordSink | None = None
    row_sink: RowSink | None = None
    table_source: TableSource | None = None
    entities: EntityAdmin | None = None
    partitions: PartitionAdmin | None = None
    optimizer: Optimizer | None = None
    inserter: Inserter | None = None
    row_inserter: RowInserter | None = None
    printer: Printer | None = None
    record_options: TakeOptions = no_options
    print_options: TakeOptions = no_options
    print_positions: bool = False
    print_formats: bool = False
    print_newest: bool = False
    declared_entities: bool = False
    sampler: Sampler | None = None
    no_streams: str | None = None
    jars: str | None = None
    client_label: str | None = None
    on_clusters: Literal["java", "python"] | None = None
    dataset_namespace: Callable[[Mapping[str, str]], str] | None = None

    def addresses(self, store: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield name and value of the properties of a store that contain addresses."""
        secrets = {spec.name for spec in self.properties if spec.secret}
        for name, text in store.items():
            if name == "uris" or ("://" in text and name not in secrets):
                yield name, text

    @property
    def source(self) -> RecordSource | RowSource | None:
        """The facet for queries that read it, None if they cannot."""
        return self.record_source or self.row_source
