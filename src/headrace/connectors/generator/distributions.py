"""Distributions of the values of a generated column: their text, and whether they fit a data type. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal as Exact
from typing import Any

from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    DataType,
    Decimal,
    Timestamp,
    Varchar,
    is_numeric,
)
from headrace.core.wording import with_article

FORMS = "sequence, uniform(low, high), zipf(ranks), values('a': 5, 'b'), text(length) or time, each with `nulls fraction`"
_RANKS_MAX = 100_000
_LENGTH_MAX = 1000
_VALUES_MAX = 1000
_NUMBER_MAX = 10**17
_FORM = re.compile(r"\s*([a-z]+)\s*(?:\((.*)\))?(?:\s+nulls\s+([0-9.]+))?\s*\Z", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^',:]+?))\s*(?::\s*([0-9]+(?:\.[0-9]+)?))?\s*(?:,|\Z)")
_INTEGERS = {"TINYINT": 2**7, "SMALLINT": 2**15, "INTEGER": 2**31, "BIGINT": 2**63}


@dataclass(frozen=True)
class Sequence:
    """`start`, and `step` more for each row."""

    start: int = 0
    step: int = 1


@dataclass(frozen=True)
class Uniform:
    """Numbers from `low` to `high`; both are possible if the column has whole numbers."""

    low: Exact
    high: Exact


@dataclass(frozen=True)
class Zipf:
    """Ranks from 1 to `ranks`: rank r is as frequent as 1 / r to the power of `exponent`."""

    ranks: int
    exponent: float = 1.0


@dataclass(frozen=True)
class Choices:
    """Texts of values with their weights."""

    values: tuple[str, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Text:
    """Random lower-case letters, from `shortest` to `longest` of them."""

    shortest: int
    longest: int


@dataclass(frozen=True)
class Time:
    """The time of the row."""


Kind = Sequence | Uniform | Zipf | Choices | Text | Time


@dataclass(frozen=True)
class Distribution:
    """Values of a column; `nulls` is the fraction of NULLs."""

    kind: Kind
    nulls: float = 0.0


def parse(text: str) -> Distribution:
    """Read a distribution. Raises ValueError."""
    match = _FORM.match(text)
    if match is None:
        raise ValueError(text)
    nulls = float(match[3] or 0)
    if not 0 <= nulls <= 1:
        raise ValueError(text)
    return Distribution(_kind(match[1].lower(), match[2]), nulls)


def _kind(word: str, inside: str | None) -> Kind:
    if word == "values":
        return _choices(inside or "")
    arguments = [Exact(part.strip()) for part in inside.split(",")] if inside else []
    if any(not argument.is_finite() or abs(argument) > _NUMBER_MAX for argument in arguments):
        raise ValueError(inside)
    match word, arguments:
        case "sequence", [*given] if len(given) <= 2:
            return Sequence(*map(_whole, given))
        case "uniform", [low, high] if low <= high:
            return Uniform(low, high)
        case "zipf", [ranks, *exponent] if 1 <= _whole(ranks) <= _RANKS_MAX and len(exponent) <= 1:
            if exponent and not 0 <= exponent[0] <= 10:
                raise ValueError(inside)
            return Zipf(int(ranks), *map(float, exponent))
        case "text", [shortest, *longest] if len(longest) <= 1:
            text = Text(_whole(shortest), _whole(longest[0] if longest else shortest))
            if not 0 <= text.shortest <= text.longest <= _LENGTH_MAX:
                raise ValueError(inside)
            return text
        case "time", []:
            return Time()
    raise ValueError(word)


def _whole(number: Exact) -> int:
    if number != int(number):
        raise ValueError(number)
    return int(number)


def _choices(inside: str) -> Choices:
    values, weights, position = [], [], 0
    while position < len(inside):
        match = _VALUE.match(inside, position)
        if match is None or match.end() == position:
            raise ValueError(inside)
        values.append(match[1].replace("''", "'") if match[1] is not None else match[2])
        weights.append(float(match[3] or 1))
        position = match.end()
    if not 0 < len(values) <= _VALUES_MAX or sum(weights) <= 0:
        raise ValueError(inside)
    return Choices(tuple(values), tuple(weights))


def default(kind: DataType) -> Distribution | None:
    """Return the distribution of a column for which none is specified; None if its type cannot be generated."""
    if kind == BOOLEAN:
        return Distribution(Choices(("true", "false"), (1.0, 1.0)))
    if isinstance(kind, Varchar):
        return Distribution(Zipf(10))
    if is_numeric(kind):
        limit = 10 ** (kind.precision - kind.scale) - 1 if isinstance(kind, Decimal) else 100
        return Distribution(Uniform(Exact(0), Exact(min(limit, 100))))
    if kind == DATE or isinstance(kind, Timestamp):
        return Distribution(Time())
    return Distribution(Text(8, 8)) if kind == BYTES else None


def misfit(distribution: Distribution, kind: DataType) -> str | None:
    """Return the reason why a column of a type cannot have these values; None if it can."""
    values = distribution.kind
    is_text = isinstance(kind, Varchar)
    fits = {
        Sequence: is_text or is_numeric(kind),
        Zipf: is_text or is_numeric(kind),
        Uniform: is_text or is_numeric(kind),
        Text: is_text or kind == BYTES,
        Time: kind in (DATE, BIGINT) or isinstance(kind, Timestamp),
        Choices: is_text or kind == BOOLEAN or is_numeric(kind),
    }
    if not fits[type(values)]:
        return f"{type(values).__name__.lower()} does not fit the type {kind}"
    if isinstance(values, Choices):
        return _unreadable(values, kind)
    if (
        isinstance(values, Text)
        and isinstance(kind, Varchar)
        and values.longest > (kind.length or _LENGTH_MAX)
    ):
        return f"a text of {values.longest} characters does not fit the type {kind}"
    return _too_large(values, kind)


def _unreadable(values: Choices, kind: DataType) -> str | None:
    for text in values.values:
        try:
            value(text, kind)
        except (ValueError, ArithmeticError):
            return f"{text!r} is not {with_article(str(kind))}"
    return None


def _too_large(values: Kind, kind: DataType) -> str | None:
    """Compare the bounds with the type. A sequence has none: it wraps around at the end of its type."""
    bounds: tuple[Exact, ...] = ()
    if isinstance(values, Uniform):
        bounds = (values.low, values.high)
    elif isinstance(values, Zipf):
        bounds = (Exact(values.ranks),)
    limit = _INTEGERS[str(kind)] if kind in INTEGRAL else None
    if isinstance(kind, Decimal):
        limit = 10 ** (kind.precision - kind.scale)
    beyond = next((bound for bound in bounds if limit is not None and not -limit <= bound < limit), None)
    return None if beyond is None else f"{beyond} does not fit the type {kind}"


def value(text: str, kind: DataType) -> Any:
    """Return the Python value of a text in `values`. Raises ValueError or ArithmeticError."""
    if kind == BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if kind in INTEGRAL:
        number, limit = int(text), _INTEGERS[str(kind)]
        if not -limit <= number < limit:
            raise ValueError(text)
        return number
    if kind in (FLOAT, DOUBLE):
        return float(text)
    if isinstance(kind, Decimal):
        exact = Exact(text).quantize(Exact(1).scaleb(-kind.scale))
        if abs(exact) >= 10 ** (kind.precision - kind.scale):
            raise ValueError(text)
        return exact
    if isinstance(kind, Varchar) and kind.length is not None and len(text) > kind.length:
        raise ValueError(text)
    return text
