"""A query may write several relations: an application is one query."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Allow several sinks; existing queries have one each."""
    op.add_column("queries", sa.Column("more_sinks", sa.Text, nullable=False, server_default="[]"))
