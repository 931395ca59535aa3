"""A query of tables of stores, or of constants, as a plan that ends: each table is read once, and one text of Spark SQL is the result."""

from __future__ import annotations

from headrace.analyzer.expressions import ColumnReference
from headrace.analyzer.expressions import walk as parts
from headrace.analyzer.logical import Scan, expressions, walk
from headrace.analyzer.plan import LogicalPlan
from headrace.catalog.objects import RelationKind
from headrace.core.errors import InternalError, UserError
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.planner import physical
from headrace.planner.placement import placed_on
from headrace.planner.sink_steps import sink_steps
from headrace.planner.sinks import EntitySink, TableSink, ViewSink, physical_columns
from headrace.planner.snapshot import spark_query
from headrace.planner.target import LOCAL, Target
from headrace.planner.user_functions import user_functions


def plan_table_query(logical: LogicalPlan, target: Target = LOCAL) -> physical.SparkPlan:
    """Return the plan of a query that reads only tables. Raises UserError 0A000 for a query that also reads views, and for what the target
    does not support."""
    other = next((scan for scan in logical.scans if scan.relation.kind is not RelationKind.TABLE), None)
    if other is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{other.relation.name} is a {other.relation.kind.value.replace('_', ' ')}, and cannot be read "
            "together with a table yet",
            hint="Read tables in one query, and materialized views in another.",
            span=other.span,
        )
    columns = physical_columns(logical.schema)
    plan = physical.SparkPlan(
        reasons=["every source is a table: its rows are read once"],
        bounded=True,
        steps=[
            *_result(logical),
            physical.WriteResults(id="sink", input=_RESULT, columns=columns),
        ],
        outputs=["sink"],
        functions=user_functions(logical),
    )
    return placed_on(plan, target, logical.span)


def plan_bounded_query(
    logical: LogicalPlan, sink: EntitySink | TableSink | ViewSink, target: Target = LOCAL
) -> physical.SparkPlan:
    """Return the plan of a query that writes what only tables contain now, or constants, and then ends. Raises UserError 0A000 for
    real-time mode, and for what the target does not support."""
    if logical.properties.execution_mode == "real_time":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "the query cannot run in real-time mode: rows of tables and constants are stored, and written in batches",
            hint="Leave 'execution.mode' out.",
            span=logical.properties.execution_mode_span,
        )
    rows = physical.Spool(id="rows", input=_RESULT)
    sources = (
        "every source is a table: its rows are read once"
        if logical.of_tables
        else "the query has no source: its rows are constants"
    )
    plan = physical.SparkPlan(
        reasons=[f"{sources}, and the query ends when they are written"],
        bounded=True,
        steps=[*_result(logical), rows, *sink_steps(sink, "sink", rows.id, lambda word: word)],
        outputs=["sink"],
        functions=user_functions(logical),
    )
    return placed_on(plan, target, logical.span)


_RESULT = "result"


def _result(logical: LogicalPlan) -> list[physical.Step]:
    """Return the steps that read the tables, and the one that computes the result."""
    needed = {
        (part.source, part.column)
        for node in walk(logical.root)
        for expression in expressions(node)
        for part in parts(expression)
        if isinstance(part, ColumnReference)
    }
    reads: list[physical.Step] = []

    def table(scan: Scan) -> str:
        name, relation = f"table_{len(reads) + 1}", scan.relation
        if relation.store is None or relation.entity is None:
            raise InternalError(f"the table {relation.name} has no entity")
        used = [column for column in relation.schema.columns if (scan.alias, column.name) in needed]
        # count(*) needs rows, if no column.
        columns = Schema(tuple(used) or relation.schema.columns[:1])
        reads.append(
            physical.ReadTable(
                id=name,
                store=relation.store,
                connector=scan.store_type,
                entity=relation.entity,
                columns=physical_columns(columns),
                options=dict(scan.properties.options),
            )
        )
        return name

    sql = spark_query(logical.root, table)
    return [*reads, physical.SqlTransform(id=_RESULT, inputs=[read.id for read in reads], sql=sql)]
