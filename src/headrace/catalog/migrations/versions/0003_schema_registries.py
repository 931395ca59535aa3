"""Schema registries; each store may refer to one."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add a table, and a column that is empty in every existing store."""
    op.create_table(
        "schema_registries",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("sealed_properties", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    # As text: in SQLite, alembic would copy the whole table to add a reference, and relations refer to the table.
    op.execute("ALTER TABLE stores ADD COLUMN schema_registry VARCHAR REFERENCES schema_registries (name)")
