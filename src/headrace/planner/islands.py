"""SQL islands: the part of a logical plan between our own operators, as one Spark SQL text over earlier steps.

Every column is written as alias and name. The alias is a table of FROM or, after a temporal join, a STRUCT column of that
name; Spark reads both alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.analyzer.expressions import ROW_TIME, WINDOW, ColumnReference, Expression, conjuncts
from headrace.analyzer.logical import (
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    Aggregate,
    Filter,
    IntervalJoin,
    Item,
    JoinKind,
    LogicalNode,
    Project,
    Scan,
    Subquery,
    TemporalJoin,
    TimeWindow,
    Union,
    Unnest,
)
from headrace.core.errors import InternalError
from headrace.core.types import Decimal
from headrace.planner.expression_sql import ExpressionSql
from headrace.planner.spark_sql import SPARK, identifier, interval, type_name

POSITION = "__position"


@dataclass
class Source:
    """What FROM came to: its text, the conditions on it, and which columns are spelled specially."""

    text: str
    conditions: list[Expression] = field(default_factory=list)
    windows: set[str] = field(default_factory=set)
    positions: dict[str, str] = field(default_factory=dict)

    def sql(self) -> ExpressionSql:
        """A printer of expressions over this FROM."""
        return ExpressionSql(SPARK, self._column)

    def where(self) -> list[str]:
        """The conditions as text, ready to be joined with AND."""
        sql = self.sql()
        if len(self.conditions) == 1:
            return [sql.bare(self.conditions[0])]
        return [sql.text(part) for part in self.conditions]

    def _column(self, reference: ColumnReference) -> str:
        alias, name = identifier(reference.source), reference.column
        if reference.source in self.windows and name in (WINDOW_START, WINDOW_END):
            return f"{alias}.{identifier(WINDOW)}.{'start' if name == WINDOW_START else 'end'}"
        if reference.source in self.windows and name == WINDOW_TIME:
            return f"({alias}.{identifier(WINDOW)}.end - {interval(1)})"
        if self.positions.get(reference.source) == name:
            return f"CAST({alias}.{identifier(POSITION)} + 1 AS BIGINT)"
        return f"{alias}.{identifier(name)}"


class Islands:
    """Prints islands. `step_of` gives the step that holds the rows of a Scan or TemporalJoin, and makes it if need be."""

    def __init__(self, step_of: Callable[[LogicalNode], str]) -> None:
        self._step_of = step_of
        self.inputs: list[str] = []

    def select(
        self,
        node: LogicalNode,
        *,
        hidden: Callable[[LogicalNode, Source], list[str]] = lambda _node, _source: [],
        where: Callable[[Source], list[str]] | None = None,
        having: bool = True,
        ended: Callable[[LogicalNode, Source], str] | None = None,
    ) -> str:
        """The SELECT of a Project, Aggregate or Union.

        `hidden` gives further output columns; `where` replaces the conditions; without `having` HAVING is left out. Where
        `ended` is true the row is the end of its key, and no expression is evaluated but the key's.
        """
        if isinstance(node, Union):
            return "\nUNION ALL\n".join(
                self.select(branch, hidden=hidden, where=where) for branch in node.branches
            )
        if not isinstance(node, Project | Aggregate):
            raise InternalError(f"no SELECT for {type(node).__name__}")
        source = self.source(node.input)
        sql = source.sql()
        columns = []
        for item in node.items:
            text = _exact(item, sql)
            if (
                ended
                and not isinstance(item.expression, ColumnReference)
                and item.name not in node.schema.primary_key
            ):
                # What WHERE keeps away from an expression, such as a zero, must not reach it here either.
                text = f"if({ended(node, source)}, NULL, {text})"
            columns.append(f"{text} AS {identifier(item.name)}")
        lines = ["SELECT " + ",\n       ".join([*columns, *hidden(node, source)]), f"FROM {source.text}"]
        conditions = where(source) if where is not None else source.where()
        if conditions:
            lines.append("WHERE " + " AND ".join(conditions))
        if isinstance(node, Aggregate):
            if node.group_by:
                lines.append("GROUP BY " + ", ".join(_group_keys(node, source, sql)))
            if node.having is not None and having:
                lines.append(f"HAVING {sql.bare(node.having)}")
        return "\n".join(lines)

    def source(self, node: LogicalNode) -> Source:
        """FROM and WHERE of what lies under a Project or Aggregate."""
        match node:
            case Filter():
                source = self.source(node.input)
                source.conditions.extend(conjuncts(node.condition))
                return source
            case Scan():
                return Source(f"{self._input(node)} AS {identifier(node.alias)}")
            case TimeWindow():
                return self._window(node)
            case Subquery():
                return Source(
                    f"(\n{_indented(self.select(node.input, hidden=_row_time))}\n) AS {identifier(node.alias)}"
                )
            case Unnest():
                return self._unnest(node)
            case IntervalJoin():
                return self._interval(node)
            case TemporalJoin():
                return Source(self._input(node))
        raise InternalError(f"no FROM for {type(node).__name__}")

    def _input(self, node: LogicalNode) -> str:
        step = self._step_of(node)
        if step not in self.inputs:
            self.inputs.append(step)
        return identifier(step)

    def _window(self, node: TimeWindow) -> Source:
        length = f"'{node.size_ms} milliseconds'"
        if node.advance_ms != node.size_ms:
            length += f", '{node.advance_ms} milliseconds'"
        time, window, alias = identifier(ROW_TIME), identifier(WINDOW), node.input.sources[0].alias
        columns = f"window({time}, {length}) AS {window}, *"
        text = f"(SELECT {columns} FROM {self._input(node.input)}) AS {identifier(alias)}"  # noqa: S608
        return Source(text, windows={alias})

    def _unnest(self, node: Unnest) -> Source:
        source = self.source(node.input)
        array = source.sql().text(node.array)
        alias, element = identifier(node.alias), identifier(node.element.name)
        if node.ordinality is None:
            source.text += f"\nLATERAL VIEW explode({array}) {alias} AS {element}"
        else:
            source.text += f"\nLATERAL VIEW posexplode({array}) {alias} AS {identifier(POSITION)}, {element}"
            source.positions[node.alias] = node.ordinality.name
        return source

    def _interval(self, node: IntervalJoin) -> Source:
        left, right = self.source(node.left), self.source(node.right)
        word = "LEFT JOIN" if node.kind is JoinKind.LEFT else "JOIN"
        ours, theirs = (
            f"{identifier(side.sources[0].alias)}.{identifier(ROW_TIME)}" for side in (node.left, node.right)
        )
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        keys = [f"{left.sql().text(a)} = {right.sql().text(b)}" for a, b in pairs]
        within = interval(node.upper_ms)
        near = f"{ours} BETWEEN {theirs} - {within} AND {theirs} + {within}"
        return Source(
            f"{left.text}\n{word} {right.text}\n  ON {' AND '.join([*keys, near])}",
            conditions=[*left.conditions, *right.conditions],
            windows=left.windows | right.windows,
            positions={**left.positions, **right.positions},
        )


def _row_time(node: LogicalNode, _source: Source) -> list[str]:
    """The event time of a subquery's rows, so that the query around it can be windowed and joined."""
    while not isinstance(node, Scan | Subquery):
        node = node.inputs[0]
    return [f"{identifier(node.alias)}.{identifier(ROW_TIME)} AS {identifier(ROW_TIME)}"]


def _exact(item: Item, sql: ExpressionSql) -> str:
    """An item whose Spark type is the declared one, however many digits Spark gives what is neither a column nor arithmetic."""
    text = sql.bare(item.expression)
    if isinstance(item.expression.type, Decimal) and not isinstance(item.expression, ColumnReference):
        return f"CAST({text} AS {type_name(item.expression.type)})"
    return text


def _group_keys(node: Aggregate, source: Source, sql: ExpressionSql) -> list[str]:
    """The groups; the two bounds of a window are one group, the window itself."""
    keys: list[str] = []
    for key in node.group_by:
        text = sql.text(key)
        if (
            isinstance(key, ColumnReference)
            and key.source in source.windows
            and key.column in (WINDOW_START, WINDOW_END, WINDOW_TIME)
        ):
            text = f"{identifier(key.source)}.{identifier(WINDOW)}"
        if text not in keys:
            keys.append(text)
    return keys


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
