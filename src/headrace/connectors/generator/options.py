"""The properties of a generator store and of the streams over it. Their values are canonical texts, which plans contain."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from fractions import Fraction

from headrace.connectors.generator import distributions
from headrace.core.properties import (
    MILLISECONDS,
    PropertyReader,
    PropertySpec,
    PropertyType,
    Scope,
    Specs,
    number,
)

RATE_MAX = 1_000_000
ROWS_MAX = 10**12
_READ = Scope.RELATION | Scope.SOURCE


def _rate(text: str) -> Fraction:
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,3})?", text, re.ASCII):
        raise ValueError(text)
    rate = Fraction(text)
    if not 0 < rate <= RATE_MAX:
        raise ValueError(text)
    return rate


def _ratio(text: str) -> float:
    if not re.fullmatch(r"[01](\.[0-9]{1,9})?", text, re.ASCII) or float(text) > 1:
        raise ValueError(text)
    return float(text)


def _checked(parse: Callable[[str], object]) -> Callable[[str], str]:
    def read(text: str) -> str:
        parse(text)
        return text

    return read


_RATIO = PropertyType("a number from 0 to 1, such as 0.01", _checked(_ratio))

START = PropertySpec(
    "generator.start.timestamp",
    MILLISECONDS,
    Scope.STORE | _READ,
    "the time of the first row, in milliseconds since 1970; a later row is ready at its own time",
    default="the time of CREATE STORE; of a stream: the store's",
)
RATE = PropertySpec(
    "generator.rows.per.second",
    PropertyType(f"a number above 0, at most {RATE_MAX}", _checked(_rate)),
    _READ,
    f"rows per second of all splits together, from 0.001 to {RATE_MAX}",
    default="10",
)
ROWS = PropertySpec(
    "generator.rows",
    number(1, ROWS_MAX, f"a whole number from 1 to {ROWS_MAX}"),
    _READ,
    "the number of rows after which no more follow",
    default="unlimited",
)
SEED = PropertySpec(
    "generator.seed",
    number(0, 2**53, "a whole number from 0"),
    _READ,
    "streams with the same seed and the same columns have the same rows",
    default="0",
)
SPLITS = PropertySpec(
    "generator.splits",
    number(1, 64, "a whole number from 1 to 64"),
    _READ,
    "the number of splits, which correspond to a topic's partitions: rows are assigned to them in turn",
    default="1",
)
DISORDER = PropertySpec(
    "generator.disorder.millis",
    number(0, 86_400_000, "milliseconds, 0 to 86400000"),
    _READ,
    "the time of a row is up to so much earlier than the time at which it is ready",
    default="0",
)
LATE_RATIO = PropertySpec(
    "generator.late.ratio",
    _RATIO,
    _READ,
    "the fraction of rows that are late: `0.01` is one of a hundred",
    default="0",
)
LATE_BY = PropertySpec(
    "generator.late.millis",
    MILLISECONDS,
    _READ,
    "how much earlier the time of a late row is",
    default="60000",
)
BAD_RATIO = PropertySpec(
    "generator.bad.ratio",
    _RATIO,
    _READ,
    "the fraction of rows that cannot be read: `source.deserialization.error.handling` decides whether they end the query",
    default="0",
)
COLUMNS = PropertySpec(
    "generator.columns.",
    PropertyType(distributions.FORMS, _checked(distributions.parse)),
    _READ,
    "the values of a column, see [distributions](../guides/generator.md#distributions)",
    default="by the column's type",
    open=True,
)
_SINGLE = (RATE, ROWS, SEED, SPLITS, DISORDER, LATE_RATIO, LATE_BY, BAD_RATIO)
PROPERTIES: Specs = (START, *_SINGLE, COLUMNS)
_DEFAULTS = {
    RATE.name: "10",
    SEED.name: "0",
    SPLITS.name: "1",
    DISORDER.name: "0",
    LATE_RATIO.name: "0",
    LATE_BY.name: "60000",
    BAD_RATIO.name: "0",
}


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Return the checked properties of a store: the time of the first row."""
    start = reader.take(START)
    return {START.name: str(int(time.time() * 1000) if start is None else start)}


def source_options(reader: PropertyReader) -> dict[str, str]:
    """Return what determines the rows of a stream, apart from its columns."""
    singles: Specs = (START, *_SINGLE)
    texts = {spec.name: reader.take(spec) for spec in singles}
    given = {name: str(value) for name, value in texts.items() if value is not None}
    columns = reader.take_all(COLUMNS)
    return _DEFAULTS | given | {f"{COLUMNS.name}{name}": text for name, text in columns.items()}


def rate_of(options: Mapping[str, str]) -> Fraction:
    """Return the rows per second."""
    return _rate(options[RATE.name])
