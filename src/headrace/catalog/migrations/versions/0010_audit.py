"""The audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the empty audit log: earlier events are unknown."""
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.BigInteger, nullable=False, index=True),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("user_name", sa.String),
        sa.Column("role", sa.String),
        sa.Column("credential", sa.String),
        sa.Column("address", sa.String),
        sa.Column("door", sa.String),
        sa.Column("sqlstate", sa.String),
        sa.Column("statement_id", sa.String),
        sa.Column("statement", sa.Text),
        sa.Column("duration_ms", sa.BigInteger),
        sa.Column("detail", sa.Text),
        sa.Column("times", sa.BigInteger, nullable=False),
    )
