"""The properties of an Oracle store and of its relations.

Source: dialect sections 6.1 and 9.1. All values are hostile user input: only host, port and service of 'uris' are used, and neither
they nor names can add anything to the driver's connect descriptor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.connectors import addresses
from headrace.connectors.table_columns import new_table
from headrace.connectors.tls import CLIENT_TLS, TLS, TLS_DISABLED, client_tls_properties, tls_properties
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import LINE, PropertyReader, PropertySpec, PropertyType, Scope, Specs, matching
from headrace.core.sqlstate import SqlState

_FORM = "oracle://host:1521/service"
_SERVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.$#-]{0,254}\Z")
_PORT, _TLS_PORT = 1521, 2484


@dataclass(frozen=True)
class Address:
    """Address of a database; None is the default port."""

    host: str
    port: int | None
    service: str

    def port_of(self, *, secure: bool) -> int:
        """Return the port to connect to."""
        return self.port or (_TLS_PORT if secure else _PORT)


def address(uris: str) -> Address:
    """Parse a store's 'uris'; raises ValueError for anything but host, port and service."""
    user = "'oracle.username' and 'oracle.password'"
    url = addresses.read(uris, _FORM, schemes=("oracle",), instead_of_user=user)
    if not _SERVICE.match(url.path):
        raise ValueError(f"expected {_FORM}, found {uris!r}")
    return Address(url.host, url.port, url.path)


def _uris(text: str) -> str:
    address(text)
    return text.strip()


def _service(text: str) -> str:
    if not _SERVICE.match(text.strip()):
        raise ValueError(text)
    return text.strip()


URIS = PropertySpec(
    "uris",
    PropertyType("", _uris),
    Scope.STORE,
    f"the database's listener and service, as `{_FORM}`; the default port is 1521, with TLS 2484",
    default="needed",
)
USERNAME = PropertySpec(
    "oracle.username",
    # The driver parses a name in brackets as a proxy: the user whose identity the session assumes.
    matching(r'[^\[\]"\x00-\x1f\x7f]{1,128}', "a user's name, without brackets and double quotes"),
    Scope.STORE,
    "the user",
    default="needed",
)
PASSWORD = PropertySpec(
    "oracle.password", LINE, Scope.STORE, "the user's password", default="needed", secret=True
)
_OVER = Scope.RELATION | Scope.SINK
DATABASE = PropertySpec(
    "oracle.db.name",
    PropertyType("the name of a service, as ORCLPDB1", _service),
    _OVER,
    "the service of the table's database, at the same listener",
    default="that of `uris`",
)
SCHEMA = PropertySpec("oracle.schema.name", LINE, _OVER, "the table's schema", default="needed")
TABLE = PropertySpec("oracle.table.name", LINE, _OVER, "the table", default="the relation's name")
NEW_TABLE = new_table("oracle")
PROPERTIES: Specs = (
    URIS,
    USERNAME,
    PASSWORD,
    *TLS,
    *CLIENT_TLS,
    DATABASE,
    SCHEMA,
    TABLE,
    *NEW_TABLE.specs,
)


def server(store: Mapping[str, str]) -> str:
    """Return host and port of a store, for showing."""
    place = address(store[URIS.name])
    return f"{place.host}:{place.port_of(secure=store[TLS_DISABLED.name] != 'TRUE')}"


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    properties = {spec.name: reader.require(spec) for spec in (URIS, USERNAME, PASSWORD)}
    return properties | tls_properties(reader) | client_tls_properties(reader)


def read_path(reader: PropertyReader, relation: str) -> EntityPath:
    """Return the path of a relation's table: ("schema", "table"), with the service first if it is specified. Raises UserError 3D021."""
    service = reader.take(DATABASE)
    path = (reader.require(SCHEMA), reader.take(TABLE) or relation)
    return (service, *path) if service else path


def wrong_path(path: EntityPath, expected: str) -> UserError:
    """Return error 3D008 for an unexpected path."""
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"expected {expected}, found {'.'.join(path) or 'nothing'}",
        hint="LIST ENTITIES shows schemas, LIST ENTITIES IN schema the tables.",
    )
