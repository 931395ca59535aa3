"""The files of objects, such as the JARs of function sources, move to a separate table, and are read on demand."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Move files into a table; descriptor sources keep theirs in their definitions, since binding reads them."""
    op.create_table(
        "files",
        sa.Column("object", sa.String(36), sa.ForeignKey("objects.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
