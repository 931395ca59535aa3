"""Registry of store types."""

from __future__ import annotations

import importlib
from types import ModuleType

from headrace.connectors.base import StoreDescriptor
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState

STORE_TYPES: dict[str, str] = {
    "kafka": "headrace.connectors.kafka.admin:KAFKA",
    "confluent_kafka": "headrace.connectors.kafka.admin:CONFLUENT_KAFKA",
    "postgresql": "headrace.connectors.postgresql.admin:POSTGRESQL",
    "kinesis": "headrace.connectors.kinesis.admin:KINESIS",
    "clickhouse": "headrace.connectors.clickhouse.admin:CLICKHOUSE",
    "snowflake": "headrace.connectors.snowflake.admin:SNOWFLAKE",
    "s3": "headrace.connectors.s3.admin:S3",
    "oracle": "headrace.connectors.oracle.admin:ORACLE",
    "databricks": "headrace.connectors.databricks.admin:DATABRICKS",
    "iceberg_rest": "headrace.connectors.iceberg.admin:ICEBERG_REST",
    "generator": "headrace.connectors.generator.admin:GENERATOR",
    "iceberg_glue": "headrace.connectors.iceberg.admin:ICEBERG_GLUE",
}
"""By the word of CREATE STORE: where its descriptor is, in the folder of the type."""
STORE_REGISTRY_SYNONYMS = ("kafka.schema_registry_name",)
"""Other names of the property by which a store has a schema registry: clients know it as one of a type's."""
_loaded: dict[str, StoreDescriptor] = {}


def type_names() -> str:
    """Return the names as CREATE STORE spells them, for hints."""
    return ", ".join(sorted(name.upper() for name in STORE_TYPES))


def loaded() -> tuple[StoreDescriptor, ...]:
    """Return the store types loaded so far."""
    return tuple(_loaded.values())


def spark_module(store_type: str) -> ModuleType:
    """Return the driver half of a store type, which may share its folder with others. Raises KeyError for an unknown type."""
    folder = STORE_TYPES[store_type].partition(":")[0].rpartition(".")[0]
    return importlib.import_module(f"{folder}.spark")


def connector(store_type: str, *, span: Span | None = None) -> StoreDescriptor:
    """Return a store type by its name, in any case; loaded on first use, because client libraries are heavy.

    Raises UserError 3D008 for an unknown type.
    """
    name = store_type.lower()
    if name not in STORE_TYPES:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"unknown store type {store_type!r}",
            hint=f"Use one of {type_names()}.",
            span=span,
        )
    if name not in _loaded:
        module, _, attribute = STORE_TYPES[name].partition(":")
        _loaded[name] = getattr(importlib.import_module(module), attribute)
    return _loaded[name]
