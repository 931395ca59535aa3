"""Generated rows: each value is a function of the seed, the column's name and the number of the row. ADR 72.

Row `n` of all belongs to the split `n mod splits`, at the offset `n div splits`. It is ready `n / rate` seconds after the first row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal as Exact
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.arrow_types import arrow_type
from headrace.connectors.generator import distributions, options
from headrace.connectors.generator.distributions import Distribution
from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    DataType,
    Decimal,
    Timestamp,
    Varchar,
)

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
Hashes = np.ndarray[tuple[int], np.dtype[np.uint64]]
_MICROS = 1_000_000
_UNLIMITED = 2**62
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LETTERS_OF_HASH = 8


@dataclass(frozen=True)
class GeneratedRows:
    """The rows of a stream: `given` is the result of `options.source_options`, `started_ms` the time of the store's first row."""

    columns: tuple[Column, ...]
    given: Mapping[str, str]
    started_ms: int

    @cached_property
    def splits(self) -> int:
        """Number of splits."""
        return int(self.given[options.SPLITS.name])

    @cached_property
    def _start_us(self) -> int:
        return int(self.given.get(options.START.name, self.started_ms)) * 1000

    @cached_property
    def _rows(self) -> int:
        return int(self.given.get(options.ROWS.name, _UNLIMITED))

    @cached_property
    def row_bytes(self) -> int:
        """Size of a row, about; a batch must fit into the memory of a worker."""
        return sum(_longest(self.distribution(column)) for column in self.columns)

    def end(self, now_ms: int) -> dict[int, int]:
        """Return the offsets, by split, after all rows that are ready at a time."""
        return self._offsets(self._ready(now_ms * 1000 + 1))

    def begin(self, time_ms: int) -> dict[int, int]:
        """Return the offsets, by split, of the first rows that are ready at a time or later."""
        return self._offsets(self._ready(time_ms * 1000))

    def starts(self, position: Literal["earliest", "latest"] | int, now_ms: int) -> dict[int, int]:
        """Return the offsets, by split, of a starting position: a time is in milliseconds since 1970."""
        if isinstance(position, int):
            return self.begin(position)
        return dict.fromkeys(range(self.splits), 0) if position == "earliest" else self.end(now_ms)

    def _ready(self, before_us: int) -> int:
        """Return the number of rows that are ready before a time."""
        elapsed = before_us - self._start_us
        if elapsed <= 0:
            return 0
        rate = options.rate_of(self.given)
        # The last row is the greatest n with n / rate < elapsed.
        return min(self._rows, -(-elapsed * rate.numerator // (rate.denominator * _MICROS)))

    def _offsets(self, rows: int) -> dict[int, int]:
        return {split: (rows - split + self.splits - 1) // self.splits for split in range(self.splits)}

    def numbers(self, split: int, first: int, end: int) -> Numbers:
        """Return the numbers of the rows of a split from one offset to another."""
        return np.arange(first, end, dtype=np.int64) * self.splits + split

    def ready_us(self, numbers: Numbers) -> Numbers:
        """Return the times at which rows are ready, in microseconds since 1970."""
        rate = options.rate_of(self.given)
        # In two parts, since a number times a million does not fit for ever.
        whole, rest = np.divmod(numbers, rate.numerator)
        scale = _MICROS * rate.denominator
        times: Numbers = self._start_us + whole * scale + rest * scale // rate.numerator
        return times

    def times_us(self, numbers: Numbers) -> Numbers:
        """Return the event times of rows: the times at which they are ready, less disorder and lateness."""
        times = self.ready_us(numbers)
        disorder = int(self.given[options.DISORDER.name])
        if disorder:
            times = times - (self._hashes("disorder", numbers) % np.uint64(disorder * 1000 + 1)).astype(
                np.int64
            )
        late = self._chosen("late", float(self.given[options.LATE_RATIO.name]), numbers)
        return times - late.astype(np.int64) * int(self.given[options.LATE_BY.name]) * 1000

    def bad(self, numbers: Numbers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which rows cannot be read."""
        return self._chosen("bad", float(self.given[options.BAD_RATIO.name]), numbers)

    def values(self, numbers: Numbers, times_us: Numbers) -> list[pa.Array]:
        """Return the columns of rows with these numbers and event times."""
        return [self._column(column, numbers, times_us) for column in self.columns]

    def _column(self, column: Column, numbers: Numbers, times_us: Numbers) -> pa.Array:
        distribution = self.distribution(column)
        hashes = self._hashes(f"column {column.name}", numbers)
        missing = self._chosen(f"nulls {column.name}", distribution.nulls, numbers)
        match distribution.kind:
            case distributions.Time():
                values = _times(times_us, column.type)
            case distributions.Choices() as choices:
                values = _choices(choices, column.type, hashes)
            case distributions.Text() as text:
                values = _texts(text, hashes)
            case distributions.Uniform() as uniform:
                values = _uniform(uniform, column, hashes)
            case distributions.Zipf() as zipf:
                ranks = np.searchsorted(_cumulated(zipf), _units(hashes), side="right") + 1
                values = _numbered(ranks.astype(np.int64), column)
            case distributions.Sequence(start, step):
                values = _numbered(start + numbers * step, column)
        values = values.cast(arrow_type(column.type), safe=False)
        return (
            pc.if_else(pa.array(missing), pa.scalar(None, values.type), values) if missing.any() else values
        )

    def distribution(self, column: Column) -> Distribution:
        """Return the distribution of a column. Raises UserError 0A000 for a type that cannot be generated, 42804 for a misfit."""
        text = self.given.get(f"{options.COLUMNS.name}{column.name}")
        distribution = distributions.parse(text) if text is not None else distributions.default(column.type)
        if distribution is None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the column {column.name} is {column.type}: a generator creates single values only",
                hint="Declare columns of single values, and nest them in a query.",
            )
        reason = distributions.misfit(distribution, column.type)
        if reason is None and distribution.nulls and not column.nullable:
            reason = "it is NOT NULL"
        if reason is not None:
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                f"the column {column.name} cannot have the values {text or 'of its type'}: {reason}",
                hint=f"'{options.COLUMNS.name}{column.name}' is {distributions.FORMS}.",
            )
        return distribution

    def _hashes(self, purpose: str, numbers: Numbers) -> Hashes:
        digest = hashlib.blake2b(
            f"{self.given[options.SEED.name]}/{purpose}".encode(), digest_size=8
        ).digest()
        return mixed(np.frombuffer(digest, "<u8")[0], numbers)

    def _chosen(
        self, purpose: str, ratio: float, numbers: Numbers
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if ratio == 0:
            return np.zeros(len(numbers), np.bool_)
        return _units(self._hashes(purpose, numbers)) < ratio


def check(columns: Sequence[Column], given: Mapping[str, str]) -> None:
    """Raise UserError 42703, 0A000 or 42804 if columns cannot have their distributions."""
    names = {column.name for column in columns}
    for name in given:
        specified = name.removeprefix(options.COLUMNS.name)
        if specified != name and specified not in names:
            raise UserError(
                SqlState.UNDEFINED_COLUMN,
                f"'{name}' is for a column that does not exist",
                hint=f"Columns: {', '.join(sorted(names))}.",
            )
    rows = GeneratedRows(tuple(columns), given, 0)
    for column in columns:
        rows.distribution(column)


def _longest(distribution: Distribution) -> int:
    match distribution.kind:
        case distributions.Text(_, longest):
            return 16 + longest
        case distributions.Choices(values):
            return 16 + max(map(len, values))
    return 16


def mixed(salt: np.uint64, numbers: Numbers) -> Hashes:
    """Return a hash of each number (SplitMix64): the same on every machine and in every version."""
    with np.errstate(over="ignore"):
        bits = numbers.astype(np.uint64) * _GOLDEN + salt
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def _units(hashes: Hashes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return numbers from 0 up to 1."""
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _times(times_us: Numbers, kind: DataType) -> pa.Array:
    if kind == BIGINT:
        return pa.array(times_us // 1000)
    if kind == DATE:
        return pa.array((times_us // (86_400 * _MICROS)).astype(np.int32)).cast(pa.date32())
    unit = 10 ** (6 - kind.digits) if isinstance(kind, Timestamp) else 1
    return pa.array(times_us // unit * unit).cast(pa.timestamp("us", "UTC"))


def _choices(choices: distributions.Choices, kind: DataType, hashes: Hashes) -> pa.Array:
    cumulated = np.cumsum(choices.weights)
    places = np.searchsorted(cumulated, _units(hashes) * cumulated[-1], side="right")
    values = [distributions.value(text, kind) for text in choices.values]
    return pa.array(values, arrow_type(kind)).take(pa.array(places))


def _uniform(uniform: distributions.Uniform, column: Column, hashes: Hashes) -> pa.Array:
    kind = column.type
    if kind in (FLOAT, DOUBLE):
        low, high = float(uniform.low), float(uniform.high)
        return pa.array(low + _units(hashes) * (high - low))
    scale = _scale(uniform, kind) if isinstance(kind, Decimal) else 0
    low, high = int(uniform.low.scaleb(scale)), int(uniform.high.scaleb(scale))
    numbers = low + (hashes % np.uint64(high - low + 1)).astype(np.int64)
    if not scale:
        return _numbered(numbers, column)
    unit = pa.scalar(Exact(1).scaleb(-scale), pa.decimal128(scale + 1, scale))
    return pc.multiply(pa.array(numbers).cast(pa.decimal128(19, 0)), unit)


def _scale(uniform: distributions.Uniform, kind: Decimal) -> int:
    """Return the number of digits after the point that random numbers have: together with those before it, they fit into 64 bits."""
    before = len(str(int(max(abs(uniform.low), abs(uniform.high)))))
    return min(kind.scale, max(0, 17 - before))


def _numbered(numbers: Numbers, column: Column) -> pa.Array:
    """Return whole numbers as values of a column; texts are the column's name and the number."""
    kind = column.type
    if isinstance(kind, Varchar):
        texts = pc.binary_join_element_wise(f"{column.name}_", pa.array(numbers).cast(pa.string()), "")
        return texts if kind.length is None else pc.utf8_slice_codeunits(texts, 0, kind.length)
    if kind in INTEGRAL:
        return pa.array(
            numbers.astype(
                {"TINYINT": np.int8, "SMALLINT": np.int16, "INTEGER": np.int32}.get(str(kind), np.int64)
            )
        )
    return pa.array(numbers).cast(pa.decimal128(19, 0)) if isinstance(kind, Decimal) else pa.array(numbers)


def _texts(text: distributions.Text, hashes: Hashes) -> pa.Array:
    count = len(hashes)
    words = -(-text.longest // _LETTERS_OF_HASH)
    parts = [mixed(np.uint64(word), hashes.astype(np.int64)) for word in range(words)]
    letters = (
        np.stack(parts, axis=1).astype("<u8").view(np.uint8)[:, : text.longest]
        if parts
        else np.zeros((count, 0), np.uint8)
    )
    letters = (letters % 26 + ord("a")).astype(np.uint8)
    lengths = text.shortest + (hashes % np.uint64(text.longest - text.shortest + 1)).astype(np.int64)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    chosen = letters[np.arange(text.longest) < lengths[:, None]]
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(chosen))]
    )


@lru_cache(maxsize=64)
def _cumulated(zipf: distributions.Zipf) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the probability of each rank and all ranks before it, without the last."""
    weights = np.arange(1, zipf.ranks + 1, dtype=np.float64) ** -zipf.exponent
    cumulated = np.cumsum(weights)
    probabilities: np.ndarray[tuple[int], np.dtype[np.float64]] = cumulated[:-1] / cumulated[-1]
    return probabilities
