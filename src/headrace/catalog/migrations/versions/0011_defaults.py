"""Users get defaults: the initial names of their sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add defaults; none is set."""
    op.add_column("users", sa.Column("defaults", sa.Text, nullable=False, server_default="{}"))
