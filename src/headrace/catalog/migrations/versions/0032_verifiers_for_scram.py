"""Passwords and API tokens may have a verifier for SCRAM."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Add the columns. Secrets that exist have no verifier, since only their hashes are known."""
    for name in ("users", "tokens"):
        op.add_column(name, sa.Column("scram", sa.LargeBinary))
