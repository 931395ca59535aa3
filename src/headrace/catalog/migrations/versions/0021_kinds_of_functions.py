"""Functions have a kind and a language, and may return another value each time. Those of earlier releases, which no query could call,
are scalar and in Java."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_OBJECTS = sa.table(
    "objects", sa.column("id", sa.Text), sa.column("kind", sa.Text), sa.column("definition", sa.Text)
)


def upgrade() -> None:
    """Complete the definitions of the functions."""
    connection = op.get_bind()
    functions = sa.select(_OBJECTS.c.id, _OBJECTS.c.definition).where(_OBJECTS.c.kind == "function")
    for row in connection.execute(functions).all():
        added = {"kind": "scalar", "repeatable": True, "language": "Java", "code": None, "vectorized": False}
        definition = {**added, **json.loads(row.definition)}
        changed = sa.update(_OBJECTS).where(_OBJECTS.c.id == row.id)
        connection.execute(changed.values(definition=json.dumps(definition)))
