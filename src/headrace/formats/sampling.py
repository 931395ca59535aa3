"""Columns of a sample of records, for every store type whose records carry no schema. Pure; ADR 73.

A sample shows what records contain so far, not what later records may contain: the notes report where it leaves a choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headrace.core.names import printed
from headrace.core.schema import Column
from headrace.core.wording import counted
from headrace.formats.sampled_values import Number, Report, Values, is_name

COLUMNS_MAX = 1000
NOT_NULL_RECORDS = 20
"""A column is NOT NULL if at least so many records were sampled, and each has a value."""
_NOTES_MAX = 30
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class SampledColumns:
    """Columns of a sample, and remarks on what the sample leaves open. `records` is the number of the records that could be read."""

    columns: tuple[Column, ...]
    notes: tuple[str, ...]
    records: int


def json_columns(records: Iterable[bytes]) -> SampledColumns:
    """Return the columns of JSON objects. Raises ValueError with the reason if there are none."""

    def read(record: bytes) -> object:
        text = record.decode().removeprefix(_BYTE_ORDER_MARK)
        value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_refuse)
        if not isinstance(value, dict):
            raise ValueError("a record is JSON, but not an object")
        return value

    return _columns(records, read)


def csv_columns(records: Iterable[bytes], delimiter: str, header: bytes | None = None) -> SampledColumns:
    """Return the columns of lines of CSV, named by the `header` line if there is one. Raises ValueError with the reason if there are none.

    Lines with another number of fields than the first one cannot be read.
    """
    names = _header_names(csv_fields(header.decode(), delimiter)) if header is not None else []

    def read(record: bytes) -> object:
        fields = csv_fields(record.decode(), delimiter)
        if not names:
            names.extend(map(_placeholder, range(1, len(fields) + 1)))
        if len(fields) != len(names):
            raise ValueError(f"a record has {counted(len(fields), 'field')}, and others have {len(names)}")
        return dict(zip(names, map(_typed, fields), strict=True))

    sampled = _columns(records, read)
    if header is not None:
        return sampled
    note = "the names of the columns are placeholders: records of CSV contain no names"
    return SampledColumns(sampled.columns, (note, *sampled.notes), sampled.records)


def csv_fields(line: str, delimiter: str) -> list[str | None]:
    """Return the fields of a line (RFC 4180); None for an empty field without quotes. Raises ValueError."""
    line = line.removeprefix(_BYTE_ORDER_MARK).removesuffix("\n").removesuffix("\r")
    fields: list[str | None] = []
    quoted = re.compile(f'"((?:[^"]|"")*)"(?={re.escape(delimiter)}|\\Z)')
    position = 0
    while position <= len(line):
        if line[position : position + 1] == '"':
            match = quoted.match(line, position)
            if match is None:
                raise ValueError("a field has no closing quote, or text after it")
            fields.append(match[1].replace('""', '"'))
            position = match.end() + 1
        else:
            end = line.find(delimiter, position)
            end = len(line) if end < 0 else end
            text = line[position:end]
            if '"' in text or "\n" in text or "\r" in text:
                raise ValueError("a field without quotes contains a quote or a line break")
            fields.append(text or None)
            position = end + 1
    return fields


def _header_names(fields: list[str | None]) -> list[str]:
    """Return a name for each field, since fields are read by their position: a placeholder if the header has no name that fits."""
    names: list[str] = []
    for number, name in enumerate(fields, 1):
        names.append(name if name and is_name(name) and name not in names else _placeholder(number))
    return names


def _placeholder(number: int) -> str:
    return f"column_{number}"


def _columns(records: Iterable[bytes], read: Callable[[bytes], object]) -> SampledColumns:
    report, root = Report(), Values()
    count, unreadable, reason = 0, 0, ""
    for record in records:
        try:
            value = read(record)
        except (ValueError, RecursionError) as error:
            unreadable += 1
            reason = reason or _reason(error)
        else:
            count += 1
            root.add(value, report)
    if not count:
        raise ValueError(reason or "there are no records")
    if unreadable:
        report.notes.append(
            f"{unreadable} of {counted(count + unreadable, 'sampled record')} cannot be read: {reason}"
        )
    columns = _named(root, report, count)
    if root.too_many or len(columns) > COLUMNS_MAX:
        report.notes.insert(
            0, f"the records have more fields than fit: only the first {COLUMNS_MAX} are columns"
        )
    if not columns:
        raise ValueError("its records are objects without fields")
    return SampledColumns(columns[:COLUMNS_MAX], _limited(report.notes), count)


def _named(root: Values, report: Report, count: int) -> tuple[Column, ...]:
    columns = tuple(
        Column(name, kind, nullable=count < NOT_NULL_RECORDS or values.present < count)
        for name, kind, values in root.members((), report)
    )
    spellings: dict[str, list[str]] = {}
    for column in columns:
        spellings.setdefault(column.name.lower(), []).append(column.name)
    for names in spellings.values():
        if len(names) > 1:
            report.notes.append(f"{' and '.join(map(printed, names))} differ only in case")
    return columns


def _limited(notes: Sequence[str]) -> tuple[str, ...]:
    if len(notes) <= _NOTES_MAX:
        return tuple(notes)
    return (
        *notes[:_NOTES_MAX],
        f"{counted(len(notes) - _NOTES_MAX, 'more remark is', 'more remarks are')} left out",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return "a record is not JSON"
    if isinstance(error, UnicodeDecodeError):
        return "a record is not UTF-8"
    if isinstance(error, RecursionError):
        return "a record is nested too deeply"
    return str(error)


def _refuse(_word: str) -> object:
    raise ValueError("a record is not JSON")


def _typed(text: str | None) -> object:
    """Return a field of CSV as the value that its text denotes; a number with leading zeros is a text."""
    if text is None:
        return None
    if text.lower() in ("true", "false"):
        return True
    return Number(text) if _NUMBER.match(text) else text
