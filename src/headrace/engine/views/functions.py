"""Functions of the catalogue that DuckDB lacks or defines otherwise, in Python.

A continuous query and a query of views must give the same answer: see tests/functions. A function of NULL is NULL. None of these
takes long for any value, for the server waits while they run: regular expressions are left to DuckDB's own engine.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import re
import struct
import zoneinfo
from collections.abc import Callable
from typing import Any

import duckdb
from duckdb.func import FunctionNullHandling

from headrace.core.types import TEXT_LENGTH_MAX
from headrace.core.wording import with_article
from headrace.engine.views import text_functions
from headrace.engine.views.json_functions import json_answer, json_kind, json_quoted, json_unquoted

OWN_ERROR = re.compile(r"\[(22\d{3}|0A000|38000|53000)\] ([^\n]*)")
"""Report of a function that cannot take a value: the SQLSTATE in brackets, then the reason."""
_EXACT = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP)
"""Twice as many digits as a product or a quotient of 38 digits needs to be rounded rightly."""
_CALCULATIONS: dict[str, Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
    "%": _EXACT.remainder,
}
_BLANKS = "".join(map(chr, range(0x21)))
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FLOATING = re.compile(rf"({_NUMBER})[fFdD]?|([+-]?(?:inf|infinity)|nan)", re.IGNORECASE)
_VALUES = {
    "INTEGER": re.compile(r"([+-]?[0-9]+)"),
    "DECIMAL": re.compile(rf"({_NUMBER})"),
    "FLOAT": _FLOATING,
    "DOUBLE": _FLOATING,
    "BOOLEAN": re.compile(r"(t|true|y|yes|1|f|false|n|no|0)", re.IGNORECASE),
}
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIME = re.compile(r"[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)? *(\S.*)?")
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?")
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
_FLOAT_LIMIT = 3.4028235677973366e38
_REPLACEMENT = re.compile(r"\\(.)|\$(\d)|[\\$]", re.DOTALL)


def install(database: duckdb.DuckDBPyConnection) -> None:
    """Register the functions with every cursor of a database."""
    text, number, floating, flag = "VARCHAR", "INTEGER", "DOUBLE", "BOOLEAN"
    functions: tuple[tuple[str, Callable[..., Any], list[str], str], ...] = (
        ("decimal_arithmetic", _decimal_arithmetic, [text, text, text, number, number], text),
        ("double_arithmetic", _double_arithmetic, [text, floating, floating], text),
        ("round_double", _round_double, [floating, number], text),
        ("double_as_text", double_as_text, [floating], text),
        ("float_as_text", _float_as_text, ["FLOAT"], text),
        ("finite_text", _finite_text, [floating], text),
        ("as_float", _as_float, [floating], text),
        ("trimmed_value", _trimmed_value, [text, text, flag], text),
        ("time_of_text", _time_of_text, [text, text, flag], "TIMESTAMP"),
        ("upper_text", lambda value: value.upper(), [text], text),
        ("lower_text", lambda value: value.lower(), [text], text),
        ("reversed_text", lambda value: value[::-1], [text], text),
        ("repeated", _repeated, [text, number], text),
        ("padded", _padded, [text, text, number, text], text),
        ("like_pattern", _like_pattern, [text, text], text),
        ("replacement", _replacement, [text], text),
        ("json_answer", json_answer, [text, text, text], text),
        ("json_kind", json_kind, [text], text),
        ("json_quoted", json_quoted, [text], text),
        ("json_unquoted", json_unquoted, [text], text),
        ("truncated", text_functions.truncated, [text, number], text),
        ("url_encoded", text_functions.url_encoded, [text], text),
        ("url_decoded", text_functions.url_decoded, [text], text),
        ("address_number", text_functions.address_number, [text], "BIGINT"),
        ("address_text", text_functions.address_text, ["BIGINT"], text),
        ("keyed_hash", text_functions.keyed_hash, [text, text, text], text),
        ("similar_pattern", text_functions.similar_pattern, [text, text], text),
        ("whole_months", _whole_months, ["TIMESTAMP", "TIMESTAMP"], number),
    )
    for name, function, arguments, result in functions:
        kinds: Any = arguments
        database.create_function(
            name, _of_values(function), kinds, result, null_handling=FunctionNullHandling.SPECIAL
        )


def _of_values(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return None if None in arguments else function(*arguments)

    return call


def _decimal_arithmetic(operator: str, left: str, right: str, precision: int, scale: int) -> str:
    """Return the result of an operator over two decimal texts as a DECIMAL(precision, scale), rounded half away from zero."""
    divisor = decimal.Decimal(right)
    if operator in "/%" and not divisor:
        raise ValueError("[22012] division by zero")
    quotient = _CALCULATIONS[operator](decimal.Decimal(left), divisor)
    result = quotient.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
    if len(result.as_tuple().digits) > precision:
        raise ValueError(f"[22003] {quotient:f} does not fit into DECIMAL({precision}, {scale})")
    return format(result, "f")


def _double_arithmetic(operator: str, left: float, right: float) -> str:
    """Return the quotient or the remainder of two DOUBLEs, as text: DuckDB takes a NaN from Python for NULL."""
    if right == 0:
        raise ValueError("[22012] division by zero")
    if operator == "/":
        return repr(left / right)
    return "nan" if math.isinf(left) else repr(math.fmod(left, right))


def _round_double(value: float, places: int) -> str:
    """Round half away from zero, in the decimal digits with which a DOUBLE is written."""
    if not math.isfinite(value):
        return repr(value)
    unit = decimal.Decimal(1).scaleb(-places)
    context = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)
    rounded = decimal.Decimal(repr(value)).quantize(unit, context=context)
    return str(rounded) if rounded else "0"


def double_as_text(value: float) -> str:
    """Return a DOUBLE as Java writes it: 1.0E20, NaN, Infinity."""
    return _java(value, repr(value))


def _float_as_text(value: float) -> str:
    written = (f"{value:.{digits}g}" for digits in range(1, 10))
    same = (text for text in written if struct.pack("f", float(text)) == struct.pack("f", value))
    return _java(value, next(same, repr(value)) if math.isfinite(value) else "")


def _java(value: float, digits: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    exact = decimal.Decimal(digits)
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        text = format(exact, "f")
        return text if "." in text else f"{text}.0"
    sign, places, _ = exact.as_tuple()
    fraction = "".join(map(str, places[1:])).rstrip("0") or "0"
    return f"{'-' if sign else ''}{places[0]}.{fraction}E{exact.adjusted()}"


def _finite_text(value: float) -> str | None:
    return repr(value) if math.isfinite(value) else None


def _as_float(value: float) -> str:
    """Return a DOUBLE that a FLOAT can hold, as text: beyond its range it is infinite."""
    return repr(math.copysign(math.inf, value) if abs(value) >= _FLOAT_LIMIT else value)


def _trimmed_value(text: str, kind: str, safe: bool) -> str | None:
    """Return the part of a text that DuckDB reads as a value of a kind; raises an error for other characters, or returns None if `safe`."""
    trimmed = text.strip(_BLANKS)
    value = _VALUES[kind].fullmatch(trimmed)
    if value:
        return next(group for group in value.groups() if group is not None)
    _refuse(text, kind, safe)
    return None


def _refuse(text: str, kind: str, safe: bool) -> None:
    if not safe:
        raise ValueError(f"[22000] the text {text[:100]!r} is not {with_article(kind)}")


def _time_of_text(text: str, kind: str, safe: bool) -> datetime.datetime | None:
    """Return a DATE or TIMESTAMP of an ISO text, in UTC where it names a zone."""
    try:
        moment = _moment(text.strip(_BLANKS), kind)
    except OverflowError as error:
        if not safe:
            raise ValueError("[22003] a DATE or TIMESTAMP must be within the years 1 to 9999") from error
        return None
    except (ValueError, zoneinfo.ZoneInfoNotFoundError):
        moment = None
    if moment is None:
        _refuse(text, kind, safe)
    return moment


def _moment(text: str, kind: str) -> datetime.datetime | None:
    date = _DATE.match(text)
    if date is None:
        return None
    day, rest = datetime.datetime(int(date[1]), int(date[2] or 1), int(date[3] or 1)), text[date.end() :]
    if not rest or (kind == "DATE" and date[3] and rest[0] in " T"):
        return day
    time = _TIME.fullmatch(rest)
    if time is None or not date[3]:
        return None
    hour, minute, second = int(time[1]), int(time[2]), int(time[3] or 0)
    moment = day.replace(
        hour=hour, minute=minute, second=second, microsecond=int((time[4] or "")[:6].ljust(6, "0"))
    )
    if time[5] is None:
        return moment
    return moment.replace(tzinfo=_zone(time[5])).astimezone(datetime.UTC).replace(tzinfo=None)


def _zone(name: str) -> datetime.tzinfo:
    offset = _OFFSET.fullmatch(name)
    if offset is None:
        return datetime.UTC if name in ("Z", "UTC") else zoneinfo.ZoneInfo(name)
    distance = datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
    return datetime.timezone(distance if offset[1] == "+" else -distance)


def _repeated(text: str, times: int) -> str:
    _refuse_long("REPEAT", len(text) * times)
    return text * times


def _refuse_long(function: str, length: int) -> None:
    if length > TEXT_LENGTH_MAX:
        raise ValueError(
            f"[53000] {function} would return a text of {length} characters; "
            f"a query of materialized views allows {TEXT_LENGTH_MAX}"
        )


def _padded(side: str, text: str, length: int, filling: str) -> str:
    """Return a text of that length: cut, or filled on a side."""
    _refuse_long("LPAD" if side == "left" else "RPAD", length)
    missing = length - len(text)
    if missing <= 0 or not filling:
        return text[: max(length, 0)]
    added = (filling * (missing // len(filling) + 1))[:missing]
    return added + text if side == "left" else text + added


def _like_pattern(pattern: str, escape: str) -> str:
    """Return the pattern after a check that each escape precedes a character that can be escaped."""
    if len(escape) != 1:
        raise ValueError(f"[22000] the escape character of LIKE must be one character, found {escape!r}")
    if re.sub(re.escape(escape) + r"[%_" + re.escape(escape) + "]", "", pattern).count(escape):
        raise ValueError(f"[22000] the escape character {escape} in {pattern!r} must precede %, _ or itself")
    return pattern


def _replacement(text: str) -> str:
    """Return Java's $1 and escapes, as DuckDB writes them."""

    def part(match: re.Match[str]) -> str:
        if match[2] is not None:
            return f"\\{match[2]}"
        if match[1] is None:
            raise ValueError(f"[22000] {match[0]} in the replacement {text!r} is not a group of the pattern")
        return "\\\\" if match[1] == "\\" else match[1]

    return _REPLACEMENT.sub(part, text)


def _whole_months(first: datetime.datetime, second: datetime.datetime) -> int:
    """Return whole months from the first time to the second; negative when it is the earlier one."""
    months = 12 * (second.year - first.year) + second.month - first.month
    rests = [(moment.day, moment.time()) for moment in (first, second)]
    if months > 0 and rests[1] < rests[0]:
        return months - 1
    return months + 1 if months < 0 and rests[1] > rests[0] else months
