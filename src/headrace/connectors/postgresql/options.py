"""The properties of a PostgreSQL store and of what is over it.

Source: dialect sections 6.1, 8 and 9.1. All of it is user input and hostile: of 'uris' only host, port and database are taken, and
no parameter of libpq can be given in any other way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote, urlsplit

from headrace.connectors.tls import CLIENT_TLS, TLS, TLS_CA, TLS_VERIFY, client_tls_properties, tls_properties
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import TEXT, PropertyReader, PropertySpec, PropertyType, Scope, Specs
from headrace.core.schema import Column
from headrace.core.types import Struct, parse_type

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9])?\Z|[0-9A-Fa-f:.]+\Z")
_FORM = "postgresql://host:5432/database"
DEFAULT_PORT = 5432


@dataclass(frozen=True)
class Address:
    """Where a database is."""

    host: str
    port: int
    database: str


def address(uris: str) -> Address:
    """What a store's 'uris' say; raises ValueError for anything but host, port and database."""
    parts = urlsplit(uris.strip())
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise ValueError(f"expected a port from 1 to 65535 in {_FORM}") from None
    host, database = parts.hostname or "", unquote(parts.path.removeprefix("/"))
    # Nothing of a user's name or password is repeated.
    if "@" in parts.netloc:
        raise ValueError("expected no user in it: use 'postgres.username' and 'postgres.password'")
    strange = parts.query or parts.fragment or "/" in database or "\0" in database
    if parts.scheme not in ("postgresql", "postgres") or strange or not database or not _HOST.match(host):
        raise ValueError(f"expected {_FORM}, found {uris!r}")
    return Address(host, port, database)


def _uris(text: str) -> str:
    address(text)
    return text.strip()


def _slot(text: str) -> str:
    if not re.match(r"[a-z0-9_]{1,63}\Z", text):
        raise ValueError(f"expected up to 63 lower-case letters, digits and '_', found {text!r}")
    return text


def _table_list(text: str) -> tuple[tuple[str, str], ...]:
    names = [tuple(part.strip() for part in name.split(".")) for name in text.split(",")]
    found = [(name[0], name[1]) for name in names if len(name) == 2 and all(name)]
    if len(found) < len(names) or len(set(found)) < len(found):
        raise ValueError(f"expected tables as schema.table, each once, separated by commas, found {text!r}")
    return tuple(found)


def _columns(text: str) -> tuple[Column, ...]:
    try:
        kind = parse_type(f"STRUCT<{text}>")
    except UserError as error:
        raise ValueError(f"expected names with types, as 'id BIGINT, name VARCHAR': {error}") from None
    return tuple(Column(name, field) for name, field in cast(Struct, kind).fields)


URIS = PropertySpec(
    "uris",
    PropertyType("", _uris),
    Scope.STORE,
    f"the database, as `{_FORM}`; nothing else is taken",
    default="needed",
)
USERNAME = PropertySpec("postgres.username", TEXT, Scope.STORE, "the user", default="needed")
PASSWORD = PropertySpec(
    "postgres.password", TEXT, Scope.STORE, "the user's password", default="needed", secret=True
)
_OVER = Scope.RELATION | Scope.SINK
DATABASE = PropertySpec("postgresql.db.name", TEXT, _OVER, "the table's database", default="that of `uris`")
SCHEMA = PropertySpec("postgresql.schema.name", TEXT, _OVER, "the table's schema", default="public")
TABLE = PropertySpec("postgresql.table.name", TEXT, _OVER, "the table", default="the relation's name")
TABLE_LIST = PropertySpec(
    "postgresql.cdc.table.list",
    PropertyType("", _table_list),
    Scope.RELATION | Scope.SOURCE,
    "in place of one table, for a stream: tables of `postgresql.db.name`, as `'public.a, test.b'`, whose changes come together",
    default="none",
)
SLOT = PropertySpec(
    "postgresql.slot.name",
    PropertyType("", _slot),
    Scope.SOURCE,
    "the replication slot, and the publication of the same name, that a query reads by; they are made if they are missing, and stay when "
    "the query is terminated",
    default="needed",
)
COLUMNS = PropertySpec(
    "postgresql.columns",
    PropertyType("", _columns),
    Scope.ENTITY,
    "of a table that is made: names and types of this dialect, as `'id BIGINT, name VARCHAR'`",
    default="needed",
)
PRIMARY_KEY = PropertySpec(
    "postgresql.primary.key",
    TEXT,
    Scope.ENTITY,
    "of a table that is made: columns of its primary key, separated by commas",
    default="none",
)
PROPERTIES: Specs = (
    *(URIS, USERNAME, PASSWORD, *TLS, *CLIENT_TLS),
    *(DATABASE, SCHEMA, TABLE, TABLE_LIST, SLOT, COLUMNS, PRIMARY_KEY),
)


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    properties = {spec.name: reader.require(spec) for spec in (URIS, USERNAME, PASSWORD)}
    properties |= tls_properties(reader)
    if properties[TLS_VERIFY.name] == "FALSE" and TLS_CA.name not in properties:
        # Anybody has a certificate of a public authority for some name.
        raise reader.bad(TLS_VERIFY, f"TRUE unless '{TLS_CA.name}' says whom to trust")
    return properties | client_tls_properties(reader)


def read_path(reader: PropertyReader, relation: str) -> EntityPath:
    """The table that a relation is over: ("schema", "table"), before them the database if it is given. Of a list of tables: ("database",).

    Raises UserError 3D021 for a list without a database, 3D008 for a list beside a table.
    """
    if reader.gives(TABLE_LIST):
        other = next((spec for spec in (SCHEMA, TABLE) if reader.gives(spec)), None)
        if other is not None:
            raise reader.bad(other, f"left out where '{TABLE_LIST.name}' is given")
        return (reader.require(DATABASE),)
    schema, table = reader.take(SCHEMA) or "public", reader.take(TABLE) or relation
    database = reader.take(DATABASE)
    return (database, schema, table) if database else (schema, table)


def source_options(reader: PropertyReader) -> dict[str, str]:
    """What a query reads by: its slot, and the tables of a list."""
    found = {}
    slot, tables = reader.take(SLOT), reader.take(TABLE_LIST)
    if slot is not None:
        found[SLOT.name] = slot
    if tables is not None:
        found[TABLE_LIST.name] = ", ".join(".".join(name) for name in tables)
    return found


def read_table(reader: PropertyReader) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Columns and primary key of a table that is to be made; raises UserError 3D008 / 3D021."""
    columns = reader.require(COLUMNS)
    names = [column.name for column in columns]
    key = tuple(name.strip() for name in (reader.take(PRIMARY_KEY) or "").split(",") if name.strip())
    if any(name not in names for name in key) or len(set(key)) < len(key):
        raise reader.bad(PRIMARY_KEY, f"names of columns, each once, of {', '.join(names)}")
    return columns, key
