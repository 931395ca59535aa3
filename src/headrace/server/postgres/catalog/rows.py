"""Rows of PostgreSQL's catalog: the databases, schemas, relations and roles that the active role may see.

Relations are those of the session's database, as in PostgreSQL. Materialized views are materialized views and tables are tables;
streams and changelogs are foreign tables, since their rows are elsewhere and have no end.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from headrace.catalog.objects import Relation, RelationKind
from headrace.server.postgres import types
from headrace.server.postgres.catalog.shapes import INFORMATION_SCHEMA, PG_CATALOG, TYPE_NAMES, Shape, shapes
from headrace.server.postgres.types import KINDS, modifier_of, oid_of
from headrace.statements.base import Execution

Row = Mapping[str, object]
FIRST_OID = 16_384
"""The first OID of users' objects, as in PostgreSQL."""

_OID_BITS = 30
_NAMESPACES = {PG_CATALOG: 11, INFORMATION_SCHEMA: 13_000}
_HEAP, _UTF8, _COLLATION, _TABLESPACE = 2, 6, 100, 1663
_RELKINDS = {RelationKind.MATERIALIZED_VIEW: "m", RelationKind.TABLE: "r", RelationKind.VIEW: "v"}
_STREAM = "f"
_TABLE_TYPES = {"m": "VIEW", "v": "VIEW", "r": "BASE TABLE", _STREAM: "FOREIGN"}
_ELEMENT_OF_ARRAY = "A"


@dataclass(frozen=True)
class Held:
    """A relation with its OID, that of its schema, and its kind in `pg_class`."""

    relation: Relation
    oid: int
    namespace: int
    kind: str


@dataclass(frozen=True)
class OpenCursor:
    """A cursor of the connection: name, its DECLARE, whether it outlives its transaction, and when it was declared."""

    name: str
    statement: str
    is_held: bool
    created: datetime.datetime


class Snapshot:
    """The objects of one query. `variables` are the settings of its connection, and `cursors` the open ones."""

    def __init__(
        self,
        run: Execution,
        user: str,
        variables: Mapping[str, str],
        cursors: tuple[OpenCursor, ...] = (),
    ) -> None:
        self._run = run
        self._oids: dict[str, int] = {}
        self._taken: set[int] = set()
        self.user = user
        self.variables = variables
        self.cursors = cursors
        self.database = run.context.database or ""

    def oid(self, identity: str) -> int:
        """Return the OID of an object, which depends on its id; two objects of one query never have the same."""
        oid = self._oids.get(identity)
        if oid is None:
            digest = hashlib.blake2s(identity.encode(), digest_size=4).digest()
            oid = FIRST_OID + int.from_bytes(digest) % 2**_OID_BITS
            while oid in self._taken:
                oid += 1
            self._taken.add(oid)
            self._oids[identity] = oid
        return oid

    @cached_property
    def databases(self) -> dict[str, str]:
        """The databases and their owners."""
        return {item.name: item.owner for item in self._run.visible(self._run.catalog.databases())}

    @cached_property
    def schemas(self) -> dict[str, str]:
        """The schemas of the database and their owners."""
        run = self._run
        owners = {item.name: item.owner for item in run.visible(run.catalog.schemas(self.database))}
        for relation in self._relations:
            owners.setdefault(relation.name.schema, relation.owner)
        return {**dict.fromkeys(_NAMESPACES, "public"), **owners}

    @cached_property
    def relations(self) -> list[Held]:
        """The relations of the database."""
        return [
            Held(
                relation,
                self.oid(relation.id),
                self.namespace(relation.name.schema),
                _RELKINDS.get(relation.kind, _STREAM),
            )
            for relation in self._relations
        ]

    @cached_property
    def roles(self) -> list[str]:
        """The user, and the roles that own something."""
        owners = (
            *self.databases.values(),
            *self.schemas.values(),
            *(item.relation.owner for item in self.relations),
        )
        return sorted({self.user, self._run.role, *owners})

    def namespace(self, schema: str) -> int:
        """Return the OID of a schema."""
        return _NAMESPACES.get(schema) or self.oid(f"schema {self.database} {schema}")

    def store(self, relation: Relation) -> str:
        """Return the name of a relation's store; empty if the role may not know the store."""
        name = relation.store or ""
        return name if self._run.knows(self._run.catalog.snapshot().store(name)) else ""

    def role(self, name: str) -> int:
        """Return the OID of a role."""
        return self.oid(f"role {name}")

    @cached_property
    def _relations(self) -> list[Relation]:
        visible = self._run.visible(self._run.catalog.relations(self.database))
        return sorted(visible, key=lambda relation: relation.id)


