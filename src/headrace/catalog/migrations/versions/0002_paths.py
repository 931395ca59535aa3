"""An entity is a path, kept as a JSON array; a store keeps the name of its type, and no longer how that is shown."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Store paths of several parts; until now every path had one, and every type had its present name in other capitals."""
    connection = op.get_bind()
    relations = sa.table("relations", sa.column("id"), sa.column("entity"))
    for row in connection.execute(sa.select(relations).where(relations.c.entity.is_not(None))).all():
        path = json.dumps([row.entity])
        connection.execute(relations.update().where(relations.c.id == row.id).values(entity=path))
    stores = sa.table("stores", sa.column("type"))
    connection.execute(stores.update().values(type=sa.func.lower(stores.c.type)))
