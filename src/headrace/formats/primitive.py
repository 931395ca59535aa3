"""Primitive record keys, laid out as the serializers of the common clients do: big-endian numbers, UTF-8 text. As Spark SQL text.

Those serializers have no bytes for NULL, and a record without a key is refused by a compacted topic and put into any partition
of others. So NULL has bytes here that nothing else has: no number is one byte long, and no UTF-8 text holds this one.
"""

from __future__ import annotations

from headrace.core.types import BIGINT, BYTES, DOUBLE, INTEGER, SMALLINT, DataType, Varchar

NULL_KEY = "X'FF'"
_BYTES = {SMALLINT: 2, INTEGER: 4, BIGINT: 8, DOUBLE: 8}


def readable_sql(data: str, kind: DataType) -> str | None:
    """A condition that holds when the BINARY `data` (or NULL) is a value of `kind`; None when it always is."""
    if kind not in _BYTES:
        return None
    return f"({data} IS NULL OR {data} = {NULL_KEY} OR octet_length({data}) = {_BYTES[kind]})"


def decoded_sql(data: str, kind: DataType) -> str:
    """The value in the BINARY `data`. Raises TypeError for a type that no primitive key has."""
    if kind == BYTES:
        return data
    return f"CASE WHEN {data} <> {NULL_KEY} THEN {_decoded_sql(data, kind)} END"


def encoded_sql(value: str, kind: DataType) -> str:
    """BINARY of a value of `kind`. Raises TypeError for a type that no primitive key has."""
    if kind == BYTES:
        return value
    return f"CASE WHEN {value} IS NULL THEN {NULL_KEY} ELSE {_encoded_sql(value, kind)} END"


def _decoded_sql(data: str, kind: DataType) -> str:
    if isinstance(kind, Varchar):
        return f"CAST({data} AS STRING)"
    if kind not in _BYTES:
        raise TypeError(f"no primitive key is {kind}")
    # conv() to base -10 reads 64 bits as signed; narrower numbers are widened by their sign first.
    digits = f"hex({data})"
    if _BYTES[kind] < 8:
        sign = f"CASE WHEN substring({digits}, 1, 1) >= '8' THEN 'F' ELSE '0' END"
        digits = f"lpad({digits}, 16, {sign})"
    number = f"CAST(conv({digits}, 16, -10) AS BIGINT)"
    if kind == DOUBLE:
        return f"CAST(reflect('java.lang.Double', 'longBitsToDouble', {number}) AS DOUBLE)"
    return f"CAST({number} AS {'INT' if kind == INTEGER else kind})"


def _encoded_sql(value: str, kind: DataType) -> str:
    if isinstance(kind, Varchar):
        return f"CAST({value} AS BINARY)"
    if kind not in _BYTES:
        raise TypeError(f"no primitive key is {kind}")
    number = f"CAST({value} AS BIGINT)"
    if kind == DOUBLE:
        number = f"CAST(reflect('java.lang.Double', 'doubleToLongBits', {value}) AS BIGINT)"
    # hex() prints a negative number with all its 16 digits, others without leading zeros.
    return f"unhex(right(lpad(hex({number}), 16, '0'), {2 * _BYTES[kind]}))"
