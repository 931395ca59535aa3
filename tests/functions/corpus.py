"""The corpus: one expression per line with its value, as on the wire. `NULL` and `error SQLSTATE` are values too.

`corpus/<family>.txt` contain scalar expressions; in `aggregates.txt`, a line `@ TYPE: value, …` sets x for the lines after it.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.analyzer.expressions import Call, Case, Cast, ColumnReference, Expression, Literal, transform
from headrace.core.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    INTERVAL,
    NULL,
    DataType,
    Decimal,
    Timestamp,
    parse_type,
)

FOLDER = Path(__file__).parent / "corpus"
_UNITS = {"TIMESTAMPADD", "TIMESTAMPDIFF", "DATE_TRUNC"}


@dataclass(frozen=True)
class Line:
    """An expression and its value."""

    text: str
    expected: str | None

    @property
    def error(self) -> str | None:
        """The SQLSTATE with which it ends a query, if it does."""
        return self.expected.removeprefix("error ") if (self.expected or "").startswith("error ") else None


@dataclass(frozen=True)
class Group:
    """Aggregates over the values of x."""

    kind: DataType
    values: list[Any]
    lines: list[Line] = field(default_factory=list)


def scalar_lines() -> list[Line]:
    """All scalar expressions."""
    files = sorted(set(FOLDER.glob("*.txt")) - {FOLDER / "aggregates.txt"})
    return [_line(text) for file in files for text in file.read_text(encoding="utf-8").splitlines()]


def aggregate_groups() -> list[Group]:
    """All aggregates, under the values that they are over."""
    groups: list[Group] = []
    for text in (FOLDER / "aggregates.txt").read_text(encoding="utf-8").splitlines():
        head = re.fullmatch(r"@ ([^:]+): (.*)", text)
        if head:
            kind = parse_type(head[1])
            groups.append(
                Group(kind, [python_value(None if v == "NULL" else v, kind) for v in head[2].split(", ")])
            )
        else:
            groups[-1].lines.append(_line(text))
    return groups


def _line(text: str) -> Line:
    expression, arrow, expected = text.rpartition(" → ")
    assert arrow, f"no → in {text!r}"
    return Line(expression, None if expected == "NULL" else expected)


def python_value(text: str | None, kind: DataType) -> Any:
    """A literal's text as Arrow takes it."""
    if text is None:
        return None
    if kind in INTEGRAL:
        return int(text)
    if kind in (DOUBLE, FLOAT):
        return float(text)
    if isinstance(kind, Decimal):
        return decimal.Decimal(text)
    if kind == BOOLEAN:
        return text == "true"
    if kind == DATE:
        return datetime.date.fromisoformat(text)
    if isinstance(kind, Timestamp):
        return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return text


class Lifting:
    """Puts literals into columns l0, l1, … of `v`: an engine may compute literals another way than columns."""

    def __init__(self) -> None:
        self.kinds: list[DataType] = []
        self.values: list[Any] = []

    def lifted(self, expression: Expression) -> Expression:
        """`expression` with a column for each literal that need not be one."""
        return transform(expression, self._change)

    def _change(self, node: Expression) -> Expression:
        match node:
            case Call():
                return replace(node, arguments=tuple(self._arguments(node)))
            case Cast():
                return replace(node, operand=self._column(node.operand))
            case Case():
                branches = tuple((condition, self._column(value)) for condition, value in node.branches)
                otherwise = self._column(node.otherwise) if node.otherwise is not None else None
                return replace(node, branches=branches, otherwise=otherwise)
        return node

    def _arguments(self, call: Call) -> Iterator[Expression]:
        row = call.function
        for place, argument in enumerate(call.arguments):
            constant = row.constant_from is not None and place >= row.constant_from
            unit = (row.name in _UNITS and place == 0) or (
                row.name == "TO_TIMESTAMP_LTZ_EPOCH" and place == 1
            )
            yield argument if constant or unit else self._column(argument)

    def _column(self, node: Expression) -> Expression:
        if not isinstance(node, Literal) or node.type in (INTERVAL, NULL):
            return node
        self.kinds.append(node.type)
        self.values.append(python_value(node.text, node.type))
        return ColumnReference(source="v", column=f"l{len(self.kinds) - 1}", type=node.type)
