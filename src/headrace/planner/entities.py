"""Plans, with an end, for an entity itself, without a relation over it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.catalog.objects import Store
from headrace.connectors.base import EntityDescription, Optimizer
from headrace.core.names import EntityPath
from headrace.core.schema import Column, Schema
from headrace.core.types import VARCHAR
from headrace.formats.json import Json
from headrace.formats.types import name_sql
from headrace.planner import physical
from headrace.planner.sinks import physical_columns

PRINTED = tuple(Column(name, VARCHAR, True) for name in ("key", "value", "metadata"))


def plan_optimize(
    store: Store,
    path: EntityPath,
    optimizer: Optimizer,
    options: dict[str, str],
    queries: Sequence[str],
    checkpoints: Sequence[str],
) -> physical.SparkPlan:
    """Return the plan of OPTIMIZE ENTITY. Snapshots that `queries` need stay; their checkpoints are in the places `checkpoints`."""
    step = physical.OptimizeEntity(
        id="sink",
        store=store.name,
        connector=store.type,
        entity=path,
        columns=physical_columns(Schema(optimizer.columns)),
        queries=list(queries),
        checkpoints=list(checkpoints),
        options=options,
    )
    return physical.SparkPlan(
        reasons=["files are compacted once"], bounded=True, steps=[step], outputs=["sink"]
    )


def plan_print(store: Store, entity: EntityDescription, rows_max: int) -> physical.SparkPlan:
    """Return PRINT ENTITY of a table: `key`, `value` and `metadata` of at most so many rows, as JSON objects; a key of one column is its
    text."""
    columns = physical_columns(Schema(entity.columns))
    text = f"encode(CAST({name_sql(entity.key[0])} AS STRING), 'UTF-8')" if len(entity.key) == 1 else None
    steps: list[physical.Step] = [
        physical.ReadTable(
            id="read", store=store.name, connector=store.type, entity=entity.path, columns=columns
        ),
        physical.SqlTransform(
            id="sample",
            inputs=["read"],
            sql=f"SELECT * FROM read LIMIT {rows_max}",  # noqa: S608 - a number
        ),
        physical.EncodeRows(
            id="encoded",
            input="sample",
            columns=columns,
            key=Json() if entity.key else None,
            key_columns=list(entity.key),
            key_expression=text,
        ),
        # All rows of a LIMIT are in one task.
        physical.SqlTransform(
            id="printed",
            inputs=["encoded"],
            sql="SELECT decode(key, 'UTF-8') AS key, decode(value, 'UTF-8') AS value, "
            "concat('row ', monotonically_increasing_id() + 1) AS metadata FROM encoded",
        ),
        physical.WriteResults(id="sink", input="printed", columns=physical_columns(Schema(PRINTED))),
    ]
    return physical.SparkPlan(
        reasons=["the rows of a table are read once"], bounded=True, steps=steps, outputs=["sink"]
    )
