"""Lineage of a bound query: the columns of relations from which its output is computed, and those that decide which rows there are.

The words are those of OpenLineage's column lineage: a column is used directly, as IDENTITY, TRANSFORMATION or AGGREGATION, or indirectly,
as JOIN, GROUP_BY, FILTER, SORT, WINDOW or CONDITIONAL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.analyzer.expressions import Call as FunctionCall
from headrace.analyzer.expressions import Case, ColumnReference, Expression, Over, SortKey, children
from headrace.analyzer.logical import (
    MATCH,
    RANK_SOURCE,
    WINDOW_COLUMNS,
    Aggregate,
    Filter,
    FromChangelog,
    Item,
    Join,
    LogicalNode,
    LookupJoin,
    MatchRecognize,
    OverAggregate,
    Project,
    Scan,
    Subquery,
    TemporalJoin,
    TimeWindow,
    TopN,
    Union,
    Unnest,
    expressions,
)
from headrace.catalog.objects import ColumnLineage, LineageKind, Relation

_DIRECT = (LineageKind.IDENTITY, LineageKind.TRANSFORMATION, LineageKind.AGGREGATION)
"""From the weakest to the strongest: what is aggregated and then transformed is an aggregation."""

Origin = tuple[str, str]
"""Id of a relation, and the name of its column."""
Origins = Mapping[Origin, frozenset[LineageKind]]
Place = tuple[str, str]
"""Alias of a source, and the name of its column."""


def lineage(root: LogicalNode, sink: int = 0) -> tuple[ColumnLineage, ...]:
    """Return the lineage of each output column and, with `column` None, of the rows as a whole; `sink` is passed through."""
    traced = _trace(root)
    parts: list[tuple[str | None, Origins]] = [(None, traced.rows)]
    names = (column.name for column in root.schema.columns)
    parts += zip(names, traced.output, strict=True)
    return tuple(
        ColumnLineage(sink, column, relation, source, kind)
        for column, origins in parts
        for (relation, source), kinds in origins.items()
        for kind in sorted(kinds, key=lambda kind: kind.value)
    )


@dataclass(frozen=True)
class _Traced:
    """Origins of what a node gives: by source and column below a Project, by position above it; and of its rows."""

    columns: Mapping[Place, Origins] = field(default_factory=dict)
    output: tuple[Origins, ...] = ()
    rows: Origins = field(default_factory=dict)

    def with_rows(self, deciding: Iterable[Expression], kind: LineageKind) -> _Traced:
        """Return it with the columns in expressions that decide about rows."""
        return _Traced(self.columns, self.output, _merged([self.rows, self.indirect(deciding, kind)]))

    def indirect(self, used: Iterable[Expression], kind: LineageKind) -> Origins:
        """Return the origins of all columns in expressions, each as used in this way."""
        origins = _merged(self.of(each) for each in used)
        return {origin: frozenset({kind}) for origin in origins}

    def of(self, expression: Expression) -> Origins:
        """Return the origins of an expression's value."""
        if isinstance(expression, ColumnReference):
            return self.columns.get((expression.source, expression.column), {})
        if isinstance(expression, Case):
            values = [value for _, value in expression.branches]
            values += [expression.otherwise] if expression.otherwise is not None else []
            conditions = self.indirect([test for test, _ in expression.branches], LineageKind.CONDITIONAL)
            return _merged(
                [*(_raised(self.of(value), LineageKind.TRANSFORMATION) for value in values), conditions]
            )
        if isinstance(expression, Over):
            arguments = _merged(
                _raised(self.of(each), LineageKind.AGGREGATION) for each in expression.arguments
            )
            keys = [*expression.partition_by, *(key.expression for key in expression.order_by)]
            return _merged([arguments, self.indirect(keys, LineageKind.WINDOW)])
        aggregates = isinstance(expression, FunctionCall) and expression.function.aggregate
        kind = LineageKind.AGGREGATION if aggregates else LineageKind.TRANSFORMATION
        return _merged(_raised(self.of(child), kind) for child in children(expression))

    def of_items(self, items: Iterable[Item]) -> tuple[Origins, ...]:
        """Return the origins of each item."""
        return tuple(self.of(item.expression) for item in items)


