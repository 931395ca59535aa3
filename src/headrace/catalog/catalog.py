"""The one door to stored metadata."""

from __future__ import annotations

import datetime
import hashlib
import json
import secrets as random_secrets
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Engine,
    RowMapping,
    Select,
    create_engine,
    delete,
    event,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from headrace.catalog import rows, tables, upgrade
from headrace.catalog.access import BUILT_IN_ROLES
from headrace.catalog.objects import (
    ComputePool,
    Database,
    DesiredState,
    Organization,
    Principal,
    Query,
    QueryState,
    Relation,
    SchemaObject,
    SchemaRegistry,
    Store,
)
from headrace.catalog.secrets import SecretBox
from headrace.catalog.view import CatalogView
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState

DEFAULT_COMPUTE_POOL = "default_pool"
DEFAULT_SCHEMA = "public"
ADMINISTRATOR = "admin"
EVENTS_PER_QUERY_MAX = 200
_REGISTRY = "schema registry"
_NOT_FOUND_WITHOUT = {
    "stores": SqlState.SCHEMA_REGISTRY_NOT_FOUND,
    "schemas": SqlState.DATABASE_NOT_FOUND,
    # Its schema or its store: statements check both before, so that only a race comes here.
    "relations": SqlState.SCHEMA_NOT_FOUND,
}


