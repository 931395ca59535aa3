"""Users may have a password, and are invited."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Keep the existing user's sign-in by token."""
    op.add_column("users", sa.Column("password", sa.String))
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("user_name", sa.String, nullable=False, unique=True),
        sa.Column("roles", sa.Text, nullable=False),
        sa.Column("default_role", sa.String, nullable=False),
        sa.Column("invited_by", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
