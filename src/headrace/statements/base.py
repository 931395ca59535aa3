"""Interface of a statement's handler: its execution, its outcome, and its declared requirements."""

from __future__ import annotations

import datetime
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, TypeVar

from headrace.analyzer import LogicalPlan
from headrace.analyzer.catalog_view import is_database
from headrace.catalog.access import Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.kinds.alert import ALERT
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.descriptor_source import DESCRIPTOR_SOURCE
from headrace.catalog.kinds.function import FUNCTION_SOURCE
from headrace.catalog.kinds.savepoint import SAVEPOINT
from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.secret import SECRET
from headrace.catalog.kinds.spec import KindSpec
from headrace.catalog.objects import (
    SECRET_STRING,
    AlertFacts,
    ComputePool,
    Database,
    DescriptorSource,
    FunctionSource,
    Principal,
    Query,
    Relation,
    Role,
    Savepoint,
    SchemaObject,
    SchemaRegistry,
    SecretFacts,
    Store,
    UserFunction,
)
from headrace.catalog.policy import Policy, Requirement, check_role, refusal
from headrace.connectors.base import EntityDescription, StoreDescriptor
from headrace.connectors.egress import Egress
from headrace.connectors.registry import connector
from headrace.connectors.schema_registry.client import RegistryClient, registry_client
from headrace.core.context import SessionContext
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.names import (
    SYSTEM_DATABASE,
    SYSTEM_SCHEMA,
    EntityPath,
    Identifier,
    QualifiedName,
    RelationName,
    printed,
)
from headrace.core.properties import PropertyReader, Specs
from headrace.core.resultset import ResultSet, result
from headrace.core.settings import Settings
from headrace.core.signature import Signature
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.core.types import VARCHAR
from headrace.engine.engine import Engine
from headrace.engine.results import ResultChannel
from headrace.engine.sizes import pool_resources
from headrace.planner.cycles import over
from headrace.planner.snapshot import SnapshotQuery
from headrace.planner.target import Target
from headrace.sql.ast import Properties, Property, Statement
from headrace.statements.query_names import named_query

T = TypeVar("T")
CatalogObject = (
    Database
    | SchemaObject
    | Store
    | SchemaRegistry
    | DescriptorSource
    | FunctionSource
    | UserFunction
    | SecretFacts
    | Relation
    | ComputePool
    | Query
    | Role
    | Savepoint
    | AlertFacts
)


@dataclass(frozen=True)
class Services:
    """The parts of the server that handlers use; wired once, in `server.wiring`."""

    catalog: Catalog
    engine: Engine
    settings: Settings


@dataclass(frozen=True)
class Outcome:
    """Answer of a handler: a bounded result or a live channel, and the context after it (None: unchanged)."""

    result: ResultSet | ResultChannel
    context: SessionContext | None = None


