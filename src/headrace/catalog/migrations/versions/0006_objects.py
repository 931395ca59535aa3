"""All objects move into one table with their dependencies; values are sealed for an object's id, which a rename does not change."""

import json
import uuid
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import context, op

revision = "0006"
down_revision = "0004"

OLD_TABLES = (
    "relations",
    "stores",
    "schema_registries",
    "schemas",
    "databases",
    "compute_pools",
    "organizations",
    "grants",
)


def upgrade() -> None:
    """Keep owners and times of objects, ids of relations and the organization; record the relations of each query."""
    _create()
    move = _Move(op.get_bind(), context.config.attributes["box"])
    move.namespaces()
    move.connections()
    move.relations()
    move.queries()
    for table in OLD_TABLES:
        op.drop_table(table)


def _create() -> None:
    op.create_table(
        "objects",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("parent", sa.String(36), sa.ForeignKey("objects.id")),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary),
    )
    op.create_index("objects_name", "objects", ["parent", "kind", "name"], unique=True)
    op.create_table(
        "dependencies",
        sa.Column("object", sa.String(36), sa.ForeignKey("objects.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("on", sa.String(36), sa.ForeignKey("objects.id"), primary_key=True, index=True),
    )
    op.create_table(
        "query_relations",
        sa.Column(
            "query_id", sa.String(36), sa.ForeignKey("queries.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column(
            "relation_id",
            sa.String(36),
            sa.ForeignKey("objects.id", ondelete="CASCADE"),
            primary_key=True,
            index=True,
        ),
        sa.Column("is_sink", sa.Boolean, nullable=False),
    )
    op.create_index("ix_queries_name", "queries", ["name"])


class _Move:
    def __init__(self, connection: sa.Connection, box: Any) -> None:
        self.connection, self.box = connection, box
        metadata = sa.MetaData()
        metadata.reflect(connection)
        self.tables = metadata.tables
        self.ids: dict[tuple[str, ...], str] = {}
        self.relation_times: dict[str, int] = {}

    def namespaces(self) -> None:
        for row in self._rows("organizations"):
            # The organization had no times: the times of its first pool are a good approximation.
            (first,) = self.connection.execute(
                sa.select(sa.func.min(self.tables["compute_pools"].c.created_at))
            ).one()
            self._add("organization", None, row, identifier=row.id, owner="orgadmin", created_at=first or 0)
            self.organization = row.id
        for row in self._rows("compute_pools"):
            definition = {"size": row.size, "desired_state": row.desired_state}
            self._add("compute_pool", self.organization, row, definition)
        for row in self._rows("databases"):
            self.ids["database", row.name] = self._add("database", self.organization, row)
        for row in self._rows("schemas"):
            parent = self.ids["database", row.database]
            self.ids["schema", row.database, row.name] = self._add("schema", parent, row)

    def connections(self) -> None:
        for row in self._rows("schema_registries"):
            registry = self._add("schema_registry", self.organization, row, {"type": row.type})
            self.ids["schema_registry", row.name] = registry
            self._seal(registry, row.sealed_properties, f"schema registry {row.name}")
        for row in self._rows("stores"):
            definition = {"type": row.type, "schema_registry": row.schema_registry}
            store = self.ids["store", row.name] = self._add("store", self.organization, row, definition)
            self._seal(store, row.sealed_properties, f"store {row.name}")
            if row.schema_registry is not None:
                self._depends(store, "schema_registry", row.schema_registry)

    def relations(self) -> None:
        for row in self._rows("relations"):
            definition = json.loads(row.definition)
            entity = json.loads(row.entity) if row.entity else None
            definition |= {"kind": row.kind, "store": row.store, "entity": entity}
            definition |= {"description": row.description, "state": row.state}
            parent = self.ids["schema", row.database, row.schema]
            self._add("relation", parent, row, definition, identifier=row.id)
            self.ids["relation", row.database, row.schema, row.name] = row.id
            self.relation_times[row.id] = row.created_at
            if row.store is not None:
                self._depends(row.id, "store", row.store)
            layouts = [
                layout for layout in (definition["format"]["value"], definition["format"]["key"]) if layout
            ]
            for name in {layout["registry"] for layout in layouts if layout["format"] == "avro"}:
                self._depends(row.id, "schema_registry", name)

    def queries(self) -> None:
        """Link queries to relations; a relation of that name created after the query is another one."""
        for row in self._rows("queries"):
            sink = tuple(json.loads(row.sink))
            for path in {sink, *map(tuple, json.loads(row.sources))}:
                relation = self.ids.get(("relation", *path))
                if relation is not None and self.relation_times[relation] <= row.created_at:
                    self._insert(
                        "query_relations", query_id=row.id, relation_id=relation, is_sink=path == sink
                    )

    def _rows(self, table: str) -> Sequence[sa.Row[Any]]:
        return self.connection.execute(sa.select(self.tables[table])).all()

    def _add(
        self,
        kind: str,
        parent: str | None,
        row: Any,
        definition: dict[str, Any] | None = None,
        *,
        identifier: str | None = None,
        owner: str | None = None,
        created_at: int | None = None,
    ) -> str:
        created = created_at if created_at is not None else row.created_at
        self._insert(
            "objects",
            id=(identifier := identifier or str(uuid.uuid4())),
            kind=kind,
            parent=parent,
            name=row.name,
            owner=owner or row.owner,
            created_at=created,
            updated_at=getattr(row, "updated_at", created),
            definition=json.dumps({"version": 1, **(definition or {})}),
        )
        return identifier

    def _seal(self, identifier: str, sealed: bytes, label: str) -> None:
        anew = self.box.seal(self.box.open(sealed, label), identifier)
        objects = self.tables["objects"]
        self.connection.execute(objects.update().where(objects.c.id == identifier).values(sealed=anew))

    def _depends(self, identifier: str, *used: str) -> None:
        # A schema registry may be gone that only a relation's format named.
        if used in self.ids:
            self._insert("dependencies", **{"object": identifier, "on": self.ids[used]})

    def _insert(self, table: str, **values: object) -> None:
        self.connection.execute(self.tables[table].insert().values(**values))
