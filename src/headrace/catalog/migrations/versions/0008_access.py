"""Roles become objects, and grants become rows. Queries store the privileges that their role needs."""

import json
import uuid
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

BUILT_IN_ROLES = ("orgadmin", "sysadmin", "securityadmin", "useradmin", "public")


def upgrade() -> None:
    """Turn roles into objects, keep the pools usable by everybody, and record the privileges that queries need."""
    op.create_table(
        "role_grants",
        sa.Column("role", sa.String, primary_key=True),
        sa.Column("grantee", sa.String, primary_key=True),
    )
    op.create_table(
        "grants",
        sa.Column("object", sa.String(36), primary_key=True),
        sa.Column("privilege", sa.String, primary_key=True),
        sa.Column("role", sa.String, primary_key=True, index=True),
        sa.Column("grantor", sa.String, nullable=False),
        sa.Column("grantable", sa.Boolean, nullable=False),
    )
    op.add_column("queries", sa.Column("needs", sa.Text, nullable=False, server_default="[]"))
    connection = op.get_bind()
    metadata = sa.MetaData()
    metadata.reflect(connection)
    objects, grants = metadata.tables["objects"], metadata.tables["grants"]
    queries, used = metadata.tables["queries"], metadata.tables["query_relations"]
    organization = connection.execute(sa.select(objects).where(objects.c.kind == "organization")).first()
    if organization is None:
        return
    for name in BUILT_IN_ROLES:
        row = {
            "id": str(uuid.uuid4()),
            "kind": "role",
            "parent": organization.id,
            "name": name,
            "owner": "orgadmin",
        }
        times = {"created_at": organization.created_at, "updated_at": organization.created_at}
        connection.execute(objects.insert().values(**row, **times, definition=json.dumps({"version": 1})))
    for pool in connection.execute(sa.select(objects).where(objects.c.kind == "compute_pool")).all():
        grant = {"object": pool.id, "privilege": "USAGE", "role": "public", "grantor": pool.owner}
        connection.execute(grants.insert().values(**grant, grantable=False))
    needs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source in connection.execute(sa.select(used).where(~used.c.is_sink)).all():
        needs[source.query_id].append(("SELECT", source.relation_id))
    for query, of_query in needs.items():
        connection.execute(queries.update().where(queries.c.id == query).values(needs=json.dumps(of_query)))
