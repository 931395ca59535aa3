"""The properties of an S3 store and of its relations.

Source: dialect sections 6.1 and 9.1. All values are hostile user input: only scheme, host, port and a bucket of 'uris' are used, and only
the declared properties reach a client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.connectors import addresses, aws
from headrace.connectors.aws import REGION
from headrace.connectors.s3.partitions import parts_of
from headrace.connectors.tls import TLS_CA, TLS_DISABLED
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import (
    BOOLEAN,
    PropertyReader,
    PropertySpec,
    PropertyType,
    Scope,
    Specs,
    choice,
    number,
)
from headrace.core.sqlstate import SqlState

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_OF_AWS = re.compile(
    r"(?:(?P<bucket>.+)\.)?(?P<service>s3(?:-fips)?(?:\.dualstack)?(?:[.-](?P<region>[a-z]{2,}(?:-[a-z]+)+-\d+))?"
    r"\.amazonaws\.com(?:\.cn)?)\Z"
)
IDENTITY = aws.identity("aws")
ACCESS_KEY_ID, SECRET_ACCESS_KEY = IDENTITY.access_key_id, IDENTITY.secret_access_key
ROLE, EXTERNAL_ID = IDENTITY.role, IDENTITY.external_id
_FORM = "https://bucket.s3.us-east-1.amazonaws.com"
_KEY_BYTES = 1024


@dataclass(frozen=True)
class Place:
    """Parsed 'uris' of a store: the endpoint without a bucket, the bucket if there is one, and the region if AWS's host names it."""

    endpoint: str
    bucket: str | None
    region: str | None
    aws: bool


def place(uris: str) -> Place:
    """Raises ValueError for anything but an http(s) address of a host, and one bucket before the host or behind it."""
    form = f"{_FORM}, or http(s)://host:port/bucket"
    url = addresses.read(uris, form, instead_of_user=f"'{ACCESS_KEY_ID.name}' and '{SECRET_ACCESS_KEY.name}'")
    host, bucket = url.host, url.path or None
    region, own = None, aws.is_aws(host)
    if own:
        known = _OF_AWS.match(host)
        if known is None or (known["bucket"] and bucket):
            raise ValueError(f"expected {_FORM}, found {uris!r}")
        bucket, region, host = bucket or known["bucket"], known["region"], known["service"]
    if not (bucket is None or _BUCKET.match(bucket)):
        raise ValueError(f"expected {form}, found {uris!r}")
    return Place(replace(url, host=host, path="").origin, bucket, region, own)


def _uris(text: str) -> str:
    place(text)
    return text.strip()


def _location(text: str) -> EntityPath:
    scheme, _, rest = text.strip().partition("://")
    bucket, _, folder = rest.partition("/")
    parts = tuple(part for part in folder.split("/") if part)
    whole = folder.rstrip("/") == "/".join(parts)
    if scheme not in ("s3", "s3a") or not whole or not is_path((bucket, *parts)):
        raise ValueError(f"expected s3://bucket/folder/, found {text.rpartition('@')[2]!r}")
    return (bucket, *parts)


def is_path(path: EntityPath) -> bool:
    """True if S3 can hold an entity of that path: a bucket, and names of folders, each of which is one and leads nowhere else."""
    names = path[1:]
    legal = all(name not in (".", "..") and "/" not in name and name.isprintable() for name in names)
    return (
        bool(path)
        and _BUCKET.match(path[0]) is not None
        and legal
        and len("/".join(names).encode()) < _KEY_BYTES
    )


def _partitions(text: str) -> str:
    parts_of(text)
    return text.strip()


