"""AWS Glue as a catalog: its databases are namespaces, and its tables contain the location of their metadata on S3. All functions block."""

from __future__ import annotations

import json
import time
import uuid
import zlib
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

from headrace.connectors.aws import Address, client, client_config
from headrace.connectors.iceberg.failures import classified
from headrace.connectors.iceberg.metadata import NewTable, Table, first_metadata, table_of
from headrace.connectors.iceberg.options import (
    CATALOG_ID,
    IDENTITY,
    REGION,
    S3_ENDPOINT,
    S3_PATH_STYLE,
    URIS,
    WAREHOUSE,
    stand_in,
)
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

_KIND = "table_type"
_METADATA = "metadata_location"
_METADATA_BYTES_MAX = 64 * 1024 * 1024
_GZIP = b"\x1f\x8b"


class GlueCatalog:
    """Catalog of an account, used by a single statement. The methods are those of `rest.RestCatalog`."""

    def __init__(self, store: Mapping[str, str]) -> None:
        self._store = store
        self._catalog = {"CatalogId": store[CATALOG_ID.name]} if CATALOG_ID.name in store else {}
        self._glue = self._client("glue", store.get(URIS.name))
        style = {"addressing_style": "path" if store[S3_PATH_STYLE.name] == "true" else "virtual"}
        self._s3 = self._client("s3", store.get(S3_ENDPOINT.name), s3=style)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._glue.close()
        self._s3.close()

    def reach(self) -> None:
        """Check that Glue answers; raises ExternalError 57015."""
        with classified(self._glue.meta.endpoint_url):
            self._glue.get_databases(MaxResults=1, **self._catalog)

    def namespaces(self, within: tuple[str, ...]) -> list[str]:
        """Return Glue's databases; none contains another."""
        if within:
            return []
        with classified():
            pages = self._glue.get_paginator("get_databases").paginate(**self._catalog)
            return [one["Name"] for page in pages for one in page["DatabaseList"]]

    def tables(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the Iceberg tables of a database."""
        database = _database(namespace)
        with classified(database):
            self._glue.get_database(Name=database, **self._catalog)
            pages = self._glue.get_paginator("get_tables").paginate(DatabaseName=database, **self._catalog)
            return [one["Name"] for page in pages for one in page["TableList"] if _is_iceberg(one)]

    def load(self, namespace: tuple[str, ...], table: str) -> Table:
        """Return the table of the metadata."""
        database = _database(namespace)
        with classified(f"{database}.{table}"):
            answer = self._glue.get_table(DatabaseName=database, Name=table, **self._catalog)["Table"]
            if not _is_iceberg(answer):
                raise UserError(
                    SqlState.ENTITY_NOT_FOUND,
                    f"{database}.{table} is not an Iceberg table",
                    hint="LIST ENTITIES IN database lists the Iceberg tables.",
                )
            bucket, key = _place(answer["Parameters"][_METADATA])
            body = self._s3.get_object(Bucket=bucket, Key=key)["Body"].read(_METADATA_BYTES_MAX)
            return table_of(read_metadata(body))

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Create a database."""
        database = _database(namespace)
        with classified(database):
            self._glue.create_database(DatabaseInput={"Name": database}, **self._catalog)

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drops a database that is empty."""
        if self.tables(namespace):
            raise UserError(
                SqlState.DEPENDENT_OBJECTS_EXIST,
                f"the namespace {namespace[0]} has tables",
                hint="Drop them first.",
            )
        with classified(namespace[0]):
            self._glue.delete_database(Name=namespace[0], **self._catalog)

    def create(self, namespace: tuple[str, ...], table: str, new: NewTable) -> None:
        """Write the first metadata of a table below its database's location, or the store's, and register its location in Glue."""
        database = _database(namespace)
        with classified(f"{database}.{table}"):
            answer = self._glue.get_database(Name=database, **self._catalog)["Database"]
            base = answer.get("LocationUri", "").rstrip("/") or f"{self._store[WAREHOUSE.name]}/{database}.db"
            # A dropped table leaves its files, so a new table of the same name needs another location.
            location = f"{base}/{table}-{uuid.uuid4().hex[:8]}"
            metadata = first_metadata(
                new, uuid=str(uuid.uuid4()), location=location, moment_ms=time.time_ns() // 1_000_000
            )
            place = f"{location}/metadata/00000-{uuid.uuid4()}.metadata.json"
            bucket, key = _place(place)
            self._s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(metadata).encode())
            description = {
                "Name": table,
                "TableType": "EXTERNAL_TABLE",
                "Parameters": {_KIND: "ICEBERG", _METADATA: place},
                "StorageDescriptor": {"Location": location, "Columns": _columns(new)},
            }
            self._glue.create_table(DatabaseName=database, TableInput=description, **self._catalog)

    def drop(self, namespace: tuple[str, ...], table: str) -> None:
        """Remove a table from Glue; its files stay."""
        database = _database(namespace)
        with classified(f"{database}.{table}"):
            self._glue.delete_table(DatabaseName=database, Name=table, **self._catalog)

    def _client(self, service: str, endpoint: str | None, **config: Any) -> Any:
        address = Address(endpoint, aws=stand_in(self._store) is None, region=self._store[REGION.name])
        with classified():
            return client(service, address, self._store, IDENTITY, client_config(**config))


def _database(namespace: tuple[str, ...]) -> str:
    if len(namespace) != 1:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"expected one of Glue's databases, found {'.'.join(namespace)}",
            hint="Glue's databases are not nested: use one name.",
        )
    return namespace[0]


def read_metadata(body: bytes) -> Any:
    """Parse a file of metadata; with the table's `write.metadata.compression-codec` it is gzipped."""
    try:
        if body.startswith(_GZIP):
            body = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(body, _METADATA_BYTES_MAX)
        return json.loads(body)
    except (ValueError, zlib.error):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "the table's metadata cannot be read: the file is not JSON, or larger than 64 MiB",
            hint="Expire old snapshots with OPTIMIZE ENTITY: fewer snapshots need less metadata.",
        ) from None


def _is_iceberg(table: Mapping[str, Any]) -> bool:
    parameters = table.get("Parameters", {})
    return str(parameters.get(_KIND, "")).upper() == "ICEBERG" and _METADATA in parameters


def _place(uri: str) -> tuple[str, str]:
    parts = urlsplit(uri)
    if parts.scheme not in ("s3", "s3a", "s3n"):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the table's files are not on S3 but at {parts.scheme}:",
            hint="Only S3 is read and written.",
        )
    return parts.netloc, parts.path.lstrip("/")


def _columns(new: NewTable) -> list[dict[str, str]]:
    """Return the columns for Glue's users: Iceberg reads the metadata."""
    return [
        {"Name": one["name"], "Type": one["type"] if isinstance(one["type"], str) else "string"}
        for one in new.schema["fields"]
    ]
