"""The corpus of functions on Flink: the expressions of `tests/functions/corpus` that Flink accepts, and their values there.

Flink evaluates constant expressions when it plans a query, so that no job is needed. It has no literals of arrays, maps and rows, so that
JSON_STRING writes each as a text. What it leaves in the plan is not compared: JSON_OBJECT and JSON_ARRAY, NaN, infinities, and what is
random. Aggregates are no constants, and run in a job each.
The corpus has the values here, which its own tests compare with both of our engines. A value that differs in Flink is accepted if
`ACCEPTED` has it, with the first cell of the row of docs/differences-from-flink.md that explains it.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from harness.flink import Flink, FlinkError
from headrace.core.types import DataType
from tests.differential.accepted import ACCEPTED, NOT_ASKED
from tests.functions.corpus import Line, aggregate_groups, scalar_lines

ERROR = "error"
"""The value of an expression that ends a query, with whatever error."""
_TEXTS = ("CHAR", "VARCHAR")
_WHOLE = ("ARRAY", "MAP", "ROW", "MULTISET")
_TIME = re.compile(r"(\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d*?)0*(Z?)")
_TYPE = r"[A-Z_]+(?:\(\d+(?:, \d+)?\))?"
_ITEM = re.compile(
    r"Calc\(select=\[(?P<cast>CAST\()?"
    r"(?:(?P<null>null):.*?|'(?P<text>(?:[^']|'')*)'|X'(?P<bytes>[0-9a-f]*)'|(?P<plain>true|false|[-\d][-\d:. ]*(?:E[-+]?\d+)?))"
    rf"(?(cast) AS (?P<type>{_TYPE})\)) AS x\]\)",
    re.DOTALL,
)
_CASTS = {
    "text": ("VARCHAR", "CHAR"),
    "bytes": ("VARBINARY", "BINARY"),
    "plain": ("BOOLEAN", "INTEGER", "BIGINT", "SMALLINT", "TINYINT"),
}
"""Types of casts that only let a literal be NULL."""


@dataclass(frozen=True)
class Value:
    """Answer of Flink to an expression: its type, and the value as text, or ERROR."""

    kind: str
    text: str | None


@dataclass(frozen=True)
class OnFlink:
    """The values of the expressions that Flink evaluates when it plans, how many it leaves, and how many it does not accept."""

    values: dict[str, Value]
    left: int
    refused: int


@dataclass(frozen=True)
class Difference:
    """An expression, its value here, and the value in Flink, as the report shows them."""

    text: str
    here: str
    flink: str

    @property
    def reason(self) -> str | None:
        """The accepted reason; None if there is none, or Flink's value is not the one that was accepted."""
        value, reason = ACCEPTED.get(self.text, ("", ""))
        return reason if value == self.flink else None


def expressions() -> dict[str, Line]:
    """Return the expressions of the corpus by the texts that the report has: of an aggregate, with the values that it is over."""
    aggregates = {text: line for text, line, _ in _aggregates()}
    return {**{line.text: line for line in scalar_lines()}, **aggregates}


def _aggregates() -> Iterator[tuple[str, Line, str]]:
    """Yield the name, the line and the input of each aggregate."""
    for group in aggregate_groups():
        rows = ", ".join(f"({_literal(value, group.kind)})" for value in group.values)
        values = ", ".join("NULL" if value is None else str(value) for value in group.values)
        for line in group.lines:
            yield f"{line.text} of {group.kind} {values}", line, f"(VALUES {rows}) AS t(x)"


def _literal(value: Any, kind: DataType) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    text = str(value).removesuffix("+00:00")
    special = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return f"CAST('{special.get(text, text)}' AS {kind})"


