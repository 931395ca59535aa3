"""Queries record from which columns they compute their output. Those of earlier releases have no record."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add the lineage of each query and of each earlier version."""
    for table in ("queries", "query_versions"):
        op.add_column(table, sa.Column("lineage", sa.Text, nullable=False, server_default="[]"))
