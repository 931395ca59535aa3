"""The properties of a PostgreSQL store and of its relations.

Source: dialect sections 6.1, 8 and 9.1. All values are hostile user input: only host, port and database of 'uris' are used, and
users cannot set other parameters of libpq. Public clients send addresses with parameters, which are stored and have no effect.
Parameters for the address, the user or the encryption of the connection are refused, so that users do not rely on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.connectors.addresses import Database, read_database
from headrace.connectors.table_columns import new_table
from headrace.connectors.tls import (
    CLIENT_TLS,
    TLS,
    TLS_CA,
    TLS_DISABLED,
    TLS_VERIFY,
    client_tls_properties,
    tls_properties,
)
from headrace.core.names import EntityPath
from headrace.core.properties import LINE, PropertyReader, PropertySpec, PropertyType, Scope, Specs

_FORM = "postgresql://host:5432/database"
DEFAULT_PORT = 5432
_PARAMETER = re.compile(r"[a-z_]{1,63}=[A-Za-z0-9_.:/+-]{0,255}\Z")
_PROPERTY_OF = {
    **dict.fromkeys(("host", "hostaddr", "port", "dbname"), "the address itself"),
    **dict.fromkeys(("user", "password", "passfile"), "'postgres.username' and 'postgres.password'"),
    **dict.fromkeys(("sslcert", "sslkey", "sslpassword"), "'tls.client.cert_file' and 'tls.client.key_file'"),
    **dict.fromkeys(("sslrootcert", "sslcrl", "sslcrldir"), "'tls.ca_cert_file'"),
    **dict.fromkeys(("service", "servicefile", "options", "replication"), "no property: Headrace sets it"),
}
_SSL_MODES = {
    "disable": "TRUE",
    **dict.fromkeys(("require", "verify-ca", "verify-full"), "FALSE"),
    **dict.fromkeys(("allow", "prefer"), None),
}
"""Values of sslmode, and what 'tls.disabled' has to be beside them; None: either."""


def address(uris: str) -> Database:
    """Parse a store's 'uris'; raises ValueError for anything but host, port, database, and harmless parameters."""
    place, _, _ = uris.partition("?")
    _parameters(uris)
    return read_database(
        place,
        _FORM,
        schemes=("postgresql", "postgres"),
        instead_of_user="'postgres.username' and 'postgres.password'",
        port=DEFAULT_PORT,
    )


def _parameters(uris: str) -> dict[str, str]:
    """Return the parameters after an address. Raises ValueError, without the value, for a parameter that a property sets."""
    _, _, text = uris.strip().partition("?")
    parameters = {}
    for part in text.split("&") if text else ():
        name, _, value = part.partition("=")
        if name in _PROPERTY_OF:
            raise ValueError(f"expected no parameter {name} in it: use {_PROPERTY_OF[name]}")
        if not _PARAMETER.match(part) or (name == "sslmode" and value not in _SSL_MODES):
            raise ValueError(
                f"expected {_FORM}, or parameters of PostgreSQL behind it as ?name=value&name=value"
            )
        parameters[name] = value
    return parameters


def _uris(text: str) -> str:
    address(text)
    return text.strip()


def _slot(text: str) -> str:
    if not re.match(r"[a-z0-9_]{1,63}\Z", text):
        raise ValueError(f"expected up to 63 lower-case letters, digits and '_', found {text!r}")
    return text


def _table_list(text: str) -> tuple[tuple[str, str], ...]:
    names = [tuple(part.strip() for part in name.split(".")) for name in text.split(",")]
    tables = [(name[0], name[1]) for name in names if len(name) == 2 and all(name)]
    if len(tables) < len(names) or len(set(tables)) < len(tables):
        raise ValueError(f"expected tables as schema.table, each once, separated by commas, found {text!r}")
    return tuple(tables)


