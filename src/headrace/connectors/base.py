"""Interface of a store type: a `StoreDescriptor` with its facets. An ability that the type lacks is a missing facet.

Data goes one of two ways. As *records*, bytes that a format reads and writes: `RecordSource`, `RecordSink`. As *rows*,
columns that the store itself types (a database's tables): `RowSource`, and of a TABLE `TableSource` and `RowSink`. The functions that
do it on Spark are in the folder's `spark` module: see `connectors.streaming`. ADRs 15 and 21 say why it is so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader, PropertySpec, Specs
from headrace.core.resultset import Cell
from headrace.core.schema import Column, Schema
from headrace.core.types import Struct

Guarantee = Literal["at_least_once", "exactly_once"]


@dataclass(frozen=True)
class EntityDescription:
    """An entity as its store describes it.

    `layout` are the numbers by which it is divided, called as in `StoreDescriptor.layout`. `columns` and `key` are what the store
    itself knows of its rows; it knows nothing of records.
    """

    path: EntityPath
    layout: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrintedRecord:
    """A record of an entity as text (undecodable bytes as base64)."""

    key: Cell
    value: Cell
    metadata: str


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
    """Entities can be read as records, by `spark.source`. `metadata` is what ROWMETA() says of each: where it stands.

    `headers`: records may have some, which ROWHEADERS() gives.
    """

    metadata: Struct
    options: TakeOptions = no_options
    real_time: bool = False
    headers: bool = False


@dataclass(frozen=True)
class RowSource:
    """Entities can be read as rows, by `spark.rows`; with `upserts` as a changelog too, by its primary key. `metadata` as of records.

    `needs` are the source properties without which they are not read. `check` asks the store whether a relation can be what it is declared
    to be. `formats` are what 'value.format' may be said to be. `changes`: a stream has what happens to rows, in an envelope, and not
    the rows themselves. `skips`: rows that cannot be read may be skipped. `exclusive` names, for a store's properties and `options`, what
    only one reader at a time can read by.
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


@dataclass(frozen=True)
class TableSource:
    """Entities can be read as TABLEs: the rows that they have at one time, by `spark.table`. `options` are of scope TABLE.

    `by_key`: those with given keys can be asked for, by `spark.lookup`. `check` asks the store whether what is there can be read as a
    schema says, and raises UserError 42703 or 42P16 with what does not fit.
    """

    options: TakeOptions = no_options
    by_key: bool = False
    check: CheckTable | None = None


@dataclass(frozen=True)
class RecordSink:
    """Entities can be written as records, by `spark.sink`; with `upserts` as a changelog too.

    `side_topics` are the properties with which an entity is made for records that a query leaves out elsewhere, which
    `spark.side_topic` takes; None where the type has no such function. With `batches` there is `spark.write` too.
    """

    options: TakeOptions = no_options
    upserts: bool = False
    exactly_once: bool = False
    real_time: bool = False
    side_topics: Mapping[str, str] | None = None
    batches: bool = False


@dataclass(frozen=True)
class RowSink:
    """Entities can be written as rows, by `spark.write_rows`; with `upserts` versions and ends of rows too, by their primary key.

    `create` makes an entity with the columns and the key of a table, and raises UserError 42710 when it exists. `check` is asked where one
    is there already: whether the columns fit, and raises UserError 42P16 or 42703 with those that do not.
    """

    create: CreateRows
    check: CheckRows
    options: TakeOptions = no_options
    upserts: bool = False
    exactly_once: bool = False


@dataclass(frozen=True)
class Optimizer:
    """The files of an entity can be put in order, by `spark.optimize`, which answers one row of `columns`.

    `options` takes what the type's properties of scope OPTIMIZE say.
    """

    columns: tuple[Column, ...]
    options: TakeOptions = no_options


# The facets below act, in the control plane. `store` are the checked properties of a store. Their methods block (callers use a
# thread), but for `print_entity`; all raise `UserError` or `ExternalError`, classified, with a hint.


class EntityAdmin(Protocol):
    """Entities can be listed, described, made and dropped."""

    def list_entities(self, store: Mapping[str, str], within: EntityPath) -> list[tuple[str, bool]]:
        """List what a user may see directly below a path, () being the top: names, and whether each is an entity itself."""
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

    def insert(self, store: Mapping[str, str], path: EntityPath, *, key: bytes | None, value: bytes) -> None:
        """Append one record and wait until the store has it."""
        ...


@dataclass(frozen=True)
class PrintStart:
    """Start of printing: `at` the beginning, the moment of the call, or a time in milliseconds since 1970.

    `options` are what `StoreDescriptor.print_options` took.
    """

    at: Literal["earliest", "latest"] | int
    options: Mapping[str, str] = field(default_factory=dict)


class Printer(Protocol):
    """Facet of a store whose entities can be printed."""

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        """Yield records, until the iterator is closed."""
        ...


@dataclass(frozen=True)
class EntityPattern:
    """Pattern of a path for several entities: a stream reads them together, and nothing writes to it.

    `names` are those that it names, which must be there; `matches` says of any whether it is among them. More may come at any time.
    """

    names: tuple[EntityPath, ...]
    matches: Callable[[EntityPath], bool]


def one_entity(_path: EntityPath) -> None:
    """Return None: every path names one entity."""


@dataclass(frozen=True)
class StoreDescriptor:
    """A store type.

    `type` is the word of CREATE STORE in lower case, and what catalog and plans keep; `label` is for showing, and `client_label` is
    what the public clients take for the type where that is another word.
    `properties` are all that it adds to the dialect, of every scope. `read` takes those of a store, checks them together and gives
    them as canonical text, which is all that the other functions get. `test` raises ExternalError 57015 when the store does not
    answer. `path` takes what says which entity a relation is over, given the relation's name in lower case. `layout` are the
    properties that say how an entity is divided: for one that a query makes they are as its leftmost source has them, or must be given.
    `pattern` says of a relation's path which entities it stands for; None: for one.
    `no_streams` says why there are none over its entities, where users know them from elsewhere.
    `jars` is the group of jars.lock that queries over such stores need beside Spark's: it is fetched when the first store is created.
    """

    type: str
    label: str
    properties: Specs
    read: Callable[[PropertyReader], dict[str, str]]
    test: Callable[[Mapping[str, str]], None]
    path: Callable[[PropertyReader, str], EntityPath]
    layout: Mapping[str, PropertySpec[int]] = field(default_factory=dict)
    pattern: Callable[[EntityPath], EntityPattern | None] = one_entity
    record_source: RecordSource | None = None
    row_source: RowSource | None = None
    record_sink: RecordSink | None = None
    row_sink: RowSink | None = None
    table_source: TableSource | None = None
    entities: EntityAdmin | None = None
    optimizer: Optimizer | None = None
    inserter: Inserter | None = None
    printer: Printer | None = None
    print_options: TakeOptions = no_options
    no_streams: str | None = None
    jars: str | None = None
    client_label: str | None = None

    @property
    def source(self) -> RecordSource | RowSource | None:
        """The facet for queries that read it, None if they cannot."""
        return self.record_source or self.row_source