def _delimiter(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text.isalnum() or text in '"\\\r\n\0':
        raise ValueError(text)
    return text


URIS = PropertySpec(
    "uris",
    PropertyType("", _uris),
    Scope.STORE,
    f"a bucket, as `{_FORM}`, or as `http(s)://host:port/bucket` of a service with the same protocol. Without a bucket, the store contains "
    "all buckets. `http` requires `tls.disabled`",
    default="needed",
)
LOCATION = PropertySpec(
    "s3.uri",
    PropertyType("", _location),
    Scope.RELATION | Scope.SINK,
    "the folder, as `s3://bucket/folder/`: all files below it; within the store's bucket, if it has one",
    default="needed",
)
DISCOVERY = PropertySpec(
    "s3.discovery.interval.seconds",
    number(1, 86_400, "seconds, 1 to 86400"),
    Scope.RELATION | Scope.SOURCE,
    "how often a query checks for new files",
    default="10",
)
FORMAT = PropertySpec(
    "value.format",
    choice("json", "csv", "parquet", "avro"),
    Scope.ENTITY | Scope.RELATION | Scope.SOURCE | Scope.SINK | Scope.TABLE,
    "the format of the files: `PARQUET`; `JSON`, one object per line; `CSV`, one row per line; `AVRO`, which can only be read",
    default="needed to read; PARQUET for a table",
)
DELIMITER = PropertySpec(
    "csv.delimiter",
    PropertyType("one character other than a quote, letter, digit, backslash or line break", _delimiter),
    Scope.RELATION | Scope.SOURCE | Scope.SINK,
    "CSV: the delimiter between two fields",
    default="`,`",
)
HEADER = PropertySpec(
    "csv.header",
    BOOLEAN,
    Scope.RELATION | Scope.SOURCE | Scope.SINK,
    "CSV: whether the first line of a file contains the names of the columns, which must match those of the relation, in the same order",
    default="FALSE",
)
PARTITIONS = PropertySpec(
    "s3.partition.by",
    PropertyType("", _partitions),
    Scope.ENTITY | Scope.RELATION | Scope.SINK,
    "of a table: folders `name=value` by columns and times, as `'country, day(ts)'`; the functions are `year`, `month`, `day` and `hour`",
    default="none",
)
COMMIT_INTERVAL = PropertySpec(
    "s3.commit.interval.millis",
    number(0, 3_600_000, "milliseconds, 0 to 3600000"),
    Scope.RELATION | Scope.SINK,
    "of a table: the minimum time between new files of a query that is up to date; a longer time results in fewer and larger files",
    default="10000",
)
STORE: Specs = (URIS, TLS_DISABLED, TLS_CA, ACCESS_KEY_ID, SECRET_ACCESS_KEY, ROLE, EXTERNAL_ID, REGION)
PROPERTIES: Specs = (
    *STORE,
    LOCATION,
    FORMAT,
    DELIMITER,
    HEADER,
    DISCOVERY,
    PARTITIONS,
    COMMIT_INTERVAL,
)


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    uris, plain = reader.require(URIS), reader.take(TLS_DISABLED) is True
    if uris.startswith("http:") is not plain:
        raise reader.bad(
            URIS, f"{'http' if plain else 'https'}://…, as '{TLS_DISABLED.name}' is {str(plain).upper()}"
        )
    texts = {URIS.name: uris, TLS_DISABLED.name: str(plain).upper()}
    texts |= {spec.name: value for spec in STORE[2:] if (value := reader.take(spec)) is not None}
    parsed = place(uris)
    given_region = texts.get(REGION.name)
    if parsed.region is not None and given_region not in (None, parsed.region):
        raise reader.bad(REGION, f"{parsed.region}, as in '{URIS.name}'")
    if parsed.aws and parsed.region is None and given_region is None:
        reader.require(REGION, hint=f"Or name it in '{URIS.name}', as {_FORM} does.")
    pairs = ((ROLE, EXTERNAL_ID), (ACCESS_KEY_ID, SECRET_ACCESS_KEY))
    for one, other in (*pairs, *(pair[::-1] for pair in pairs)):
        if one.name in texts:
            reader.require(other, hint=f"'{one.name}' requires '{other.name}'.")
    if ROLE.name not in texts:
        reader.require(
            ACCESS_KEY_ID,
            hint=f"Specify '{ACCESS_KEY_ID.name}' and '{SECRET_ACCESS_KEY.name}', or '{ROLE.name}' and '{EXTERNAL_ID.name}'.",
        )
    elif ACCESS_KEY_ID.name not in texts and not parsed.aws:
        # Requests that the server's own identity signs are sent to AWS only.
        raise reader.bad(ROLE, f"with '{ACCESS_KEY_ID.name}' at an address that is not AWS's own")
    return texts


def bucket_of(store: Mapping[str, str]) -> str | None:
    """Return the bucket of a store that names a single bucket, else None."""
    return place(store[URIS.name]).bucket


def read_path(reader: PropertyReader, _relation: str) -> EntityPath:
    """Return the folder that a relation is over: ("bucket", "folder", …); raises UserError 3D021."""
    return reader.require(LOCATION, hint="For example 's3://bucket/folder/'.")


def source_options(reader: PropertyReader) -> dict[str, str]:
    """Return how a query reads files; raises UserError 3D021 without a format."""
    options = _format_options(reader)
    options[FORMAT.name] = reader.require(
        FORMAT, hint="It is PARQUET, AVRO, JSON (an object on each line) or CSV."
    )
    interval = reader.take(DISCOVERY)
    options[DISCOVERY.name] = str(10 if interval is None else interval)
    return options


def sink_options(reader: PropertyReader) -> dict[str, str]:
    """Return how a query writes files; raises UserError 3D008 for readers' properties."""
    if reader.is_set(DISCOVERY):
        raise reader.bad(DISCOVERY, "left out: it is for streams, which look for files")
    interval, partitions = reader.take(COMMIT_INTERVAL), reader.take(PARTITIONS)
    options = _format_options(reader)
    options[FORMAT.name] = reader.take(FORMAT) or "parquet"
    options[COMMIT_INTERVAL.name] = str(10_000 if interval is None else interval)
    return options if partitions is None else options | {PARTITIONS.name: partitions}


def table_options(reader: PropertyReader) -> dict[str, str]:
    """Return how a table is read as it is now; raises UserError 0A000 for CSV."""
    kind = reader.take(FORMAT) or "parquet"
    if kind == "csv":
        # Its columns are known by their places, and a query reads those alone that it needs.
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a TABLE of CSV files can be written, but not read",
            hint="Read the folder as a STREAM, or write PARQUET or JSON.",
            span=reader.span(FORMAT),
        )
    return {FORMAT.name: kind}


def _format_options(reader: PropertyReader) -> dict[str, str]:
    header, delimiter = reader.take(HEADER), reader.take(DELIMITER)
    options = {HEADER.name: str(header is True).upper()}
    return options if delimiter is None else options | {DELIMITER.name: delimiter}


def folder_of(store: Mapping[str, str], path: EntityPath) -> tuple[str, str]:
    """Return the bucket and the prefix of keys ("" or with a slash at its end) that a path names.

    Raises UserError 3D008 for a path that S3 cannot hold, and for one outside the store's bucket.
    """
    own = bucket_of(store)
    if not path or not is_path(path):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"expected a bucket, and names of folders, found {'.'.join(path) or 'nothing'}",
            hint='Write a name for each folder, in double quotes if it contains a dot or a slash: bucket.folder."2026-01-31".',
        )
    if own is not None and path[0] != own:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the bucket of the store is {own}, not {path[0]}",
            hint="Name a folder of that bucket, or use a store of the other bucket.",
        )
    return path[0], "".join(f"{name}/" for name in path[1:])
