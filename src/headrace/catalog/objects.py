"""The catalog's objects, as immutable values.

Source: dialect section 1. Every object is owned by a role. Times are UTC, aware.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from headrace.core.names import EntityPath, RelationName, printed
from headrace.core.schema import Schema
from headrace.core.signature import Signature
from headrace.core.types import DataType
from headrace.formats.json import Json
from headrace.formats.known import AnyFormat


def new_id() -> str:
    """Return a new object id, a UUID that outlives renames."""
    return str(uuid.uuid4())


class RelationKind(Enum):
    """The value is the word of the dialect and of the system relations, which have a kind of their own and are not in the catalog."""

    STREAM = "stream"
    CHANGELOG = "changelog"
    TABLE = "table"
    MATERIALIZED_VIEW = "materialized_view"
    VIEW = "view"
    SYSTEM = "system_relation"

    @property
    def is_snapshot(self) -> bool:
        """True where a query sees the rows of one moment, and has an end."""
        return self in (RelationKind.MATERIALIZED_VIEW, RelationKind.SYSTEM, RelationKind.TABLE)


class DesiredState(Enum):
    """Desired state of a query. STOPPED: START of its sink starts it again; otherwise it counts as terminated."""

    RUNNING = "running"
    STOPPED = "stopped"
    TERMINATED = "terminated"


class PoolIntent(Enum):
    """Desired state of a compute pool."""

    RUNNING = "running"
    STOPPED = "stopped"


class QueryState(Enum):
    """Actual state of a query; `engine.lifecycle` holds the transitions. STOPPED waits for its compute pool to start, QUEUED until its
    compute pool runs fewer queries."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPED = "stopped"
    ERRORED = "errored"
    TERMINATE_REQUESTED = "terminate_requested"
    TERMINATED = "terminated"


class QueryKind(Enum):
    """Kind of the statement that created a query."""

    CREATE_STREAM_AS = "CREATE_STREAM_AS"
    CREATE_CHANGELOG_AS = "CREATE_CHANGELOG_AS"
    CREATE_TABLE_AS = "CREATE_TABLE_AS"
    CREATE_MATERIALIZED_VIEW_AS = "CREATE_MATERIALIZED_VIEW_AS"
    INSERT_INTO = "INSERT_INTO"
    APPLICATION = "APPLICATION"


@dataclass(frozen=True)
class Organization:
    """The tenant; its id is a UUID because the public Python client asks for one. `image` is the address of a picture of it.

    `data_directory` is the id of the data directory that belongs to the catalog (`catalog.identity`); None until a server started with it.
    """

    id: str
    name: str
    created_at: datetime.datetime
    description: str | None = None
    image: str | None = None
    data_directory: str | None = None


@dataclass(frozen=True)
class Role:
    """A role, to which privileges are granted and which owns objects. `policy.RoleGraph` holds the roles granted to it."""

    name: str
    owner: str
    created_at: datetime.datetime
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class Database:
    """A named set of schemas."""

    name: str
    owner: str
    created_at: datetime.datetime
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class SchemaObject:
    """A schema (namespace) in a database. With `managed` access, its owner grants on the objects in it, not their owners."""

    database: str
    name: str
    owner: str
    created_at: datetime.datetime
    managed: bool = False
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class SecretFacts:
    """Public facts of a secret."""

    name: str
    type: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    description: str | None = None
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class Secret(SecretFacts):
    """A secret text, `SECRET_STRING` of `properties`, that stores and schema registries refer to by name, with its other properties."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


SECRET_STRING = "secret_string"  # noqa: S105 - a property's name


@dataclass(frozen=True)
class StoreFacts:
    """Public facts of a store: `type` names its store type, `schema_registry` the registry of its records' schemas, and `secrets` maps
    property names to the secrets that hold their texts."""

    name: str
    type: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    schema_registry: str | None = field(default=None, kw_only=True)
    secrets: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class Store(StoreFacts):
    """A connection to a system of the user.

    `properties` are the typed options as text, secrets included: `repr` leaves them out, and only `statements` and the
    supervisor's start message read them.
    """

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class RegistryFacts:
    """Public facts of a schema registry; `type` is one of `schema_registry.options.TYPES`, `secrets` are as a store's."""

    name: str
    type: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    secrets: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class SchemaRegistry(RegistryFacts):
    """A registry that keeps the schemas of records. `properties` are its options as text, secrets included, as a store's are."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class AlertFacts:
    """Public facts of an alert: it reports the findings of one query, or (None) of all that its owner may describe.

    `codes` are the findings' codes, empty for all that warn. `host` is where the reports go; the whole address may be a secret.
    `secrets` are as a store's.
    """

    name: str
    query_id: str | None
    codes: tuple[str, ...]
    host: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    secrets: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class Alert(AlertFacts):
    """An alert with its `properties`, which are secrets: `url`, and `token` if the receiver requires one."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class DescriptorSource:
    """Compiled message types of Protobuf; `descriptors` are the bytes of a FileDescriptorSet."""

    name: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    descriptors: bytes = field(repr=False)
    description: str | None = None
    id: str = field(default_factory=new_id, kw_only=True)


