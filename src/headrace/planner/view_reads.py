"""Reads of materialized views by a query whose view store is elsewhere (ADR 40), and of system relations that do not hold all their rows
(ADR 36). Pure.

The query itself is not changed. A read may therefore return more rows than the query uses, never fewer, and a condition that is not
understood here does not restrict the read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.analyzer.expressions import (
    Call,
    Cast,
    ColumnReference,
    Expression,
    Literal,
    conjuncts,
    over_rows,
)
from headrace.analyzer.expressions import walk as parts
from headrace.analyzer.logical import (
    Filter,
    JoinKind,
    Limit,
    LogicalNode,
    Project,
    Scan,
    SnapshotJoin,
    expressions,
    walk,
)
from headrace.catalog.objects import RelationKind
from headrace.core.types import DATE, INTEGRAL, DataType, Timestamp, Varchar

_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN"))
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LEFT = (JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
_RIGHT = (JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT)


@dataclass(frozen=True)
class Condition:
    """`column operator values`, where all are whole numbers, texts, or times of one kind.

    The operator is one of =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL and IS NOT NULL; values are canonical texts of literals.
    """

    column: str
    operator: str
    values: tuple[str, ...] = ()

    def sql(self, column: str, literal: Callable[[str], str | None]) -> str | None:
        """Return the condition in the SQL of a store that spells the column and its values so; None if a value has no literal there."""
        literals = [text for text in map(literal, self.values) if text is not None]
        if len(literals) < len(self.values):
            return None
        match self.operator:
            case "IS NULL" | "IS NOT NULL":
                return f"{column} {self.operator}"
            case "BETWEEN":
                return f"{column} BETWEEN {literals[0]} AND {literals[1]}"
            case "IN":
                return f"{column} IN ({', '.join(literals)})"
        return f"{column} {self.operator} {literals[0]}"


def equal_values(conditions: Iterable[Condition], column: str) -> frozenset[str] | None:
    """Return the values that the conditions allow in a column by = or IN; None if they allow any."""
    sets = [
        frozenset(condition.values)
        for condition in conditions
        if condition.column == column and condition.operator in ("=", "IN")
    ]
    return frozenset.intersection(*sets) if sets else None


@dataclass(frozen=True)
class ViewRead:
    """Read of the view or system relation with that id: these columns (None: all) of the rows that meet the conditions.

    `limit` of them are enough.
    """

    view: str
    columns: tuple[str, ...] | None = None
    conditions: tuple[Condition, ...] = ()
    limit: int | None = None


def view_reads(root: LogicalNode) -> tuple[ViewRead, ...]:
    """Return a read for each view of a query; one read serves all uses of a view."""
    reads = _reads(root, RelationKind.MATERIALIZED_VIEW)
    only = next(iter(reads.values()), None)
    if len(reads) == 1 and only is not None and (limit := _limit(root)) is not None:
        return (replace(only, limit=limit),)
    return tuple(reads.values())


def system_conditions(root: LogicalNode) -> dict[str, tuple[Condition, ...]]:
    """Return the conditions on the rows of each system relation, by its id.

    A relation that a query reads twice under different conditions has none.
    """
    return {read.view: read.conditions for read in _reads(root, RelationKind.SYSTEM).values()}


def _reads(root: LogicalNode, kind: RelationKind) -> dict[str, ViewRead]:
    """Reads of the relations of a kind, by their ids."""
    needed = {
        (part.source, part.column)
        for node in walk(root)
        for expression in expressions(node)
        for part in parts(expression)
        if isinstance(part, ColumnReference)
    }
    reads: dict[str, ViewRead] = {}
    for scan, conditions in _scans(root, ()):
        if scan.relation.kind is not kind:
            continue
        names = [column.name for column in scan.schema.columns]
        # count(*) needs rows, if no column.
        used = [name for name in names if (scan.alias, name) in needed] or names[:1]
        read = ViewRead(scan.relation.id, tuple(used), tuple(_conditions(conditions, scan)))
        reads[read.view] = _both(reads[read.view], read) if read.view in reads else read
    return reads


def _both(one: ViewRead, other: ViewRead) -> ViewRead:
    columns = dict.fromkeys((*(one.columns or ()), *(other.columns or ())))
    same = one.conditions if one.conditions == other.conditions else ()
    return ViewRead(one.view, tuple(columns), same)


def _scans(node: LogicalNode, above: Sequence[Expression]) -> Iterator[tuple[Scan, Sequence[Expression]]]:
    """Yield each scan with the conditions on its rows."""
    match node:
        case Scan():
            yield node, above
        case Filter():
            yield from _scans(node.input, [*above, *conjuncts(node.condition)])
        case SnapshotJoin():
            yield from _scans(node.left, above if node.kind in _LEFT else ())
            yield from _scans(node.right, above if node.kind in _RIGHT else ())
        case _:
            for below in node.inputs:
                yield from _scans(below, ())


def _limit(root: LogicalNode) -> int | None:
    """Return the number of rows of its only view that suffice for a query which neither sorts, nor groups, nor filters by itself."""
    if not (isinstance(root, Limit) and root.count is not None and isinstance(root.input, Project)):
        return None
    project = root.input
    if project.distinct or any(over_rows(item.expression) for item in project.items):
        return None
    scan, conjunct_count = project.input, 0
    while isinstance(scan, Filter):
        conjunct_count += len(conjuncts(scan.condition))
        scan = scan.input
    if not isinstance(scan, Scan):
        return None
    ((_, conditions),) = _scans(project.input, ())
    return (
        root.count + (root.offset or 0)
        if len(list(_conditions(conditions, scan))) == conjunct_count
        else None
    )


def _conditions(expressions: Sequence[Expression], scan: Scan) -> Iterator[Condition]:
    for expression in expressions:
        condition = _condition(expression, scan)
        if condition is not None:
            yield condition


def _condition(expression: Expression, scan: Scan) -> Condition | None:
    if not isinstance(expression, Call):
        return None
    name, arguments = expression.function.name, expression.arguments
    if name == "NOT" and isinstance(arguments[0], Call) and arguments[0].function.name == "IS NULL":
        name, arguments = "IS NOT NULL", arguments[0].arguments
    column, others = arguments[0], arguments[1:]
    if len(others) == 1 and isinstance(others[0], ColumnReference):
        column, others, name = others[0], (column,), _SWAPPED.get(name, name)
    if not (isinstance(column, ColumnReference) and column.source == scan.alias):
        return None
    if name in ("IS NULL", "IS NOT NULL"):
        return Condition(column.column, name)
    values = [_value(other, column.type) for other in others]
    texts = tuple(value for value in values if value is not None)
    known = name in _COMPARISONS and len(texts) == len(values)
    return Condition(column.column, name, texts) if known else None


def _value(expression: Expression, kind: DataType) -> str | None:
    """Return the text of a literal that every store compares with a column of `kind` alike."""
    while isinstance(expression, Cast) and _widens(expression.operand.type, expression.type):
        expression = expression.operand
    if not isinstance(expression, Literal) or not _family(kind) or _family(expression.type) != _family(kind):
        return None
    return expression.text


def _widens(source: DataType, target: DataType) -> bool:
    """True if a cast between them changes no value."""
    if source in INTEGRAL and target in INTEGRAL:
        return INTEGRAL.index(source) <= INTEGRAL.index(target)
    match source, target:
        case Varchar(), Varchar(length=None):
            return True
        case Timestamp(precision=one, local=here), Timestamp(precision=other, local=there):
            return one <= other and here == there
    return source == target


def _family(kind: DataType) -> str:
    if kind in INTEGRAL:
        return "number"
    if isinstance(kind, Varchar):
        return "text"
    if isinstance(kind, Timestamp):
        return "local time" if kind.local else "time"
    return "date" if kind == DATE else ""
