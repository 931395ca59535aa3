"""The properties of Iceberg's store types and of their relations.

Source: dialect section 6. All values are hostile user input: users cannot set any other property of Iceberg, of its catalogs or of AWS's
SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from headrace.connectors import addresses
from headrace.connectors.aws import Identity, identity, is_aws
from headrace.connectors.table_columns import new_table
from headrace.connectors.tls import TLS_DISABLED
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import (
    BOOLEAN,
    LINE,
    LOGIN,
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
from headrace.core.types import BIGINT, VARCHAR, Struct

METADATA = Struct((("file", VARCHAR), ("position", BIGINT)))
"""Where a row stands: in which file of the table, and behind how many other rows."""
_PART = re.compile(r"[^\x00-\x1f/\x7f]{1,255}\Z")


def _url(text: str) -> str:
    return addresses.read(text, "https://host/path").url


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split("."))
    if not all(_PART.match(part) for part in names):
        raise ValueError(f"expected names with dots between them, found {text!r}")
    return names


URL = PropertyType("", _url)
URIS = PropertySpec(
    "uris",
    URL,
    Scope.STORE,
    "ICEBERG_REST: the catalog's address, to which its protocol adds `/v1/…`. ICEBERG_GLUE: the address of a service that replaces Glue "
    "and S3. `http` requires `tls.disabled`",
    default="ICEBERG_REST: needed; ICEBERG_GLUE: AWS's own",
)
CATALOG_ID = PropertySpec(
    "iceberg.catalog.id",
    matching(r"[ -~]{1,256}", "a name"),
    Scope.STORE,
    "ICEBERG_REST: the catalog, or warehouse, if the server has several. ICEBERG_GLUE: the AWS account that owns the catalog",
    default="the server's only one; the key's account",
)
CLIENT_ID = PropertySpec(
    "iceberg.rest.client_id", LOGIN, Scope.STORE, "OAuth: the client's id", default="none"
)
CLIENT_SECRET = PropertySpec(
    "iceberg.rest.client_secret",
    LINE,
    Scope.STORE,
    "its secret",
    default="needed with an id",
    secret=True,
)
CLIENT_SCOPE = PropertySpec(
    "iceberg.rest.client_scope", LINE, Scope.STORE, "the requested scope", default="catalog"
)
OAUTH_URI = PropertySpec(
    "iceberg.rest.oauth2_server_uri",
    URL,
    Scope.STORE,
    "the address that issues tokens",
    default="`uris`/v1/oauth/tokens",
)
TOKEN = PropertySpec(
    "iceberg.rest.token",
    matching(r"[!-~]+", "a token"),
    Scope.STORE,
    "instead of a client: a bearer token",
    default="none",
    secret=True,
)
WAREHOUSE = PropertySpec(
    "iceberg.warehouse.default_path",
    matching(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[ -~]*)?", "s3://bucket/path"),
    Scope.STORE,
    "ICEBERG_GLUE: the location of created tables whose database has no location",
    default="needed",
)
REGION = PropertySpec(
    "aws.region",
    matching(r"[a-z]{2,}(-[a-z]+)+-\d+", "a region, as us-east-1"),
    Scope.STORE,
    "the region of the bucket, and of Glue",
    default="ICEBERG_REST: the region that the catalog returns; ICEBERG_GLUE: needed",
)
ACCESS_KEY_ID = PropertySpec(
    "aws.access_key_id",
    matching(r"\w{1,128}", "an access key's id"),
    Scope.STORE,
    "the id of an access key, for S3 and Glue",
    default="ICEBERG_REST: the keys that the catalog vends; ICEBERG_GLUE: needed",
)
SECRET_ACCESS_KEY = PropertySpec(
    "aws.secret_access_key",
    matching(r"[!-~]{1,256}", "a secret access key"),
    Scope.STORE,
    "its secret",
    default="needed with an id",
    secret=True,
)
_ROLES = identity("aws")
ROLE = replace(_ROLES.role, doc="a role to assume with the access key, for S3 and Glue")
EXTERNAL_ID = replace(_ROLES.external_id, default="none")
IDENTITY = Identity(ACCESS_KEY_ID, SECRET_ACCESS_KEY, ROLE, EXTERNAL_ID)
S3_ENDPOINT = PropertySpec(
    "iceberg.s3.endpoint",
    URL,
    Scope.STORE,
    "the address of another service with S3's protocol; an address that the catalog vends is not used",
    default="AWS's own; with ICEBERG_GLUE, `uris` if it is set",
)
S3_PATH_STYLE = PropertySpec(
    "iceberg.s3.path_style_access",
    BOOLEAN,
    Scope.STORE,
    "whether the bucket is part of the path instead of the host name",
    default="true with `iceberg.s3.endpoint`",
)
NAMESPACE = PropertySpec(
    "iceberg.namespace.name",
    PropertyType("", _names),
    Scope.RELATION | Scope.SINK,
    "the table's namespace, which is a database in Glue; dots separate its levels",
    default="default",
)
TABLE = PropertySpec(
    "iceberg.table.name", LINE, Scope.RELATION | Scope.SINK, "the table", default="the relation's name"
)
COMMIT_INTERVAL = PropertySpec(
    "iceberg.commit.interval.ms",
    MILLISECONDS,
    Scope.RELATION | Scope.SINK | Scope.INSERT,
    "the minimum time between two commits of a query that is up to date. Each commit creates a snapshot and some files",
    default="10000",
)
_MADE = Scope.ENTITY | Scope.RELATION | Scope.SINK
PARTITION_BY = PropertySpec(
    "iceberg.partition.by",
    LINE,
    _MADE,
    "of a created table: columns, `year(ts)`, `month(ts)`, `day(ts)`, `hour(ts)`, `bucket(16, id)`, `truncate(4, name)`, "
    "separated by commas",
    default="none",
)
TARGET_FILE = PropertySpec(
    "iceberg.target.file.bytes",
    number(1, 2**40, "a number of bytes"),
    _MADE,
    "of a created table: the size at which a new file is started",
    default="Iceberg's, 512 MiB",
)
NEW_TABLE = new_table("iceberg", needed="needed for a table")
SNAPSHOT = PropertySpec(
    "iceberg.snapshot.id",
    number(1, 2**63 - 1, "a snapshot's id"),
    Scope.TABLE,
    "the table as of this snapshot",
    default="the newest",
)
AS_OF = PropertySpec(
    "iceberg.as.of.timestamp",
    MILLISECONDS,
    Scope.TABLE,
    "the table as it was at this time, in milliseconds since 1970-01-01 UTC",
    default="now",
)
_READ = Scope.RELATION | Scope.SOURCE
MONITOR_INTERVAL = PropertySpec(
    "iceberg.monitor.interval.ms",
    number(1, 86_400_000, "milliseconds, 1 to 86400000"),
    _READ,
    "of a stream: how often a query checks for new snapshots; also the interval between the starts of its batches",
    default="5000",
)
SKIP_CHANGES = PropertySpec(
    "iceberg.skip.changes",
    BOOLEAN,
    _READ,
    "of a stream: whether commits that change or delete rows are skipped; if not, the query ends at such a commit",
    default="false",
)
RETENTION = PropertySpec(
    "iceberg.snapshot.retention.ms",
    MILLISECONDS,
    Scope.OPTIMIZE,
    "for OPTIMIZE ENTITY: older snapshots are removed, with the files that no other snapshot uses; 0: all except the newest",
    default="none are removed",
)
_FILES: Specs = (REGION, ACCESS_KEY_ID, SECRET_ACCESS_KEY, ROLE, EXTERNAL_ID, S3_ENDPOINT, S3_PATH_STYLE)
_OVER: Specs = (
    NAMESPACE,
    TABLE,
    COMMIT_INTERVAL,
    PARTITION_BY,
    TARGET_FILE,
    *NEW_TABLE.specs,
    SNAPSHOT,
    AS_OF,
    MONITOR_INTERVAL,
    SKIP_CHANGES,
    RETENTION,
)
REST: Specs = (
    URIS,
    TLS_DISABLED,
    CATALOG_ID,
    CLIENT_ID,
    CLIENT_SECRET,
    CLIENT_SCOPE,
    OAUTH_URI,
    TOKEN,
    *_FILES,
    *_OVER,
)
GLUE: Specs = (URIS, TLS_DISABLED, CATALOG_ID, WAREHOUSE, *_FILES, *_OVER)


def read_rest(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of an ICEBERG_REST store; raises UserError 3D008 / 3D021 at the property."""
    texts = _addresses(reader, {URIS.name: reader.require(URIS)}, OAUTH_URI, S3_ENDPOINT)
    texts |= _given(reader, CATALOG_ID, TOKEN, REGION)
    client = _pair(reader, CLIENT_ID, CLIENT_SECRET)
    if client and TOKEN.name in texts:
        raise reader.bad(TOKEN, f"left out if '{CLIENT_ID.name}' is specified")
    if client:
        client[CLIENT_SCOPE.name] = reader.take(CLIENT_SCOPE) or "catalog"
    keys = _pair(reader, ACCESS_KEY_ID, SECRET_ACCESS_KEY)
    if reader.is_set(ROLE):
        for spec in (ACCESS_KEY_ID, REGION):
            reader.require(spec)
    return texts | client | keys | _given(reader, ROLE, EXTERNAL_ID) | _path_style(reader, texts)