class Catalog:
    """Reads give values of `objects`; writes are durable when they return.

    One connection, guarded by a lock: calls are short, thread-safe, and made from the event loop directly. Writes of a
    missing or existing object raise UserError with the object kind's SQLSTATE.
    """

    def __init__(self, engine: Engine, box: SecretBox) -> None:
        self._engine = engine
        self._box = box
        self._lock = threading.RLock()
        self._connection = engine.connect()
        self._depth = 0

    @staticmethod
    def open(directory: Path) -> Catalog:
        """The catalog of a data directory, made or upgraded if needed."""
        directory.mkdir(parents=True, exist_ok=True)
        engine = create_engine(
            f"sqlite:///{directory / 'catalog.db'}", connect_args={"check_same_thread": False}
        )
        event.listen(engine, "connect", _configure)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        (directory / "catalog.db").touch(mode=0o600)
        catalog = Catalog(engine, SecretBox(directory))
        with catalog.transaction():
            upgrade.to_head(catalog._connection)
            catalog._seed()
        return catalog

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()
        self._engine.dispose()

    def is_readable(self) -> bool:
        """Whether the file can be read now."""
        try:
            self.organization()
        except SQLAlchemyError:
            return False
        return True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Several writes as one; an exception undoes them all. May be nested: the outermost commits."""
        with self._lock:
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    self._connection.commit()
            except BaseException:
                if self._depth == 1:
                    self._connection.rollback()
                raise
            finally:
                self._depth -= 1

    def snapshot(self) -> CatalogView:
        """The relations and stores of this moment."""
        with self.transaction():
            relations = {relation.name: relation for relation in self.relations()}
            return CatalogView(relations, {store.name: store for store in self.stores()})

    # --- organization, users, tokens

    def organization(self) -> Organization:
        """The only one."""
        row = self._all(select(tables.organizations))[0]
        return Organization(row["id"], row["name"])

    def ensure_administrator(self, token: str | None) -> str | None:
        """Make sure that someone can sign in: `token` becomes the only token of the user `admin`, so that one that leaked can be replaced.

        Without `token`, a first start makes one, which is returned this once; later starts return None.
        """
        made = None
        with self.transaction():
            if token is None:
                if self._all(select(tables.tokens)):
                    return None
                token = made = random_secrets.token_urlsafe(32)
            digest = _digest(token)
            replaced = (tables.tokens.c.user_name == ADMINISTRATOR) & (tables.tokens.c.digest != digest)
            self._connection.execute(delete(tables.tokens).where(replaced))
            if not self._all(select(tables.tokens).where(tables.tokens.c.digest == digest)):
                values = {"digest": digest, "user_name": ADMINISTRATOR, "created_at": rows.present()}
                self._connection.execute(insert(tables.tokens).values(values))
        return made

    def authenticate(self, token: str) -> Principal | None:
        """Whose token it is. Only digests are stored and compared, so that timing tells nothing of a token."""
        found = self._all(select(tables.tokens.c.user_name).where(tables.tokens.c.digest == _digest(token)))
        if not found:
            return None
        name = found[0]["user_name"]
        user = self._all(select(tables.users).where(tables.users.c.name == name))[0]
        held = self._all(select(tables.user_roles.c.role).where(tables.user_roles.c.user_name == name))
        return Principal(name, tuple(sorted(row["role"] for row in held)), user["default_role"])

    # --- databases and schemas

    def databases(self) -> list[Database]:
        """By name."""
        found = self._all(select(tables.databases).order_by(tables.databases.c.name))
        return [Database(row["name"], row["owner"], rows.moment(row["created_at"])) for row in found]

    def database(self, name: str) -> Database | None:
        """The database of that name, or None."""
        return next((database for database in self.databases() if database.name == name), None)

    def create_database(self, name: str, owner: str) -> None:
        """With its schema `public`. Raises 42P04."""
        with self.transaction():
            values = {"name": name, "owner": owner, "created_at": rows.present()}
            self._insert(tables.databases, values, SqlState.DUPLICATE_DATABASE, f"the database {name!r}")
            self.create_schema(name, DEFAULT_SCHEMA, owner)

    def drop_database(self, name: str) -> None:
        """With its schemas. Raises 3D002."""
        where = tables.databases.c.name == name
        self._delete(tables.databases, where, SqlState.DATABASE_NOT_FOUND, f"the database {name!r}")

    def schemas(self, database: str | None = None) -> list[SchemaObject]:
        """Of one database, or all; by name."""
        table = tables.schemas
        query = select(table).order_by(table.c.database, table.c.name)
        if database is not None:
            query = query.where(table.c.database == database)
        return [
            SchemaObject(row["database"], row["name"], row["owner"], rows.moment(row["created_at"]))
            for row in self._all(query)
        ]

    def schema(self, database: str, name: str) -> SchemaObject | None:
        """The schema of that name, or None."""
        return next((schema for schema in self.schemas(database) if schema.name == name), None)

    def create_schema(self, database: str, name: str, owner: str) -> None:
        """Raises 42P06."""
        values = {"database": database, "name": name, "owner": owner, "created_at": rows.present()}
        self._insert(tables.schemas, values, SqlState.DUPLICATE_SCHEMA, f"the schema {database}.{name}")

    def drop_schema(self, database: str, name: str) -> None:
        """Raises 3D003."""
        where = (tables.schemas.c.database == database) & (tables.schemas.c.name == name)
        self._delete(tables.schemas, where, SqlState.SCHEMA_NOT_FOUND, f"the schema {database}.{name}")

    # --- stores

    def stores(self) -> list[Store]:
        """By name, properties opened."""
        return [self._store(row) for row in self._all(select(tables.stores).order_by(tables.stores.c.name))]

    def store(self, name: str) -> Store | None:
        """The store of that name, or None."""
        found = self._all(select(tables.stores).where(tables.stores.c.name == name))
        return self._store(found[0]) if found else None

    def create_store(self, store: Store) -> None:
        """Its properties are sealed. Raises 42P05, or 3D009 when its schema registry is gone."""
        values = self._sealed("store", store) | {"schema_registry": store.schema_registry}
        self._insert(tables.stores, values, SqlState.DUPLICATE_STORE, f"the store {store.name!r}")

    def update_store(self, store: Store) -> None:
        """Its properties, its schema registry and its time. Raises 3D006, or 3D009 when its schema registry is gone."""
        values = self._sealed("store", store) | {"schema_registry": store.schema_registry}
        self._update(tables.stores, values, SqlState.STORE_NOT_FOUND, f"the store {store.name!r}")

    def drop_store(self, name: str) -> None:
        """Raises 3D006."""
        self._delete(
            tables.stores, tables.stores.c.name == name, SqlState.STORE_NOT_FOUND, f"the store {name!r}"
        )

    # --- schema registries

    def schema_registries(self) -> list[SchemaRegistry]:
        """By name, properties opened."""
        table = tables.schema_registries
        return [self._schema_registry(row) for row in self._all(select(table).order_by(table.c.name))]

    def schema_registry(self, name: str) -> SchemaRegistry | None:
        """The schema registry of that name, or None."""
        table = tables.schema_registries
        found = self._all(select(table).where(table.c.name == name))
        return self._schema_registry(found[0]) if found else None

    def create_schema_registry(self, registry: SchemaRegistry) -> None:
        """Its properties are sealed. Raises 42P018."""
        what, state = f"the schema registry {registry.name!r}", SqlState.DUPLICATE_SCHEMA_REGISTRY
        self._insert(tables.schema_registries, self._sealed(_REGISTRY, registry), state, what)

    def update_schema_registry(self, registry: SchemaRegistry) -> None:
        """Its properties and its time. Raises 3D009."""
        what, state = f"the schema registry {registry.name!r}", SqlState.SCHEMA_REGISTRY_NOT_FOUND
        self._update(tables.schema_registries, self._sealed(_REGISTRY, registry), state, what)

    def drop_schema_registry(self, name: str) -> None:
        """Raises 3D009, or 2BP01 while a store has it."""
        table, state = tables.schema_registries, SqlState.SCHEMA_REGISTRY_NOT_FOUND
        self._delete(table, table.c.name == name, state, f"the schema registry {name!r}")

    # --- relations

    def relations(self, database: str | None = None, schema: str | None = None) -> list[Relation]:
        """All, or of one database or schema; by name."""
        table = tables.relations
        query = select(table).order_by(table.c.database, table.c.schema, table.c.name)
        if database is not None:
            query = query.where(table.c.database == database)
        if schema is not None:
            query = query.where(table.c.schema == schema)
        return [rows.relation(row) for row in self._all(query)]

    def relation(self, name: RelationName) -> Relation | None:
        """The relation of that name, or None."""
        found = self._all(select(tables.relations).where(_named(name)))
        return rows.relation(found[0]) if found else None

    def create_relation(self, relation: Relation) -> None:
        """Raises 42P017."""
        what = f"the relation {relation.name}"
        self._insert(tables.relations, rows.relation_row(relation), SqlState.DUPLICATE_RELATION, what)

    def drop_relation(self, name: RelationName) -> None:
        """Raises 3D020."""
        self._delete(tables.relations, _named(name), SqlState.RELATION_NOT_FOUND, f"the relation {name}")

    # --- compute pools

    @property
    def default_compute_pool(self) -> str:
        """The pool of a session that has chosen none."""
        return DEFAULT_COMPUTE_POOL

    def compute_pools(self) -> list[ComputePool]:
        """By name."""
        found = self._all(select(tables.compute_pools).order_by(tables.compute_pools.c.name))
        return [rows.compute_pool(row) for row in found]

    def compute_pool(self, name: str) -> ComputePool | None:
        """The compute pool of that name, or None."""
        return next((pool for pool in self.compute_pools() if pool.name == name), None)

    # --- queries

    def queries(self) -> list[Query]:
        """Oldest first; terminated ones stay listed."""
        found = self._all(select(tables.queries).order_by(tables.queries.c.created_at))
        return [rows.query(row) for row in found]

    def unfinished_queries(self) -> list[Query]:
        """Oldest first, without those that are terminated as they should be."""
        unfinished = select(tables.queries).where(tables.UNFINISHED).order_by(tables.queries.c.created_at)
        return [rows.query(row) for row in self._all(unfinished)]

    def query(self, identifier: str) -> Query | None:
        """The query of that id, or None."""
        found = self._all(select(tables.queries).where(tables.queries.c.id == identifier))
        return rows.query(found[0]) if found else None

    def query_by_name(self, name: str) -> Query | None:
        """The newest query of that `query.name`, or None."""
        newest_first = select(tables.queries).order_by(tables.queries.c.created_at.desc())
        found = self._all(newest_first.where(tables.queries.c.name == name))
        return rows.query(found[0]) if found else None

    def queries_of(self, relation: RelationName) -> list[Query]:
        """The queries that read or write the relation and are not terminated."""
        return [
            query
            for query in self.queries()
            if relation in (query.sink, *query.sources) and query.actual_state is not QueryState.TERMINATED
        ]

    def create_query(self, query: Query) -> None:
        """With its first event."""
        with self.transaction():
            self._connection.execute(insert(tables.queries).values(rows.query_row(query)))
            self._event(query.id, query.actual_state, query.message)

    def set_desired_state(self, identifier: str, state: DesiredState) -> None:
        """Raises 3D019."""
        self._update_query(identifier, {"desired_state": state.value})

    def request_restart(self, identifier: str) -> None:
        """Wanted running, as a new generation, with a clean slate. Raises 3D019."""
        with self.transaction():
            values = {
                "desired_state": DesiredState.RUNNING.value,
                "generation": tables.queries.c.generation + 1,
                "actual_state": QueryState.STARTING.value,
                "message": None,
                "sqlstate": None,
                "restarts": 0,
            }
            self._update_query(identifier, values)
            self._event(identifier, QueryState.STARTING, "restart requested")

    def record_query_state(
        self,
        identifier: str,
        state: QueryState,
        *,
        message: str | None = None,
        sqlstate: str | None = None,
        restarts: int | None = None,
    ) -> None:
        """What the supervisor saw, also as an event. Raises 3D019."""
        with self.transaction():
            values: dict[str, object] = {
                "actual_state": state.value,
                "message": message,
                "sqlstate": sqlstate,
            }
            if restarts is not None:
                values["restarts"] = restarts
            self._update_query(identifier, values)
            self._event(identifier, state, message)

    def query_events(self, identifier: str) -> list[tuple[datetime.datetime, QueryState, str | None]]:
        """The states that the query went through, oldest first: (time, state, message)."""
        table = tables.query_events
        found = self._all(select(table).where(table.c.query_id == identifier).order_by(table.c.id))
        return [(rows.moment(row["time"]), QueryState(row["state"]), row["message"]) for row in found]

    # --- private

    def _seed(self) -> None:
        if self._all(select(tables.organizations)):
            return
        now = rows.present()
        connection = self._connection
        connection.execute(insert(tables.organizations).values(id=str(uuid.uuid4()), name="headrace"))
        connection.execute(insert(tables.users).values(name=ADMINISTRATOR, default_role="sysadmin"))
        held = [{"user_name": ADMINISTRATOR, "role": role} for role in BUILT_IN_ROLES]
        connection.execute(insert(tables.user_roles), held)
        pool = {
            "name": DEFAULT_COMPUTE_POOL,
            "size": "small",
            "owner": "sysadmin",
            "desired_state": "running",
        }
        connection.execute(insert(tables.compute_pools).values(**pool, created_at=now, updated_at=now))

    def _all(self, query: Select[Any]) -> Sequence[RowMapping]:
        with self.transaction():
            return self._connection.execute(query).mappings().all()

    def _insert(self, table: Any, values: Mapping[str, object], state: SqlState, what: str) -> None:
        with self.transaction():
            savepoint = self._connection.begin_nested()
            try:
                self._connection.execute(insert(table).values(values))
                savepoint.commit()
            except IntegrityError as error:
                savepoint.rollback()
                if _is_missing_reference(error):
                    raise _without_reference(table, what) from None
                raise UserError(
                    state, f"{what} already exists", hint="Choose another name, or drop it first."
                ) from None

    def _delete(self, table: Any, where: ColumnElement[bool], state: SqlState, what: str) -> None:
        with self.transaction():
            savepoint = self._connection.begin_nested()
            try:
                deleted = self._connection.execute(delete(table).where(where)).rowcount
                savepoint.commit()
            except IntegrityError:
                savepoint.rollback()
                raise UserError(
                    SqlState.DEPENDENT_OBJECTS_EXIST,
                    f"{what} is referenced by other objects",
                    hint="Drop them first.",
                ) from None
            if deleted == 0:
                raise UserError(state, f"{what} does not exist")

    def _update(self, table: Any, values: Mapping[str, object], state: SqlState, what: str) -> None:
        """Of what has the name in `values`."""
        with self.transaction():
            statement = update(table).where(table.c.name == values["name"]).values(values)
            try:
                changed = self._connection.execute(statement).rowcount
            except IntegrityError:
                raise _without_reference(table, what) from None
            if changed == 0:
                raise UserError(state, f"{what} does not exist")

    def _update_query(self, identifier: str, values: Mapping[str, object]) -> None:
        table = tables.queries
        with self.transaction():
            statement = (
                update(table).where(table.c.id == identifier).values(**values, updated_at=rows.present())
            )
            if self._connection.execute(statement).rowcount == 0:
                raise UserError(SqlState.QUERY_NOT_FOUND, f"the query {identifier!r} does not exist")

    def _event(self, identifier: str, state: QueryState, message: str | None) -> None:
        table = tables.query_events
        values = {"query_id": identifier, "time": rows.present(), "state": state.value, "message": message}
        self._connection.execute(insert(table).values(values))
        newest = (
            select(table.c.id)
            .where(table.c.query_id == identifier)
            .order_by(table.c.id.desc())
            .limit(EVENTS_PER_QUERY_MAX)
        )
        self._connection.execute(
            delete(table).where((table.c.query_id == identifier) & table.c.id.not_in(newest))
        )

    def _store(self, row: RowMapping) -> Store:
        return rows.store(row, self._opened("store", row))

    def _schema_registry(self, row: RowMapping) -> SchemaRegistry:
        return rows.schema_registry(row, self._opened(_REGISTRY, row))

    def _sealed(self, kind: str, value: Store | SchemaRegistry) -> dict[str, object]:
        """What is stored of an object with properties. The seal is for this object alone."""
        text = json.dumps(dict(value.properties)).encode()
        return {
            "name": value.name,
            "type": value.type,
            "owner": value.owner,
            "sealed_properties": self._box.seal(text, f"{kind} {value.name}"),
            "created_at": rows.micros(value.created_at),
            "updated_at": rows.micros(value.updated_at),
        }

    def _opened(self, kind: str, row: RowMapping) -> dict[str, str]:
        opened: dict[str, str] = json.loads(self._box.open(row["sealed_properties"], f"{kind} {row['name']}"))
        return opened


def _named(name: RelationName) -> ColumnElement[bool]:
    table = tables.relations.c
    return (table.database == name.database) & (table.schema == name.schema) & (table.name == name.name)


def _without_reference(table: Any, what: str) -> UserError:
    return UserError(_NOT_FOUND_WITHOUT[table.name], f"{what} belongs to something that does not exist")


def _is_missing_reference(error: IntegrityError) -> bool:
    return getattr(error.orig, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_FOREIGNKEY"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own transactions do not begin before a SAVEPOINT, so that a rollback would miss what it released.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL", "busy_timeout=5000"):
        connection.execute(f"PRAGMA {pragma}")
