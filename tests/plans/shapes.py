"""Logical plans on one line, for tests of the binder."""

from __future__ import annotations

from headrace.analyzer.binder import unchecked
from headrace.analyzer.expressions import ColumnReference, Expression
from headrace.analyzer.logical import (
    Aggregate,
    Filter,
    IntervalJoin,
    LogicalNode,
    Project,
    RegularJoin,
    Scan,
    SnapshotJoin,
    Subquery,
    TemporalJoin,
    TimeWindow,
    TopN,
    Union,
    Unnest,
)
from headrace.planner.expression_sql import ExpressionSql
from headrace.planner.spark_sql import SPARK
from tests.plans.world import BINDING, select_of


def column(reference: ColumnReference) -> str:
    return f"{reference.source}.{reference.column}"


def text(expression: Expression | None) -> str:
    return ExpressionSql(SPARK, column).bare(expression) if expression is not None else ""


def shape(node: LogicalNode) -> str:
    """A node and what is below it in the same SELECT, on one line."""
    below = ", ".join(
        shape(part) for part in node.inputs if not isinstance(part, Project | Aggregate | Union)
    )
    match node:
        case Filter():
            return f"Filter[{text(node.condition)}]({below})"
        case TimeWindow():
            return f"{node.kind.value}[{node.size_ms}, {node.advance_ms}]({below})"
        case TopN():
            order = ", ".join(
                f"{text(key.expression)}{' DESC' if key.descending else ''}" for key in node.order_by
            )
            partition = ", ".join(map(text, node.partition_by))
            return (
                f"TOP {node.limit}[{partition} | {order}]{' AS ' + node.rank if node.rank else ''}({below})"
            )
        case Subquery(input=Project()) if node.alias.startswith("__headrace_asked"):
            items = ", ".join(f"{text(item.expression)} AS {item.name}" for item in node.input.items)
            return f"({items} FROM {shape(node.input.input)})"
        case Unnest():
            return f"Unnest[{text(node.array)}]({below})"
        case SnapshotJoin():
            return f"{node.kind.name} VIEWS[{text(node.condition)}]({below})"
        case TemporalJoin():
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            return f"{node.kind.name} TEMPORAL[{', '.join(f'{text(a)} = {b}' for a, b in pairs)}]({below})"
        case IntervalJoin() | RegularJoin():
            keys = zip(node.left_keys, node.right_keys, strict=True)
            parts = [f"{text(a)} = {text(b)}" for a, b in keys]
            if node.condition is not None:
                parts.append(f"if {text(node.condition)}")
            if isinstance(node, IntervalJoin):
                parts.append(f"{node.lower_ms}..{node.upper_ms}")
            return f"{node.kind.name} {'INTERVAL' if isinstance(node, IntervalJoin) else 'REGULAR'}[{', '.join(parts)}]({below})"
        case Scan() | Subquery():
            return node.alias
        case Aggregate():
            return "groups"
    raise AssertionError(type(node).__name__)


def tree(sql: str) -> LogicalNode:
    """The plan of a query, as it is before the checks of what can run."""
    return unchecked(select_of(sql), BINDING).root