def _databases(objects: Snapshot) -> Iterator[Row]:
    for name, owner in objects.databases.items():
        yield {
            "oid": objects.oid(f"database {name}"),
            "datname": name,
            "datdba": objects.role(owner),
            "encoding": _UTF8,
            "datlocprovider": "c",
            "datallowconn": True,
            "datconnlimit": -1,
            "datcollate": "C",
            "datctype": "C",
            "dattablespace": _TABLESPACE,
        }


def _namespaces(objects: Snapshot) -> Iterator[Row]:
    for name, owner in objects.schemas.items():
        yield {"oid": objects.namespace(name), "nspname": name, "nspowner": objects.role(owner)}


def _classes(objects: Snapshot) -> Iterator[Row]:
    for shape in shapes().values():
        if shape.name == TYPE_NAMES:
            continue
        yield {
            "oid": shape.oid,
            "relname": shape.name,
            "relnamespace": _NAMESPACES[shape.schema],
            "relowner": objects.role("public"),
            "relkind": "r" if shape.name in _FILLED and shape.schema == PG_CATALOG else "v",
            "relpersistence": "p",
            "relnatts": len(shape.columns),
            "relispopulated": True,
            "relreplident": "n",
        }
    for item in objects.relations:
        yield {
            "oid": item.oid,
            "relname": item.relation.name.name,
            "relnamespace": item.namespace,
            "relowner": objects.role(item.relation.owner),
            "relam": _HEAP if item.kind in "rm" else 0,
            "reltuples": -1.0,
            "relpersistence": "p",
            "relkind": item.kind,
            "relnatts": len(item.relation.schema.columns),
            "relispopulated": True,
            "relreplident": "d",
        }


def _attributes(objects: Snapshot) -> Iterator[Row]:
    for item in objects.relations:
        for number, column in enumerate(item.relation.schema.columns, 1):
            oid = oid_of(column.type)
            size = KINDS[oid].size
            yield {
                "attrelid": item.oid,
                "attname": column.name,
                "atttypid": oid,
                "attlen": size,
                "attnum": number,
                "attcacheoff": -1,
                "atttypmod": modifier_of(column.type),
                "attalign": "i",
                "attstorage": "p" if size > 0 else "x",
                "attnotnull": not column.nullable,
                "attislocal": True,
                "attstattarget": -1,
                "attcollation": _COLLATION if KINDS[oid].category == "S" else 0,
            }


def _types(objects: Snapshot) -> Iterator[Row]:
    owner = objects.role("public")
    for oid, kind in KINDS.items():
        common = {
            "typnamespace": _NAMESPACES[PG_CATALOG],
            "typowner": owner,
            "typtype": "b",
            "typisdefined": True,
            "typdelim": ",",
            "typtypmod": -1,
            "typalign": "i",
        }
        yield {
            **common,
            "oid": oid,
            "typname": kind.name,
            "typlen": kind.size,
            "typbyval": 0 < kind.size <= 8,
            "typcategory": kind.category,
            "typarray": kind.array,
            "typinput": f"{kind.name}in",
            "typoutput": f"{kind.name}out",
            "typreceive": f"{kind.name}recv",
            "typsend": f"{kind.name}send",
            "typcollation": _COLLATION if kind.category == "S" else 0,
        }
        yield {
            **common,
            "oid": kind.array,
            "typname": f"_{kind.name}",
            "typlen": -1,
            "typcategory": _ELEMENT_OF_ARRAY,
            "typelem": oid,
            "typinput": "array_in",
            "typoutput": "array_out",
            "typreceive": "array_recv",
            "typsend": "array_send",
        }


def _descriptions(objects: Snapshot) -> Iterator[Row]:
    classes = shapes()[PG_CATALOG, "pg_class"].oid
    for item in objects.relations:
        if item.relation.description:
            yield {
                "objoid": item.oid,
                "classoid": classes,
                "objsubid": 0,
                "description": item.relation.description,
            }


def _foreign_tables(objects: Snapshot) -> Iterator[Row]:
    for item in objects.relations:
        if item.kind == _STREAM:
            yield {"ftrelid": item.oid, "ftserver": objects.oid(f"store {objects.store(item.relation)}")}


def _foreign_servers(objects: Snapshot) -> Iterator[Row]:
    stores = {objects.store(item.relation) for item in objects.relations if item.kind == _STREAM}
    for name in sorted(stores):
        yield {"oid": objects.oid(f"store {name}"), "srvname": name, "srvowner": objects.role("public")}


def _roles(objects: Snapshot) -> Iterator[Row]:
    for name in objects.roles:
        row = {"oid": objects.role(name), "rolname": name, "rolinherit": True, "rolconnlimit": -1}
        yield {**row, "rolcanlogin": name == objects.user}


def _users(objects: Snapshot) -> Iterator[Row]:
    yield {"usename": objects.user, "usesysid": objects.role(objects.user)}


