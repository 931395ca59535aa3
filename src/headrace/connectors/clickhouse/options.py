"""The properties of a ClickHouse store and of its relations.

Source: dialect sections 6.1, 8 and 9.1. All values are hostile user input: only host, port and database of 'uris' are used, and
users cannot set any setting of ClickHouse.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.connectors.addresses import WEB, Database, read_database
from headrace.connectors.table_columns import new_table
from headrace.connectors.tls import TLS, TLS_CA, TLS_DISABLED, TLS_VERIFY, tls_properties
from headrace.core.names import EntityPath
from headrace.core.properties import LINE, LOGIN, PropertyReader, PropertySpec, PropertyType, Scope, Specs

_FORM = "jdbc:clickhouse://host:8443/database"
_PORTS = {True: 8443, False: 8123}
DEFAULT_DATABASE = "default"


def address(uris: str) -> Database:
    """Parse a store's 'uris'; raises ValueError for anything but host, port and database."""
    return read_database(
        uris.strip().removeprefix("jdbc:"),
        _FORM,
        schemes=("clickhouse", *WEB),
        instead_of_user="'clickhouse.username' and 'clickhouse.password'",
        default=DEFAULT_DATABASE,
    )


def base_url(store: Mapping[str, str]) -> str:
    """Return the address of a store's HTTP interface, without a slash at its end."""
    place = address(store[URIS.name])
    secure = store[TLS_DISABLED.name] != "TRUE"
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"{'https' if secure else 'http'}://{host}:{place.port or _PORTS[secure]}"


def _uris(text: str) -> str:
    address(text)
    # Without "jdbc:" it is a normal URL, so that the egress rules see its host.
    return text.strip().removeprefix("jdbc:")


URIS = PropertySpec(
    "uris",
    PropertyType("", _uris),
    Scope.STORE,
    f"the server, as `{_FORM}`, with the port of its HTTP interface; nothing else is accepted. The default database is "
    f"`{DEFAULT_DATABASE}`",
    default="needed",
)
USERNAME = PropertySpec("clickhouse.username", LOGIN, Scope.STORE, "the user", default="needed")
PASSWORD = PropertySpec(
    "clickhouse.password", LINE, Scope.STORE, "the user's password", default="needed", secret=True
)
_OVER = Scope.RELATION | Scope.SINK
DATABASE = PropertySpec("clickhouse.db.name", LINE, _OVER, "the table's database", default="that of `uris`")
TABLE = PropertySpec("clickhouse.table.name", LINE, _OVER, "the table", default="the relation's name")
NEW_TABLE = new_table("clickhouse", keyed="with a key, the table keeps only the newest row of each key")
PROPERTIES: Specs = (URIS, USERNAME, PASSWORD, *TLS, DATABASE, TABLE, *NEW_TABLE.specs)


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    properties = {spec.name: reader.require(spec) for spec in (URIS, USERNAME, PASSWORD)}
    properties |= tls_properties(reader)
    plain, scheme = properties[TLS_DISABLED.name] == "TRUE", properties[URIS.name].partition(":")[0]
    if scheme == ("https" if plain else "http"):
        raise reader.bad(
            URIS,
            f"{_FORM}, or {'http' if plain else 'https'}://…, as '{TLS_DISABLED.name}' is {str(plain).upper()}",
        )
    if not plain and properties[TLS_VERIFY.name] == "FALSE" and TLS_CA.name not in properties:
        # Anybody has a certificate of a public authority for some name.
        raise reader.bad(TLS_VERIFY, f"TRUE unless '{TLS_CA.name}' specifies the authorities to trust")
    return properties


def read_path(reader: PropertyReader, relation: str) -> EntityPath:
    """Return the table that a relation is over: ("table",) of the store's own database, or ("database", "table")."""
    database, table = reader.take(DATABASE), reader.take(TABLE) or relation
    return (database, table) if database else (table,)
