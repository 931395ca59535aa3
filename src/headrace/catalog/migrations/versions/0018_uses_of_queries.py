"""Queries record all that they use by id: beside their relations their stores, schema registries and compute pools."""

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Resolve the names in stored plans. An object that is younger than its query is another one of the same name."""
    connection, metadata = op.get_bind(), sa.MetaData()
    metadata.reflect(connection, only=["queries", "query_relations", "objects"])
    rows = connection.execute(sa.select(metadata.tables["query_relations"])).all()
    uses = {(row.query_id, row.relation_id): row.is_sink for row in rows}
    objects = {
        (row.kind, row.name): row
        for row in connection.execute(sa.select(metadata.tables["objects"]))
        if row.kind in ("store", "schema_registry", "compute_pool")
    }
    for query in connection.execute(sa.select(metadata.tables["queries"])):
        pool = objects.get(("compute_pool", query.compute_pool))
        if pool is not None:
            uses[query.id, pool.id] = False
        for reference in _references(json.loads(query.plan)):
            used = objects.get(reference)
            if used is not None and used.created_at <= query.created_at:
                uses[query.id, used.id] = False
    op.drop_table("query_relations")
    table = op.create_table(
        "query_uses",
        sa.Column("query_id", sa.String(36), _cascading("queries.id"), primary_key=True),
        sa.Column("object_id", sa.String(36), _cascading("objects.id"), primary_key=True, index=True),
        sa.Column("is_sink", sa.Boolean, nullable=False),
    )
    for (query_id, object_id), is_sink in uses.items():
        values = {"query_id": query_id, "object_id": object_id, "is_sink": is_sink}
        connection.execute(table.insert().values(values))


def _cascading(column: str) -> sa.ForeignKey:
    return sa.ForeignKey(column, ondelete="CASCADE")


def _references(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for step in plan.get("steps", ()):
        if step.get("store"):
            yield "store", step["store"]
        for layout in (step.get("value"), step.get("key")):
            if isinstance(layout, dict) and layout.get("registry"):
                yield "schema_registry", layout["registry"]
