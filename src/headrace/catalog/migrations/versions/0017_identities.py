"""Queries need what the owners of the views in them need."""

import json
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    _needs_of_views()


def _needs_of_views() -> None:
    """A query contains the query of each view that it uses, and needs what that one reads, for the view's owner."""
    connection, metadata = op.get_bind(), sa.MetaData()
    metadata.reflect(connection, only=["queries", "query_relations", "objects"])
    queries, used = metadata.tables["queries"], metadata.tables["query_relations"]
    needs = {row.id: json.loads(row.needs) for row in connection.execute(sa.select(queries))}
    read: dict[str, list[str]] = defaultdict(list)
    written_by: dict[str, str] = {}
    for row in connection.execute(sa.select(used)):
        if row.is_sink:
            written_by.setdefault(row.relation_id, row.query_id)
        else:
            read[row.query_id].append(row.relation_id)
    relations = sa.select(metadata.tables["objects"]).where(metadata.tables["objects"].c.kind == "relation")
    stored = connection.execute(relations)
    views = {row.id for row in stored if json.loads(row.definition)["kind"] == "materialized_view"}
    for query, own in needs.items():
        of_views = [
            ["SELECT", identifier, view]
            for view in read[query]
            if view in views and view in written_by
            for privilege, identifier in needs[written_by[view]]
            if privilege == "SELECT"
        ]
        if of_views:
            changed = queries.update().where(queries.c.id == query).values(needs=json.dumps(own + of_views))
            connection.execute(changed)
