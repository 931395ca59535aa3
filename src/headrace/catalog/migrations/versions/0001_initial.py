"""The first catalog."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "organizations",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("default_role", sa.String, nullable=False),
    )
    op.create_table(
        "user_roles",
        sa.Column("user_name", sa.String, sa.ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
        sa.Column("role", sa.String, primary_key=True),
    )
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("user_name", sa.String, sa.ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "grants",
        *(
            sa.Column(name, sa.String, primary_key=True)
            for name in ("role", "privilege", "object_kind", "object_name")
        ),
    )
    _namespaces()
    _queries()


def _namespaces() -> None:
    op.create_table(
        "databases",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "schemas",
        sa.Column(
            "database", sa.String, sa.ForeignKey("databases.name", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "stores",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("sealed_properties", sa.LargeBinary, nullable=False),
        *_times(),
    )
    op.create_table(
        "relations",
        sa.Column("id", sa.String(36), primary_key=True),
        *(
            sa.Column(name, sa.String, nullable=False)
            for name in ("database", "schema", "name", "kind", "owner")
        ),
        sa.Column("store", sa.String, sa.ForeignKey("stores.name")),
        sa.Column("entity", sa.String),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("state", sa.String, nullable=False),
        *_times(),
        sa.ForeignKeyConstraint(["database", "schema"], ["schemas.database", "schemas.name"]),
    )
    op.create_index("relations_name", "relations", ["database", "schema", "name"], unique=True)


def _queries() -> None:
    op.create_table(
        "compute_pools",
        sa.Column("name", sa.String, primary_key=True),
        *(sa.Column(name, sa.String, nullable=False) for name in ("size", "owner", "desired_state")),
        *_times(),
    )
    op.create_table(
        "queries",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("sql", "plan", "sink", "sources")),
        *(
            sa.Column(name, sa.String, nullable=False)
            for name in ("compute_pool", "owner", "desired_state", "actual_state")
        ),
        sa.Column("message", sa.Text),
        sa.Column("sqlstate", sa.String),
        sa.Column("restarts", sa.Integer, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        *_times(),
    )
    unfinished = sa.text("NOT (desired_state = 'terminated' AND actual_state = 'terminated')")
    op.create_index(
        "queries_unfinished", "queries", ["created_at"], sqlite_where=unfinished, postgresql_where=unfinished
    )
    op.create_table(
        "query_events",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column(
            "query_id", sa.String, sa.ForeignKey("queries.id", ondelete="CASCADE"), nullable=False, index=True
        ),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("message", sa.Text),
    )


def _times() -> tuple[sa.Column[int], sa.Column[int]]:
    return sa.Column("created_at", sa.BigInteger, nullable=False), sa.Column(
        "updated_at", sa.BigInteger, nullable=False
    )
