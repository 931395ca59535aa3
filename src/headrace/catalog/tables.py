"""The catalog's tables. Private to this package: everyone else sees `objects`.

Times are microseconds since the epoch, so that SQLite and PostgreSQL agree; JSON is text.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

metadata = MetaData()


def _times() -> tuple[Column[int], Column[int]]:
    return Column("created_at", BigInteger, nullable=False), Column("updated_at", BigInteger, nullable=False)


objects = Table(
    "objects",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("kind", String, nullable=False),
    # Only the organization is in nothing.
    Column("parent", ForeignKey("objects.id")),
    Column("name", String, nullable=False),
    Column("owner", String, nullable=False),
    *_times(),
    Column("definition", Text, nullable=False),
    Column("sealed", LargeBinary),
    Index("objects_name", "parent", "kind", "name", unique=True),
)

dependencies = Table(
    "dependencies",
    metadata,
    Column("object", ForeignKey("objects.id", ondelete="CASCADE"), primary_key=True),
    Column("on", ForeignKey("objects.id"), primary_key=True, index=True),
)

files = Table(
    "files",
    metadata,
    # Read when it is wanted: the state in memory has objects, and not their files.
    Column("object", ForeignKey("objects.id", ondelete="CASCADE"), primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("library", LargeBinary),
)

users = Table(
    "users",
    metadata,
    # Sessions and tokens refer to this id, so that a later user of the same name does not inherit them.
    Column("id", String(36), primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("default_role", String, nullable=False),
    Column("created_at", BigInteger, nullable=False, server_default="0"),
    # An Argon2id hash; None for who cannot sign in with one.
    Column("password", String),
    # The password's verifier for SCRAM, encrypted; None for a password that was set while the server did not offer SCRAM.
    Column("scram", LargeBinary),
    Column("defaults", Text, nullable=False, server_default="{}"),
)

invitations = Table(
    "invitations",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("user_name", String, nullable=False, unique=True),
    # The ids of the roles; a role that was dropped since is not granted.
    Column("roles", Text, nullable=False),
    Column("default_role", String, nullable=False),
    Column("invited_by", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

user_roles = Table(
    "user_roles",
    metadata,
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("role_id", ForeignKey("objects.id", ondelete="CASCADE"), primary_key=True, index=True),
)

role_grants = Table(
    "role_grants",
    metadata,
    # `role` was granted to `grantee`, which inherits its privileges.
    Column("role", String, primary_key=True),
    Column("grantee", String, primary_key=True),
)

grants = Table(
    "grants",
    metadata,
    # The id of an object, a query or the organization: two tables contain these ids, so no foreign key is possible.
    Column("object", String(36), primary_key=True),
    Column("privilege", String, primary_key=True),
    Column("role", String, primary_key=True, index=True),
    Column("grantor", String, nullable=False),
    Column("grantable", Boolean, nullable=False),
)

future_grants = Table(
    "future_grants",
    metadata,
    # The id of the schema, the database or the organization that will contain the future objects.
    Column("place", String(36), primary_key=True),
    Column("kind", String, primary_key=True),
    Column("privilege", String, primary_key=True),
    Column("role", String, primary_key=True, index=True),
    Column("grantor", String, nullable=False),
    Column("grantable", Boolean, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String, nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    # Without one it has every role of its user.
    Column("role_id", ForeignKey("objects.id", ondelete="CASCADE"), index=True),
    Column("parent", ForeignKey("tokens.id", ondelete="CASCADE"), index=True),
    *_times(),
    Column("expires_at", BigInteger),
    # As of `users`.
    Column("scram", LargeBinary),
    Index("tokens_name", "user_id", "name", unique=True),
)

worksheets = Table(
    "worksheets",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    # Of the sessions whose token has one role only.
    Column("role_id", ForeignKey("objects.id", ondelete="CASCADE"), index=True),
    Column("is_open", Boolean, nullable=False),
    Column("version", BigInteger, nullable=False),
    *_times(),
    Column("sealed", LargeBinary, nullable=False),
)

pool_drivers = Table(
    "pool_drivers",
    metadata,
    Column("pool_id", String(36), ForeignKey("objects.id", ondelete="CASCADE"), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("place", String, nullable=False),
    Column("host", String, nullable=False),
    Column("outlives_s", Integer, nullable=False),
    # Of a pod: what the next server needs to take it over.
    Column("sealed", LargeBinary),
)

queries = Table(
    "queries",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String, index=True),
    Column("version", Integer, nullable=False),
    Column("kind", String, nullable=False),
    Column("sql", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("sink", Text, nullable=False),
    Column("sources", Text, nullable=False),
    Column("more_sinks", Text, nullable=False),
    Column("compute_pool", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("desired_state", String, nullable=False),
    Column("actual_state", String, nullable=False),
    Column("message", Text),
    Column("sqlstate", String),
    Column("restarts", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("needs", Text, nullable=False),
    Column("is_settled", Boolean, nullable=False),
    Column("lineage", Text, nullable=False),
    Column("incarnation", Integer, nullable=False),
    *_times(),
)

query_versions = Table(
    "query_versions",
    metadata,
    Column("query_id", ForeignKey("queries.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("sql", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("sources", Text, nullable=False),
    Column("needs", Text, nullable=False),
    # Kind, path and id of each object: no foreign keys, since an earlier version prevents no drop.
    Column("uses", Text, nullable=False),
    Column("lineage", Text, nullable=False),
    # Of the materialized view that the query writes, if it writes one.
    Column("definition", Text),
    Column("replaced_at", BigInteger, nullable=False),
    Column("reason", Text),
    Column("incarnation", Integer, nullable=False),
)

# Without parameters: only then does a database see that its partial index answers the query.
UNFINISHED = text("NOT (desired_state IN ('stopped', 'terminated') AND actual_state = 'terminated')")
Index("queries_unfinished", queries.c.created_at, sqlite_where=UNFINISHED, postgresql_where=UNFINISHED)

query_uses = Table(
    "query_uses",
    metadata,
    Column("query_id", ForeignKey("queries.id", ondelete="CASCADE"), primary_key=True),
    # What a terminated query used may be dropped: without this row the query cannot be restarted.
    Column("object_id", ForeignKey("objects.id", ondelete="CASCADE"), primary_key=True, index=True),
    Column("is_sink", Boolean, nullable=False),
)

query_events = Table(
    "query_events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("query_id", ForeignKey("queries.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("time", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("message", Text),
)

audit = Table(
    "audit",
    metadata,
    # The order of the events; assigned by the server, which is the only writer.
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False, index=True),
    Column("event", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("user_name", String),
    Column("role", String),
    Column("credential", String),
    Column("address", String),
    Column("door", String),
    Column("sqlstate", String),
    Column("statement_id", String),
    Column("statement", Text),
    Column("duration_ms", BigInteger),
    Column("detail", Text),
    Column("times", BigInteger, nullable=False),
)