def read_glue(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of an ICEBERG_GLUE store; raises UserError 3D008 / 3D021 at the property."""
    uris = reader.take(URIS)
    texts = _addresses(reader, {URIS.name: uris} if uris else {}, S3_ENDPOINT)
    if uris:
        texts.setdefault(S3_ENDPOINT.name, uris)
    texts |= {
        spec.name: reader.require(spec) for spec in (REGION, WAREHOUSE, ACCESS_KEY_ID, SECRET_ACCESS_KEY)
    }
    texts[WAREHOUSE.name] = texts[WAREHOUSE.name].rstrip("/")
    return texts | _given(reader, CATALOG_ID, ROLE, EXTERNAL_ID) | _path_style(reader, texts)


def stand_in(store: Mapping[str, str]) -> str | None:
    """Return the address of a replacement for AWS, roles included; None: AWS itself."""
    address = store.get(URIS.name) if WAREHOUSE.name in store else store.get(S3_ENDPOINT.name)
    return None if address is None or is_aws(urlsplit(address).hostname or "") else address


def path_of(reader: PropertyReader, relation: str) -> EntityPath:
    """Return the path of a relation's table: the names of its namespace, and its name."""
    return (*(reader.take(NAMESPACE) or ("default",)), reader.take(TABLE) or relation)


def table_of(path: EntityPath) -> tuple[tuple[str, ...], str]:
    """Return the namespace and the name of a table. Raises UserError 3D008 for an invalid path."""
    if len(path) < 2 or not all(_PART.match(part) for part in path):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"expected namespace.table, found {'.'.join(path) or 'nothing'}",
            hint="LIST ENTITIES shows namespaces, LIST ENTITIES IN namespace the tables. A name has no '/' and no control characters.",
        )
    return path[:-1], path[-1]


