"""Tokens get a name, a role and an expiry; users get the time of their creation."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Keep the administrator's token: it has every role of its user, and no expiry."""
    old = sa.table("tokens", sa.column("digest"), sa.column("user_name"), sa.column("created_at"))
    rows = op.get_bind().execute(sa.select(old)).all()
    op.drop_table("tokens")
    table = op.create_table(
        "tokens",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column(
            "user_name",
            sa.String,
            sa.ForeignKey("users.name", ondelete="CASCADE"),
            nullable=False,
            index=True,
        ),
        sa.Column("role", sa.String),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    for number, row in enumerate(rows):
        name = "administrator" if number == 0 else f"administrator_{number}"
        values = {"id": str(uuid.uuid4()), "name": name, "digest": row.digest, "user_name": row.user_name}
        op.get_bind().execute(
            table.insert().values(**values, created_at=row.created_at, updated_at=row.created_at)
        )
    op.add_column("users", sa.Column("created_at", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE users SET created_at = (SELECT MIN(created_at) FROM objects)")
