"""The one door to stored metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import select, update

from headrace.catalog import (
    events,
    function_files,
    future_grants,
    grants,
    identity,
    passwords,
    principals,
    queries,
    renaming,
    single_sign_on,
    storage,
    tables,
    upgrade,
)
from headrace.catalog.access import FutureGrant, Grant, Privilege
from headrace.catalog.audit import AuditLog, FollowedAuditLog
from headrace.catalog.events import Event
from headrace.catalog.keys import KEY_FILE, FileKeys, KeySource
from headrace.catalog.kinds.alert import ALERT
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.descriptor_source import DESCRIPTOR_SOURCE
from headrace.catalog.kinds.function import FUNCTION, FUNCTION_SOURCE
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.kinds.role import ROLE
from headrace.catalog.kinds.savepoint import SAVEPOINT
from headrace.catalog.kinds.schema_registry import SCHEMA_REGISTRY
from headrace.catalog.kinds.secret import SECRET
from headrace.catalog.kinds.store import STORE
from headrace.catalog.lease import Lease
from headrace.catalog.loading import load
from headrace.catalog.objects import (
    Alert,
    AlertFacts,
    ApiToken,
    ComputePool,
    Database,
    DescriptorSource,
    DesiredState,
    FunctionSource,
    Invitation,
    Organization,
    Principal,
    Query,
    QueryState,
    RegistryFacts,
    Relation,
    Role,
    SchemaObject,
    SchemaRegistry,
    Secret,
    SecretFacts,
    Store,
    User,
    UserFunction,
)
from headrace.catalog.pool_drivers import PoolDrivers
from headrace.catalog.queries import Use
from headrace.catalog.query_versions import QueryVersions
from headrace.catalog.removal import Removal, refuse_owner, removal
from headrace.catalog.repository import Repository, change_owner, drop
from headrace.catalog.scram import Verifiers
from headrace.catalog.sealed import SealedRepository
from headrace.catalog.secrets import SecretBox
from headrace.catalog.seeding import DEFAULT_COMPUTE_POOL, seed
from headrace.catalog.state import CatalogState
from headrace.catalog.times import moment, present
from headrace.catalog.worksheets import Worksheets
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.names import RelationName
from headrace.core.signals import Signal
from headrace.core.sqlstate import SqlState

log = structlog.get_logger()

DEFAULT_SCHEMA = "public"


class Catalog:
    """Reads return values of `objects` from memory, except for finished queries, which are read from the database.
    Writes are durable when they return.

    Calls are thread-safe. Writes of a missing or existing object raise UserError with the object kind's SQLSTATE.
    """

    def __init__(
        self,
        catalog_storage: storage.Storage,
        keys: KeySource,
        box: SecretBox,
        audit: AuditLog | None = None,
        *,
        has_scram: bool = False,
    ) -> None:
        self._storage = catalog_storage
        self._keys = keys
        self._box = box
        self._databases = Repository(catalog_storage, DATABASE)
        self._schemas = Repository(catalog_storage, SCHEMA)
        self._stores = SealedRepository(catalog_storage, STORE, Store, self._current_box)
        self._secrets = SealedRepository(catalog_storage, SECRET, Secret, self._current_box)
        self._registries = SealedRepository(
            catalog_storage, SCHEMA_REGISTRY, SchemaRegistry, self._current_box
        )
        self._alerts = SealedRepository(catalog_storage, ALERT, Alert, self._current_box)
        self._descriptor_sources = Repository(catalog_storage, DESCRIPTOR_SOURCE)
        self._function_sources = Repository(catalog_storage, FUNCTION_SOURCE)
        self._functions = Repository(catalog_storage, FUNCTION)
        self._relations = Repository(catalog_storage, RELATION)
        self._pools = Repository(catalog_storage, COMPUTE_POOL)
        self._roles = Repository(catalog_storage, ROLE)
        self.savepoints = Repository(catalog_storage, SAVEPOINT)
        self.alerts = self._alerts.facts
        self.versions = QueryVersions(catalog_storage, self._relations)
        self.worksheets = Worksheets(catalog_storage, self._current_box)
        self.pool_drivers = PoolDrivers(catalog_storage, self._current_box)
        self.scram = Verifiers(catalog_storage, self._current_box, is_kept=has_scram)
        self.audit = audit or AuditLog(catalog_storage)

    @staticmethod
    def open(
        directory: Path,
        url: str | None = None,
        keys: KeySource | None = None,
        lease: Lease | None = None,
        *,
        scram: bool = False,
    ) -> Catalog:
        """Open the catalog of a data directory, or of the PostgreSQL database `url`; create or upgrade it if needed.

        `keys` defaults to the keys in the directory's file; if there are several, everything is sealed again with the first one.
        `lease` is the claimed one of that database; without it, one is claimed. With `scram`, secrets get verifiers when they are set.

        Raises UserError 53000 while another server uses the database; 3D008 for a catalog that cannot be read, for a key that decrypts none
        of its secrets, and for a new catalog in the data directory of another one; ExternalError 57015 if the database does not answer.
        An error leaves everything unchanged.
        """
        directory.mkdir(parents=True, exist_ok=True)
        left = identity.remains(directory)
        with storage.readable(directory, url):
            catalog_storage = (
                storage.sqlite(directory, load) if url is None else storage.postgresql(url, load, lease)
            )
        try:
            source = keys or FileKeys(directory)
            secret_keys = source.read()
            box = SecretBox(secret_keys)
            with storage.readable(directory, url), catalog_storage.transaction():
                upgrade.to_head(catalog_storage.connection, box)
                if seed(catalog_storage):
                    identity.refuse_new(directory, left)
                catalog_storage.read()
                _refuse_foreign_key(catalog_storage.state, box)
                if isinstance(source, FileKeys) and KEY_FILE not in left:
                    source.keep(secret_keys[0])
        except BaseException:
            catalog_storage.close()
            raise
        catalog = Catalog(catalog_storage, source, box, has_scram=scram)
        if len(secret_keys) > 1:
            catalog._seal_all(secret_keys)
        return catalog

    @staticmethod
    def follow(url: str, keys: KeySource, lease: Lease) -> tuple[Catalog, Callable[[], None]]:
        """Return the catalog that another server writes, read only, and a function that reads it again, which may raise ExternalError
        57015 and UserError 0A000. Raises as `open`, and UserError 0A000 for a catalog of another revision."""
        followed = storage.Follower(url, load, lease)

        def refresh() -> None:
            with followed.transaction():
                # The server that leads may have upgraded it.
                upgrade.refuse_other(followed)
                followed.refresh()

        try:
            box = SecretBox(keys.read())
            with storage.readable(Path(), url):
                refresh()
            _refuse_foreign_key(followed.state, box)
            return Catalog(followed, keys, box, FollowedAuditLog(followed, lease)), refresh
        except BaseException:
            followed.close()
            raise

    def close(self) -> None:
        """Write the rest of the audit log, and release the database."""
        try:
            self.audit.flush(closing=True)
        except ExternalError as error:
            log.error("audit_lost", reason=error.message)
        finally:
            self._storage.close()

    def copy(self, file: Path) -> None:
        """Copy the catalog, as it is between two transactions, into a new file. Raises UserError 0A000 for a PostgreSQL catalog."""
        self._storage.copy(file)

    def is_readable(self) -> bool:
        """True if the database answers now and still belongs to this server."""
        try:
            self._storage.rows(select(tables.users))
        except HeadraceError:
            return False
        return True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run several writes as one; an exception undoes them all. May be nested: the outermost commits."""
        with self._storage.transaction():
            yield

    def snapshot(self) -> CatalogState:
        """Return the current state."""
        return self._storage.state

    @property
    def committed(self) -> Signal:
        """The signal of each commit, after which `snapshot` returns another state."""
        return self._storage.committed

    def draft(self) -> Catalog:
        """Return a copy to try statements on: their writes stay in the copy."""
        return Catalog(storage.Draft(self._storage), self._keys, self._box, self.audit)

    def removal(self, target: object) -> Removal:
        """Return the objects that a drop would remove, and the queries that must end before it."""
        return removal(self._storage.state, target)

    def drop(
        self, target: object, *, cascade: bool = False, known: Callable[[object], bool] = lambda _: True
    ) -> Removal:
        """Drop an object, with `cascade` also its dependents; return the dropped objects.

        Raises the SQLSTATE of its kind if the object does not exist. Raises 2BP01, with the names of the `known` objects, if other objects
        depend on it (without `cascade`), or if a query that is not terminated reads or writes one of the objects.
        """
        return drop(self._storage, target, cascade=cascade, known=known)

    def rename(self, target: object, name: str) -> Any:
        """Rename an object, with the objects in it, those that use it and the queries over it, and return it. Raises its kind's
        SQLSTATEs."""
        return renaming.rename(self._storage, target, name)

    def change_owner(self, target: object, role: str) -> None:
        """Transfer an object to another role. Raises the SQLSTATE of its kind when it does not exist."""
        if isinstance(target, Query):
            queries.change(self._storage, target.id, owner=role)
        else:
            change_owner(self._storage, target, role)

    def rotate_key(self) -> None:
        """Seal everything with a new key. Raises UserError 0A000 for one that a running server cannot change, and as reading it does.

        The file has both keys until all is sealed, so that a server which dies meanwhile opens everything at its next start.
        """
        self._seal_all(self._keys.next())

    # --- organization, tokens

    def organization(self) -> Organization:
        """Return the only organization."""
        return self._storage.state.organization

    def update_organization(self, organization: Organization) -> None:
        """Store the organization's name and description."""
        facts = {name: getattr(organization, name) for name in ("description", "image", "data_directory")}
        values = {"name": organization.name, "definition": json.dumps(facts), "updated_at": present()}
        with self.transaction():
            same = tables.objects.c.id == organization.id
            self._storage.execute(update(tables.objects).where(same).values(values))
            self._storage.put(replace(self._storage.state, organization=organization))

    def ensure_administrator(self, token: str | None) -> str | None:
        """Ensure that an administrator can sign in: `token` becomes the API token `administrator` of the user `admin`, so that a leaked
        token can be replaced.

        Without `token`, the first start creates and returns a token; later starts return None.
        """
        return principals.ensure_administrator(self._storage, token, self.scram.sealed)

    def authenticate(self, token: str) -> Principal | None:
        """Return the principal of a token. Only digests are stored and compared, so that timing reveals nothing of a token. Reads memory
        only."""
        return principals.authenticate(self._storage.state, token)

    def known_token(self, token: str) -> ApiToken | None:
        """Return the API token that this is or was, even if it has expired or was replaced; None for an unknown one. From memory."""
        return self._storage.state.members.tokens.get(principals.digest(token))

    def ended(self, principal: Principal) -> str | None:
        """Return why the credential of `principal` is no longer valid, None while it is. Reads memory only."""
        return principals.ended(self._storage.state, principal)

    def users(self) -> list[User]:
        """Return all users, by name."""
        return sorted(self._storage.state.members.users.values(), key=lambda user: user.name)

    def user(self, name: str) -> User | None:
        """Return the user of that name, or None."""
        return self._storage.state.members.users.get(name)

    def drop_user(self, user: User) -> None:
        """Drop a user with the user's API tokens. Raises 2BP01 for the last one who can administer."""
        principals.drop_user(self._storage, user)

    def set_password(self, user: User, password: str) -> None:
        """Set a password and end the sessions that used the earlier password. Raises 3D008 if it is too short. Hashing is slow on
        purpose."""
        principals.set_password(
            self._storage, user, passwords.hashed(password), self.scram.sealed(user.name, user.name, password)
        )

    def set_default_role(self, user: str, role: str) -> None:
        """Set the default role of the user's sessions."""
        principals.set_default_role(self._storage, user, role)

    def set_defaults(self, user: str, ids: Mapping[str, str | None]) -> None:
        """Set the defaults of the user's sessions: ids by the words of their kinds, None for no default of the kind."""
        principals.set_defaults(self._storage, user, ids)

    def invitations(self) -> list[Invitation]:
        """Return the invitations that can still be accepted, by user."""
        pending = self._storage.state.members.invitations.values()
        return sorted((item for item in pending if not item.has_expired()), key=lambda item: item.user)

    def create_invitation(self, invitation: Invitation) -> str:
        """Store an invitation and return its code, which cannot be read again; an earlier one of the same user ends. Raises 42P07."""
        code = principals.new_code()
        principals.create_invitation(self._storage, invitation, code)
        return code

    def drop_invitation(self, invitation: Invitation) -> None:
        """Withdraw an invitation: its code ends."""
        principals.drop_invitation(self._storage, invitation)

    def accept_invitation(self, code: str, password: str) -> User | None:
        """Create the user of an invitation and return it; None if the code is unknown or has expired. Raises 3D008 for a password that
        is too short."""
        return principals.accept_invitation(
            self._storage,
            code,
            passwords.hashed(password),
            lambda user: self.scram.sealed(user, user, password),
        )

    def admit(self, name: str, roles: Mapping[str, bool], *, create: bool) -> single_sign_on.Admitted | None:
        """Return the user whom an identity provider has signed in, with the roles of the user's groups; None if there is no such user."""
        return single_sign_on.admit(self._storage, name, roles, create=create)

    def api_tokens(self) -> list[ApiToken]:
        """Return all API tokens, by name."""
        return sorted(self._storage.state.members.tokens.values(), key=lambda token: token.name)

    def create_api_token(self, token: ApiToken) -> str:
        """Store a token and return its secret, which cannot be read again. Raises 42P09, or 3D001 if its role was dropped."""
        secret = principals.new_token()
        principals.create_token(self._storage, token, secret, self.scram.sealed)
        return secret

    def renew_api_token(self, token: ApiToken) -> str:
        """Renew a token with a new secret and the expiry of `token`, and return the secret; the earlier secret and the tokens made with it
        end."""
        secret = principals.new_token()
        principals.renew_token(self._storage, token, secret, self.scram.sealed)
        return secret

    def drop_api_token(self, token: ApiToken) -> None:
        """Drop a token; its sessions end."""
        principals.drop_token(self._storage, token)

    # --- roles and grants

    def roles(self) -> list[Role]:
        """Return all roles, by name."""
        return self._roles.all()

    def role(self, name: str) -> Role | None:
        """Return the role of that name, or None."""
        return self._roles.get(name)

    def create_role(self, name: str, owner: str, granted_roles: Iterable[Role] = ()) -> None:
        """Create a role that inherits `granted_roles`. Raises 42P011."""
        with self.transaction():
            self._roles.create(Role(name, owner, moment(present())))
            for role in granted_roles:
                grants.grant_to_role(self._storage, role, to_role=name)

    def drop_role(self, role: Role, *, known: Callable[[object], bool] = lambda _: True) -> None:
        """Drop a role with its grants and API tokens; its finished queries go to its owner. Raises 3D001, or 2BP01, naming the objects
        that are `known`, while it owns something."""
        with self.transaction():
            refuse_owner(self._storage.state, role, known)
            grants.forget_role(self._storage, role.name)
            future_grants.forget(self._storage, role=role.name)
            queries.leave(self._storage, role)
            drop(self._storage, role, cascade=False, known=lambda _: True)
            grants.reread(self._storage)

    def grant(self, given: Iterable[Grant]) -> int:
        """Store grants, and return how many are new: granting again changes nothing."""
        with self.transaction():
            return sum([grants.add(self._storage, grant) for grant in given])

    def revoke(
        self, keys: Iterable[tuple[str, Privilege, str]], *, option_only: bool = False, cascade: bool = False
    ) -> int:
        """Remove grants, or with `option_only` their grant options, and return how many were removed; `keys` are objects' ids,
        privileges, roles. With `cascade` the grants that depend on them are removed too; raises UserError 2BP01 without."""
        return grants.revoke(self._storage, keys, option_only=option_only, cascade=cascade)

    def grant_future(self, given: Iterable[FutureGrant]) -> int:
        """Store future grants, and return how many are new: an object created in their place gets them at once."""
        return future_grants.add(self._storage, given)

    def revoke_future(self, keys: Iterable[future_grants.Key]) -> int:
        """Remove future grants, and return how many were removed; objects keep the grants that they got by them."""
        return future_grants.remove(self._storage, keys)

    def grant_role(self, granted: Role, *, role: str | None, user: str | None) -> bool:
        """Grant a role; True if anything changed. Raises UserError 0LP01 for a cycle, 3D000 for a missing user."""
        if role is not None:
            return grants.grant_to_role(self._storage, granted, to_role=role)
        return grants.grant_to_user(self._storage, granted.name, user or "")

    def revoke_role(self, granted: Role, *, role: str | None, user: str | None) -> bool:
        """Revoke a role; return True if anything changed. Raises UserError 0LP01 for a built-in membership and for the last orgadmin;
        3D000 for a missing user."""
        if role is not None:
            return grants.revoke_from_role(self._storage, granted.name, from_role=role)
        return grants.revoke_from_user(self._storage, granted.name, user or "")

    # --- databases and schemas

    def databases(self) -> list[Database]:
        """Return all databases, by name."""
        return self._databases.all()

    def database(self, name: str) -> Database | None:
        """Return the database of that name, or None."""
        return self._databases.get(name)

    def create_database(self, name: str, owner: str) -> None:
        """Create a database with its schema `public`. Raises 42P04."""
        with self.transaction():
            self._databases.create(Database(name, owner, moment(present())))
            self.create_schema(name, DEFAULT_SCHEMA, owner)

    def schemas(self, database: str | None = None) -> list[SchemaObject]:
        """Return all schemas, or those of a database, sorted by name."""
        return self._schemas.all(*([database] if database is not None else []))

    def schema(self, database: str, name: str) -> SchemaObject | None:
        """Return the schema of that name, or None."""
        return self._schemas.get(database, name)

    def create_schema(self, database: str, name: str, owner: str, *, managed: bool = False) -> None:
        """Raises 42P06, or 3D002."""
        self._schemas.create(SchemaObject(database, name, owner, moment(present()), managed))

    def update_schema(self, schema: SchemaObject) -> None:
        """Store whether the schema has managed access. Raises 3D003."""
        self._schemas.update(schema)

    # --- stores

    def stores(self) -> list[Store]:
        """Return all stores by name, with decrypted properties."""
        return self._stores.all()

    def store(self, name: str) -> Store | None:
        """Return the store of that name with decrypted properties, or None."""
        return self._stores.get(name)

    def create_store(self, store: Store) -> None:
        """Create a store; its properties are encrypted. Raises 42P05, or 3D009 if its schema registry does not exist."""
        self._stores.create(store)

    def update_store(self, store: Store) -> None:
        """Store the properties, schema registry and time of a store. Raises 3D006, or 3D009 if its schema registry does not exist."""
        self._stores.update(store)

    # --- secrets

    def secrets(self) -> list[SecretFacts]:
        """Return all secrets by name, without their texts."""
        return self._secrets.facts.all()

    def secret(self, name: str) -> Secret | None:
        """Return the secret of that name with its text, or None."""
        return self._secrets.get(name)

    def create_secret(self, secret: Secret) -> None:
        """Create a secret; its properties are encrypted. Raises 42P014."""
        self._secrets.create(secret)

    def update_secret(self, secret: Secret) -> None:
        """Store the text and description of a secret. Raises 3D016."""
        self._secrets.update(secret)

    # --- schema registries

    def schema_registries(self) -> list[SchemaRegistry]:
        """Return all schema registries by name, with decrypted properties."""
        return self._registries.all()

    def schema_registry(self, name: str) -> SchemaRegistry | None:
        """Return the schema registry of that name with decrypted properties, or None."""
        return self._registries.get(name)

    def opened_registry(self, facts: RegistryFacts) -> SchemaRegistry:
        """Return a schema registry with decrypted properties."""
        return self._registries.opened(facts)

    def create_schema_registry(self, registry: SchemaRegistry) -> None:
        """Create a schema registry; its properties are encrypted. Raises 42P018."""
        self._registries.create(registry)

    def update_schema_registry(self, registry: SchemaRegistry) -> None:
        """Store the properties and time of a schema registry. Raises 3D009."""
        self._registries.update(registry)

    # --- alerts

    def create_alert(self, alert: Alert) -> None:
        """Create an alert; its properties are encrypted. Raises 42P021, or 3D016 if its secret does not exist."""
        self._alerts.create(alert)

    def opened_alert(self, facts: AlertFacts) -> Alert:
        """Return an alert with decrypted properties."""
        return self._alerts.opened(facts)

    # --- descriptor sources

    def descriptor_sources(self) -> list[DescriptorSource]:
        """Return all descriptor sources, by name."""
        return self._descriptor_sources.all()

    def descriptor_source(self, name: str) -> DescriptorSource | None:
        """Return the descriptor source of that name, or None."""
        return self._descriptor_sources.get(name)

    def create_descriptor_source(self, source: DescriptorSource) -> None:
        """Raises 42P08."""
        self._descriptor_sources.create(source)

    # --- function sources and functions

    def function_sources(self) -> list[FunctionSource]:
        """Return all function sources, by name."""
        return self._function_sources.all()

    def function_source(self, name: str) -> FunctionSource | None:
        """Return the function source of that name, or None."""
        return self._function_sources.get(name)

    def create_function_source(
        self, source: FunctionSource, content: bytes, library: bytes | None = None
    ) -> None:
        """Create a function source with its file, and with the file of its libraries if it has any. Raises 42P016."""
        with self.transaction():
            self._function_sources.create(source)
            function_files.add(self._storage, source, content, library)

    def file_of(self, source: FunctionSource) -> bytes:
        """Return the file of a function source, read from the database. Raises 3D018 if the source does not exist."""
        return function_files.content(self._storage, source)

    def library_of(self, source: FunctionSource) -> bytes | None:
        """Return the file with the libraries of a function source, None if it has none. Raises 3D018 if the source does not exist."""
        return function_files.library(self._storage, source)

    def function_file(self, digest: str) -> bytes | None:
        """Return the code of a function by its SHA-256, a JAR or a text; None without one."""
        return function_files.of_digest(self._storage, digest)

    def functions(self, name: str | None = None) -> list[UserFunction]:
        """Return all functions, or all with a name, sorted by signature."""
        return [function for function in self._functions.all() if name in (None, function.name)]

    def create_function(self, function: UserFunction) -> None:
        """Raises 42P015, or 3D018 if its source does not exist."""
        self._functions.create(function)

    # --- relations

    def relations(self, database: str | None = None, schema: str | None = None) -> list[Relation]:
        """Return all relations, or those of a database or schema, sorted by name."""
        return list(self._storage.state.relations(database, schema))

    def relation(self, name: RelationName) -> Relation | None:
        """Return the relation of that name, or None."""
        return self._storage.state.relation(name)

    def create_relation(self, relation: Relation) -> None:
        """Raises 42P017, 3D003, or 3D006 and 3D009 if its store or its schema registry does not exist."""
        self._relations.create(relation)

    def update_relation(self, relation: Relation) -> None:
        """Store the description and owner of a relation. Raises 3D020."""
        self._relations.update(relation)

    # --- compute pools

    @property
    def default_compute_pool(self) -> str:
        """The pool of a session that has chosen none."""
        return DEFAULT_COMPUTE_POOL

    def compute_pools(self) -> list[ComputePool]:
        """Return all compute pools, by name."""
        return self._pools.all()

    def compute_pool(self, name: str) -> ComputePool | None:
        """Return the compute pool of that name, or None."""
        return self._pools.get(name)

    def create_compute_pool(self, pool: ComputePool) -> None:
        """Raises 42P019."""
        self._pools.create(pool)

    def update_compute_pool(self, pool: ComputePool) -> None:
        """Store the size, timeout and desired state of a pool. Raises 3D023."""
        self._pools.update(pool)

    # --- queries

    def queries(self) -> list[Query]:
        """Return all queries, oldest first; terminated ones stay listed. Read from the database."""
        return queries.read(self._storage)

    def queries_of_ids(self, identifiers: Collection[str]) -> list[Query]:
        """Return the queries of these ids that exist, oldest first."""
        return queries.of_ids(self._storage, identifiers)

    def unfinished_queries(self) -> list[Query]:
        """Return the queries, oldest first, that are not terminated as desired."""
        return sorted(self._storage.state.queries.values(), key=lambda query: query.created_at)

    def query(self, identifier: str) -> Query | None:
        """Return the query of that id, or None."""
        return queries.get(self._storage, identifier)

    def query_by_name(self, name: str, version: int | None = None) -> Query | None:
        """Return the newest query of that `query.name`, of a version or of any; None without one."""
        return queries.newest_named(self._storage, name, version)

    def queries_of(self, name: RelationName) -> list[Query]:
        """Return the queries, oldest first, that read or write the relation and are not terminated."""
        relation = self.relation(name)
        return self._storage.state.queries_using([relation]) if relation is not None else []

    def writers(self, relation: Relation) -> list[Query]:
        """Return the queries that write that very relation, terminated or not; oldest first. Read from the database."""
        return queries.writers(self._storage, relation)

    def dropped_uses(self, query: Query) -> list[Use]:
        """Return kind and path of what a query used and was dropped since. Such a query cannot be restarted."""
        return queries.dropped_uses(self._storage.state, query)

    def create_query(self, query: Query) -> None:
        """Create a query with its first event. It uses the objects that have the names in it now; raises UserError for a missing one."""
        queries.create(self._storage, query)

    def set_desired_state(self, identifier: str, state: DesiredState) -> None:
        """Raises 3D019."""
        queries.change(self._storage, identifier, desired_state=state)

    def rename_query(self, query: Query, name: str) -> None:
        """Rename a query. Raises 3D019."""
        queries.change(self._storage, query.id, name=name)

    def request_restart(self, identifier: str, *, queues: bool = False) -> None:
        """Request a start as a new generation, without the earlier error and restarts; see `queries.start`. Raises 3D019."""
        with self.transaction():
            known = queries.required(self._storage, identifier)
            queries.enter_pool(self._storage, known)
            queries.start(self._storage, known, "restart requested", queues=queues)

    def record_query_state(
        self,
        identifier: str,
        state: QueryState,
        *,
        message: str | None = None,
        sqlstate: str | None = None,
        restarts: int | None = None,
        generation: int | None = None,
    ) -> None:
        """Record the state that the supervisor observed, also as an event; nothing if it observed another `generation`. Raises 3D019."""
        counted = {} if restarts is None else {"restarts": restarts}
        with self.transaction():
            known = self.query(identifier)
            if known is not None and generation not in (None, known.generation):
                return
            queries.change(
                self._storage, identifier, actual_state=state, message=message, sqlstate=sqlstate, **counted
            )
            events.add(self._storage, identifier, state, message)

    def query_events(self, identifier: str) -> list[Event]:
        """Return the past states of a query, oldest first."""
        return events.read(self._storage, (identifier,)).get(identifier, [])

    def events_of_queries(self, identifiers: Collection[str] | None) -> Mapping[str, list[Event]]:
        """Return the past states of at least these queries (None: of all), oldest first, by their ids. One read of the database."""
        return events.read(self._storage, identifiers)

    # --- private

    def _current_box(self) -> SecretBox:
        return self._box

    def _seal_all(self, keys: list[bytes]) -> None:
        """Seal all values again with the first of the keys; they may be sealed with any of them. Changes nothing on InternalError."""
        with self._storage.transaction():
            # The new box is used at once, even if this transaction rolls back: any other sealing runs in a separate transaction.
            self._box = SecretBox(keys)
            state = self._storage.state
            again = {key: self._box.sealed_again(sealed, key) for key, sealed in state.sealed.items()}
            for key, sealed in again.items():
                same = tables.objects.c.id == key
                self._storage.execute(update(tables.objects).where(same).values(sealed=sealed))
            self._storage.put(replace(state, sealed=again))
            for rows in (self.worksheets, self.pool_drivers, self.scram):
                rows.seal_again()
        self._keys.keep(keys[0])


def _refuse_foreign_key(state: CatalogState, box: SecretBox) -> None:
    """Raise UserError 3D008 if there are secrets and none of them opens: the key was lost, or is another catalog's."""
    if state.sealed and not any(box.opens(sealed, label) for label, sealed in state.sealed.items()):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            "the catalog's key decrypts none of its secrets",
            hint=(
                f"Restore {KEY_FILE} of the data directory from a backup, or set the right key in "
                "HEADRACE_CATALOG_KEY."
            ),
        )
