"""Records to columns and back, on DataFrames.

A record is parsed once: the check of what was parsed sits in a generator, through which Spark pushes no filter, so that a
`WHERE` on a column does not parse a second time below it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.core.internal_columns import (
    DELETED,
    ENTITY,
    KEY_BYTES,
    PREFIX,
    RECORD,
    ROW_HEADERS,
    ROW_KEY,
    ROW_METADATA,
    ROW_TIME,
    SEQUENCE,
    SPLIT,
)
from headrace.core.schema import Column
from headrace.core.types import BIGINT, BYTES, DataType, Struct, parse_type
from headrace.formats.base import (
    EPOCH_MS_MAX,
    EPOCH_MS_MIN,
    EVENT_TIME_HEADER,
    HIDDEN_COLUMNS,
    DecodeSpec,
    EncodeSpec,
    Format,
    epoch_time_sql,
)
from headrace.formats.primitive import Primitive
from headrace.formats.types import name_sql, spark_type, text_sql

_PARSED, _DECODED_KEY, _ROW, _REASON = (
    f"{PREFIX}{name}" for name in ("parsed", "decoded_key", "row", "reason")
)
_RECORD_TIME, _VALUE, _TIME = (f"{PREFIX}{name}" for name in ("record_time", "value", "time"))
_RECORD_HEADERS = f"{PREFIX}headers"

_FLAT_METADATA = (
    f"{ROW_METADATA}.topic AS __topic",
    f"{ROW_METADATA}.partition AS __partition",
    f"{ROW_METADATA}.offset AS __offset",
    f"CASE {ROW_METADATA}.timestamp_type WHEN 'CreateTime' THEN 0 WHEN 'LogAppendTime' THEN 1 END AS __timestamp_type",
)
_HEADERS = (
    "map_from_entries(filter(headers, (header, at) -> "
    "NOT exists(slice(headers, at + 2, size(headers)), later -> later.key = header.key)))"
)
"""Headers of a record by name. The last one of a name counts."""


def decode(records: DataFrame, spec: DecodeSpec) -> DataFrame:
    """Return the declared and hidden columns of `records`, which are as `connectors.streaming` says.

    A record without a value is a deletion for an upsert relation and is skipped for others, unless its format has a row for it.
    One that cannot be decoded is counted and skipped, or set aside, where `on_error` says so; else the query fails with a message
    that begins with BAD_RECORD.
    """
    sets_aside = spec.on_error not in ("terminate", "ignore")
    record = f"named_struct('key', {KEY_BYTES}, 'value', {_VALUE}, 'timestamp', {_TIME}, 'headers', {_RECORD_HEADERS})"
    as_it_came = [f"value AS {_VALUE}", f"timestamp AS {_TIME}", f"headers AS {_RECORD_HEADERS}"]
    row = Struct(tuple((column.name, column.type) for column in spec.columns))
    every = spec.upsert or spec.value.null_is_a_row
    parsed = (records if every else records.where("value IS NOT NULL")).selectExpr(
        f"{spec.value.read('value', row)} AS {_PARSED}",
        f"{_key_sql(spec)} AS {_DECODED_KEY}",
        f"key AS {KEY_BYTES}",
        f"{'value IS NULL' if spec.upsert or not spec.value.null_is_a_row else 'FALSE'} AS {DELETED}",
        f"entity AS {ENTITY}",
        f"split AS {SPLIT}",
        f"sequence AS {SEQUENCE}",
        f"metadata AS {ROW_METADATA}",
        f"{_record_time_sql(records, spec)} AS {_RECORD_TIME}",
        *(as_it_came if sets_aside or spec.carries_record else []),
        *([f"{_HEADERS} AS {ROW_HEADERS}"] if spec.headers else []),
    )
    timed = parsed.selectExpr(
        f"{_row_sql(spec)} AS {_ROW}",
        f"{_reason_sql(spec)} AS {_REASON}",
        f"{_row_time_sql(spec)} AS {ROW_TIME}",
        f"{_DECODED_KEY}.value AS {ROW_KEY}",
        *([f"{record} AS {RECORD}"] if spec.carries_record else []),
        "*",
    )
    # Of the batch, not of the moment: a batch that runs again reads the same.
    ahead = (
        f"unix_millis({ROW_TIME}) > headrace_of_batch(unix_millis(current_timestamp()) + {spec.ahead_ms})"
        if spec.ahead_ms
        else "FALSE"
    )
    late = f"' is more than {spec.ahead_ms} ms ahead of the clock (source.allow.future.millis)'"
    hidden = (
        *HIDDEN_COLUMNS,
        *([KEY_BYTES] if spec.carries_key else []),
        *([RECORD] if spec.carries_record else []),
        *([ROW_HEADERS] if spec.headers else []),
    )
    checked = timed.selectExpr(
        f"inline(headrace_admit({_ROW}, CASE WHEN {_REASON} IS NOT NULL THEN 'bad_records' WHEN {ahead} THEN 'future_rows' END, "
        f"coalesce({_REASON}, concat('its event time ', {ROW_TIME}, {late})), "
        f"{ROW_METADATA}, {record if sets_aside else 'NULL'}, {_RECORD_TIME}, {text_sql(spec.on_error)}))",
        *hidden,
    )
    if spec.flat_metadata:
        checked = checked.selectExpr("*", *_FLAT_METADATA)
        hidden = (*hidden, "__topic", "__partition", "__offset", "__timestamp_type")
    return checked.select(*(name_sql(column.name) for column in spec.columns), *hidden)


def measured(records: DataFrame, name: str) -> DataFrame:
    """Return the records unchanged. The bytes of their keys and values are counted under `name`."""
    columns = [
        f"headrace_measured(value, key, {text_sql(name)}) AS value" if column == "value" else name_sql(column)
        for column in records.columns
    ]
    return records.selectExpr(*columns)


def encode(rows: DataFrame, spec: EncodeSpec) -> DataFrame:
    """Return `rows` as records: key BINARY, value BINARY; and where they may be tombstones with an event time, their headers."""
    fields = [(column.name, name_sql(column.name), column.type) for column in spec.columns]
    value = spec.value.written(fields)
    if spec.deleted is not None:
        value = f"CASE WHEN {name_sql(spec.deleted)} THEN NULL ELSE {value} END"
    columns = [f"{_encoded_key_sql(rows, spec)} AS key", f"{value} AS value"]
    if spec.deleted is not None and spec.event_time is not None:
        column = next((column for column in spec.columns if column.name == spec.timestamp), None)
        own = f"{_time_sql(column, name_sql(column.name))}, " if column is not None else ""
        micros = f"unix_micros(coalesce({own}{name_sql(spec.event_time)}))"
        header = (
            f"named_struct('key', '{EVENT_TIME_HEADER}', 'value', CAST(CAST({micros} AS STRING) AS BINARY))"
        )
        columns.append(
            f"CASE WHEN {name_sql(spec.deleted)} AND {micros} IS NOT NULL THEN array({header}) END AS headers"
        )
    return rows.selectExpr(*columns)


def _key_sql(spec: DecodeSpec) -> str:
    """Return a STRUCT of the decoded key's `value` and the `reason` why there is none; NULL, or both NULL, without a key."""
    if spec.key is None or spec.key_type is None:
        return "named_struct('value', CAST(NULL AS STRING), 'reason', CAST(NULL AS STRING))"
    return spec.key.read_key("key", spec.key_type)