@dataclass(frozen=True)
class Execution:
    """Execution of one statement: principal, context, services and uploaded files. A listing `everywhere` is not limited to the
    session's database. Objects that the active role may not know are not found by these methods.

    With `checking`, the catalog is a throw-away copy: do not contact stores or the engine, and change nothing else.

    `bindings` store each query as it was bound when its requirements were determined, so that exactly this query runs, and `compiled`
    stores it, by the same key, as the store of views runs it. `coming` are entities (by store and path) and views (by None and name) that
    will exist before the statement runs: the statements of an application depend on each other. With `bounded`, the client requires a
    result that has an end.
    """

    services: Services
    principal: Principal
    context: SessionContext
    everywhere: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    checking: bool = False
    bindings: dict[bool, LogicalPlan] = field(default_factory=dict, repr=False, compare=False)
    compiled: dict[bool, SnapshotQuery] = field(default_factory=dict, repr=False, compare=False)
    coming: Mapping[tuple[str, EntityPath], EntityDescription] = field(default_factory=dict, repr=False)
    bounded: bool = False

    @property
    def catalog(self) -> Catalog:
        """Short for `services.catalog`."""
        return self.services.catalog

    @property
    def role(self) -> str:
        """The active role: the context's, or the principal's default."""
        return self.context.role or self.principal.default_role

    @property
    def policy(self) -> Policy:
        """The current privileges."""
        return self.catalog.snapshot().policy

    def check(self, requirements: Iterable[Requirement]) -> list[Requirement]:
        """Return the requirements. Raises UserError 42501 for the first requirement that the active role does not fulfil, or the error of
        a missing object if the role may not know of it."""
        fulfilled = []
        for requirement in requirements:
            if not self.policy.fulfils(self.role, requirement):
                raise refusal(self.policy, self.role, requirement)
            fulfilled.append(requirement)
        return fulfilled

    def require_end(self, what: str, span: Span) -> None:
        """Raise UserError 0A000 for a result without an end if the client requires one."""
        if self.bounded:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{what} has no end, and this client waits for the end of each result",
                hint="Add LIMIT, or CREATE MATERIALIZED VIEW … AS SELECT … and SELECT from the view.",
                span=span,
            )

    def privilege_watch(self, requirements: Iterable[Requirement]) -> Callable[[], str | None]:
        """Return a function that names the first requirement which the active role no longer fulfils; None if it fulfils all. It reads
        memory only."""
        needs, role, catalog = tuple(map(self.policy.need, requirements)), self.role, self.catalog

        def lost() -> str | None:
            state = catalog.snapshot()
            return state.policy.lost(role, needs, state.by_id)

        return lost

    def may(self, privilege: Privilege, target: object | None = None) -> bool:
        """True if the active role may use a privilege on an object (None: the organization)."""
        return self.policy.check(self.role, privilege, target)

    def may_grant(self, role: Role) -> bool:
        """True if the active role may grant that role."""
        return self.policy.grantor(self.role, Requirement(Privilege.OWNERSHIP, role)) is not None

    def visible(self, objects: Iterable[T]) -> list[T]:
        """Return the objects that the active role sees, for lists."""
        policy, role = self.policy, self.role
        return [item for item in objects if policy.visible(role, item)]

    def is_default(self, kind: str, target: Any, *, current: bool) -> bool:
        """True if an object is the user's default; for a user without a default of that kind, if it is the session's `current` object."""
        user = self.catalog.user(self.principal.user)
        chosen = user.defaults.get(kind) if user is not None else None
        return target.id == chosen if chosen in self.catalog.snapshot().by_id else current

    def knows(self, target: object | None) -> bool:
        """True if the object exists and the active role has a privilege on it."""
        return target is not None and self.policy.known(self.role, target)

    def database_of(self, name: Identifier | None) -> str:
        """Return the named database or the session's; raises 3D002."""
        database = name.name if name else self.context.database
        if database is None:
            raise UserError(
                SqlState.DATABASE_NOT_FOUND,
                "no database is selected",
                hint=(
                    "Run USE DATABASE name, write database.schema.name, or create one with CREATE DATABASE "
                    "name."
                ),
            )
        if not self.knows(self.catalog.database(database)):
            raise UserError(
                SqlState.DATABASE_NOT_FOUND,
                f"the database {database!r} does not exist or is not authorized",
                hint=suggestion(
                    database,
                    [item.name for item in self.visible(self.catalog.databases())],
                    otherwise="LIST DATABASES shows the existing databases.",
                ),
                span=name.span if name else None,
            )
        return database

    def database(self, name: Identifier | None) -> Database:
        """Return the named database or the session's; raises 3D002."""
        database_name = self.database_of(name)
        return next(item for item in self.catalog.databases() if item.name == database_name)

    def listed_database(self, name: Identifier | None) -> str | None:
        """Return the database of a list: the named one or the session's, None for all; raises 3D002."""
        if name is None and (self.everywhere or self.context.database is None):
            return None
        return self.database_of(name)

    def relation_name(self, name: QualifiedName) -> RelationName:
        """Return the full name of a relation, existing or not; raises 3D002, 3D003, 42601 for too many parts, 0A000 in
        `deltastream.sys`."""
        if len(name.parts) > 3:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"expected database.schema.relation, found {name}",
                hint='Put a name that contains dots in double quotes: "a.b".',
                span=name.span,
            )
        if name.path[:-1] == (SYSTEM_DATABASE, SYSTEM_SCHEMA):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name} is in a schema of system relations, which are read-only",
                hint="Use SELECT and DESCRIBE RELATION with system relations.",
                span=name.span,
            )
        database = self.database_of(name.parts[-3] if len(name.parts) == 3 else None)
        named = name.parts[-2] if len(name.parts) >= 2 else None
        schema = named.name if named else (self.context.schema or "public")
        if not self.knows(self.catalog.schema(database, schema)):
            raise UserError(
                SqlState.SCHEMA_NOT_FOUND,
                f"the schema {schema!r} does not exist or is not authorized in the database {database!r}",
                hint=is_database(
                    schema, name.last.name, [item.name for item in self.visible(self.catalog.databases())]
                )
                or suggestion(
                    schema,
                    [item.name for item in self.visible(self.catalog.schemas(database))],
                    otherwise=f"LIST SCHEMAS IN DATABASE {database} shows the existing schemas.",
                ),
                span=named.span if named else name.span,
            )
        return RelationName(database, schema, name.last.name)

    def relation(self, name: QualifiedName) -> Relation:
        """Return the existing relation of that name; raises 3D020."""
        full = self.relation_name(name)
        relation = self.catalog.relation(full)
        if relation is None or not self.knows(relation):
            known = self.visible(self.catalog.relations(full.database, full.schema))
            raise UserError(
                SqlState.RELATION_NOT_FOUND,
                f"the relation {full} does not exist or is not authorized",
                hint=suggestion(
                    full.name,
                    [item.name.name for item in known],
                    otherwise="LIST RELATIONS shows the existing relations.",
                ),
                span=name.span,
            )
        return relation

    def schema(self, name: QualifiedName) -> SchemaObject:
        """Return the existing schema of that name of one or two parts; raises 3D002, 3D003."""
        database = self.database_of(name.parts[0] if len(name.parts) == 2 else None)
        schema = self.catalog.schema(database, name.last.name)
        if schema is None or not self.knows(schema):
            raise UserError(
                SqlState.SCHEMA_NOT_FOUND,
                f"the schema {name.last.name!r} does not exist or is not authorized in the database {database!r}",
                hint=f"LIST SCHEMAS IN DATABASE {database} shows the existing schemas.",
                span=name.span,
            )
        return schema

    def query(self, reference: QualifiedName) -> Query:
        """Return the query of that id or name, or the one that writes the relation of that name; raises 3D019."""
        return named_query(reference, self)

    def object(self, kind: str, name: QualifiedName) -> CatalogObject:
        """Return the existing object of a kind, which is a word of `sql.statements.grant.KINDS`."""
        match kind:
            case "ROLE":
                return self.named_role(name.last)
            case "DATABASE":
                return self.database(name.last)
            case "SCHEMA":
                return self.schema(name)
            case "STORE":
                return self.store(name.last)[0]
            case "SCHEMA_REGISTRY":
                return self.schema_registry(name.last)
            case "DESCRIPTOR_SOURCE":
                return self.descriptor_source(name.last)
            case "FUNCTION_SOURCE":
                return self.function_source(name.last)
            case "FUNCTION":
                return self.function(name.last)
            case "SECRET":
                return self.secret(name.last)
            case "COMPUTE_POOL":
                return self.named_compute_pool(name.last)
            case "QUERY":
                return self.query(name)
            case "SAVEPOINT":
                return self.savepoint(name.last)
            case "ALERT":
                return self.alert(name.last)
        return self.relation(name)

    def described(self, store: Store, kind: StoreDescriptor, entity: EntityPath) -> EntityDescription | None:
        """Return the entity as its store describes it, or as it will be created; None if it does not exist. Contacts the store: use a
        thread."""
        if kind.pattern(entity) is not None:
            return EntityDescription(entity)
        if (drafted := self.coming.get((store.name, entity))) is not None or self.checking:
            return drafted
        try:
            return kind.entities.describe_entity(store.properties, entity) if kind.entities else None
        except UserError as error:
            if error.state is SqlState.ENTITY_NOT_FOUND:
                return None
            raise

    def reads(self, relation: Relation, place: tuple[str, ...]) -> bool:
        """True if a relation covers the entity at a place, as `planner.cycles` defines it, alone or among others."""
        if over(relation, place):
            return True
        store = self.catalog.store(relation.store) if relation.store == place[0] else None
        pattern = connector(store.type).pattern(relation.entity or ()) if store is not None else None
        return pattern is not None and pattern.matches(place[1:])

    def store(self, name: Identifier | None) -> tuple[Store, StoreDescriptor]:
        """Return the named store or the session's, with its type; raises 3D006."""
        chosen = name.name if name else self.context.store
        if chosen is None:
            raise UserError(
                SqlState.STORE_NOT_FOUND,
                "no store is selected",
                hint="Run USE STORE name, write IN STORE name, or create one with CREATE STORE name WITH (…).",
            )
        store = self.catalog.store(chosen)
        if store is None or not self.knows(store):
            raise UserError(
                SqlState.STORE_NOT_FOUND,
                f"the store {chosen!r} does not exist or is not authorized",
                hint="LIST STORES shows the existing stores.",
                span=name.span if name else None,
            )
        return store, connector(store.type)

    def connection(self, store_name: str) -> tuple[Store, StoreDescriptor]:
        """Return the store of a relation. Using the relation requires no privilege on its store. Raises 3D006."""
        store = self.catalog.store(store_name)
        if store is None:
            raise UserError(
                SqlState.STORE_NOT_FOUND,
                f"the store {store_name!r} does not exist",
                hint="LIST STORES shows the existing stores.",
            )
        return store, connector(store.type)

    def named(self, spec: KindSpec[T], name: Identifier) -> T:
        """Return the object of a kind of the organization; raises the kind's SQLSTATE if it is missing or unknown to the role."""
        state = self.catalog.snapshot()
        value = state.get(spec, (name.name,))
        if value is None or not self.knows(value):
            raise UserError(
                spec.missing,
                f"the {spec.word} {name.name!r} does not exist or is not authorized",
                hint=suggestion(
                    name.name,
                    [spec.path(item)[-1] for item in self.visible(state.all(spec))],
                    otherwise=f"LIST {spec.plural.upper()} shows the existing {spec.plural.replace('_', ' ')}; "
                    f"CREATE {spec.kind.upper()} creates one.",
                ),
                span=name.span,
            )
        return value

    def schema_registry(self, name: Identifier) -> SchemaRegistry:
        """Return the schema registry of that name; raises 3D009."""
        return self.catalog.opened_registry(self.named(SCHEMA_REGISTRY, name))

    def secret(self, name: Identifier) -> SecretFacts:
        """Return the secret of that name, not opened; raises 3D016."""
        return self.named(SECRET, name)

    def savepoint(self, name: Identifier) -> Savepoint:
        """Return the savepoint of that name; raises 3D024."""
        return self.named(SAVEPOINT, name)

    def alert(self, name: Identifier) -> AlertFacts:
        """Return the alert of that name; raises 3D025."""
        return self.named(ALERT, name)

    def with_secrets(self, properties: Properties, specs: Specs) -> tuple[Properties, dict[str, str]]:
        """Return the properties with the texts of the secrets that they name, and the secrets' names by property.

        `named_secrets` is what it requires. Raises UserError 3D016, and 3D008 for a secret without a text.
        """
        entries, named = [], {}
        for entry in properties.entries:
            spec = next((spec for spec in specs if spec.matches_name(entry.key)), None)
            if entry.names_secret and spec is not None and spec.secret:
                facts = self.secret(Identifier(entry.value or "", entry.span))
                secret = self.catalog.secret(facts.name)
                text = secret.properties.get(SECRET_STRING) if secret else None
                if text is None:
                    message = f"'{entry.key}': the secret {facts.name!r} has no '{SECRET_STRING}'"
                    hint = f"Set it with UPDATE SECRET {printed(facts.name)} WITH ('{SECRET_STRING}' = '…')."
                    raise UserError(SqlState.INVALID_PARAMETER, message, hint=hint, span=entry.span)
                named[spec.name] = facts.name
                entries.append(replace(entry, value=text, names_secret=False))
            else:
                entries.append(entry)
        return Properties(tuple(entries)), named

    def descriptor_source(self, name: Identifier) -> DescriptorSource:
        """Return the descriptor source of that name; raises 3D011."""
        return self.named(DESCRIPTOR_SOURCE, name)

    def function_source(self, name: Identifier) -> FunctionSource:
        """Return the function source of that name; raises 3D018."""
        return self.named(FUNCTION_SOURCE, name)

    def function(self, name: Identifier) -> UserFunction:
        """Return the user's function of that name and, if the reference has a signature, those types; raises 3D017, also if several
        match."""
        known = [item for item in self.catalog.functions() if self.knows(item)]
        same = [item for item in known if item.name == name.name]
        types = name.types if isinstance(name, Signature) else None
        matching = [item for item in same if types in (None, item.signature.types)]
        if len(matching) == 1:
            return matching[0]
        which = ", ".join(str(item.signature) for item in same)
        raise UserError(
            SqlState.FUNCTION_NOT_FOUND,
            f"several functions are named {name}"
            if matching
            else f"the function {name} does not exist or is not authorized",
            hint=f"The signatures are {which}."
            if same
            else suggestion(
                name.name,
                [item.name for item in known],
                otherwise="LIST FUNCTIONS shows the existing functions; CREATE FUNCTION creates one.",
            ),
            span=name.span,
        )

    @property
    def descriptors(self) -> dict[str, bytes]:
        """The descriptor sources that the active role may use, by name."""
        sources = self.catalog.descriptor_sources()
        return {source.name: source.descriptors for source in sources if self.may(Privilege.USAGE, source)}

    def registry_client(self, store: Store) -> RegistryClient | None:
        """Return the client of a store's schema registry; None without one. Its calls block: use a thread."""
        if store.schema_registry is None:
            return None
        registry = self.catalog.schema_registry(store.schema_registry)
        return registry_client(registry.properties, self.egress) if registry is not None else None

    @property
    def egress(self) -> Egress:
        """The addresses that the operator allows to stores and schema registries."""
        return Egress(self.services.settings.egress_allowed)

    def with_files(self, properties: Properties, specs: Specs) -> Properties:
        """Return the properties with the texts of the uploaded files that they name; raises UserError 3D008."""
        return Properties(
            tuple(
                replace(entry, value=self._file_text(entry))
                if any(spec.file and spec.matches_name(entry.key) for spec in specs)
                else entry
                for entry in properties.entries
            )
        )

    def _file_text(self, entry: Property) -> str | None:
        name = _file_name(entry)
        if (
            entry.value is None
            or entry.names_secret
            or "\n" in entry.value
            or not (entry.value.startswith("@") or name in self.files)
        ):
            return entry.value
        try:
            return self.file(entry).decode()
        except UnicodeDecodeError:
            message = f"'{entry.key}': expected text in the file {name!r}, found bytes that are not UTF-8"
            raise UserError(SqlState.INVALID_PARAMETER, message, span=entry.span) from None

    def file(self, entry: Property) -> bytes:
        """Return the uploaded file that a property names; raises UserError 3D008."""
        name = _file_name(entry)
        if name not in self.files:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"'{entry.key}': the file {name!r} was not sent with the statement",
                hint="headrace sql sends files that are named with @; other clients attach them by that name.",
                span=entry.span,
            )
        return self.files[name]

    def compute_pool(self) -> ComputePool:
        """Return the session's compute pool, or the default one; raises 3D023."""
        return self.named_compute_pool(
            Identifier(self.context.compute_pool or self.catalog.default_compute_pool)
        )

    @property
    def target(self) -> Target:
        """The target of plans for the session's compute pool; raises 3D023."""
        return pool_resources(self.compute_pool(), self.services.settings).target

    def named_compute_pool(self, name: Identifier) -> ComputePool:
        """Return the compute pool of that name; raises 3D023."""
        return self.named(COMPUTE_POOL, name)

    def named_role(self, name: Identifier) -> Role:
        """Return the role of that name; raises 3D001."""
        role = self.catalog.role(name.name)
        if role is None:
            raise UserError(
                SqlState.ROLE_NOT_FOUND,
                f"the role {name.name!r} does not exist",
                hint=suggestion(
                    name.name,
                    [item.name for item in self.catalog.roles()],
                    otherwise="LIST ROLES shows the existing roles; CREATE ROLE creates one.",
                ),
                span=name.span,
            )
        return role

    def check_role(self, name: Identifier) -> None:
        """Raises UserError 3D001 for a role that does not exist, 42501 for a role that the user may not use."""
        exists = self.catalog.role(name.name) is not None
        check_role(self.policy.graph, self.principal, name.name, exists=exists, span=name.span)

    def with_context(self, **changes: Any) -> SessionContext:
        """Return a changed copy of the context."""
        return replace(self.context, **changes)


