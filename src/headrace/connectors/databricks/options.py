"""The properties of a Databricks store and of its relations.

Source: dialect sections 6.1 and 9.1. All values are hostile user input: only the host of 'uris' is used, and only the declared properties
reach the client, the warehouse's session or a statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from headrace.connectors import addresses, aws
from headrace.connectors.table_columns import new_table
from headrace.connectors.tls import TLS_CA, TLS_DISABLED
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import (
    LINE,
    MILLISECONDS,
    PropertyReader,
    PropertySpec,
    PropertyType,
    Scope,
    Specs,
    matching,
    number,
)
from headrace.core.sqlstate import SqlState

_FORM = "https://workspace.cloud.databricks.com"
_LOCATION = re.compile(
    r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<folder>(?:/[\w !@+=:.,()&$-]+)*)/*\Z"
)
_REGION = re.compile(r"(?:AWS[ _])?([a-z]{2,}(?:[-_][a-z]+)+[-_]\d+)\Z", re.IGNORECASE)
_STAGING = "headrace"
IDENTITY = aws.identity("aws")


def _uris(text: str) -> str:
    user = f"'{TOKEN.name}', or '{CLIENT_ID.name}'"
    url = addresses.read(text, f"{_FORM} (a port is '{PORT.name}')", instead_of_user=user)
    if url.path or url.port:
        raise ValueError(f"expected {_FORM} (a port is '{PORT.name}'), found {text!r}")
    return url.origin


def _region(text: str) -> str:
    match = _REGION.match(text.strip())
    if match is None:
        raise ValueError(text)
    return match[1].lower().replace("_", "-")


def _endpoint(text: str) -> str:
    url = addresses.read(text, "http(s)://host:port")
    if url.path:
        raise ValueError(f"expected http(s)://host:port, found {text!r}")
    return url.origin


def _location(text: str) -> str:
    match = _LOCATION.match(text.strip())
    if match is None or any(part in (".", "..") for part in match["folder"].split("/")):
        raise ValueError(f"expected s3://bucket/folder/, found {text!r}")
    return f"s3://{match['bucket']}{match['folder']}"


URIS = PropertySpec(
    "uris",
    PropertyType("", _uris),
    Scope.STORE,
    f"the workspace, as `{_FORM}`. `http` requires `tls.disabled`",
    default="needed",
)
PORT = PropertySpec(
    "databricks.warehouse_port",
    number(1, 65535, "a port from 1 to 65535"),
    Scope.STORE,
    "the workspace's port",
    default="443",
)
WAREHOUSE = PropertySpec(
    "databricks.warehouse_id",
    matching(r"[\w-]{1,64}", "the id of a SQL warehouse, as 4a3b2c1d0e9f8a7b"),
    Scope.STORE,
    "the SQL warehouse that runs statements: the last part of its HTTP path",
    default="needed",
)
TOKEN = PropertySpec(
    "databricks.app_token",
    matching(r"[!-~]{1,8192}", "a token"),
    Scope.STORE,
    "a personal access token",
    default="needed without a client",
    secret=True,
)
CLIENT_ID = PropertySpec(
    "databricks.oauth.client_id",
    matching(r"[\w.@-]{1,256}", "a service principal's id"),
    Scope.STORE,
    "instead of a token: a service principal, for which the server requests tokens by OAuth (client credentials)",
    default="none",
)
CLIENT_SECRET = PropertySpec(
    "databricks.oauth.client_secret",
    matching(r"[!-~]{1,1024}", "a secret"),
    Scope.STORE,
    "its secret",
    default="needed with an id",
    secret=True,
)
BUCKET = PropertySpec(
    "databricks.cloud.s3.bucket",
    matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "a bucket's name"),
    Scope.STORE,
    "the bucket through which rows are loaded, and which contains tables with a location. Unity Catalog needs an external location for it",
    default="needed",
)
REGION = PropertySpec(
    "databricks.cloud.region",
    PropertyType("a region, as AWS us-west-2", _region),
    Scope.STORE,
    "the bucket's region, as `AWS us-west-2`",
    default="needed",
)
S3_ENDPOINT = PropertySpec(
    "databricks.cloud.s3.endpoint",
    PropertyType("", _endpoint),
    Scope.STORE,
    "the address of another service with S3's protocol",
    default="AWS's own",
)
_OVER = Scope.RELATION | Scope.SINK
_MADE = Scope.ENTITY | _OVER
CATALOG = PropertySpec("databricks.catalog.name", LINE, _OVER, "the table's catalog", default="needed")
SCHEMA = PropertySpec("databricks.schema.name", LINE, _OVER, "the table's schema", default="needed")
TABLE = PropertySpec("databricks.table.name", LINE, _OVER, "the table", default="the relation's name")
LOCATION = PropertySpec(
    "table.data.file.location",
    PropertyType("", _location),
    _MADE,
    "the location of the files of a created table, as `s3://bucket/folder/`, within the store's bucket",
    default="a managed table, whose location Unity Catalog chooses",
)
COMMIT_INTERVAL = PropertySpec(
    "databricks.commit.interval.ms",
    MILLISECONDS,
    _OVER | Scope.INSERT,
    "the minimum time between two commits of a query that is up to date. Each commit is a statement of the warehouse, and creates files",
    default="30000",
)
NEW_TABLE = new_table("databricks", needed="needed for a table")
_WORKSPACE: Specs = (URIS, TLS_DISABLED, TLS_CA, PORT, WAREHOUSE, TOKEN, CLIENT_ID, CLIENT_SECRET)
_KEYS: tuple[PropertySpec[str], ...] = (
    IDENTITY.access_key_id,
    IDENTITY.secret_access_key,
    IDENTITY.role,
    IDENTITY.external_id,
)
STORE: Specs = (*_WORKSPACE, BUCKET, REGION, S3_ENDPOINT, *_KEYS)
PROPERTIES: Specs = (
    *STORE,
    CATALOG,
    SCHEMA,
    TABLE,
    LOCATION,
    COMMIT_INTERVAL,
    *NEW_TABLE.specs,
)


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    uris, plain = reader.require(URIS), reader.take(TLS_DISABLED) is True
    if uris.startswith("http:") is not plain:
        raise reader.bad(
            URIS, f"{'http' if plain else 'https'}://…, as '{TLS_DISABLED.name}' is {str(plain).upper()}"
        )
    texts = {URIS.name: uris, TLS_DISABLED.name: str(plain).upper()}
    needed: tuple[PropertySpec[str], ...] = (WAREHOUSE, BUCKET, REGION)
    texts |= {spec.name: reader.require(spec) for spec in needed}
    port = reader.take(PORT)
    texts[PORT.name] = str(port or 443)
    others: tuple[PropertySpec[str], ...] = (TLS_CA, TOKEN, CLIENT_ID, CLIENT_SECRET, S3_ENDPOINT, *_KEYS)
    texts |= {spec.name: value for spec in others if (value := reader.take(spec)) is not None}
    pairs = (
        (CLIENT_ID, CLIENT_SECRET),
        (IDENTITY.access_key_id, IDENTITY.secret_access_key),
        (IDENTITY.role, IDENTITY.external_id),
    )
    for one, other in (*pairs, *(pair[::-1] for pair in pairs)):
        if one.name in texts:
            reader.require(other, hint=f"'{one.name}' requires '{other.name}'.")
    if CLIENT_ID.name not in texts:
        reader.require(TOKEN, hint=f"Or specify '{CLIENT_ID.name}' and '{CLIENT_SECRET.name}'.")
    elif TOKEN.name in texts:
        raise reader.bad(TOKEN, f"left out if '{CLIENT_ID.name}' is specified")
    if IDENTITY.role.name not in texts:
        reader.require(
            IDENTITY.access_key_id, hint=f"Or '{IDENTITY.role.name}' and '{IDENTITY.external_id.name}'."
        )
    elif IDENTITY.access_key_id.name not in texts and S3_ENDPOINT.name in texts:
        # Requests that the server's own identity signs are sent to AWS only.
        raise reader.bad(
            IDENTITY.role, f"with '{IDENTITY.access_key_id.name}' where '{S3_ENDPOINT.name}' is given"
        )
    return texts


def read_path(reader: PropertyReader, relation: str) -> EntityPath:
    """Return the table that a relation is over: its catalog, schema and name; raises UserError 3D021."""
    return reader.require(CATALOG), reader.require(SCHEMA), reader.take(TABLE) or relation


def sink_options(reader: PropertyReader) -> dict[str, str]:
    """Return how a query writes, and the declared location of the table."""
    interval, location = reader.take(COMMIT_INTERVAL), reader.take(LOCATION)
    options = {COMMIT_INTERVAL.name: str(30_000 if interval is None else interval)}
    return options if location is None else options | {LOCATION.name: location}


def within_bucket(store: Mapping[str, str], location: str) -> str:
    """Return the location; raises UserError 3D008 for one outside of the store's bucket."""
    if urlsplit(location).netloc != store[BUCKET.name]:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{location} is not in the store's bucket {store[BUCKET.name]}",
            hint=f"'{LOCATION.name}' names a folder of the store's bucket: s3://{store[BUCKET.name]}/folder/.",
        )
    return location


def staging_folder(query: str, epoch: int) -> str:
    """Return the folder of the store's bucket through which the rows of an epoch pass, without a slash at its end."""
    return f"{_STAGING}/{query}/{epoch}"
