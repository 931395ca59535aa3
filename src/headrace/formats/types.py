"""Our data types as Spark SQL writes them."""

from __future__ import annotations

from headrace.core.types import Array, DataType, Decimal, Map, Primitive, Struct, Timestamp, Varchar

_PRIMITIVES = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
    "BYTES": "BINARY",
}


def spark_type(kind: DataType) -> str:
    """Return `kind` as Spark SQL text, usable in CAST and in a schema.

    Both TIMESTAMP kinds are Spark's TIMESTAMP (microseconds in UTC), and VARCHAR loses its length.
    """
    match kind:
        case Primitive(name):
            return _PRIMITIVES[name]
        case Varchar():
            return "STRING"
        case Decimal(precision, scale):
            return f"DECIMAL({precision}, {scale})"
        case Timestamp():
            return "TIMESTAMP"
        case Array(element):
            return f"ARRAY<{spark_type(element)}>"
        case Map(key, value):
            return f"MAP<{spark_type(key)}, {spark_type(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{name_sql(name)}: {spark_type(item)}' for name, item in fields)}>"
    raise TypeError(f"no Spark type for {kind}")


def name_sql(name: str) -> str:
    """Return a column's name as a Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def text_sql(text: str) -> str:
    """Return a string as a Spark SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