def sink_options(reader: PropertyReader) -> dict[str, str]:
    """Return how a query writes."""
    interval = reader.take(COMMIT_INTERVAL)
    return {} if interval is None else {COMMIT_INTERVAL.name: str(interval)}


def source_options(reader: PropertyReader) -> dict[str, str]:
    """Return how a stream follows a table."""
    interval, skip = reader.take(MONITOR_INTERVAL), reader.take(SKIP_CHANGES)
    return {
        MONITOR_INTERVAL.name: str(5000 if interval is None else interval),
        SKIP_CHANGES.name: str(skip is True).lower(),
    }


def table_options(reader: PropertyReader) -> dict[str, str]:
    """Return the time or snapshot at which a TABLE is read. Raises UserError 3D008 if both properties are set."""
    snapshot, as_of = reader.take(SNAPSHOT), reader.take(AS_OF)
    if snapshot is not None and as_of is not None:
        raise reader.bad(AS_OF, f"left out if '{SNAPSHOT.name}' is specified")
    given = {SNAPSHOT.name: snapshot, AS_OF.name: as_of}
    return {name: str(value) for name, value in given.items() if value is not None}


def optimize_options(reader: PropertyReader) -> dict[str, str]:
    """Return the options of OPTIMIZE ENTITY besides compaction."""
    retention = reader.take(RETENTION)
    return {} if retention is None else {RETENTION.name: str(retention)}


def _addresses(reader: PropertyReader, given: dict[str, str], *others: PropertySpec[str]) -> dict[str, str]:
    plain = reader.take(TLS_DISABLED) is True
    given = {**given, **_given(reader, *others)}
    for spec in (URIS, *others):
        if given.get(spec.name, "").startswith("http:") and not plain:
            raise reader.bad(spec, f"https://…, as '{TLS_DISABLED.name}' is FALSE")
    return {**given, TLS_DISABLED.name: str(plain).upper()}


def _given(reader: PropertyReader, *specs: PropertySpec[str]) -> dict[str, str]:
    return {spec.name: value for spec in specs if (value := reader.take(spec))}


def _pair(reader: PropertyReader, name: PropertySpec[str], secret: PropertySpec[str]) -> dict[str, str]:
    if not reader.is_set(name) and not reader.is_set(secret):
        return {}
    return {spec.name: reader.require(spec) for spec in (name, secret)}


def _path_style(reader: PropertyReader, texts: Mapping[str, str]) -> dict[str, str]:
    given = reader.take(S3_PATH_STYLE)
    style = S3_ENDPOINT.name in texts if given is None else given
    return {S3_PATH_STYLE.name: str(style).lower()}
