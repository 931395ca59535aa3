"""Grants on relations that are not there yet."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add future grants; there are none yet."""
    op.create_table(
        "future_grants",
        sa.Column("place", sa.String(36), primary_key=True),
        sa.Column("privilege", sa.String, primary_key=True),
        sa.Column("role", sa.String, primary_key=True, index=True),
        sa.Column("grantor", sa.String, nullable=False),
        sa.Column("grantable", sa.Boolean, nullable=False),
    )
