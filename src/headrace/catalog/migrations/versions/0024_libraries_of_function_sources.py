"""Function sources have a language, and may have a second file with what the first requires."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

_OBJECTS = sa.table(
    "objects", sa.column("id", sa.Text), sa.column("kind", sa.Text), sa.column("definition", sa.Text)
)


def upgrade() -> None:
    """Add libraries and language. No function source has a library yet, and all are in Java."""
    op.add_column("files", sa.Column("library", sa.LargeBinary))
    connection = op.get_bind()
    sources = sa.select(_OBJECTS.c.id, _OBJECTS.c.definition).where(_OBJECTS.c.kind == "function_source")
    for row in connection.execute(sources).all():
        definition = {**json.loads(row.definition), "library": None, "language": "Java"}
        changed = sa.update(_OBJECTS).where(_OBJECTS.c.id == row.id)
        connection.execute(changed.values(definition=json.dumps(definition)))
