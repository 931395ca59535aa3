"""API tokens, invitations and users' roles refer to ids instead of names; queries also store the needs of the owners of their views."""

import json
import uuid
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Drop the grants to a role that are older than the role: they belonged to an earlier role of the same name."""
    _needs_of_views()
    connection = op.get_bind()
    old = {name: _rows(name) for name in ("users", "user_roles", "tokens", "invitations")}
    roles = {row.name: row for row in _rows("objects") if row.kind == "role"}
    for name in ("tokens", "user_roles", "users"):
        op.drop_table(name)
    users, user_roles, tokens = _tables()
    ids = {}
    for row in old["users"]:
        ids[row.name] = str(uuid.uuid4())
        connection.execute(users.insert().values(id=ids[row.name], **row._mapping))
    for row in old["user_roles"]:
        if row.role in roles:
            values = {"user_id": ids[row.user_name], "role_id": roles[row.role].id}
            connection.execute(user_roles.insert().values(values))
    for row in old["tokens"]:
        role = roles.get(row.role)
        if row.role is None or (role is not None and role.created_at <= row.created_at):
            columns = {
                name: value for name, value in row._mapping.items() if name not in ("user_name", "role")
            }
            values = {"user_id": ids[row.user_name], "role_id": role.id if role is not None else None}
            connection.execute(tokens.insert().values(**columns, **values))
    invitations = sa.table("invitations", *map(sa.column, ("id", "roles", "default_role")))
    for row in old["invitations"]:
        known = {name: role.id for name, role in roles.items() if role.created_at <= row.created_at}
        given = [known[name] for name in json.loads(row.roles) if name in known]
        values = {"roles": json.dumps(given), "default_role": known.get(row.default_role, "")}
        connection.execute(invitations.update().where(invitations.c.id == row.id).values(values))


def _rows(name: str) -> list[sa.Row[Any]]:
    connection, metadata = op.get_bind(), sa.MetaData()
    return list(connection.execute(sa.select(sa.Table(name, metadata, autoload_with=connection))))


def _tables() -> tuple[sa.Table, sa.Table, sa.Table]:
    users = op.create_table(
        "users",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("default_role", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("password", sa.String),
        sa.Column("defaults", sa.Text, nullable=False, server_default="{}"),
    )
    user_roles = op.create_table(
        "user_roles",
        sa.Column("user_id", sa.String(36), _cascading("users.id"), primary_key=True),
        sa.Column("role_id", sa.String(36), _cascading("objects.id"), primary_key=True, index=True),
    )
    tokens = op.create_table(
        "tokens",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("user_id", sa.String(36), _cascading("users.id"), nullable=False),
        sa.Column("role_id", sa.String(36), _cascading("objects.id"), index=True),
        sa.Column("parent", sa.String(36), _cascading("tokens.id"), index=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_index("tokens_name", "tokens", ["user_id", "name"], unique=True)
    return users, user_roles, tokens


def _cascading(column: str) -> sa.ForeignKey:
    return sa.ForeignKey(column, ondelete="CASCADE")


def _needs_of_views() -> None:
    """Add the privileges that the views in a query need, on behalf of their owners."""
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
