"""A SELECT over materialized views as DuckDB SQL, and one over tables of stores as Spark's.

The text is printed from the bound plan, never passed on: each table is a view's id, each column was resolved, each function
is a row of the catalogue with a DuckDB spelling. Nothing that reads files, the network or settings can be said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.analyzer.expressions import ColumnReference
from headrace.analyzer.logical import (
    Aggregate,
    Filter,
    JoinKind,
    Limit,
    LogicalNode,
    Project,
    Scan,
    SetOperation,
    SingleRow,
    SnapshotJoin,
    Sort,
    Subquery,
    Union,
    Unnest,
)
from headrace.analyzer.plan import LogicalPlan
from headrace.catalog.objects import Relation
from headrace.core.errors import InternalError, UserError
from headrace.core.internal_columns import PREFIX
from headrace.core.names import quote
from headrace.core.resultset import ResultColumn
from headrace.core.sqlstate import SqlState
from headrace.core.types import Array, Struct
from headrace.planner.duckdb_sql import DUCKDB
from headrace.planner.expression_sql import Dialect, ExpressionSql
from headrace.planner.physical import UserFunction
from headrace.planner.spark_sql import SPARK
from headrace.planner.user_functions import user_functions
from headrace.planner.view_reads import ViewRead, view_reads


@dataclass(frozen=True)
class SnapshotQuery:
    """The query that the view store runs, the columns of the answer, the columns read of each view, and the users' functions.

    Each column is cast to its declared type.
    """

    sql: str
    columns: tuple[ResultColumn, ...]
    reads: tuple[ViewRead, ...] = ()
    functions: tuple[UserFunction, ...] = ()


def view_table(relation: Relation) -> str:
    """Return the table of a view or system relation: its id."""
    return quote(relation.id)


def compile_snapshot(logical: LogicalPlan, *, table: Callable[[Relation], str] = view_table) -> SnapshotQuery:
    """Return the DuckDB query of a plan whose relations are all materialized views.

    `table` returns a relation's table as SQL text. Raises UserError 0A000 for a construct that only continuous queries support.
    """
    if not logical.snapshot:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a query of streams or changelogs is unbounded, and cannot return at once",
            hint="Store it as a MATERIALIZED VIEW, and query the view.",
            span=logical.span,
        )
    columns = tuple(
        ResultColumn(column.name, column.type, column.nullable) for column in logical.schema.columns
    )
    sql = _Printer(DUCKDB, lambda scan: table(scan.relation)).query(logical.root)
    return SnapshotQuery(sql, columns, view_reads(logical.root), tuple(user_functions(logical)))


def spark_query(root: LogicalNode, table: Callable[[Scan], str]) -> str:
    """Return the Spark SQL of a bounded query; `table` returns Spark's name of a source. Raises as `compile_snapshot` does."""
    return _Printer(SPARK, table).query(root)


