"""Records to columns and back, on DataFrames.

A record is parsed once: the check of what was parsed sits in a generator, through which Spark pushes no filter, so that a
`WHERE` on a column does not parse a second time below it.
"""

from __future__ import annotations

from types import ModuleType

from pyspark.sql import DataFrame

from headrace.core.schema import Column
from headrace.core.types import BIGINT, DataType, Struct, Varchar, parse_type
from headrace.formats import json, primitive
from headrace.formats.base import (
    BAD_RECORD,
    EXCERPT_CHARACTERS,
    HIDDEN_COLUMNS,
    MALFORMED_COLUMN,
    DecodeSpec,
    EncodeSpec,
)
from headrace.formats.types import name_sql, text_sql

_VALUE_FORMATS: dict[str, ModuleType] = {"json": json}

_EPOCH_MS_MIN, _EPOCH_MS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""

_KEY_FIELD = "key"
"""A JSON key that is no object is parsed as the one field of one."""


def decode(records: DataFrame, spec: DecodeSpec) -> DataFrame:
    """The declared and hidden columns of `records` (key, value, topic, partition, offset, timestamp, timestampType).

    A record without a value is a deletion for an upsert relation and is skipped for others. One that cannot be decoded is
    skipped with `skip_errors`; else the query fails with a message that begins with BAD_RECORD.
    """
    parser = _VALUE_FORMATS[spec.value_format]
    parsed = records.selectExpr(
        f"{parser.parsed_sql('CAST(value AS STRING)', spec.columns)} AS __parsed",
        "value AS __value",
        *_key_sql(spec),
        "key AS __key",
        "topic AS __topic",
        "partition AS __partition",
        "offset AS __offset",
        "timestamp AS __record_time",
        "timestampType AS __timestamp_type",
    )
    names = ", ".join(
        name_sql(name) for name in (*(column.name for column in spec.columns), MALFORMED_COLUMN)
    )
    checked = parsed.selectExpr(
        f"inline({_checked_sql(spec, parser)}) AS ({names})",
        "__value IS NULL AS __deleted",
        "__rowkey",
        "__key",
        "__topic",
        "__partition",
        "__offset",
        "__record_time",
        "__timestamp_type",
    )
    return checked.selectExpr(
        *(
            f"{parser.typed_sql(name_sql(column.name), column.type)} AS {name_sql(column.name)}"
            for column in spec.columns
        ),
        f"{_row_time_sql(spec)} AS __rowtime",
        *(name for name in HIDDEN_COLUMNS if name != "__rowtime"),
    )


def encode(rows: DataFrame, spec: EncodeSpec) -> DataFrame:
    """`rows` as records: key BINARY, value BINARY."""
    parser = _VALUE_FORMATS[spec.value_format]
    fields = [(column.name, name_sql(column.name), column.type) for column in spec.columns]
    value = f"CAST({parser.written_sql(fields, spec.timestamp_format)} AS BINARY)"
    if spec.deleted is not None:
        value = f"CASE WHEN {name_sql(spec.deleted)} THEN NULL ELSE {value} END"
    return rows.selectExpr(f"{_encoded_key_sql(rows, spec)} AS key", f"{value} AS value")


def _key_sql(spec: DecodeSpec) -> list[str]:
    """`__rowkey`, and `__key_readable` which is false for a key that cannot be decoded."""
    if spec.key_format is None or spec.key_type is None:
        return ["CAST(NULL AS STRING) AS __rowkey", "TRUE AS __key_readable"]
    if spec.key_format == "primitive":
        readable = primitive.readable_sql("key", spec.key_type)
        return [
            f"CASE WHEN {readable or 'TRUE'} THEN {primitive.decoded_sql('key', spec.key_type)} END AS __rowkey",
            f"{readable or 'TRUE'} AS __key_readable",
        ]
    if isinstance(spec.key_type, Struct):
        text, columns = "CAST(key AS STRING)", [Column(name, kind) for name, kind in spec.key_type.fields]
        fields = (
            (name, json.typed_sql(f"{{0}}.{name_sql(name)}", kind)) for name, kind in spec.key_type.fields
        )
        result = f"named_struct({', '.join(f'{text_sql(name)}, {value}' for name, value in fields)})"
    else:
        text = f"concat('{{\"{_KEY_FIELD}\":', CAST(key AS STRING), '}}')"
        columns = [Column(_KEY_FIELD, spec.key_type)]
        result = json.typed_sql(f"{{0}}.{_KEY_FIELD}", spec.key_type)
    parsed = json.parsed_sql(text, columns)
    bad = f"{parsed}.{MALFORMED_COLUMN}"
    absent = "(key IS NULL OR trim(CAST(key AS STRING)) = 'null')"
    return [
        f"CASE WHEN {absent} THEN NULL ELSE {result.replace('{0}', parsed)} END AS __rowkey",
        f"({absent} OR ({bad} IS NULL AND {parsed} IS NOT NULL)) AS __key_readable",
    ]


