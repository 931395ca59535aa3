"""A relation's formats become separate values with their properties."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Give relations without a store the format that all of them have; a format without a layout was read in both layouts."""
    connection = op.get_bind()
    relations = sa.table("relations", sa.column("id"), sa.column("definition"))
    for row in connection.execute(sa.select(relations)).all():
        definition = json.loads(row.definition)
        layout = definition["format"]
        times = layout.pop("timestamp_format")
        formats = {
            "json": {"format": "json", "timestamps": None if times == "sql" else times},
            "primitive": {"format": "primitive"},
        }
        layout["value"] = formats[layout.pop("value_format")]
        key = layout.pop("key_format")
        layout["key"] = None if key is None else formats[key]
        text = json.dumps(definition)
        connection.execute(relations.update().where(relations.c.id == row.id).values(definition=text))
