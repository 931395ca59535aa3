"""Drivers of compute pools may outlive their server."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0025"


def upgrade() -> None:
    """Create the table. No driver has outlived a server yet."""
    op.create_table(
        "pool_drivers",
        sa.Column(
            "pool_id", sa.String(36), sa.ForeignKey("objects.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("place", sa.String, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("outlives_s", sa.Integer, nullable=False),
    )
