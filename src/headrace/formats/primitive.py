"""Single values, laid out as the serializers of the common clients do: big-endian numbers, UTF-8 text. As Spark SQL text.

Those serializers have no bytes for NULL, and a record without a key is refused by a compacted topic and put into any partition
of others. So NULL has bytes here, as a key, that nothing else has: no number is one byte long, and no UTF-8 text holds this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.core.types import BIGINT, BYTES, DOUBLE, INTEGER, SMALLINT, DataType, Struct, Varchar
from headrace.formats.base import Field, Format
from headrace.formats.types import spark_type, text_sql

NULL_KEY = "X'FF'"
TYPES = (SMALLINT, INTEGER, BIGINT, DOUBLE)
"""Beside VARCHAR."""
_BYTES: dict[DataType, int] = {SMALLINT: 2, INTEGER: 4, BIGINT: 8, DOUBLE: 8}


class Primitive(Format):
    """A single value without a name, in the bytes of its type. A NULL is a record without a value; in a key it is `NULL_KEY`."""

    format: Literal["primitive"] = "primitive"
    null_is_a_row: ClassVar[bool] = True
    for_keys: ClassVar[bool] = True

    def refusal(self, columns: Struct) -> str | None:
        """Refuse everything but a single column of one of five types."""
        if len(columns.fields) != 1:
            return f"is one column without a name, found {len(columns.fields)}"
        return self.key_refusal(columns.fields[0][1])

    def key_refusal(self, kind: DataType) -> str | None:
        """Refuse all but the five types."""
        if kind in TYPES or isinstance(kind, Varchar):
            return None
        return f"is SMALLINT, INTEGER, BIGINT, DOUBLE or VARCHAR, found {kind}"

    def read(self, data: str, columns: Struct) -> str:
        """Return SQL that reads numbers by their length; text must be UTF-8."""
        ((name, kind),) = columns.fields
        text = isinstance(kind, Varchar)
        bad = (
            f"NOT is_valid_utf8(CAST({data} AS STRING))"
            if text
            else f"octet_length({data}) <> {_BYTES[kind]}"
        )
        mismatch = (
            "'expected text in UTF-8, found other bytes'"
            if text
            else f"concat('expected {kind} in {_BYTES[kind]} bytes, found ', octet_length({data}))"
        )
        value = f"named_struct({text_sql(name)}, {_decoded_sql(data, kind)})"
        empty = f"named_struct({text_sql(name)}, CAST(NULL AS {spark_type(kind)}))"
        return (
            f"named_struct('value', CASE WHEN {data} IS NULL THEN {empty} WHEN NOT ({bad}) THEN {value} END, "
            f"'reason', CASE WHEN {bad} THEN {mismatch} END)"
        )

    def written(self, fields: Sequence[Field]) -> str:
        """Return NULL for NULL."""
        ((_, value, kind),) = fields
        return f"CASE WHEN {value} IS NOT NULL THEN {_encoded_sql(value, kind)} END"

    def read_key(self, data: str, kind: DataType) -> str:
        """Return SQL that reads a key by its length alone: text is read unchanged."""
        readable = (
            f"({data} IS NULL OR {data} = {NULL_KEY} OR octet_length({data}) = {_BYTES[kind]})"
            if kind in _BYTES
            else "TRUE"
        )
        return (
            f"named_struct('value', CASE WHEN {readable} THEN {_read_key(data, kind)} END, "
            f"'reason', CASE WHEN NOT {readable} THEN concat('found ', octet_length({data}), ' bytes') END)"
        )

    def written_key(self, fields: Sequence[Field]) -> str:
        """Return a field as BINARY. Raises TypeError for a type without a primitive form."""
        ((_, value, kind),) = fields
        return _written_key(value, kind)


def _read_key(data: str, kind: DataType) -> str:
    if kind == BYTES:
        return data
    return f"CASE WHEN {data} <> {NULL_KEY} THEN {_decoded_sql(data, kind)} END"


def _written_key(value: str, kind: DataType) -> str:
    if kind == BYTES:
        return value
    return f"CASE WHEN {value} IS NULL THEN {NULL_KEY} ELSE {_encoded_sql(value, kind)} END"


def _decoded_sql(data: str, kind: DataType) -> str:
    if isinstance(kind, Varchar):
        return f"CAST({data} AS STRING)"
    if kind not in _BYTES:
        raise TypeError(f"no primitive is {kind}")
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
        raise TypeError(f"no primitive is {kind}")
    number = f"CAST({value} AS BIGINT)"
    if kind == DOUBLE:
        number = f"CAST(reflect('java.lang.Double', 'doubleToLongBits', {value}) AS BIGINT)"
    # hex() prints a negative number with all its 16 digits, others without leading zeros.
    return f"unhex(right(lpad(hex({number}), 16, '0'), {2 * _BYTES[kind]}))"
