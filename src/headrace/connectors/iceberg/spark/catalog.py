"""A store as a catalog of a Spark session."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping

from pyspark.sql import SparkSession

from headrace.connectors.class_path import add_jars
from headrace.connectors.iceberg import options
from headrace.core.names import EntityPath
from headrace.core.types import Array, DataType, Map, Struct, Timestamp
from headrace.formats.types import name_sql, spark_type
from headrace.runtime.jars import ICEBERG

# Plans and logs show the catalog's name, a digest of a store's properties: the salt protects the keys among them.
_SALT = secrets.token_bytes(16)


def table_name(session: SparkSession, store: Mapping[str, str], path: EntityPath) -> str:
    """Return a table's name in Spark SQL, after adding the store's catalog to this session."""
    add_jars(session, ICEBERG)
    digest = hashlib.sha256(_SALT + json.dumps(dict(store), sort_keys=True).encode()).hexdigest()
    name = f"iceberg_{digest[:16]}"
    for key, text in catalog_settings(store).items():
        session.conf.set(f"spark.sql.catalog.{name}{key and '.'}{key}", text)
    return ".".join(name_sql(part) for part in (name, *path))


def catalog_settings(store: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Iceberg's catalog for Spark: it reads nothing from the environment."""
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", "cache-enabled": "false"}
    settings |= _glue(store) if options.WAREHOUSE.name in store else _rest(store)
    settings |= {
        "http-client.type": "urlconnection",
        "s3.path-style-access": store[options.S3_PATH_STYLE.name],
    }
    given = {
        "s3.endpoint": options.S3_ENDPOINT,
        "s3.access-key-id": options.ACCESS_KEY_ID,
        "s3.secret-access-key": options.SECRET_ACCESS_KEY,
        "client.region": options.REGION,
    }
    settings |= {key: store[spec.name] for key, spec in given.items() if spec.name in store}
    if options.ROLE.name in store:
        # If keys are set, Iceberg uses them directly for S3.
        del settings["s3.access-key-id"], settings["s3.secret-access-key"]
    if options.ROLE.name in store or options.WAREHOUSE.name in store:
        settings |= _keys(store)
    return settings


def _keys(store: Mapping[str, str]) -> dict[str, str]:
    provider = "client.credentials-provider"
    given = {
        "id": store[options.ACCESS_KEY_ID.name],
        "secret": store[options.SECRET_ACCESS_KEY.name],
        "role": store.get(options.ROLE.name),
        "external-id": store.get(options.EXTERNAL_ID.name),
        "region": store[options.REGION.name],
        "sts": options.stand_in(store),
    }
    settings = {f"{provider}.{name}": text for name, text in given.items() if text is not None}
    return {provider: "io.headrace.iceberg.StoreKeys", **settings}


def _rest(store: Mapping[str, str]) -> dict[str, str]:
    settings = {
        "catalog-impl": "io.headrace.iceberg.StoreRestCatalog",
        "uri": store[options.URIS.name],
        "rest.auth.type": "none",
    }
    if options.CATALOG_ID.name in store:
        settings["warehouse"] = store[options.CATALOG_ID.name]
    if options.ACCESS_KEY_ID.name not in store:
        settings["header.X-Iceberg-Access-Delegation"] = "vended-credentials"
    if options.TOKEN.name in store:
        settings |= {"rest.auth.type": "oauth2", "token": store[options.TOKEN.name]}
    if options.CLIENT_ID.name in store:
        settings |= {
            "rest.auth.type": "oauth2",
            "credential": f"{store[options.CLIENT_ID.name]}:{store[options.CLIENT_SECRET.name]}",
            "scope": store[options.CLIENT_SCOPE.name],
            "oauth2-server-uri": store.get(
                options.OAUTH_URI.name, f"{store[options.URIS.name]}/v1/oauth/tokens"
            ),
        }
    return settings


def _glue(store: Mapping[str, str]) -> dict[str, str]:
    settings = {
        "catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "warehouse": store[options.WAREHOUSE.name],
    }
    given = {"glue.endpoint": options.URIS, "glue.id": options.CATALOG_ID}
    return settings | {key: store[spec.name] for key, spec in given.items() if spec.name in store}


def stored_type(kind: DataType) -> str:
    """Return a type as Iceberg's tables have it in Spark: a TIMESTAMP without a zone is one there too."""
    match kind:
        case Timestamp(_, False):
            return "TIMESTAMP_NTZ"
        case Array(element):
            return f"ARRAY<{stored_type(element)}>"
        case Map(key, value):
            return f"MAP<{stored_type(key)}, {stored_type(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{name_sql(name)}: {stored_type(item)}' for name, item in fields)}>"
    return spark_type(kind)