class Language(Enum):
    """Language of a user's function."""

    JAVA = "Java"
    PYTHON = "Python"


@dataclass(frozen=True)
class FunctionSource:
    """An uploaded JAR, Python module or wheel, whose file is stored separately: `digest` is its SHA-256 in hexadecimal digits, `size` its
    size in bytes and `classes` the number of its classes. `library` is the SHA-256 of a second file: in Java, a JAR with the libraries
    that the first requires; in Python, a list of requirements."""

    name: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    digest: str
    size: int
    classes: int
    description: str | None = None
    library: str | None = None
    language: Language = Language.JAVA
    id: str = field(default_factory=new_id, kw_only=True)


class FunctionKind(Enum):
    """Kind of a user's function: a value of each row, rows of each row, or a value of many rows."""

    SCALAR = "scalar"
    TABLE = "table"
    AGGREGATE = "aggregate"


@dataclass(frozen=True)
class UserFunction:
    """A user's function: the class of a function source that computes it, and the `egress` that it requires, as `host[:port]`s.

    A function in Python has no source but its `code`, in which `class_name` is the function or the class that is called. A `repeatable`
    function returns equal results for equal arguments; a `vectorized` one is called with all rows of a batch.
    """

    name: str
    parameters: tuple[tuple[str, DataType], ...]
    returns: DataType
    source: str | None
    class_name: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    egress: tuple[str, ...] = ()
    kind: FunctionKind = FunctionKind.SCALAR
    repeatable: bool = True
    language: Language = Language.JAVA
    code: str | None = None
    vectorized: bool = False
    id: str = field(default_factory=new_id, kw_only=True)

    @property
    def signature(self) -> Signature:
        """The function's identity: name and parameter types."""
        return Signature(self.name, types=tuple(kind for _, kind in self.parameters))

    @property
    def declaration(self) -> str:
        """The signature with the names of the parameters, as lists show it."""
        parameters = ", ".join(f"{printed(name)} {kind}" for name, kind in self.parameters)
        return f"{printed(self.name)}({parameters})"


@dataclass(frozen=True)
class EntityFormat:
    """Layout of a relation's records in its entity.

    Without `key` there is no row key; `key_type` is its data type: a primitive, or a STRUCT of its fields where the format has
    names. `timestamp` names the event-time column (None: the record's own time). With `upsert` a record with no value deletes its key.
    """

    value: AnyFormat = field(default_factory=Json)
    key: AnyFormat | None = None
    key_type: DataType | None = None
    key_columns: tuple[str, ...] = ()
    timestamp: str | None = None
    upsert: bool = False


@dataclass(frozen=True)
class ViewDefinition:
    """Definition of a view, materialized or not: the text of its CREATE statement, and the database and schema that resolve its names.

    A view that is not materialized depends on what its query names: the relations `reads`, and the `functions` with these signatures.
    """

    sql: str
    database: str | None
    schema: str | None
    reads: tuple[RelationName, ...] = ()
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Relation:
    """A schema over an entity of a store, or a view, materialized or not (`store` and `entity` None).

    Materialized views of early releases have no `definition`.
    """

    name: RelationName
    kind: RelationKind
    schema: Schema
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    store: str | None = None
    entity: EntityPath | None = None
    format: EntityFormat = field(default_factory=EntityFormat)
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    id: str = field(default_factory=new_id)
    state: str = "created"
    definition: ViewDefinition | None = None


