"""Evaluation of expressions over one relation with corner values, as a stream on Spark and as a view in DuckDB.

Expressions take the path of real statements: they are bound, planned, printed, run, and written as on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql import SparkSession

from headrace.analyzer import BindingContext, LogicalPlan, bind
from headrace.analyzer.expressions import Expression
from headrace.analyzer.logical import Aggregate, Project
from headrace.catalog.objects import Relation, RelationKind
from headrace.connectors.registry import connector
from headrace.core.errors import UserError
from headrace.core.resultset import Cell, encoder
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import Array, DataType, Decimal, Map, Timestamp, Varchar, parse_type
from headrace.engine.protocol import ApplyView
from headrace.engine.views.duckdb import DuckDbViews
from headrace.engine.views.store import Bounds
from headrace.planner import physical, plan_query
from headrace.planner.sinks import ResultSink
from headrace.planner.snapshot import compile_snapshot
from tests.plans.world import SESSION, World, relation, schema, select_of

Rows = list[list[Cell]]
HIDDEN = (
    "CAST(NULL AS TIMESTAMP) AS __headrace_rowtime",
    "CAST(NULL AS STRING) AS __headrace_rowkey",
    "false AS __headrace_deleted",
    "'' AS __headrace_entity",
    "0 AS __headrace_split",
    "0L AS __headrace_sequence",
    "named_struct('topic', '', 'partition', 0, 'offset', 0L, 'timestamp_type', '') AS __headrace_metadata",
)


class Values(World):
    """A catalog with one relation, `v`: a stream or a materialized view."""

    def __init__(self, kind: RelationKind, columns: Schema) -> None:
        self._relation = relation("v", kind, columns)

    def relation(self, name: Any, /) -> Relation | None:
        return self._relation if name == self._relation.name else None


class Engines:
    """Spark and DuckDB over the rows of `v`, whose columns are `name TYPE; …`."""

    def __init__(
        self, spark: SparkSession, folder: Path, columns: str, rows: Sequence[Sequence[Any]]
    ) -> None:
        self._spark = spark
        self._stream = _context(RelationKind.STREAM, columns)
        self._view = _context(RelationKind.MATERIALIZED_VIEW, columns)
        kinds = {name: kind for name, _, kind in (part.strip().partition(" ") for part in columns.split(";"))}
        table = pyarrow.table(
            [
                pyarrow.array([row[place] for row in rows], type=arrow_type(parse_type(kind)))
                for place, kind in enumerate(kinds.values())
            ],
            names=list(kinds),
        )
        self._spark.createDataFrame(table).coalesce(1).selectExpr("*", *HIDDEN).createOrReplaceTempView(
            "rows_v"
        )
        self.views = DuckDbViews(folder / "views.duckdb", spill=folder / "spill", bounds=Bounds())
        described = [physical.Column(name=name, type=kind) for name, kind in kinds.items()]
        self.views.create("id_of_v", described, [])
        buffer = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(buffer, table.schema) as out:
            out.write_table(table)
        self.views.apply(
            ApplyView(sequence=1, query_id="q", view="id_of_v", epoch=1, key_columns=[]),
            bytes(buffer.getvalue()),
        )

    def kinds(self, query: str) -> list[DataType]:
        """The declared types of a query's columns."""
        return [column.type for column in bind(select_of(query), self._view).schema.columns]

    def continuous(self, query: str) -> Rows:
        """Return the answer of a continuous query with all of its steps on Spark."""
        return self._streamed(bind(select_of(query), self._stream))

    def _streamed(self, logical: LogicalPlan) -> Rows:
        plan = plan_query(logical, ResultSink())
        for step in plan.steps:
            if isinstance(step, physical.SqlTransform):
                self._spark.sql(step.sql).createOrReplaceTempView(step.id)
        sink = plan.steps[-1]
        assert isinstance(sink, physical.WriteResults)
        frame = self._spark.table(sink.input).select(*(column.name for column in sink.columns))
        encode = encoder([parse_type(column.type) for column in sink.columns])
        return [encode(row) for row in frame.collect()]

    def snapshot(self, query: str) -> Rows:
        """Return the answer of a query of the view."""
        return self._viewed(bind(select_of(query), self._view))

    def _viewed(self, logical: LogicalPlan) -> Rows:
        compiled = compile_snapshot(logical)
        encode = encoder([column.type for column in compiled.columns])
        return [encode(row) for row in self.views.query(compiled.sql, reads=compiled.reads)[1]]

    def bound(self, text: str) -> Expression:
        """Return the typed expression of a text over the columns of the stream `v`."""
        root = bind(select_of(f"SELECT {text} AS x FROM v"), self._stream).root
        assert isinstance(root, Project | Aggregate)
        return root.items[0].expression

    def items(self, engine: str, expressions: Sequence[Expression]) -> Rows:
        """Return the answer of `continuous` or `snapshot` to bound expressions over `v`."""
        logical = bind(
            select_of("SELECT 1 AS x FROM v"), self._stream if engine == "continuous" else self._view
        )
        assert isinstance(logical.root, Project)
        first = logical.root.items[0]
        items = tuple(replace(first, name=f"c{i}", expression=part) for i, part in enumerate(expressions))
        logical = replace(logical, root=replace(logical.root, items=items))
        return self._streamed(logical) if engine == "continuous" else self._viewed(logical)