def _row_sql(spec: DecodeSpec) -> str:
    if not spec.upsert:
        return f"{_PARSED}.value"
    return f"CASE WHEN {DELETED} THEN {_tombstone_sql(spec)} ELSE {_PARSED}.value END"


def _reason_sql(spec: DecodeSpec) -> str:
    """Return SQL of why a record is bad; NULL for a good one."""
    reasons = [
        f"concat('its key is not of the declared ''key.type'': ', {_DECODED_KEY}.reason)",
        f"{_PARSED}.reason",
        f"CASE WHEN NOT {DELETED} AND {_PARSED}.value IS NULL THEN 'expected {spec.value.a_row}, found null' END",
    ]
    if any(column.name == spec.timestamp and column.type == BIGINT for column in spec.columns):
        time = f"{_PARSED}.value.{name_sql(spec.timestamp or '')}"
        reasons.append(
            f"CASE WHEN {time} NOT BETWEEN {EPOCH_MS_MIN} AND {EPOCH_MS_MAX} THEN "
            f"concat({text_sql(f'column {spec.timestamp} expects milliseconds since 1970, found the number ')}, {time}) END"
        )
    return f"coalesce({', '.join(reasons)})"


def _tombstone_sql(spec: DecodeSpec) -> str:
    fields = []
    for column in spec.columns:
        value = "NULL"
        if column.name in spec.key_columns:
            in_struct = isinstance(spec.key_type, Struct) and spec.key_type.field(column.name) is not None
            value = f"{_DECODED_KEY}.value.{name_sql(column.name)}" if in_struct else f"{_DECODED_KEY}.value"
        fields.append(f"{text_sql(column.name)}, CAST({value} AS {spark_type(column.type)})")
    return f"named_struct({', '.join(fields)})"


