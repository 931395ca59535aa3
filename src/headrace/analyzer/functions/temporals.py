"""Functions on dates and times. The session's zone is UTC on every engine.

Patterns are Java's (`yyyy-MM-dd HH:mm:ss.SSS`), which Flink and Spark share.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.signature import SAME, Function, PerType, function
from headrace.analyzer.typing import moved
from headrace.core.types import BIGINT, DATE, INTEGER, VARCHAR, DataType, Timestamp

_MILLIS_LTZ = Timestamp(3, local=True)
_MILLIS = Timestamp(3)


def _part(name: str, doc: str, *, spark: str | None = None, duckdb: str | None = None) -> Function:
    field = name.lower()
    return function(
        name,
        "temporal",
        BIGINT,
        doc,
        spark=f"CAST({spark or f'{field}({{0}})'} AS BIGINT)",
        duckdb=duckdb or f"{field}({{0}})",
    )


def _instant(
    name: str, kind: DataType, doc: str, *, spark: str = "current_timestamp()", duckdb: str = "now()"
) -> Function:
    return function(
        name,
        "",
        kind,
        doc,
        spark=f"headrace_time({spark}, 3, false)",
        duckdb=f"date_trunc('millisecond', CAST({duckdb} AS TIMESTAMP))",
        never_null=True,
        deterministic=False,
    )


def _unix_timestamp(arguments: Sequence[str]) -> str:
    """Return the seconds of a text in any ISO form, with or without a fraction; NULL for any other text."""
    if not arguments:
        return "unix_timestamp()"
    parsed = (
        f"TRY_CAST({arguments[0]} AS TIMESTAMP)"
        if len(arguments) == 1
        else f"try_to_timestamp({', '.join(arguments)})"
    )
    return f"unix_seconds(headrace_time({parsed}, 6, true))"


def _from_unixtime(arguments: Sequence[str]) -> str:
    pattern = arguments[1] if len(arguments) > 1 else "'yyyy-MM-dd HH:mm:ss'"
    return f"date_format(headrace_time(timestamp_seconds({arguments[0]}), 6, false), {pattern})"


def _to_timestamp_ltz(arguments: Sequence[str]) -> str:
    parsed = f"try_to_timestamp({', '.join(arguments[:2])})"
    zoned = f"to_utc_timestamp({parsed}, {arguments[2]})" if len(arguments) > 2 else parsed
    return f"headrace_time({zoned}, 3, true)"


def _watermark_type(kinds: Sequence[DataType]) -> DataType:
    kind = kinds[0]
    return Timestamp(3, local=kind.local) if isinstance(kind, Timestamp) else BIGINT


def _watermark(_kinds: Sequence[DataType], result: DataType) -> str:
    return "unix_millis(headrace_current_watermark())" if result == BIGINT else "headrace_current_watermark()"


def _bare(unit: str) -> str:
    return unit.strip("'")


def _duckdb_add(arguments: Sequence[str]) -> str:
    unit, count, time = arguments
    if _bare(unit) == "QUARTER":
        return f"({time} + to_months(CAST(3 * {count} AS INTEGER)))"
    return f"({time} + to_{_bare(unit).lower()}s({count}))"


_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _duckdb_difference(arguments: Sequence[str]) -> str:
    """Return the months between two times; DuckDB counts the end of a short month as a whole one."""
    unit, first, second = arguments
    if _bare(unit) in _MONTHS:
        return f"(whole_months({first}, {second}) // {_MONTHS[_bare(unit)]})"
    return f"CAST(date_sub({unit}, {first}, {second}) AS INTEGER)"


PARTS: tuple[Function, ...] = (
    _part("YEAR", "Year."),
    _part("QUARTER", "Quarter, 1 to 4."),
    _part("MONTH", "Month, 1 to 12."),
    _part("WEEK", "ISO week, 1 to 53.", spark="weekofyear({0})"),
    _part("DAYOFYEAR", "Day of the year, from 1."),
    _part("DAYOFMONTH", "Day of the month, from 1."),
    _part("DAYOFWEEK", "Day of the week, from Sunday = 1.", duckdb="(dayofweek({0}) + 1)"),
    _part("HOUR", "Hour, 0 to 23."),
    _part("MINUTE", "Minute, 0 to 59."),
    _part("SECOND", "Whole second, 0 to 59."),
    _part(
        "MILLISECOND",
        "Milliseconds of the second, 0 to 999.",
        spark="pmod(unix_millis(CAST({0} AS TIMESTAMP)), 1000)",
        duckdb="((epoch_ms(date_trunc('millisecond', CAST({0} AS TIMESTAMP))) % 1000 + 1000) % 1000)",
    ),
    _part(
        "EPOCH",
        "Whole seconds since 1970-01-01 UTC.",
        spark="unix_seconds(CAST({0} AS TIMESTAMP))",
        duckdb="(epoch_ms(date_trunc('second', CAST({0} AS TIMESTAMP))) // 1000)",
    ),
)

EXTRACT_FIELDS = {
    **{row.name: row.name for row in PARTS},
    "DAY": "DAYOFMONTH",
    "DOW": "DAYOFWEEK",
    "DOY": "DAYOFYEAR",
}
"""The fields of EXTRACT(field FROM time), and the function for each."""

TRUNCATIONS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
"""The units of FLOOR(time TO unit), TIMESTAMPADD and TIMESTAMPDIFF."""

CURRENT_WATERMARK = function(
    "CURRENT_WATERMARK",
    "event time",
    _watermark_type,
    "The watermark of the query, up to which rows are late; NULL before the first one.",
    spark=PerType(_watermark),
    deterministic=False,
)

TEMPORALS: tuple[Function, ...] = (
    *PARTS,
    CURRENT_WATERMARK,
    _instant("CURRENT_TIMESTAMP", _MILLIS_LTZ, "The current time."),
    _instant("NOW", _MILLIS_LTZ, "The current time."),
    _instant("LOCALTIMESTAMP", _MILLIS, "The current time, without zone."),
    _instant("CURRENT_ROW_TIMESTAMP", _MILLIS_LTZ, "The current time."),
    function(
        "CURRENT_DATE",
        "",
        DATE,
        "Today, in UTC.",
        spark="current_date()",
        duckdb="CAST(now() AS DATE)",
        never_null=True,
        deterministic=False,
    ),
    function(
        "TO_TIMESTAMP_LTZ",
        "text, [text], [text]",
        _MILLIS_LTZ,
        "A text parsed with its pattern as a time, in a time zone (UTC); NULL if it does not match.",
        spark=_to_timestamp_ltz,
    ),
    function(
        "TO_TIMESTAMP_LTZ_EPOCH",
        "number, integer",
        _MILLIS_LTZ,
        "TO_TIMESTAMP_LTZ(number [, 0 or 3]): seconds or milliseconds (3) since 1970-01-01 UTC as a time.",
        spark="headrace_time(CASE {1} WHEN 0 THEN timestamp_seconds({0}) WHEN 3 THEN timestamp_millis(CAST({0} AS BIGINT)) END, 3, false)",
        duckdb="date_trunc('millisecond', CASE {1} WHEN 0 THEN make_timestamp(CAST(trunc({0} * 1000000) AS BIGINT)) "
        "WHEN 3 THEN make_timestamp_ms(CAST(trunc({0}) AS BIGINT)) END)",
    ),
    function(
        "TO_TIMESTAMP",
        "text, [text]",
        _MILLIS,
        "A text parsed with its pattern as a time; NULL if it does not match.",
        spark="headrace_time(try_to_timestamp({*}), 3, true)",
    ),
    function(
        "TO_DATE",
        "text, [text]",
        DATE,
        "A text parsed with its pattern as a date; NULL if it does not match.",
        spark="headrace_time(try_to_date({*}), 0, true)",
    ),
    function(
        "FROM_UNIXTIME",
        "integer, [text]",
        VARCHAR,
        "Seconds since 1970-01-01 UTC, formatted with a pattern.",
        spark=_from_unixtime,
    ),
    function(
        "UNIX_TIMESTAMP",
        "[text], [text]",
        BIGINT,
        "Whole seconds since 1970-01-01 UTC: of the current time, or of a text parsed with its pattern.",
        spark=_unix_timestamp,
    ),
    function("DATE_FORMAT", "temporal, text", VARCHAR, "The time formatted with a pattern."),
    function(
        "CONVERT_TZ",
        "text, text, text",
        VARCHAR,
        "A `yyyy-MM-dd HH:mm:ss` text converted from one zone to another.",
        spark="date_format(convert_timezone({1}, {2}, CAST({0} AS TIMESTAMP_NTZ)), 'yyyy-MM-dd HH:mm:ss')",
    ),
    function(
        "TIMESTAMPADD",
        "text, integer, temporal",
        lambda kinds: moved(kinds[-1]),
        "The time plus a number of units (SECOND, MINUTE, HOUR, DAY, …).",
        spark=lambda arguments: f"timestampadd({_bare(arguments[0])}, {arguments[1]}, {arguments[2]})",
        duckdb=_duckdb_add,
    ),
    function(
        "TIMESTAMPDIFF",
        "text, temporal, temporal",
        INTEGER,
        "Whole units from the first time to the second.",
        spark=lambda arguments: (
            f"CAST(timestampdiff({_bare(arguments[0])}, {arguments[1]}, {arguments[2]}) AS INT)"
        ),
        duckdb=_duckdb_difference,
    ),
    function(
        "DATE_TRUNC",
        "text, temporal",
        _MILLIS,
        "The time rounded down to a unit; also FLOOR(time TO unit).",
        spark="date_trunc({0}, {1})",
        duckdb=SAME,
    ),
    function(
        "UNIX_MILLIS",
        "timestamp",
        BIGINT,
        "Whole milliseconds since 1970-01-01 UTC.",
        duckdb="epoch_ms(date_trunc('millisecond', {0}))",
    ),
)
