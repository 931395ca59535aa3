"""boto3's clients for a store, and what there is in its folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from headrace.connectors.aws import OWN_REGION, REGION, Address, client, client_config
from headrace.connectors.s3.options import IDENTITY, URIS, place
from headrace.connectors.tls import TLS_CA

_HIDDEN = ("_", ".")


@dataclass(frozen=True)
class File:
    """An object as a listing has it; `modified_ms` since 1970."""

    key: str
    size: int
    etag: str
    modified_ms: int


def s3(store: Mapping[str, str], *, connections: int = 10) -> Any:
    """Return a client with as many pooled connections. Its methods raise botocore's errors: see `classified`."""
    location = place(store[URIS.name])
    region = location.region or store.get(REGION.name, OWN_REGION)
    endpoint = location.endpoint
    if location.aws and location.region is None:
        host = urlsplit(endpoint).hostname or ""
        endpoint = endpoint.replace(host, host.replace(".amazonaws.", f".{region}.amazonaws."))
    address = Address(endpoint, location.aws, region, store.get(TLS_CA.name))
    # What is not AWS has one address, which the operator's rules allowed: a bucket is not put before it.
    style = {"addressing_style": "virtual" if location.aws else "path"}
    return client("s3", address, store, IDENTITY, client_config(connections=connections, s3=style))


def files(client: Any, bucket: str, prefix: str) -> Iterator[File]:
    """Yield the files of a folder and of those below it, by their keys. What begins with `_` or `.` is none, nor is what is empty."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        for item in page.get("Contents", ()):
            names = item["Key"].removeprefix(prefix).split("/")
            if item["Size"] and not any(name.startswith(_HIDDEN) and "=" not in name for name in names):
                moment = int(item["LastModified"].timestamp() * 1000)
                yield File(item["Key"], item["Size"], item["ETag"], moment)
