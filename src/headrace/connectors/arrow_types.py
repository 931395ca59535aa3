"""Our types as Arrow's; pure."""

from __future__ import annotations

import pyarrow as pa

from headrace.core.types import Array, DataType, Decimal, Map, Primitive, Struct, Timestamp

_PRIMITIVES: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "BOOLEAN": pa.bool_(),
    "BYTES": pa.binary(),
}


def arrow_type(kind: DataType, zone: str | None = "UTC") -> pa.DataType:
    """Return Spark's Arrow type for `formats.types.spark_type`. `zone` is the time zone of a TIMESTAMP; a TIMESTAMP_LTZ is in UTC."""
    match kind:
        case Primitive(name):
            return _PRIMITIVES[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Timestamp(_, local):
            return pa.timestamp("us", "UTC" if local else zone)
        case Array(element):
            return pa.list_(arrow_type(element, zone))
        case Map(key, value):
            return pa.map_(arrow_type(key, zone), arrow_type(value, zone))
        case Struct(fields):
            return pa.struct([(name, arrow_type(field, zone)) for name, field in fields])
    return pa.string()
