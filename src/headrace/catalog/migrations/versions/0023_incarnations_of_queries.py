"""Queries can start anew: with another checkpoint, as another writer."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the incarnations. No query has started anew yet."""
    for table in ("queries", "query_versions"):
        op.add_column(table, sa.Column("incarnation", sa.Integer, nullable=False, server_default="0"))