class Need(NamedTuple):
    """A privilege on an object that a query needs: its role needs it, or, for a query that contains the query of a materialized `view`,
    the view's owner. Object and view are ids."""

    privilege: str
    object: str
    view: str | None = None


class LineageKind(Enum):
    """Kinds of use of a column by a query, in OpenLineage's words: the first three are direct, the value is computed from it."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    JOIN = "JOIN"
    GROUP_BY = "GROUP_BY"
    FILTER = "FILTER"
    SORT = "SORT"
    WINDOW = "WINDOW"
    CONDITIONAL = "CONDITIONAL"

    @property
    def is_direct(self) -> bool:
        """True if the value is computed from the column, false if the column decides about rows or values."""
        return self in (LineageKind.IDENTITY, LineageKind.TRANSFORMATION, LineageKind.AGGREGATION)


@dataclass(frozen=True)
class ColumnLineage:
    """Use of a column of a relation by a query: for the output `column` of its sink number `sink`, or (None) for which rows there are.

    The relation is known by its id, since it may be renamed.
    """

    sink: int
    column: str | None
    relation: str
    source: str
    kind: LineageKind


@dataclass(frozen=True)
class Query:
    """A continuous query: its wanted state, its actual state, and its plan.

    `id` is a UUID. `plan` is the JSON text of a `planner.physical.SparkPlan`. `message` is the last error's text or None;
    `restarts` counts automatic restarts since the last start asked for by a user. `generation` grows with each RESTART,
    so that a level-triggered supervisor sees the request. `uses` are the ids of all that it depends on: its relations, stores, schema
    registries and compute pool; the catalog fills it in, and takes out what is dropped after the query has ended.
    `needs` are the privileges that it requires to run. An application has `more_sinks`: it contains the
    queries of several statements. `is_settled` is false of a query that was replaced and has not finished a batch since: the earlier
    version takes its place again if it fails. `lineage` is empty for a query that an earlier release created.
    `incarnation` is 0, or the version with which it last started anew: with another checkpoint, as another writer.
    """

    id: str
    name: str | None
    version: int
    kind: QueryKind
    sql: str
    plan: str = field(repr=False)
    sink: RelationName
    sources: tuple[RelationName, ...]
    compute_pool: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    desired_state: DesiredState = DesiredState.RUNNING
    actual_state: QueryState = QueryState.STARTING
    message: str | None = None
    sqlstate: str | None = None
    restarts: int = 0
    generation: int = 1
    uses: frozenset[str] = frozenset()
    needs: tuple[Need, ...] = ()
    more_sinks: tuple[RelationName, ...] = ()
    is_settled: bool = True
    lineage: tuple[ColumnLineage, ...] = field(default=(), repr=False)
    incarnation: int = 0

    @property
    def should_run(self) -> bool:
        """True if it should run."""
        return self.desired_state is DesiredState.RUNNING

    @property
    def starts(self) -> tuple[int, int]:
        """Numbers that change whenever the query is started again."""
        return self.generation, self.restarts

    @property
    def sinks(self) -> tuple[RelationName, ...]:
        """The relations that it writes, in the order of the plan's sinks."""
        return (self.sink, *self.more_sinks)


@dataclass(frozen=True)
class QueryVersion:
    """An earlier version of a continuous query, until it was replaced: see `Query`. `uses` are kind, path and id of what it used,
    `definition` is that of the materialized view which it wrote, and `reason` is why it failed, if it was replaced for that."""

    version: int
    sql: str
    plan: str = field(repr=False)
    sources: tuple[RelationName, ...]
    needs: tuple[Need, ...]
    uses: tuple[tuple[str, tuple[str, ...], str], ...]
    lineage: tuple[ColumnLineage, ...] = field(repr=False)
    definition: ViewDefinition | None
    replaced_at: datetime.datetime
    reason: str | None
    incarnation: int