def evaluated(flink: Flink) -> OnFlink:
    """Have Flink plan each scalar expression of the corpus, and run each aggregate."""
    values: dict[str, Value] = {}
    left = refused = 0
    for line in scalar_lines():
        if line.text in NOT_ASKED:
            continue
        query = f"SELECT {line.text} AS x"
        try:
            ((_, kind),) = flink.columns(query)
            if kind.startswith(_WHOLE):
                value = planned("VARCHAR", *flink.explain(f"SELECT JSON_STRING({line.text}) AS x"))
            else:
                value = planned(kind, *flink.explain(query))
        except FlinkError:
            refused += 1
            continue
        if value is None:
            left += 1
        else:
            values[line.text] = Value(kind, value.text)
    for name, line, source in _aggregates():
        try:
            ((_, kind),) = flink.columns(f"SELECT {line.text} AS x FROM {source}")
            text = f"JSON_STRING({line.text})" if kind.startswith(_WHOLE) else f"CAST({line.text} AS VARCHAR)"
            query = f"SELECT {text} AS x FROM {source}"
            flink.explain(query)
        except FlinkError:
            refused += 1
            continue
        if kind.startswith("MULTISET"):
            # JSON_STRING accepts one and fails.
            left += 1
            continue
        try:
            (result,) = flink.last(query)
        except FlinkError:
            result = ERROR
        values[name] = Value(kind, result)
    return OnFlink(values, left, refused)


def planned(kind: str, plan: str, log: str) -> Value | None:
    """Return the value of the only item of a plan, ERROR if Flink failed to evaluate it; None if it is no constant."""
    # Not what makes a literal of the value, which fails for NaN.
    if re.search(r"at ExpressionReducer\$\d+\.map\(", log):
        return None if kind.startswith(_WHOLE) else Value(kind, ERROR)
    matched = _ITEM.search(plan)
    if matched is None:
        return None
    if matched["null"]:
        return Value(kind, None)
    form = next(form for form in ("text", "bytes", "plain") if matched[form] is not None)
    if matched["type"] and not matched["type"].startswith(_CASTS[form]):
        return None
    if form == "bytes":
        return Value(kind, base64.b64encode(bytes.fromhex(matched[form])).decode())
    return Value(kind, matched[form].replace("''", "'"))


def differences(there: OnFlink) -> list[Difference]:
    """Compare Flink's values with those of the corpus."""
    differing = []
    for text, line in expressions().items():
        if text in there.values:
            value = there.values[text]
            here, flink = _here(line, value.kind), value.text
            if flink != ERROR:
                flink = canonical(flink, value.kind)
            if not _is_equal(here, flink, value.kind):
                differing.append(Difference(text, _shown(here), _shown(flink)))
    return differing


def outdated(differing: Sequence[Difference]) -> list[str]:
    """Return the accepted expressions that do not differ."""
    return sorted(ACCEPTED.keys() - {difference.text for difference in differing})


def _here(line: Line, kind: str) -> str | None:
    return ERROR if line.error else canonical(line.expected, kind)


def canonical(value: str | None, kind: str) -> str | None:
    """Return a value in one spelling: times without zeros that add nothing, and without the zone, which is UTC."""
    if value is None or kind.startswith(_TEXTS):
        return value
    if matched := _TIME.fullmatch(value):
        return matched[1] + matched[2].rstrip(".")
    return value


def _is_equal(here: str | None, there: str | None, kind: str) -> bool:
    if here == there or here is None or there is None or kind.startswith(_TEXTS):
        return here == there
    if kind.startswith(_WHOLE) and ERROR not in (here, there):
        return _plain(json.loads(here, parse_float=str)) == _plain(json.loads(there, parse_float=str))
    try:
        ours, flinks = Decimal(here), Decimal(there)
    except InvalidOperation:
        return False
    if kind.startswith(("DOUBLE", "FLOAT")):
        return math.isclose(_rounded(here, kind), _rounded(there, kind), rel_tol=1e-14) or ours == flinks
    return ours == flinks


def _plain(value: Any) -> Any:
    """Return a value of JSON with numbers in one spelling: a DECIMAL is a text here, and a number in Flink."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if value is None or isinstance(value, bool):
        return str(value)  # In Python, True is the number 1.
    try:
        return Decimal(value)
    except InvalidOperation:
        return value


def _rounded(text: str, kind: str) -> float:
    """Return the number of a text in the precision of its type, beyond which it is infinite."""
    try:
        return (
            struct.unpack("f", struct.pack("f", float(text)))[0] if kind.startswith("FLOAT") else float(text)
        )  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, float(text))


def _shown(value: str | None) -> str:
    return "NULL" if value is None else value
