"""Rewrite rule: a join of rows with the MAX or MIN of their own time windows reads and computes these rows once.

    a JOIN (SELECT MAX(x) AS m, window_start, window_end FROM a GROUP BY window_start, window_end) AS g
      ON a.window_start = g.window_start AND a.window_end = g.window_end AND a.x = g.m

The result is the rows of `a` whose `x` is the greatest of their window, each as often as it is in `a`: a window has one group, and a NULL
is equal to nothing. No value is greater than the MAX, so `a.x >= g.m` is the same condition. As it is written, the join computes `a` twice,
with a state for each, and keeps all rows of both.

Both sides must have *equal rows*: the same relation with the same properties, windows, conditions and groups. The names of columns and
sources may differ, and each side may select other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from headrace.analyzer.expressions import (
    Call,
    ColumnReference,
    Expression,
    conjuncts,
    references,
    transform,
)
from headrace.analyzer.invocation import conjunction
from headrace.analyzer.logical import (
    WINDOW_COLUMNS,
    Aggregate,
    Filter,
    Item,
    JoinKind,
    LogicalNode,
    Project,
    RegularJoin,
    Scan,
    Subquery,
    TimeWindow,
    WindowExtremes,
    WindowKind,
    walk,
)
from headrace.analyzer.traits import joins_windows, place_of, traits, window_groups

Function = Literal["MAX", "MIN"]
_FUNCTIONS: Mapping[str, tuple[Function, ...]] = {"=": ("MAX", "MIN"), ">=": ("MAX",), "<=": ("MIN",)}
"""Operator that compares the value of a row with the result of its group, and the functions with which only equal values match."""
_FLIPPED = {"=": "=", ">=": "<=", "<=": ">="}


def window_extremes(node: LogicalNode) -> LogicalNode:
    """Return a join of rows with the MAX or MIN of their windows → these rows alone, computed once."""
    match node:
        case RegularJoin(kind=JoinKind.INNER):
            return _rewritten(node, []) or node
        case Filter(input=RegularJoin(kind=JoinKind.INNER) as join):
            return _rewritten(join, conjuncts(node.condition)) or node
    return node


def _rewritten(join: RegularJoin, where: list[Expression]) -> LogicalNode | None:
    if not joins_windows(join):
        return None
    conditions = [*(conjuncts(join.condition) if join.condition is not None else []), *where]
    for match in (
        _Match.of(join.left, join.right, join.left_keys, join.right_keys, leads=False),
        _Match.of(join.right, join.left, join.right_keys, join.left_keys, leads=True),
    ):
        # A node with other traits would have other change modes than the query was checked for.
        if match is None or (result := match.result(conditions)) is None or traits(result[0]) != traits(join):
            continue
        extremes, rest = result
        return Filter(extremes, conjunction(rest)) if rest else extremes
    return None


class _UnknownRowsError(Exception):
    """Rows that cannot be compared with others."""


@dataclass(frozen=True, kw_only=True)
class _Result(Expression):
    """The value `of` in a group: not the same as an equal expression over the groups themselves."""

    of: Expression


@dataclass(frozen=True)
class _Rows:
    """The rows of a node: nodes of equal forms have equal rows. `column` returns the value of a column in terms of the form."""

    form: tuple[object, ...]
    column: Callable[[ColumnReference], Expression]

    def value(self, expression: Expression) -> Expression:
        """Return an expression over the node in terms of the form: equal for equal values. Raises _UnknownRowsError."""

        def change(part: Expression) -> Expression:
            if isinstance(part, ColumnReference):
                return self.column(part)
            if isinstance(part, Call) and (part.function.user is not None or not part.function.deterministic):
                raise _UnknownRowsError
            return part

        return transform(expression, change)

    def is_value(self, expression: Expression, value: Expression) -> bool:
        """True if an expression over the node is known to have this value."""
        try:
            return self.value(expression) == value
        except _UnknownRowsError:
            return False


def _rows(node: LogicalNode) -> _Rows:
    """Return the rows of a node. Raises _UnknownRowsError for joins, unions, patterns, Top-N and sessions, for functions of users, and for
    calls that are not repeatable."""
    match node:
        case Scan():
            return _Rows((replace(node, alias=""),), lambda column: replace(column, source=""))
        case TimeWindow(time=None) if node.kind is not WindowKind.SESSION:
            return _windowed(node)
        case Filter():
            below = _rows(node.input)
            return _Rows(("filter", below.value(node.condition), *below.form), below.column)
        case Subquery():
            inner = _rows(node.input)
            return _Rows(inner.form, lambda column: inner.column(replace(column, source="")))
        case Project(distinct=False):
            below = _rows(node.input)
            return _Rows(below.form, _named({item.name: below.value(item.expression) for item in node.items}))
        case Aggregate(sets=None):
            below = _rows(node.input)
            keys = tuple(sorted(map(below.value, node.group_by), key=repr))
            having = below.value(node.having) if node.having is not None else None
            results = {item.name: _result(item.expression, below) for item in node.items}
            return _Rows(("groups", keys, having, *below.form), _named(results))
    raise _UnknownRowsError


def _windowed(node: TimeWindow) -> _Rows:
    below = _rows(node.input)
    names = {column.name for column in WINDOW_COLUMNS}
    # A window of windows has bounds of its own.
    source = str(sum(isinstance(part, TimeWindow) for part in walk(node)))

    def column(reference: ColumnReference) -> Expression:
        return replace(reference, source=source) if reference.column in names else below.column(reference)

    return _Rows((node.kind, node.size_ms, node.advance_ms, node.offset_ms, *below.form), column)


def _named(values: Mapping[str, Expression]) -> Callable[[ColumnReference], Expression]:
    def column(reference: ColumnReference) -> Expression:
        if reference.column not in values:
            raise _UnknownRowsError
        return values[reference.column]

    return column


def _result(expression: Expression, below: _Rows) -> _Result:
    return _Result(type=expression.type, nullable=expression.nullable, of=below.value(expression))


@dataclass(frozen=True)
class _Match:
    """Rows, and a group for each of their windows: the sides of a join with these `keys`, of which the first is of the rows."""

    side: LogicalNode
    group: Subquery
    rows: _Rows
    results: _Rows
    bounds: tuple[Expression, ...]
    keys: tuple[tuple[Expression, Expression], ...]
    leads: bool

    @staticmethod
    def of(
        side: LogicalNode,
        group: LogicalNode,
        keys: tuple[Expression, ...],
        group_keys: tuple[Expression, ...],
        *,
        leads: bool,
    ) -> _Match | None:
        """Return None if `group` is not a group for each window of the same rows as those of `side`."""
        windows = _groups_of_windows(group)
        if windows is None or not isinstance(group, Subquery):
            return None
        try:
            rows, results, below = _rows(side), _rows(group), _rows(windows.input)
            bounds = tuple(map(below.value, windows.group_by))
        except _UnknownRowsError:
            return None
        if rows.form != below.form:
            return None
        return _Match(side, group, rows, results, bounds, tuple(zip(keys, group_keys, strict=True)), leads)

    def result(self, conditions: list[Expression]) -> tuple[WindowExtremes, list[Expression]] | None:
        """Return the rows that the join returns, and the conditions that are left; None if they are not those of an extreme."""
        extremes: list[tuple[Function, Expression]] = []
        rest: list[Expression] = []
        for value, result in self.keys:
            if not self._is_bound(value, result):
                extreme = self._extreme("=", value, result)
                if extreme is None:
                    return None
                extremes.append(extreme)
        for condition in conditions:
            extreme = self._compared(condition)
            if extreme is None:
                rest.append(condition)
            else:
                extremes.append(extreme)
        if not extremes or any(extreme != extremes[0] for extreme in extremes):
            return None
        items = self._items(extremes[0])
        if items is None:
            return None
        function, value = extremes[0]
        return WindowExtremes(self.side, function, value, self.group.alias, items, self.leads), rest

    def _is_bound(self, value: Expression, result: Expression) -> bool:
        of = self._in_group(result)
        return of in self.bounds and self.rows.is_value(value, of)

    def _in_group(self, expression: Expression) -> Expression | None:
        try:
            value = self.results.value(expression)
        except _UnknownRowsError:
            return None
        return value.of if isinstance(value, _Result) else None

    def _compared(self, condition: Expression) -> tuple[Function, Expression] | None:
        if not isinstance(condition, Call) or condition.function.name not in _FLIPPED:
            return None
        (first, second), operator = condition.arguments, condition.function.name
        if {reference.source for reference in references(first)} == {self.group.alias}:
            first, second, operator = second, first, _FLIPPED[operator]
        own = {source.alias for source in self.side.sources}
        if not {reference.source for reference in references(first)} <= own:
            return None
        if {reference.source for reference in references(second)} != {self.group.alias}:
            return None
        return self._extreme(operator, first, second)

    def _extreme(
        self, operator: str, value: Expression, result: Expression
    ) -> tuple[Function, Expression] | None:
        call = self._in_group(result)
        if not isinstance(call, Call) or call.distinct or len(call.arguments) != 1:
            return None
        if not self.rows.is_value(value, call.arguments[0]):
            return None
        return next(((name, value) for name in _FUNCTIONS[operator] if name == call.function.name), None)

    def _items(self, extreme: tuple[Function, Expression]) -> tuple[Item, ...] | None:
        """Return the columns of the group as expressions over the rows; None if the group has more than bounds and the extreme."""
        items = []
        for column in self.group.schema.columns:
            result = ColumnReference(
                source=self.group.alias, column=column.name, type=column.type, nullable=column.nullable
            )
            value = extreme[1] if self._extreme("=", extreme[1], result) is not None else None
            if value is None:
                value = next((place for place in self._columns() if self._is_bound(place, result)), None)
            if value is None:
                return None
            items.append(Item(column.name, value))
        return tuple(items)

    def _columns(self) -> Iterator[ColumnReference]:
        for source in self.side.sources:
            for column in source.schema.columns:
                yield ColumnReference(
                    source=source.alias, column=column.name, type=column.type, nullable=column.nullable
                )


def _groups_of_windows(node: LogicalNode) -> Aggregate | None:
    """Return the aggregate with a group for each time window that a side of a join is, possibly with other columns."""
    while isinstance(node, Subquery | Project):
        node = node.input
    if not isinstance(node, Aggregate) or node.having is not None or node.sets is not None:
        return None
    bounds = window_groups(node)
    return node if bounds and set(map(place_of, node.group_by)) == bounds else None