class _Printer:
    def __init__(self, dialect: Dialect, table: Callable[[Scan], str]) -> None:
        self._dialect = dialect
        self._quoted = dialect.identifier
        self._table = table
        self._sql = ExpressionSql(dialect, self._column)

    def _column(self, reference: ColumnReference) -> str:
        name = self._quoted(reference.column)
        return f"{self._quoted(reference.source)}.{name}" if reference.source else name

    def query(self, node: LogicalNode) -> str:
        match node:
            case Limit():
                count = f"\nLIMIT {node.count}" if node.count is not None else ""
                return f"{self.query(node.input)}{count}" + (f"\nOFFSET {node.offset}" if node.offset else "")
            case Sort():
                return f"{self.query(node.input)}\nORDER BY {', '.join(map(self._sql.sort_key, node.keys))}"
            case Union():
                word = "\nUNION\n" if node.distinct else "\nUNION ALL\n"
                return word.join(f"({self.query(branch)})" for branch in node.branches)
            case SetOperation():
                word = f"\n{node.operator.value}{'' if node.distinct else ' ALL'}\n"
                return word.join(f"({self.query(branch)})" for branch in (node.left, node.right))
            case Project() | Aggregate():
                return self._block(node)
        raise InternalError(f"no query for {type(node).__name__}")

    def _block(self, node: Project | Aggregate) -> str:
        distinct = "DISTINCT " if isinstance(node, Project) and node.distinct else ""
        items = [
            f"CAST({self._sql.bare(item.expression)} AS {self._dialect.type_name(item.expression.type)}) AS {self._quoted(item.name)}"
            for item in node.items
        ]
        lines = [f"SELECT {distinct}{', '.join(items)}"]
        conditions: list[str] = []
        if not isinstance(node.input, SingleRow):
            lines.append(f"FROM {self._source(node.input, conditions)}")
        if conditions:
            lines.append(f"WHERE {' AND '.join(conditions)}")
        if isinstance(node, Aggregate):
            if node.group_by:
                keys = [self._sql.text(key) for key in node.group_by]
                if node.sets is not None:
                    sets = (f"({', '.join(keys[place] for place in members)})" for members in node.sets)
                    keys = [f"GROUPING SETS ({', '.join(sets)})"]
                lines.append(f"GROUP BY {', '.join(keys)}")
            if node.having is not None:
                lines.append(f"HAVING {self._sql.text(node.having)}")
        return "\n".join(lines)

    def _source(self, node: LogicalNode, conditions: list[str]) -> str:
        """Return FROM; the conditions on its rows are added to `conditions`, since a filter stands above joins or left of a semi join."""
        match node:
            case Filter():
                conditions.append(self._sql.text(node.condition))
                return self._source(node.input, conditions)
            case Scan():
                return f"{self._table(node)} AS {self._quoted(node.alias)}"
            case Subquery():
                return f"({self.query(node.input)}) AS {self._quoted(node.alias)}"
            case Unnest(input=SingleRow()) if self._dialect is SPARK:
                return self._constants(node)
            case Unnest() if self._dialect is DUCKDB:
                left, elements = self._source(node.input, conditions), self._unnested(node)
                return (
                    f"{left} LEFT JOIN {elements} ON TRUE" if node.outer else f"{left} CROSS JOIN {elements}"
                )
            case SingleRow():
                return f"(SELECT 1) AS {self._quoted(f'{PREFIX}row')}"
            case SnapshotJoin():
                left, right = self._source(node.left, conditions), self._source(node.right, conditions)
                on = self._sql.text(node.condition) if node.condition is not None else "TRUE"
                on = "" if node.kind is JoinKind.CROSS else f" ON {on}"
                return f"{left} {node.kind.name} JOIN {right}{on}"
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{type(node).__name__.upper()} is not supported in a query of materialized views or tables",
            hint="Compute it in the query of a materialized view.",
        )

    def _constants(self, node: Unnest) -> str:
        """Return the elements of a constant array as Spark's FROM, which counts from 0."""
        element, place = (self._quoted(f"{PREFIX}{name}") for name in ("element", "place"))
        columns = self._element_columns(node, element, f"CAST({place} + 1 AS BIGINT)")
        elements = f"SELECT posexplode({self._sql.text(node.array)}) AS ({place}, {element})"
        return f"(SELECT {columns} FROM ({elements})) AS {self._quoted(node.alias)}"  # noqa: S608

    def _element_columns(self, node: Unnest, element: str, place: str) -> str:
        kind = node.array.type.element if isinstance(node.array.type, Array) else node.array.type
        fields = (
            [name for name, _ in kind.fields] if isinstance(kind, Struct) and len(node.columns) > 1 else []
        )
        values = [f"{element}.{self._quoted(name)}" for name in fields] or [element]
        columns = [
            f"{value} AS {self._quoted(column.name)}"
            for value, column in zip(values, node.columns, strict=True)
        ]
        if node.ordinality is not None:
            columns.append(f"{place} AS {self._quoted(node.ordinality.name)}")
        return ", ".join(columns)

    def _unnested(self, node: Unnest) -> str:
        """Return the elements of an array, which is computed once for a row."""
        array, element, place = (self._quoted(f"{PREFIX}{name}") for name in ("array", "element", "place"))
        columns = self._element_columns(node, element, place)
        rows = f"(SELECT {self._sql.text(node.array)} AS {array})"
        parts = f"unnest({array}) AS {element}, generate_subscripts({array}, 1) AS {place}"
        elements = f"(SELECT {parts} FROM {rows})"  # noqa: S608 - printed from a checked plan
        return f"LATERAL (SELECT {columns} FROM {elements}) AS {self._quoted(node.alias)}"  # noqa: S608
