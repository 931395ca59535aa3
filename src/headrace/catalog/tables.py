"""The catalog's tables. Private to this package: everyone else sees `objects`.

Times are microseconds since the epoch, so that SQLite and PostgreSQL agree; JSON is text.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
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


organizations = Table(
    "organizations",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String, nullable=False, unique=True),
)

users = Table(
    "users",
    metadata,
    Column("name", String, primary_key=True),
    Column("default_role", String, nullable=False),
)

user_roles = Table(
    "user_roles",
    metadata,
    Column("user_name", ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column("role", String, primary_key=True),
)

tokens = Table(
    "tokens",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("user_name", ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

grants = Table(
    "grants",
    metadata,
    Column("role", String, primary_key=True),
    Column("privilege", String, primary_key=True),
    Column("object_kind", String, primary_key=True),
    Column("object_name", String, primary_key=True),
)

databases = Table(
    "databases",
    metadata,
    Column("name", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

schemas = Table(
    "schemas",
    metadata,
    Column("database", ForeignKey("databases.name", ondelete="CASCADE"), primary_key=True),
    Column("name", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

schema_registries = Table(
    "schema_registries",
    metadata,
    Column("name", String, primary_key=True),
    Column("type", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("sealed_properties", LargeBinary, nullable=False),
    *_times(),
)

stores = Table(
    "stores",
    metadata,
    Column("name", String, primary_key=True),
    Column("type", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("sealed_properties", LargeBinary, nullable=False),
    *_times(),
    Column("schema_registry", ForeignKey("schema_registries.name")),
)

relations = Table(
    "relations",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("database", String, nullable=False),
    Column("schema", String, nullable=False),
    Column("name", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("store", ForeignKey("stores.name")),
    Column("entity", String),
    Column("definition", Text, nullable=False),
    Column("description", Text),
    Column("state", String, nullable=False),
    *_times(),
    ForeignKeyConstraint(["database", "schema"], ["schemas.database", "schemas.name"]),
)

compute_pools = Table(
    "compute_pools",
    metadata,
    Column("name", String, primary_key=True),
    Column("size", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("desired_state", String, nullable=False),
    *_times(),
)

queries = Table(
    "queries",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String),
    Column("version", Integer, nullable=False),
    Column("kind", String, nullable=False),
    Column("sql", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("sink", Text, nullable=False),
    Column("sources", Text, nullable=False),
    Column("compute_pool", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("desired_state", String, nullable=False),
    Column("actual_state", String, nullable=False),
    Column("message", Text),
    Column("sqlstate", String),
    Column("restarts", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    *_times(),
)

# Without parameters: only then does a database see that its partial index answers the query.
UNFINISHED = text("NOT (desired_state = 'terminated' AND actual_state = 'terminated')")
Index("queries_unfinished", queries.c.created_at, sqlite_where=UNFINISHED, postgresql_where=UNFINISHED)

query_events = Table(
    "query_events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("query_id", ForeignKey("queries.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("time", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("message", Text),
)