URIS = PropertySpec(
    "uris",
    PropertyType("", _uris),
    Scope.STORE,
    f"the database, as `{_FORM}`. Parameters after it, `?name=value`, are stored and have no effect; parameters that set "
    "the address, the user or the encryption of the connection are refused",
    default="needed",
)
USERNAME = PropertySpec("postgres.username", LINE, Scope.STORE, "the user", default="needed")
PASSWORD = PropertySpec(
    "postgres.password", LINE, Scope.STORE, "the user's password", default="needed", secret=True
)
_OVER = Scope.RELATION | Scope.SINK
DATABASE = PropertySpec("postgresql.db.name", LINE, _OVER, "the table's database", default="that of `uris`")
SCHEMA = PropertySpec("postgresql.schema.name", LINE, _OVER, "the table's schema", default="public")
TABLE = PropertySpec("postgresql.table.name", LINE, _OVER, "the table", default="the relation's name")
TABLE_LIST = PropertySpec(
    "postgresql.cdc.table.list",
    PropertyType("", _table_list),
    Scope.RELATION | Scope.SOURCE,
    "instead of one table, for a stream: tables of `postgresql.db.name`, as `'public.a, test.b'`, whose changes are read together",
    default="none",
)
SLOT = PropertySpec(
    "postgresql.slot.name",
    PropertyType("", _slot),
    Scope.SOURCE,
    "the replication slot that a query reads, and the publication of the same name. They are created if they are missing, and remain when "
    "the query is terminated",
    default="needed",
)
NEW_TABLE = new_table("postgresql")
PROPERTIES: Specs = (
    URIS,
    USERNAME,
    PASSWORD,
    *TLS,
    *CLIENT_TLS,
    DATABASE,
    SCHEMA,
    TABLE,
    TABLE_LIST,
    SLOT,
    *NEW_TABLE.specs,
)


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    properties = {spec.name: reader.require(spec) for spec in (URIS, USERNAME, PASSWORD)}
    properties |= tls_properties(reader)
    disabled = properties[TLS_DISABLED.name]
    expected = _SSL_MODES[_parameters(properties[URIS.name]).get("sslmode", "prefer")]
    if expected not in (None, disabled):
        raise reader.bad(TLS_DISABLED, f"{expected} beside the sslmode of '{URIS.name}'")
    if disabled == "FALSE" and properties[TLS_VERIFY.name] == "FALSE" and TLS_CA.name not in properties:
        # Anybody has a certificate of a public authority for some name.
        raise reader.bad(TLS_VERIFY, f"TRUE unless '{TLS_CA.name}' specifies the authorities to trust")
    return properties | client_tls_properties(reader)


def read_path(reader: PropertyReader, relation: str) -> EntityPath:
    """Return the path of a relation's table: ("schema", "table"), with the database first if it is specified. For a list of tables, return
    ("database",).

    Raises UserError 3D021 for a list without a database, 3D008 for a list together with a table.
    """
    if reader.is_set(TABLE_LIST):
        other = next((spec for spec in (SCHEMA, TABLE) if reader.is_set(spec)), None)
        if other is not None:
            raise reader.bad(other, f"left out if '{TABLE_LIST.name}' is specified")
        return (reader.require(DATABASE),)
    schema, table = reader.take(SCHEMA) or "public", reader.take(TABLE) or relation
    database = reader.take(DATABASE)
    return (database, schema, table) if database else (schema, table)


def slot_place(store: Mapping[str, str], options: Mapping[str, str]) -> str:
    """Return the replication slot of a query, which is one of its whole server, and where that is."""
    place = address(store[URIS.name])
    return f"the replication slot {options[SLOT.name]} of {place.host}:{place.port}"


def source_options(reader: PropertyReader) -> dict[str, str]:
    """Return how a query reads: its slot, and the tables of a list."""
    options = {}
    slot, tables = reader.take(SLOT), reader.take(TABLE_LIST)
    if slot is not None:
        options[SLOT.name] = slot
    if tables is not None:
        options[TABLE_LIST.name] = ", ".join(".".join(name) for name in tables)
    return options