def bound_item(text: str, *, view: bool) -> Expression | None:
    """The typed expression of a text over a relation `v`; None when a query of views does not have what it needs."""
    kind = RelationKind.MATERIALIZED_VIEW if view else RelationKind.STREAM
    try:
        root = bind(select_of(f"SELECT {text} AS x FROM v"), _context(kind, "n INTEGER")).root
    except UserError as error:
        if view and error.state is SqlState.FEATURE_NOT_SUPPORTED:
            return None
        raise
    assert isinstance(root, Project)
    return root.items[0].expression


def is_in_views(text: str, kind: DataType) -> bool:
    """True when a query of views has all functions of an aggregate of a column x."""
    try:
        bind(select_of(f"SELECT {text} AS y FROM v"), _context(RelationKind.MATERIALIZED_VIEW, f"x {kind}"))
    except UserError as error:
        if error.state is SqlState.FEATURE_NOT_SUPPORTED:
            return False
        raise
    return True


def in_parts(ask: Callable[[str], Rows], items: Sequence[str], size: int) -> Rows:
    """The cells of many expressions for every row of `v`, by its column `n`, asked for `size` of them at a time."""
    rows: dict[int, list[Cell]] = {}
    for first in range(0, len(items), size):
        for number, *cells in ask(f"SELECT n, {', '.join(items[first : first + size])} FROM v"):
            rows.setdefault(int(number or 0), []).extend(cells)
    return [cells for _, cells in sorted(rows.items())]


def _context(kind: RelationKind, columns: str) -> BindingContext:
    return BindingContext(Values(kind, schema(columns)), SESSION, connector)


def arrow_type(kind: DataType) -> Any:
    """The Arrow type in which a driver returns a column."""
    match kind:
        case Decimal(precision=precision, scale=scale):
            return pyarrow.decimal128(precision, scale)
        case Timestamp():
            return pyarrow.timestamp("us", tz="UTC")
        case Array(element=element):
            return pyarrow.list_(arrow_type(element))
        case Map(key=key, value=value):
            return pyarrow.map_(arrow_type(key), arrow_type(value))
        case Varchar():
            return pyarrow.string()
    return _ARROW[str(kind)]


_ARROW = {
    "BOOLEAN": pyarrow.bool_(),
    "TINYINT": pyarrow.int8(),
    "SMALLINT": pyarrow.int16(),
    "INTEGER": pyarrow.int32(),
    "BIGINT": pyarrow.int64(),
    "FLOAT": pyarrow.float32(),
    "DOUBLE": pyarrow.float64(),
    "DATE": pyarrow.date32(),
    "BYTES": pyarrow.binary(),
}
