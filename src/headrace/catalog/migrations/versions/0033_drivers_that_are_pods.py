"""Drivers that are pods may outlive their server."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Add the column for what the next server needs to take such a driver over."""
    op.add_column("pool_drivers", sa.Column("sealed", sa.LargeBinary))