def _file_name(entry: Property) -> str:
    return PurePosixPath((entry.value or "").removeprefix("@")).name


F = TypeVar("F")


def facet(
    provided: F | None,
    kind: StoreDescriptor,
    what: str,
    span: Span | None,
    hint: str = "Name a store of another type with IN STORE.",
) -> F:
    """Return a facet of a store type. If the type lacks it, raises UserError 0A000 with the unsupported action and the supported ones."""
    if provided is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"stores of type {kind.label} do not support {what}",
            hint=hint,
            span=span,
        )
    return provided


S = TypeVar("S", bound=Statement)
Handler = Callable[[S, Execution], Awaitable[Outcome]]
HANDLERS: dict[type[Statement], Handler[Statement]] = {}
Requirements = Callable[[S, Execution], Iterable[Requirement]]
REQUIREMENTS: dict[type[Statement], Requirements[Statement]] = {}
CHECKED: set[type[Statement]] = set()
"""The statements whose handlers heed `Execution.checking`."""


def handles(
    kind: type[S], *, requires: Requirements[S], checked: bool = False
) -> Callable[[Handler[S]], Handler[S]]:
    """Register the handler of a statement, and the privileges that the active role must have before it runs.

    `requires` yields the requirements of a statement in its context: it changes nothing and reads only the catalog. Each requirement is
    checked before the next is computed, so that requirements that would reveal an object come last. Use `nothing` if there are none.
    With `checked`, the handler supports `Execution.checking` and also checks a text that is not run; otherwise `requires` alone does.
    """

    def register(handler: Handler[S]) -> Handler[S]:
        if kind in HANDLERS:
            raise InternalError(f"two handlers for {kind.__name__}")
        HANDLERS[kind] = handler  # type: ignore[assignment]
        if checked:
            CHECKED.add(kind)
        REQUIREMENTS[kind] = requires  # type: ignore[assignment]
        return handler

    return register


