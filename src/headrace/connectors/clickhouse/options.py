"""The properties of a ClickHouse store and of what is over it.

Source: dialect sections 6.1, 8 and 9.1. All of it is user input and hostile: of 'uris' only host, port and database are taken, and
no setting of ClickHouse can be given in any other way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote, urlsplit

from headrace.connectors.tls import TLS, TLS_CA, TLS_DISABLED, TLS_VERIFY, tls_properties
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import TEXT, PropertyReader, PropertySpec, PropertyType, Scope, Specs
from headrace.core.schema import Column
from headrace.core.types import Struct, parse_type

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9])?\Z|[0-9A-Fa-f:.]+\Z")
_SCHEMES = ("clickhouse", "https", "http")
_FORM = "jdbc:clickhouse://host:8443/database"
_PORTS = {True: 8443, False: 8123}
DEFAULT_DATABASE = "default"


@dataclass(frozen=True)
class Address:
    """Where a database is; `port` is None where it is the usual one."""

    host: str
    port: int | None
    database: str


def address(uris: str) -> Address:
    """What a store's 'uris' say; raises ValueError for anything but host, port and database."""
    parts = urlsplit(uris.strip().removeprefix("jdbc:"))
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"expected a port from 1 to 65535 in {_FORM}") from None
    host, database = parts.hostname or "", unquote(parts.path.removeprefix("/"))
    # Nothing of a user's name or password is repeated.
    if "@" in parts.netloc:
        raise ValueError("expected no user in it: use 'clickhouse.username' and 'clickhouse.password'")
    strange = parts.query or parts.fragment or "/" in database or "\0" in database or port == 0
    if parts.scheme not in _SCHEMES or strange or not _HOST.match(host):
        raise ValueError(f"expected {_FORM}, found {uris!r}")
    return Address(host, port, database or DEFAULT_DATABASE)


def base_url(store: Mapping[str, str]) -> str:
    """Of a store's HTTP interface, without a slash at its end."""
    place = address(store[URIS.name])
    secure = store[TLS_DISABLED.name] != "TRUE"
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"{'https' if secure else 'http'}://{host}:{place.port or _PORTS[secure]}"


def _uris(text: str) -> str:
    address(text)
    # Without "jdbc:" it is a URL like any other, whose host the rules of egress see.
    return text.strip().removeprefix("jdbc:")


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
    f"the server, as `{_FORM}`, with the port of its HTTP interface; nothing else is taken. Without a database it is "
    f"`{DEFAULT_DATABASE}`",
    default="needed",
)
USERNAME = PropertySpec("clickhouse.username", TEXT, Scope.STORE, "the user", default="needed")
PASSWORD = PropertySpec(
    "clickhouse.password", TEXT, Scope.STORE, "the user's password", default="needed", secret=True
)
_OVER = Scope.RELATION | Scope.SINK
DATABASE = PropertySpec("clickhouse.db.name", TEXT, _OVER, "the table's database", default="that of `uris`")
TABLE = PropertySpec("clickhouse.table.name", TEXT, _OVER, "the table", default="the relation's name")
COLUMNS = PropertySpec(
    "clickhouse.columns",
    PropertyType("", _columns),
    Scope.ENTITY,
    "of a table that CREATE ENTITY makes: names and types of this dialect, as `'id BIGINT, name VARCHAR'`",
    default="needed",
)
PRIMARY_KEY = PropertySpec(
    "clickhouse.primary.key",
    TEXT,
    Scope.ENTITY,
    "of a table that CREATE ENTITY makes: columns of its primary key, separated by commas; the table then keeps the newest row of each key",
    default="none",
)
PROPERTIES: Specs = (*(URIS, USERNAME, PASSWORD, *TLS), *(DATABASE, TABLE, COLUMNS, PRIMARY_KEY))


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    properties = {spec.name: reader.require(spec) for spec in (URIS, USERNAME, PASSWORD)}
    properties |= tls_properties(reader)
    plain, scheme = properties[TLS_DISABLED.name] == "TRUE", properties[URIS.name].partition(":")[0]
    if scheme == ("https" if plain else "http"):
        raise reader.bad(
            URIS,
            f"{_FORM}, or {'http' if plain else 'https'}://…, as '{TLS_DISABLED.name}' is {str(plain).upper()}",
        )
    if properties[TLS_VERIFY.name] == "FALSE" and TLS_CA.name not in properties:
        # Anybody has a certificate of a public authority for some name.
        raise reader.bad(TLS_VERIFY, f"TRUE unless '{TLS_CA.name}' says whom to trust")
    return properties


def read_path(reader: PropertyReader, relation: str) -> EntityPath:
    """The table that a relation is over: ("table",) of the store's own database, or ("database", "table")."""
    database, table = reader.take(DATABASE), reader.take(TABLE) or relation
    return (database, table) if database else (table,)


def read_table(reader: PropertyReader) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Columns and primary key of a table that is to be made; raises UserError 3D008 / 3D021."""
    columns = reader.require(COLUMNS)
    names = [column.name for column in columns]
    key = tuple(name.strip() for name in (reader.take(PRIMARY_KEY) or "").split(",") if name.strip())
    if any(name not in names for name in key) or len(set(key)) < len(key):
        raise reader.bad(PRIMARY_KEY, f"names of columns, each once, of {', '.join(names)}")
    return columns, key
