"""Types of files as Arrow's, and Arrow's (so Parquet's) as ours; pure. The guide of S3 has them as a table."""

from __future__ import annotations

import pyarrow as pa

from headrace.connectors.arrow_types import arrow_type
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TINYINT,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
)

_OURS: dict[pa.DataType, DataType] = {
    pa.int8(): TINYINT,
    pa.int16(): SMALLINT,
    pa.int32(): INTEGER,
    pa.int64(): BIGINT,
    pa.uint8(): SMALLINT,
    pa.uint16(): INTEGER,
    pa.uint32(): BIGINT,
    pa.uint64(): Decimal(20, 0),
    pa.float16(): FLOAT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.bool_(): BOOLEAN,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def stored_type(kind: DataType) -> pa.DataType:
    """Return the type in a file, where a TIMESTAMP has no zone."""
    return arrow_type(kind, None)


def of_arrow(kind: pa.DataType) -> DataType:
    """Return our type of a file's column; VARCHAR, its text, for one without a counterpart."""
    if pa.types.is_dictionary(kind):
        return of_arrow(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return VARCHAR if isinstance(kind, pa.UuidType) else of_arrow(kind.storage_type)
    if pa.types.is_timestamp(kind):
        return Timestamp(_DIGITS[kind.unit], local=kind.tz is not None)
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return Decimal(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return BYTES
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Array(of_arrow(kind.value_type))
    if pa.types.is_map(kind):
        return Map(of_arrow(kind.key_type), of_arrow(kind.item_type))
    if pa.types.is_struct(kind):
        return Struct(tuple((field.name, of_arrow(field.type)) for field in kind)) if len(kind) else VARCHAR
    return _OURS.get(kind, VARCHAR)