@dataclass(frozen=True)
class Savepoint:
    """A copy of a query's checkpoint as it was after a batch, with the statement and the plan that it belongs to.

    The facts are of the query at that moment: it may have changed since, or be gone. `uses` are as those of a `QueryVersion`; a savepoint
    of another server has none. `batch` is the last batch in the copy, `size` the bytes of its files. `is_interrupted` is true if the query
    had begun another batch and did not finish it: then it is not known whether that one is in the query's output. `is_final` is true as
    long as the query has not run since the copy. An application has `more_sinks`, and `batch` is the sum over its parts. It is dropped
    after `expires_at`; None: never by itself.
    """

    name: str
    query_id: str
    query_name: str | None
    query_version: int
    sink: RelationName
    sql: str
    plan: str = field(repr=False)
    uses: tuple[tuple[str, tuple[str, ...], str], ...]
    batch: int
    size: int
    is_interrupted: bool
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    expires_at: datetime.datetime | None = None
    more_sinks: tuple[RelationName, ...] = ()
    is_final: bool = False
    id: str = field(default_factory=new_id, kw_only=True)

    @property
    def sinks(self) -> tuple[RelationName, ...]:
        """The relations that the query wrote, in the order of the plan's sinks."""
        return (self.sink, *self.more_sinks)


@dataclass(frozen=True)
class ComputePool:
    """A compute pool: one Spark driver process that runs queries.

    `size` is a word of `engine.sizes`. After `timeout_min` minutes without a query its process ends until it is needed again; 0: never.
    `properties` say where it runs: see `engine.pool_properties`.
    """

    name: str
    size: str
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    desired_state: PoolIntent = PoolIntent.RUNNING
    timeout_min: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class User:
    """A user who may sign in, with the directly granted roles. `password` is a hash, None without one; `scram` its encrypted verifier.

    `defaults` are the ids of a new session's objects, by kind; an id may be of an object that was dropped since.
    """

    name: str
    roles: tuple[str, ...]
    default_role: str
    created_at: datetime.datetime
    password: str | None = field(default=None, repr=False)
    defaults: Mapping[str, str] = field(default_factory=dict)
    scram: bytes | None = field(default=None, repr=False)
    id: str = field(default_factory=new_id, kw_only=True)


@dataclass(frozen=True)
class Invitation:
    """An invitation to become a user with these roles; the catalog stores only a digest of its code."""

    user: str
    roles: tuple[str, ...]
    default_role: str
    invited_by: str
    created_at: datetime.datetime
    expires_at: datetime.datetime
    id: str = field(default_factory=new_id, kw_only=True)

    def has_expired(self) -> bool:
        """True if it has expired."""
        return self.expires_at <= datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class ApiToken:
    """Credential of a program; the catalog stores only a digest. It has one `role` of its user, or all (None), until it expires.

    `parent` is the id of the token that created it, and it expires with its parent. The names of a user's tokens are unique. `scram` is the
    token's encrypted verifier.
    """

    name: str
    user: str
    role: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime
    expires_at: datetime.datetime | None = None
    parent: str | None = None
    scram: bytes | None = field(default=None, repr=False)
    id: str = field(default_factory=new_id, kw_only=True)

    @property
    def credential(self) -> str:
        """The credential as the audit log records it."""
        return f"token {self.name}"

    def has_expired(self) -> bool:
        """True if it has expired."""
        return self.expires_at is not None and self.expires_at <= datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Members:
    """Users by name, API tokens and invitations by their digests."""

    users: Mapping[str, User] = field(default_factory=dict)
    tokens: Mapping[str, ApiToken] = field(default_factory=dict, repr=False)
    invitations: Mapping[str, Invitation] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Principal:
    """The user of a request, with the directly granted roles, or the one role of an API token.

    `token` is the id of the API token that it signed in with, `session` that of the page's session; None for whatever else. For the
    audit log `credential` names either, `address` is where the request came from, and `door` the interface that received it.
    """

    user: str
    roles: tuple[str, ...]
    default_role: str
    token: str | None = None
    session: str | None = None
    credential: str | None = field(default=None, compare=False)
    address: str | None = field(default=None, compare=False)
    door: str = field(default="api", compare=False)
