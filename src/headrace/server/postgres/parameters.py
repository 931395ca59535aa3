"""Parameters of statements: where a text has `$1`, and the text with a literal of the product's SQL in each of these places."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.server.postgres import types
from headrace.server.postgres.errors import PostgresError
from headrace.server.postgres.messages import decoded
from headrace.server.postgres.types import Value, named_type
from headrace.sql.splitting import PIECE

PARAMETERS_MAX = 65_535
_CAST = re.compile(
    r"\s*::\s*(?:pg_catalog\s*\.\s*)?(?P<name>double\s+precision|character\s+varying|"
    r"timestamp(?:\s+with(?:out)?\s+time\s+zone)?|\w+)(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?(?P<array>\s*\[\s*\])?",
    re.IGNORECASE,
)
_NULL_TYPES = {
    types.BOOL: "BOOLEAN",
    types.INT2: "SMALLINT",
    types.INT4: "INTEGER",
    types.INT8: "BIGINT",
    types.FLOAT4: "FLOAT",
    types.FLOAT8: "DOUBLE",
    types.DATES: "DATE",
    types.TIMESTAMP: "TIMESTAMP",
    types.TIMESTAMPTZ: "TIMESTAMP_LTZ",
    types.BYTEA: "BYTES",
    **dict.fromkeys(types.TEXTS, "VARCHAR"),
}


@dataclass(frozen=True)
class Bound:
    """A parameter's type (0: unknown) and value."""

    oid: int
    value: Value


@dataclass(frozen=True)
class Placeholder:
    """A `$number` at `start` to `end` of a text, where a cast `::type` to the type with the OID `cast` is part of it (0: no cast).
    `is_count` after LIMIT and OFFSET."""

    number: int
    start: int
    end: int
    cast: int = 0
    is_count: bool = False


def placeholders(text: str) -> list[Placeholder]:
    """Return the parameters in a text, outside of strings, quoted names and comments."""
    if "$" not in text:
        return []
    places: list[Placeholder] = []
    dollar, after_word, last_word = -1, False, ""
    for match in PIECE.finditer(text):
        piece, start = match.group(), match.start()
        if dollar >= 0 and match.lastgroup == "word" and piece.isdigit() and piece.isascii():
            number = int(piece) if len(piece) <= len(str(PARAMETERS_MAX)) else 0
            if not 0 < number <= PARAMETERS_MAX:
                raise PostgresError("42P02", f"there is no parameter ${piece[:20]}", position=dollar + 1)
            cast = _CAST.match(text, match.end())
            oid = named_type(cast["name"], is_array=cast["array"] is not None) if cast is not None else None
            end = cast.end() if cast is not None and oid is not None else match.end()
            places.append(Placeholder(number, dollar, end, oid or 0, last_word in ("LIMIT", "OFFSET")))
        # In the name a$1 the dollar is a character like others.
        dollar = start if piece == "$" and not after_word else -1
        after_word = match.lastgroup == "word" or piece == "$"
        if piece != "$" and match.lastgroup not in ("space", "comment"):
            last_word = piece.upper()
    return places


@dataclass
class Prepared:
    """A prepared statement, and the OIDs of its parameters, 0 for an unknown one. `counts` are the parameters after LIMIT and OFFSET.
    `hides_rows` if its client was told that it returns none."""

    text: str
    oids: tuple[int, ...]
    counts: frozenset[int] = frozenset()
    hides_rows: bool = False

    @property
    def blanks(self) -> tuple[Bound, ...]:
        """Values for a description of the statement: NULLs, and zeros where a number is required."""
        return tuple(
            Bound(oid, 0 if number in self.counts else None) for number, oid in enumerate(self.oids, 1)
        )


def prepared(text: str, oids: Sequence[int]) -> Prepared:
    """Return a prepared statement. A parameter whose type the client leaves open has that of its cast `$1::type`, and BIGINT in LIMIT."""
    places = placeholders(text)
    known = dict(enumerate(oids, 1))
    for place in places:
        inferred = place.cast or (types.INT8 if place.is_count else 0)
        known[place.number] = known.get(place.number) or inferred
    counts = frozenset(place.number for place in places if place.is_count)
    return Prepared(
        text, tuple(known.get(number, 0) for number in range(1, max(known, default=0) + 1)), counts
    )


@dataclass(frozen=True)
class Substituted:
    """A text with literals in place of its parameters; `places` have each literal's start and end in it."""

    text: str
    places: tuple[tuple[int, int, Placeholder], ...] = ()

    def original(self, offset: int) -> int:
        """Return the offset in the client's text of an offset in this one."""
        ours = theirs = 0
        for start, end, placeholder in self.places:
            if offset < start:
                break
            if offset < end:
                return placeholder.start
            ours, theirs = end, placeholder.end
        return offset - ours + theirs


def substituted(text: str, values: Sequence[Bound]) -> Substituted:
    """Return `text` with a literal in place of each parameter. Raises PostgresError 42P02 for a parameter without a value, and 0A000 for
    a value without a literal."""
    parts: list[str] = []
    places: list[tuple[int, int, Placeholder]] = []
    end = length = 0
    for placeholder in placeholders(text):
        if placeholder.number > len(values):
            raise PostgresError(
                "42P02", f"there is no parameter ${placeholder.number}", position=placeholder.start + 1
            )
        # Between spaces, so that no literal grows together with what is beside it.
        value = _cast(values[placeholder.number - 1], placeholder.cast)
        before, part = text[end : placeholder.start], f" {literal(value)} "
        parts += (before, part)
        start = length + len(before)
        length, end = start + len(part), placeholder.end
        places.append((start, length, placeholder))
    return Substituted("".join((*parts, text[end:])), tuple(places))


def _cast(bound: Bound, oid: int) -> Bound:
    """Return a value as one of another type (0: as it is). Raises PostgresError 22P02 for a text that is none."""
    if oid == 0:
        return bound
    value = bound.value
    if isinstance(value, str):
        value = types.parameter(oid, 0, value.encode("utf-8", "surrogatepass"), decoded)
    elif oid in types.TEXTS and value is not None and not isinstance(value, list | bytes):
        value = str(value)
    return Bound(oid, value)


def literal(bound: Bound) -> str:
    """Return a value as a literal of the product's SQL. Raises PostgresError 0A000 if it has none, 22021 for a zero byte in a text."""
    value = bound.value
    match value:
        case None:
            kind = _NULL_TYPES.get(bound.oid)
            return f"CAST(NULL AS {kind})" if kind else "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS {'FLOAT' if bound.oid == types.FLOAT4 else 'DOUBLE'})"
        case decimal.Decimal() if value.is_finite() and abs(value.adjusted()) <= _DIGITS_MAX:
            return format(value, "f")
        case datetime.datetime():
            text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
            return f"CAST('{text}Z' AS TIMESTAMP_LTZ)" if value.tzinfo else f"TIMESTAMP '{text}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            if "\0" in value:
                raise PostgresError("22021", "a text in a parameter contains a zero byte")
            return "'" + value.replace("'", "''") + "'"
    what = "an array" if isinstance(value, list) else "bytea" if isinstance(value, bytes) else "this number"
    hint = "Write IN with a parameter for each value." if isinstance(value, list) else None
    raise PostgresError("0A000", f"a parameter cannot be {what} in this statement", hint=hint)


_DIGITS_MAX = 100
