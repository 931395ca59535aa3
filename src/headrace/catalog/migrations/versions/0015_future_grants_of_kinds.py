"""Grants on future objects of any kind."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the kind to the key of future grants, which requires a new table in SQLite. Existing future grants were for relations."""
    rows = op.get_bind().execute(sa.text("SELECT * FROM future_grants")).mappings().all()
    op.drop_table("future_grants")
    table = op.create_table(
        "future_grants",
        sa.Column("place", sa.String(36), primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("privilege", sa.String, primary_key=True),
        sa.Column("role", sa.String, primary_key=True, index=True),
        sa.Column("grantor", sa.String, nullable=False),
        sa.Column("grantable", sa.Boolean, nullable=False),
    )
    op.bulk_insert(table, [{**row, "grantable": bool(row["grantable"]), "kind": "relation"} for row in rows])
