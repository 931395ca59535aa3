"""Stateless SQL, fused: what FROM and WHERE of one SELECT came to, and whole SELECTs, before they are cut into steps.

Nodes that need no operator of ours only change a fragment's text; a step is made where an operator must read rows, so that
neighbouring projections, filters and unnestings are one `SqlTransform`. Every column is written as alias and name. The alias is
a table of FROM or, behind an operator, a STRUCT column of that name; Spark reads both alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.analyzer.expressions import Call, ColumnReference, Expression, walk
from headrace.analyzer.logical import WINDOW_END, WINDOW_START, WINDOW_TIME, Item, SourceColumns
from headrace.analyzer.typing import is_temporal
from headrace.core.internal_columns import PREFIX, WINDOW
from headrace.core.types import Decimal
from headrace.planner.expression_sql import ExpressionSql
from headrace.planner.modes import Mode
from headrace.planner.spark_sql import SPARK, bounded_time, identifier, type_name

POSITION = f"{PREFIX}position"


@dataclass(frozen=True)
class Hidden:
    """The SQL of what every row of a fragment has beside its columns.

    `time` is the event time; `marked` says whether it is a column that carries the watermark, or computed. `deleted` is for upserts,
    whose order among those of one key `sequence` tells; `op` for signed rows.
    """

    time: str | None = None
    marked: bool = True
    deleted: str | None = None
    sequence: str | None = None
    op: str | None = None


@dataclass
class Fragment:
    """A FROM clause with its conditions. `inputs` are the steps that the text names; `windows` and `positions` are columns with a
    special spelling. `table` is the text of a single source without its alias."""

    text: str
    mode: Mode
    sources: tuple[SourceColumns, ...]
    inputs: list[str]
    hidden: Hidden = Hidden()
    conditions: list[Expression] = field(default_factory=list)
    windows: set[str] = field(default_factory=set)
    positions: dict[str, str] = field(default_factory=dict)
    table: str | None = None

    @property
    def aliases(self) -> frozenset[str]:
        """The sources that expressions may name."""
        return frozenset(source.alias for source in self.sources)

    def sql(self) -> ExpressionSql:
        """Return a printer of expressions over this FROM."""
        return ExpressionSql(SPARK, self._column)

    def where(self) -> list[str]:
        """Return the conditions as text, ready to be joined with AND; those of upserts are in `ended`."""
        sql = self.sql()
        if self.mode is Mode.UPSERT:
            return []
        if len(self.conditions) == 1:
            return [sql.bare(self.conditions[0])]
        return [sql.text(part) for part in self.conditions]

    def ended(self) -> str | None:
        """Return the condition that an upsert ends its key: it is a deletion, or its row does not match; None: none does."""
        if self.mode is not Mode.UPSERT:
            return None
        sql = self.sql()
        unmatched = [f"NOT coalesce({sql.bare(part)}, false)" for part in self.conditions]
        parts = [*([self.hidden.deleted] if self.hidden.deleted else []), *unmatched]
        return " OR ".join(parts) or None

    def column(self, source: str, name: str) -> str:
        """Return a column's SQL."""
        if not source:
            return identifier(name)
        alias = identifier(source)
        if source in self.windows and name in (WINDOW_START, WINDOW_END, WINDOW_TIME):
            window = f"{alias}.{identifier(WINDOW)}"
            if name == WINDOW_TIME:
                return f"({window}.end - INTERVAL '0.001' SECOND)"
            return f"{window}.{'start' if name == WINDOW_START else 'end'}"
        if self.positions.get(source) == name:
            return f"CAST({alias}.{identifier(POSITION)} + 1 AS BIGINT)"
        return f"{alias}.{identifier(name)}"

    def _column(self, reference: ColumnReference) -> str:
        return self.column(reference.source, reference.column)


@dataclass
class Rows:
    """A whole SELECT: its text, the steps that it names, and which hidden columns it has."""

    text: str
    mode: Mode
    inputs: list[str]
    timed: bool = False
    marked: bool = True
    deleted: bool = False


def exact(item: Item, sql: ExpressionSql) -> str:
    """Return an item whose Spark type is the declared one, however many digits Spark gives what is neither a column nor arithmetic."""
    text = sql.bare(item.expression)
    if isinstance(item.expression.type, Decimal) and not isinstance(item.expression, ColumnReference):
        return f"CAST({text} AS {type_name(item.expression.type)})"
    if is_temporal(item.expression.type) and any(map(_moves_time, walk(item.expression))):
        return bounded_time(text, item.expression.type)
    return text


def _moves_time(expression: Expression) -> bool:
    """True for a time plus an interval. A condition may go beyond the year 9999, a column cannot."""
    return isinstance(expression, Call) and expression.function.name in ("+", "-", "TIMESTAMPADD")


def select(columns: Sequence[str], source: str, conditions: Sequence[str] = (), *rest: str) -> str:
    """Return a SELECT in the layout that EXPLAIN shows."""
    lines = ["SELECT " + ",\n       ".join(columns), f"FROM {source}"]
    if conditions:
        lines.append("WHERE " + " AND ".join(conditions))
    return "\n".join([*lines, *(line for line in rest if line)])


def indented(text: str) -> str:
    """Return two spaces before each line."""
    return "\n".join(f"  {line}" for line in text.splitlines())