def _checked_sql(spec: DecodeSpec, parser: ModuleType) -> str:
    """An array of the parsed row: one element, or none for a record that is skipped."""
    conditions = ["__key_readable", "__parsed IS NOT NULL", f"__parsed.{MALFORMED_COLUMN} IS NULL"]
    for column in spec.columns:
        field = f"__parsed.{name_sql(column.name)}"
        conditions.append(parser.readable_sql(field, column.type) or "")
        if column.name == spec.timestamp and column.type == BIGINT:
            conditions.append(f"({field} IS NULL OR {field} BETWEEN {_EPOCH_MS_MIN} AND {_EPOCH_MS_MAX})")
        if column.name == spec.timestamp and isinstance(column.type, Varchar):
            conditions.append(f"({field} IS NULL OR try_cast({field} AS TIMESTAMP) IS NOT NULL)")
    good = " AND ".join(condition for condition in conditions if condition)
    nothing = "slice(array(__parsed), 1, 0)"
    place = (
        "'topic', __topic, 'partition', __partition, 'offset', __offset, 'key', NOT __key_readable, "
        f"'excerpt', left(CAST(__value AS STRING), {EXCERPT_CHARACTERS})"
    )
    failure = f"raise_error(concat('{BAD_RECORD}', to_json(named_struct({place}))))"
    return (
        f"CASE WHEN __value IS NULL THEN {_tombstone_sql(spec, parser) if spec.upsert else nothing} "
        f"WHEN {good} THEN array(__parsed) ELSE {nothing if spec.skip_errors else failure} END"
    )


def _tombstone_sql(spec: DecodeSpec, parser: ModuleType) -> str:
    fields = []
    for column in spec.columns:
        value = "NULL"
        if column.name in spec.key_columns:
            in_struct = isinstance(spec.key_type, Struct) and spec.key_type.field(column.name) is not None
            value = f"__rowkey.{name_sql(column.name)}" if in_struct else "__rowkey"
        fields.append(f"{text_sql(column.name)}, CAST({value} AS {parser.parsed_type(column.type)})")
    fields.append(f"{text_sql(MALFORMED_COLUMN)}, CAST(NULL AS STRING)")
    return f"array(named_struct({', '.join(fields)}))"


def _row_time_sql(spec: DecodeSpec) -> str:
    """The event time; a deletion has only the record's own."""
    column = next((column for column in spec.columns if column.name == spec.timestamp), None)
    if column is None:
        return "__record_time"
    name = name_sql(column.name)
    time = f"timestamp_millis({name})" if column.type == BIGINT else f"try_cast({name} AS TIMESTAMP)"
    return f"CASE WHEN __deleted THEN __record_time ELSE {time} END" if spec.upsert else time


def _encoded_key_sql(rows: DataFrame, spec: EncodeSpec) -> str:
    if spec.key_format is None:
        return "CAST(NULL AS BINARY)"
    if spec.key_expression is not None:
        return spec.key_expression
    kinds = {column.name: column.type for column in spec.columns}
    if spec.key_format == "json":
        fields = [(name, name_sql(name), kinds.get(name, Varchar())) for name in spec.key_columns]
        return f"CAST({json.written_sql(fields, spec.timestamp_format)} AS BINARY)"
    if len(spec.key_columns) != 1:
        raise ValueError(f"expected one column in a primitive key, found {len(spec.key_columns)}")
    name = spec.key_columns[0]
    kind = kinds.get(name) or _kind_of(rows, name_sql(name))
    return primitive.encoded_sql(name_sql(name), kind)


def _kind_of(rows: DataFrame, expression: str) -> DataType:
    """The type of a Spark SQL expression over `rows`."""
    text = rows.selectExpr(f"{expression} AS value").schema["value"].dataType.simpleString()
    return parse_type(text.replace(":", " ").replace("binary", "bytes"))