class UncheckedError(Exception):
    """A result that is only known by running the statement: it needs its store, or its handler does not support `checking`."""


def nothing(_statement: Statement, _run: Execution) -> Iterable[Requirement]:
    """Require nothing: the statement's result contains only objects that the role may see."""
    return ()


def on_organization(privilege: Privilege) -> Requirements[Statement]:
    """Return the requirement of a privilege on the organization."""
    return lambda _statement, _run: [Requirement(privilege)]


def ddl(kind: str, name: str, command: str, summary: str, path: Sequence[str]) -> ResultSet:
    """Return the row of a successful DDL statement: Type, Name, Command, Summary, Path (a JSON array)."""
    columns = [(title, VARCHAR) for title in ("Type", "Name", "Command", "Summary", "Path")]
    return result(columns, [(kind, name, command, summary, json.dumps(list(path)))])


def relation_ddl(relation: Relation, command: str, done: str) -> ResultSet:
    """Return the DDL row of a relation; its type is the word of LIST RELATIONS."""
    name, word = relation.name, relation.kind.value
    return ddl(word, name.name, command, f"{word.replace('_', ' ')} {name} {done}", name.path)


def changed(
    changes: Properties, current: Mapping[str, str], specs: Specs, *, kind: str, what: str
) -> PropertyReader:
    """Return an object's properties after setting and removing some; the type cannot change.

    Raises UserError 3D008 for another type, and for a property that is not in `specs`.
    """
    for entry in changes.entries:
        if entry.key == "type" and (entry.value or "").lower() != kind:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the type of {what} cannot be changed",
                hint="Create another one with the new type.",
                span=entry.span,
            )
    removed = [entry for entry in changes.entries if entry.removed]
    PropertyReader(removed, specs, what=what)
    removed_specs = [spec for spec in specs if any(spec.matches_name(entry.key) for entry in removed)]
    left = {
        name: text
        for name, text in current.items()
        if not any(spec.matches_name(name) for spec in removed_specs)
    }
    given = [entry for entry in changes.entries if not entry.removed]
    return PropertyReader(given, specs, what=what, defaults=left)


def named_secrets(properties: Properties, run: Execution) -> Iterator[Requirement]:
    """Yield the privileges that a statement requires on the secrets in its properties; raises UserError 3D016."""
    for entry in properties.entries:
        if entry.names_secret:
            yield Requirement(Privilege.USAGE, run.secret(Identifier(entry.value or "", entry.span)))


def others_secrets(secrets: Mapping[str, str], given: Properties, specs: Specs) -> dict[str, str]:
    """Return the secrets whose properties a statement does not set."""
    again = {spec.name for spec in specs for entry in given.entries if spec.matches_name(entry.key)}
    return {name: secret for name, secret in secrets.items() if name not in again}


def kept_secrets(secrets: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of an object's own properties."""
    return {name: secret for name, secret in secrets.items() if name in properties}


def now() -> datetime.datetime:
    """Return the present, UTC, aware."""
    return datetime.datetime.now(datetime.UTC)


def moment_text(moment: datetime.datetime) -> str:
    """Return a time as DESCRIBE shows it: in UTC, to the millisecond."""
    return moment.isoformat(sep=" ", timespec="milliseconds")
