"""Typed expressions as SQL text of an engine. What differs between engines is a `Dialect`; the walk is shared."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.analyzer.expressions import (
    Call,
    Case,
    Cast,
    ColumnReference,
    Expression,
    FieldAccess,
    Literal,
    Over,
    SortKey,
    Star,
)
from headrace.analyzer.functions.signature import Function, PerType, Spelling, Template
from headrace.analyzer.typing import is_text
from headrace.core.errors import InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import DATE, INTERVAL, NULL, DataType, Timestamp, Varchar

_TEXT_MAX = 4_000_000
_PLACE = re.compile(r"\{(\d+|\*|type|type_text|over)\}")


@dataclass(frozen=True)
class Dialect:
    """An engine's SQL dialect: identifiers, texts, numbers, types, intervals, CASTs, times as text, and functions.

    `cast` takes the operand, its type, the type wanted, and whether what cannot be is NULL.
    """

    identifier: Callable[[str], str]
    text: Callable[[str], str]
    number: Callable[[str, DataType], str]
    type_name: Callable[[DataType], str]
    template: Callable[[Function], Template | None]
    time_as_text: Callable[[str, Timestamp], str]
    interval: Callable[[int], str]
    cast: Callable[[str, DataType, DataType, bool], str]


class ExpressionSql:
    """Prints expressions; `column` says how a column reference looks at this place of the query."""

    def __init__(self, dialect: Dialect, column: Callable[[ColumnReference], str]) -> None:
        self.dialect = dialect
        self._column = column

    def text(self, expression: Expression) -> str:
        """Return the SQL of `expression`; operators come in parentheses, so that it can stand anywhere."""
        match expression:
            case ColumnReference():
                return self._column(expression)
            case Literal():
                return self._literal(expression)
            case Call():
                return self._call(expression)
            case Cast():
                return self._cast(expression)
            case Case():
                return self._case(expression)
            case Over():
                return self._over(expression)
            case FieldAccess():
                return f"{self.text(expression.operand)}.{self.dialect.identifier(expression.name)}"
            case Star():
                return "*"
        raise InternalError(f"no SQL for {type(expression).__name__}")

    def bare(self, expression: Expression) -> str:
        """Return the same as `text`, without parentheses around the whole."""
        text = self.text(expression)
        return text[1:-1] if isinstance(expression, Call) and _enclosed(text) else text

    def _literal(self, literal: Literal) -> str:
        if literal.text is None:
            return "NULL" if literal.type == NULL else f"CAST(NULL AS {self.dialect.type_name(literal.type)})"
        if literal.type == INTERVAL:
            return self.dialect.interval(int(literal.text))
        if is_text(literal.type):
            return self.dialect.text(literal.text)
        if literal.type == DATE:
            return f"DATE '{literal.text}'"
        if isinstance(literal.type, Timestamp):
            return f"TIMESTAMP '{literal.text}'"
        return self.dialect.number(literal.text, literal.type)

    def _call(self, call: Call) -> str:
        template = self.dialect.template(call.function) or f"{call.function.name.lower()}({{*}})"
        if isinstance(template, PerType):
            template = template.choose([argument.type for argument in call.arguments], call.type)
        arguments = [self.text(argument) for argument in call.arguments]
        if call.distinct:
            arguments[0] = f"DISTINCT {arguments[0]}"
        kind = self.dialect.type_name(call.type) if call.type != NULL else "STRING"
        text = fill(template, arguments, kind, type_text=self.dialect.text(kind))
        # Some functions name an argument more than once, and may stand in one another.
        if len(text) > _TEXT_MAX:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"the expression needs more than {_TEXT_MAX} characters of the engine's SQL",
                hint="Compute it in steps, in subqueries or relations.",
                span=call.span,
            )
        return text

    def _over(self, over: Over) -> str:
        template = over.function.duckdb
        if isinstance(template, PerType):
            template = template.choose([argument.type for argument in over.arguments], over.type)
        if template is None:
            raise InternalError(f"no SQL for {over.function.name} OVER")
        parts = []
        if over.partition_by:
            parts.append(f"PARTITION BY {', '.join(map(self.text, over.partition_by))}")
        if over.order_by:
            parts.append(f"ORDER BY {', '.join(map(self.sort_key, over.order_by))}")
        if over.frame is not None:
            start, end = (self._frame_bound(bound) for bound in (over.frame.start, over.frame.end))
            parts.append(f"{over.frame.unit} BETWEEN {start} AND {end}")
        arguments = [self.text(argument) for argument in over.arguments]
        return fill(template, arguments, self.dialect.type_name(over.type), f"OVER ({' '.join(parts)})")

    def _frame_bound(self, bound: tuple[str, Literal | None] | None) -> str:
        if bound is None:
            return "CURRENT ROW"
        direction, distance = bound
        return f"{'UNBOUNDED' if distance is None else self.text(distance)} {direction}"

    def sort_key(self, key: SortKey) -> str:
        """Return a key of ORDER BY."""
        nulls = "" if key.nulls_first is None else " NULLS FIRST" if key.nulls_first else " NULLS LAST"
        return f"{self.text(key.expression)}{' DESC' if key.descending else ' ASC'}{nulls}"

    def _cast(self, cast: Cast) -> str:
        operand = self.text(cast.operand)
        if is_text(cast.type) and isinstance(cast.operand.type, Timestamp):
            operand = self.dialect.time_as_text(operand, cast.operand.type)
        else:
            operand = self.dialect.cast(operand, cast.operand.type, cast.type, cast.safe)
        length = cast.type.length if isinstance(cast.type, Varchar) else None
        source = cast.operand.type
        if length is not None and not (
            isinstance(source, Varchar) and source.length is not None and source.length <= length
        ):
            operand = f"left({operand}, {length})"
        return operand

    def _case(self, case: Case) -> str:
        branches = " ".join(f"WHEN {self.bare(when)} THEN {self.text(then)}" for when, then in case.branches)
        otherwise = f" ELSE {self.text(case.otherwise)}" if case.otherwise is not None else ""
        return f"CASE {branches}{otherwise} END"


def fill(
    template: Spelling, arguments: Sequence[str], type_name: str, over: str = "", *, type_text: str = ""
) -> str:
    """Return a function's template with its arguments in place, and the OVER clause of a window function."""
    if callable(template):
        return template(arguments)

    def part(match: re.Match[str]) -> str:
        if match[1] == "*":
            return ", ".join(arguments)
        named = {"type": type_name, "type_text": type_text, "over": over}
        return named[match[1]] if match[1] in named else arguments[int(match[1])]

    return _PLACE.sub(part, template)


def _enclosed(text: str) -> bool:
    """True when the first parenthesis closes at the very end (quotes considered)."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth, quoted = 0, ""
    for index, character in enumerate(text):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"`":
            quoted = character
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0 and index < len(text) - 1:
                return False
    return depth == 0