def _trace(node: LogicalNode) -> _Traced:
    match node:
        case Scan():
            return _Traced(_of_relation(node.relation, node.alias))
        case Subquery():
            below = _trace(node.input)
            names = [column.name for column in node.schema.columns]
            named = {(node.alias, name): origins for name, origins in zip(names, below.output, strict=True)}
            return _Traced(named, below.output, below.rows)
        case Project():
            below = _trace(node.input)
            return _Traced(output=below.of_items(node.items), rows=below.rows)
        case Aggregate():
            below = _trace(node.input).with_rows(node.group_by, LineageKind.GROUP_BY)
            output = below.of_items(node.items)
            if node.having is not None:
                below = below.with_rows([node.having], LineageKind.FILTER)
            return _Traced(output=output, rows=below.rows)
        case Union():
            return _union([_trace(branch) for branch in node.branches])
        case Filter():
            return _trace(node.input).with_rows([node.condition], LineageKind.FILTER)
        case TimeWindow():
            return _windowed(node)
        case FromChangelog():
            return _trace(node.input).with_rows([node.operation], LineageKind.FILTER)
        case Unnest():
            below = _trace(node.input)
            origins = _raised(below.of(node.array), LineageKind.TRANSFORMATION)
            added = {(node.alias, column.name): origins for column in node.columns}
            return _Traced({**below.columns, **added}, rows=below.rows)
        case Join():
            return _joined(node)
        case TopN():
            return _top(node)
        case OverAggregate():
            below = _trace(node.input)
            results = {(node.alias, item.name): below.of(item.expression) for item in node.items}
            return _Traced({**below.columns, **results}, rows=below.rows)
        case MatchRecognize():
            return _matched(node)
    (below,) = map(_trace, node.inputs) if node.inputs else (_Traced(),)
    return below


def _of_relation(relation: Relation, alias: str) -> dict[Place, Origins]:
    identity = frozenset({LineageKind.IDENTITY})
    return {
        (alias, column.name): {(relation.id, column.name): identity} for column in relation.schema.columns
    }


def _union(branches: list[_Traced]) -> _Traced:
    output = tuple(_merged(column) for column in zip(*(branch.output for branch in branches), strict=True))
    return _Traced(output=output, rows=_merged(branch.rows for branch in branches))


def _windowed(node: TimeWindow) -> _Traced:
    below = _trace(node.input)
    (source,) = node.input.sources
    origins: Origins = {}
    if node.time is not None:
        origins = below.of(node.time)
    elif isinstance(node.input, Scan) and node.input.properties.event_time.column is not None:
        origins = below.columns.get((source.alias, node.input.properties.event_time.column), {})
    added = {
        (source.alias, column.name): _raised(origins, LineageKind.TRANSFORMATION) for column in WINDOW_COLUMNS
    }
    return _Traced({**below.columns, **added}, rows=below.rows)


def _joined(node: Join) -> _Traced:
    left, right = _trace(node.left), _trace(node.right)
    both = _Traced({**left.columns, **right.columns}, rows=_merged([left.rows, right.rows]))
    return both.with_rows(_join_conditions(node), LineageKind.JOIN)


def _join_conditions(node: Join) -> Iterator[Expression]:
    """Yield what both sides of a join are compared by. A key that is a name is a column of the right side."""
    yield from expressions(node)
    if isinstance(node, TemporalJoin | LookupJoin):
        for source in node.right.sources:
            for column in source.schema.columns:
                if column.name in node.right_keys:
                    yield ColumnReference(type=column.type, source=source.alias, column=column.name)


def _top(node: TopN) -> _Traced:
    below = _trace(node.input)
    keys = [*node.partition_by, *_sorted_by(node.order_by)]
    below = below.with_rows(node.partition_by, LineageKind.WINDOW)
    below = below.with_rows(_sorted_by(node.order_by), LineageKind.SORT)
    if node.rank is None:
        return below
    rank = {(RANK_SOURCE, node.rank): below.indirect(keys, LineageKind.WINDOW)}
    return _Traced({**below.columns, **rank}, rows=below.rows)


def _matched(node: MatchRecognize) -> _Traced:
    below = _trace(node.input)
    navigated = _Traced(
        {
            (MATCH, navigation.name): _raised(below.of(navigation.expression), LineageKind.TRANSFORMATION)
            if navigation.kind.endswith("values")
            else below.of(navigation.expression)
            for navigation in node.navigations
            if navigation.expression is not None
        }
    )
    conditions = [variable.condition for variable in node.pattern if variable.condition is not None]
    rows = _merged(
        [
            below.with_rows(node.partition_by, LineageKind.WINDOW)
            .with_rows(_sorted_by(node.order_by), LineageKind.SORT)
            .rows,
            navigated.indirect(conditions, LineageKind.FILTER),
        ]
    )
    named = {(node.alias, item.name): navigated.of(item.expression) for item in node.items}
    return _Traced(named, rows=rows)


def _sorted_by(keys: Iterable[SortKey]) -> list[Expression]:
    return [key.expression for key in keys]


def _merged(parts: Iterable[Origins]) -> Origins:
    """Return all origins. One that is used in several ways has the strongest direct one, and all indirect ones."""
    merged: dict[Origin, frozenset[LineageKind]] = {}
    for part in parts:
        for origin, kinds in part.items():
            merged[origin] = _strongest(merged.get(origin, frozenset()) | kinds)
    return merged


def _raised(origins: Origins, least: LineageKind) -> Origins:
    """Return the origins with a direct use that is at least `least`."""
    return {
        origin: _strongest(kinds | {least}) if kinds & set(_DIRECT) else kinds
        for origin, kinds in origins.items()
    }


def _strongest(kinds: frozenset[LineageKind]) -> frozenset[LineageKind]:
    direct = [kind for kind in _DIRECT if kind in kinds]
    return frozenset({*(kinds - set(_DIRECT)), *direct[-1:]})
