"""Observed values at one place of sampled records, and the narrowest data type that reads all of them. Pure; ADR 73.

A sample is hostile input: the depth of types, the number of fields, and the work for each value are limited here.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal as Exact

from headrace.core.errors import UserError
from headrace.core.names import Identifier, printed
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
)
from headrace.core.wording import counted, plural

DEPTH_MAX = 12
"""Deeper values are VARCHAR, which reads any value as its JSON text."""
_FIELDS_MAX = 2000
"""Fields of all objects together."""
_KEYS_MAX = 200
"""Names of a nested object; an object with more is a MAP."""
_ITEMS_READ = 100
_NUMBER_LENGTH_MAX = 60
_DIGITS_MAX = 38
_EXACT_DIGITS = 15
"""A DOUBLE keeps any number of so many digits."""
_VARYING_KEYS = 10
_RARE = 0.3
_NUMBER = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?([eE][+-]?[0-9]+)?\Z")
_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
_TIME = re.compile(
    r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.([0-9]{1,9}))?)?(Z|[+-](0[0-9]|1[0-8])(:?[0-5][0-9])?)?\Z"
)
_DATA_KEY = re.compile(
    r"[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
_EPOCHS = ((10**9, "seconds"), (10**12, "milliseconds"), (10**15, "microseconds"), (10**18, "nanoseconds"))
_EPOCH_SPAN = 4.2
"""Numbers from 1 to 4.2 times the power of ten are times between 2001 and 2103."""


class Number(str):
    """A number as its text, which keeps all digits."""

    __slots__ = ()


@dataclass
class Report:
    """Remarks on ambiguous columns, and the number of fields that may still be added."""

    notes: list[str] = field(default_factory=list)
    fields_left: int = _FIELDS_MAX

    def note(self, path: tuple[str, ...], text: str) -> None:
        """Add a remark on a column or a field."""
        self.notes.append(f"{'.'.join(map(printed, path))}: {text}")


@dataclass
class _Numbers:
    """Size and precision of the numbers at a place."""

    whole: bool = True
    plain: bool = True
    exact: bool = True
    digits: int = 0
    scale: int = 0
    least: int | None = None
    greatest: int | None = None

    def add(self, text: str) -> None:
        match = _NUMBER.match(text) if len(text) <= _NUMBER_LENGTH_MAX else None
        if match is None or match[3]:
            self.whole = self.plain = False
            return
        fraction = match[2] or ""
        self.digits = max(self.digits, len(match[1].lstrip("0")))
        self.scale = max(self.scale, len(fraction))
        if len((match[1] + fraction).lstrip("0")) > _EXACT_DIGITS and Exact(repr(float(text))) != Exact(text):
            self.exact = False
        if match[2] is not None:
            self.whole = False
        else:
            number = int(text)
            self.least = number if self.least is None else min(self.least, number)
            self.greatest = number if self.greatest is None else max(self.greatest, number)

    def merge(self, other: _Numbers) -> None:
        self.whole &= other.whole
        self.plain &= other.plain
        self.exact &= other.exact
        self.digits, self.scale = max(self.digits, other.digits), max(self.scale, other.scale)
        ends = [end for end in (self.least, self.greatest, other.least, other.greatest) if end is not None]
        self.least, self.greatest = (min(ends), max(ends)) if ends else (None, None)

    def type(self, path: tuple[str, ...], report: Report) -> DataType:
        if self.whole and self.least is not None and self.greatest is not None:
            if self.least >= -(2**63) and self.greatest < 2**63:
                self._note_epoch(path, report)
                return BIGINT
            if self.digits <= _DIGITS_MAX:
                report.note(path, "DECIMAL(38, 0), since a number does not fit into a BIGINT")
                return Decimal(_DIGITS_MAX, 0)
        if self.plain and not self.exact and self.digits + self.scale <= _DIGITS_MAX:
            kind = Decimal(_DIGITS_MAX, self.scale)
            report.note(path, f"{kind}, since a DOUBLE does not keep all digits of a number")
            return kind
        return DOUBLE

    def _note_epoch(self, path: tuple[str, ...], report: Report) -> None:
        least, greatest = self.least or 0, self.greatest or 0
        for power, unit in _EPOCHS:
            if power <= least and greatest < power * _EPOCH_SPAN:
                name = path[0].replace("'", "''")
                advice = f"; 'timestamp' = '{name}' uses it as the event time"
                report.note(
                    path,
                    f"BIGINT, which looks like {unit} since 1970"
                    + (advice if unit == "milliseconds" and len(path) == 1 else ""),
                )


@dataclass
class Values:
    """Values at a place: their number by kind, and for each kind what its data type depends on."""

    kinds: Counter[str] = field(default_factory=Counter)
    numbers: _Numbers = field(default_factory=_Numbers)
    forms: Counter[str] = field(default_factory=Counter)
    precision: int = 3
    fields: dict[str, Values] = field(default_factory=dict)
    items: Values | None = None
    too_many: bool = False

    @property
    def present(self) -> int:
        """Number of values that are not NULL."""
        return self.kinds.total() - self.kinds["null"]

    def add(self, value: object, report: Report, depth: int = 0) -> None:
        """Observe a value of `json.loads`, with numbers as `Number`."""
        match value:
            case None:
                self.kinds["null"] += 1
            case bool():
                self.kinds["boolean"] += 1
            case Number():
                self.kinds["number"] += 1
                self.numbers.add(value)
            case str():
                self.kinds["text"] += 1
                self._add_text(value)
            case _ if depth >= DEPTH_MAX:
                self.kinds["deep"] += 1
            case dict():
                self.kinds["object"] += 1
                self._add_object(value, report, depth)
            case list():
                self.kinds["array"] += 1
                self.items = self.items or Values()
                for item in value[:_ITEMS_READ]:
                    self.items.add(item, report, depth + 1)

    def _add_text(self, text: str) -> None:
        day = _DAY.match(text[:10])
        if day is None or not _is_day(day) or (len(text) > 10 and text[10] not in " T"):
            self.forms["other"] += 1
        elif len(text) == 10:
            self.forms["date"] += 1
        elif (time := _TIME.match(text[11:])) is None:
            self.forms["other"] += 1
        else:
            self.forms["zoned" if time[5] else "unzoned"] += 1
            if len(time[4] or "") > 3:
                self.precision = 6

    def _add_object(self, value: dict[str, object], report: Report, depth: int) -> None:
        for name, item in value.items():
            values = self.fields.get(name)
            if values is None:
                if report.fields_left <= 0 or (depth > 0 and len(self.fields) >= _KEYS_MAX):
                    self.too_many = True
                    continue
                report.fields_left -= 1
                values = self.fields[name] = Values()
            values.add(item, report, depth + 1)

    def merge(self, other: Values) -> None:
        """Add the values of another place."""
        self.kinds += other.kinds
        self.forms += other.forms
        self.precision = max(self.precision, other.precision)
        self.numbers.merge(other.numbers)
        self.too_many |= other.too_many
        for name, values in other.fields.items():
            self.fields.setdefault(name, Values()).merge(values)
        if other.items is not None:
            self.items = self.items or Values()
            self.items.merge(other.items)

    def type(self, path: tuple[str, ...], report: Report) -> DataType:
        """Return the narrowest type that reads every value, and note where the sample leaves a choice."""
        kinds = sorted(kind for kind, count in self.kinds.items() if count and kind != "null")
        if not kinds:
            report.note(path, "VARCHAR, since the sample has no value for it")
            return VARCHAR
        if len(kinds) > 1:
            report.note(path, f"VARCHAR, since the sample has values of several kinds: {', '.join(kinds)}")
            return VARCHAR
        match kinds[0]:
            case "boolean":
                return BOOLEAN
            case "number":
                return self.numbers.type(path, report)
            case "text":
                return self._text_type(path, report)
            case "object":
                return self._object_type(path, report)
            case "array":
                return Array((self.items or Values()).type(path, report))
        report.note(path, f"VARCHAR, since it is nested deeper than {DEPTH_MAX} levels")
        return VARCHAR

    def _text_type(self, path: tuple[str, ...], report: Report) -> DataType:
        forms = {form for form, count in self.forms.items() if count}
        if forms == {"date"}:
            return DATE
        if not forms <= {"zoned", "unzoned"}:
            if "other" not in forms:
                report.note(path, "VARCHAR, since some texts are dates and some are timestamps")
            return VARCHAR
        if len(forms) == 2:
            unzoned, total = self.forms["unzoned"], counted(self.forms.total(), "text")
            report.note(
                path,
                f"TIMESTAMP_LTZ, and {unzoned} of {total} {plural('has', unzoned, 'have')} no time zone: UTC is assumed",
            )
        return Timestamp(self.precision, local="zoned" in forms)

    def _object_type(self, path: tuple[str, ...], report: Report) -> DataType:
        if self.too_many or self._keys_vary():
            merged = Values()
            for values in self.fields.values():
                merged.merge(values)
            kind = Map(VARCHAR, merged.type((*path, "*"), report))
            report.note(path, "MAP, since the names of its fields differ from record to record")
            return kind
        members = tuple(self.members(path, report))
        if members:
            return Struct(tuple((name, kind) for name, kind, _ in members))
        report.note(path, "MAP, since its objects have no fields in the sample")
        return Map(VARCHAR, VARCHAR)

    def _keys_vary(self) -> bool:
        count = len(self.fields)
        if count >= 2 and all(_DATA_KEY.fullmatch(name) for name in self.fields):
            return True
        uses = sum(values.kinds.total() for values in self.fields.values())
        return count >= _VARYING_KEYS and uses < _RARE * count * self.kinds["object"]

    def members(self, path: tuple[str, ...], report: Report) -> Iterator[tuple[str, DataType, Values]]:
        """Yield the fields of the objects that a column or a field of a STRUCT can have."""
        left_out = 0
        for name, values in self.fields.items():
            if is_name(name):
                yield name, values.type((*path, name), report), values
            else:
                left_out += 1
        if left_out:
            report.notes.append(
                f"{counted(left_out, 'field')}{' of ' + '.'.join(map(printed, path)) if path else ''} {plural('is', left_out, 'are')} left "
                "out: a name must not be empty, too long, or contain invisible characters"
            )


def is_name(text: str) -> bool:
    """True if a column may have that name."""
    try:
        Identifier(text)
    except UserError:
        return False
    return True


def _is_day(match: re.Match[str]) -> bool:
    try:
        datetime.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True