def _row_time_sql(spec: DecodeSpec) -> str:
    """Return the event time; of a deletion, the record's. A batch that runs again has the time that it had: Spark keeps it with its
    offsets."""
    if spec.arrival:
        return "timestamp_millis(headrace_of_batch(unix_millis(current_timestamp())))"
    column = next((column for column in spec.columns if column.name == spec.timestamp), None)
    if column is None:
        return _RECORD_TIME
    time = _time_sql(column, f"{_PARSED}.value.{name_sql(column.name)}")
    return f"CASE WHEN {DELETED} THEN {_RECORD_TIME} ELSE {time} END" if spec.upsert else time


def _time_sql(column: Column, value: str) -> str:
    """Return the `value` of an event-time column as a TIMESTAMP; NULL if it is not a time."""
    if column.type != BIGINT:
        return value
    return epoch_time_sql(value)


def _record_time_sql(records: DataFrame, spec: DecodeSpec) -> str:
    """Return the time of a record: of a tombstone of ours what its header says, where rows have event times of their own too."""
    if not spec.upsert or spec.timestamp is None or "headers" not in records.columns:
        return "timestamp"
    header = f"get(filter(headers, header -> header.key = '{EVENT_TIME_HEADER}'), 0).value"
    header_time = f"timestamp_micros(try_cast(CAST({header} AS STRING) AS BIGINT))"
    return f"CASE WHEN value IS NULL THEN coalesce({header_time}, timestamp) ELSE timestamp END"


def _encoded_key_sql(rows: DataFrame, spec: EncodeSpec) -> str:
    if spec.key is None:
        return "CAST(NULL AS BINARY)"
    if spec.key_expression is not None:
        return _carried_key_sql(rows, spec.key_expression, spec.key)
    kinds = {column.name: column.type for column in spec.columns}
    fields = [
        (name, name_sql(name), kinds.get(name) or _kind_of(rows, name_sql(name))) for name in spec.key_columns
    ]
    return spec.key.written_key(fields)


def _carried_key_sql(rows: DataFrame, expression: str, key: Format) -> str:
    kind = _kind_of(rows, expression)
    if kind == BYTES:
        return expression
    # Only plans from before `KEY_BYTES` carry a decoded key. A JSON key is written in an array, and the brackets are removed.
    if isinstance(key, Primitive):
        return key.written_key([("key", expression, kind)])
    text = f"to_json(array({expression}), map('ignoreNullFields', 'false'))"
    return f"CAST(substring({text}, 2, char_length({text}) - 2) AS BINARY)"


def _kind_of(rows: DataFrame, expression: str) -> DataType:
    """Return the type of a Spark SQL expression over `rows`."""
    text = rows.selectExpr(f"{expression} AS value").schema["value"].dataType.simpleString()
    return parse_type(text.replace(":", " ").replace("binary", "bytes"))
