"""Function sources may have a second file with the libraries of the first."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0023"

_OBJECTS = sa.table(
    "objects", sa.column("id", sa.Text), sa.column("kind", sa.Text), sa.column("definition", sa.Text)
)


def upgrade() -> None:
    """Add the libraries. No function source has any yet."""
    op.add_column("files", sa.Column("library", sa.LargeBinary))
    connection = op.get_bind()
    sources = sa.select(_OBJECTS.c.id, _OBJECTS.c.definition).where(_OBJECTS.c.kind == "function_source")
    for row in connection.execute(sources).all():
        definition = {**json.loads(row.definition), "library": None}
        changed = sa.update(_OBJECTS).where(_OBJECTS.c.id == row.id)
        connection.execute(changed.values(definition=json.dumps(definition)))
