"""A query may be stopped with the relation that it writes; the index of unfinished queries includes this state."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Allow STOP: queries that it ended before are terminated, and stay so."""
    op.drop_index("queries_unfinished", "queries")
    unfinished = sa.text("NOT (desired_state IN ('stopped', 'terminated') AND actual_state = 'terminated')")
    op.create_index(
        "queries_unfinished", "queries", ["created_at"], sqlite_where=unfinished, postgresql_where=unfinished
    )