def _settings(objects: Snapshot) -> Iterator[Row]:
    for name, value in objects.variables.items():
        yield {
            "name": name,
            "setting": value,
            "category": "",
            "short_desc": "",
            "context": "user",
            "vartype": "string",
        }


def _cursors(objects: Snapshot) -> Iterator[Row]:
    for cursor in objects.cursors:
        yield {
            "name": cursor.name,
            "statement": cursor.statement,
            "is_holdable": cursor.is_held,
            "creation_time": cursor.created.replace(tzinfo=None),
        }


def _tables(objects: Snapshot) -> Iterator[Row]:
    for item in objects.relations:
        if item.kind == "r":
            name = item.relation.name
            yield {"schemaname": name.schema, "tablename": name.name, "tableowner": item.relation.owner}


def _materialized_views(objects: Snapshot) -> Iterator[Row]:
    for item in objects.relations:
        if item.kind == "m":
            name, definition = item.relation.name, item.relation.definition
            yield {
                "schemaname": name.schema,
                "matviewname": name.name,
                "matviewowner": item.relation.owner,
                "ispopulated": True,
                "definition": definition.sql if definition else None,
            }


def _schemata(objects: Snapshot) -> Iterator[Row]:
    for name, owner in objects.schemas.items():
        yield {"catalog_name": objects.database, "schema_name": name, "schema_owner": owner}


def _standard_tables(objects: Snapshot) -> Iterator[Row]:
    for item in objects.relations:
        name = item.relation.name
        yield {
            "table_catalog": name.database,
            "table_schema": name.schema,
            "table_name": name.name,
            "table_type": _TABLE_TYPES[item.kind],
            "is_insertable_into": "NO",
            "is_typed": "NO",
        }


def _standard_views(objects: Snapshot) -> Iterator[Row]:
    for item in objects.relations:
        if item.kind in "mv":
            name, definition = item.relation.name, item.relation.definition
            yield {
                "table_catalog": name.database,
                "table_schema": name.schema,
                "table_name": name.name,
                "view_definition": definition.sql if definition else None,
                "is_updatable": "NO",
                "is_insertable_into": "NO",
            }


def _standard_columns(objects: Snapshot) -> Iterator[Row]:
    for item in objects.relations:
        name = item.relation.name
        for number, column in enumerate(item.relation.schema.columns, 1):
            oid, kind = oid_of(column.type), column.type
            udt = KINDS[oid].name
            yield {
                "table_catalog": name.database,
                "table_schema": name.schema,
                "table_name": name.name,
                "column_name": column.name,
                "ordinal_position": number,
                "is_nullable": "YES" if column.nullable else "NO",
                "data_type": types.type_name(oid),
                "character_maximum_length": getattr(kind, "length", None),
                "numeric_precision": getattr(kind, "precision", None) if oid == types.NUMERIC else None,
                "numeric_scale": getattr(kind, "scale", None),
                "datetime_precision": getattr(kind, "digits", None),
                "udt_catalog": name.database,
                "udt_schema": PG_CATALOG,
                "udt_name": udt,
                "is_identity": "NO",
                "is_generated": "NEVER",
                "is_updatable": "NO",
            }


def _fixed(*rows: Row) -> Callable[[Snapshot], Iterable[Row]]:
    return lambda _objects: rows


_FILLED: dict[str, Callable[[Snapshot], Iterable[Row]]] = {
    "pg_am": _fixed({"oid": _HEAP, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}),
    "pg_attribute": _attributes,
    "pg_class": _classes,
    "pg_collation": _fixed(
        {"oid": _COLLATION, "collname": "default", "collnamespace": 11, "collprovider": "d"}
    ),
    "pg_cursors": _cursors,
    "pg_database": _databases,
    "pg_description": _descriptions,
    "pg_foreign_server": _foreign_servers,
    "pg_foreign_table": _foreign_tables,
    "pg_matviews": _materialized_views,
    "pg_namespace": _namespaces,
    "pg_roles": _roles,
    "pg_settings": _settings,
    "pg_tables": _tables,
    TYPE_NAMES: _fixed(*({"oid": oid, "name": types.type_name(oid)} for oid in (*KINDS, *types.ELEMENTS))),
    "pg_tablespace": _fixed({"oid": _TABLESPACE, "spcname": "pg_default"}),
    "pg_type": _types,
    "pg_user": _users,
    "columns": _standard_columns,
    "schemata": _schemata,
    "tables": _standard_tables,
    "views": _standard_views,
}
"""The relations that have rows; all others are empty. No name is in both schemas."""


def rows_of(shape: Shape, objects: Snapshot) -> Iterable[Row]:
    """Return the rows of a relation, each a value for some of its columns."""
    filled = _FILLED.get(shape.name)
    return filled(objects) if filled is not None else ()
