"""Queries can be replaced: the earlier versions of each, and whether the present version has finished a batch."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Make the table of versions. Queries that were never replaced have nothing to go back to, and so are settled."""
    op.add_column("queries", sa.Column("is_settled", sa.Boolean, nullable=False, server_default=sa.true()))
    op.create_table(
        "query_versions",
        sa.Column(
            "query_id", sa.String(36), sa.ForeignKey("queries.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("sql", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("needs", sa.Text, nullable=False),
        sa.Column("uses", sa.Text, nullable=False),
        sa.Column("replaced_at", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text),
    )
