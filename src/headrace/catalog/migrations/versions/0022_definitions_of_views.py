"""The queries of materialized views can be replaced: the definition that a view had with each earlier version of its query."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the definition. No query of a view has earlier versions yet."""
    op.add_column("query_versions", sa.Column("definition", sa.Text))
