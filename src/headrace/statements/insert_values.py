"""INSERT INTO … VALUES: rows of constants, encoded by a compute pool as a query's rows are, and written once by the store's client.

Rows of a table are encoded in JSON for a store type that inserts such rows. For any other type, the compute pool writes them as one
batch of a query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.analyzer import BindingContext, LogicalPlan, bind
from headrace.analyzer.expressions import Literal
from headrace.analyzer.logical import Item, Project
from headrace.catalog.access import Privilege
from headrace.catalog.objects import EntityFormat, Relation, RelationKind
from headrace.catalog.policy import Requirement
from headrace.connectors.base import Inserter, StoreDescriptor
from headrace.connectors.registry import connector
from headrace.core.errors import InternalError, UserError
from headrace.core.names import Identifier, printed
from headrace.core.properties import Scope
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import has_bytes
from headrace.core.wording import counted
from headrace.planner import plan_columns
from headrace.planner.column_matching import check_listed, matched
from headrace.planner.physical import SparkPlan
from headrace.planner.sink_properties import check_written, record_sink, sink_reader, subjects, table_reader
from headrace.planner.sinks import EntitySink, TableSink
from headrace.planner.values import encoded_step, plan_insert, plan_values
from headrace.sql.ast import Select
from headrace.sql.statements.query import InsertValues
from headrace.statements.base import Execution, Outcome, facet, handles, relation_ddl
from headrace.statements.schemas import pinned, registered, sink_schemas
from headrace.statements.system import SystemLookup
from headrace.statements.tables import check_table

ROWS_MAX = 500
_ELSEWHERE = "INSERT INTO … SELECT writes into any relation that a query can write."


def _needed(statement: InsertValues, run: Execution) -> Iterator[Requirement]:
    yield Requirement(Privilege.INSERT, run.relation(statement.name))
    yield Requirement(Privilege.USAGE, run.compute_pool())
    for row in statement.rows:
        for caller, functions in _bound(row, run).functions.items():
            yield from (Requirement(Privilege.USAGE, each.function, through=caller) for each in functions)


@handles(InsertValues, requires=_needed, checked=True)
async def insert_values(statement: InsertValues, run: Execution) -> Outcome:
    """Write each row as one record. A record that the store refuses ends the statement; the records before it are written.

    Rows of a table are one batch.
    """
    relation = run.relation(statement.name)
    if relation.kind is RelationKind.TABLE:
        await _insert_rows(statement, relation, run)
        return _received(statement, relation)
    if relation.kind not in (RelationKind.STREAM, RelationKind.CHANGELOG) or relation.store is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"VALUES cannot be written into the {relation.kind.value.replace('_', ' ')} {relation.name}",
            hint="Name a stream, a changelog or a table.",
            span=statement.name.span,
        )
    store, kind = run.connection(relation.store)
    inserter = facet(kind.inserter, kind, "INSERT INTO … VALUES", statement.span, _ELSEWHERE)
    plan = await asyncio.to_thread(_planned, statement, relation, kind, run)
    if not run.checking:
        await _write(plan, inserter, store.properties, relation, run)
    return _received(statement, relation)


def _received(statement: InsertValues, relation: Relation) -> Outcome:
    number = len(statement.rows)
    done = f"received {counted(number, 'row')}"
    return Outcome(relation_ddl(relation, "INSERT", done))


async def _insert_rows(statement: InsertValues, table: Relation, run: Execution) -> None:
    store, kind = run.connection(table.store or "")
    columns = _target(statement, table)
    inserter = kind.row_inserter
    if inserter is None:
        await _write_batch(statement, table, columns, run)
        return
    plan = await asyncio.to_thread(_planned_rows, statement, table, columns, run)
    if run.checking:
        return
    records = await _encoded(plan, run)
    rows = [bytes.fromhex(value or "").decode() for _, value in records]
    await asyncio.to_thread(inserter.insert_rows, store.properties, table.entity or (), columns, rows)


async def _write_batch(
    statement: InsertValues, table: Relation, names: Sequence[str], run: Execution
) -> None:
    """Write rows by a compute pool. Columns that are not listed are NULL."""
    _refuse_many(statement)
    store, kind = run.connection(table.store or "")
    facet_of_type = facet(kind.row_sink, kind, "INSERT INTO … VALUES", statement.span)
    sink = TableSink(
        relation=table.name,
        store=store.name,
        connector=kind.type,
        entity=table.entity or (),
        schema=table.schema,
        key_columns=table.schema.primary_key if facet_of_type.upserts else (),
        options=facet_of_type.options(table_reader((), Scope.INSERT, kind, relation=table)),
        properties=table.properties,
    )
    rows = [_row(row, names, table, table.schema, run) for row in statement.rows]
    if run.checking:
        return
    await asyncio.to_thread(check_table, sink, store, kind)
    plan = plan_insert(rows, sink)
    channel = await run.services.engine.run_interactive(
        plan, (), compute_pool=run.compute_pool().name, user=run.principal.user
    )
    try:
        async for _ in channel:
            raise InternalError("a plan that writes rows has returned some")
    finally:
        await channel.close()


def _planned_rows(
    statement: InsertValues, table: Relation, names: Sequence[str], run: Execution
) -> SparkPlan:
    """Return the plan that encodes the listed columns of a table. Raises UserError 0A000 for BYTES, which JSON text does not have."""
    _refuse_many(statement)
    columns = {column.name: column for column in table.schema.columns}
    schema = Schema(tuple(columns[name] for name in names))
    for column in schema.columns:
        if has_bytes(column.type):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"VALUES cannot be written into the column {printed(column.name)} of the type {column.type}",
                hint=_ELSEWHERE,
                span=statement.name.span,
            )
    rows = [_row(row, names, table, schema, run) for row in statement.rows]
    plan = plan_values(rows, schema, EntityFormat())
    if not run.checking:
        run.services.engine.functions.prepare(plan.functions)
    return plan


async def _encoded(plan: SparkPlan, run: Execution) -> list[tuple[str | None, ...]]:
    """Return key and value of each record in hexadecimal digits."""
    channel = await run.services.engine.run_interactive(
        plan, plan_columns(plan), compute_pool=run.compute_pool().name, user=run.principal.user
    )
    try:
        return [tuple(row) async for part in channel for row in part.cells]
    finally:
        await channel.close()


async def _write(
    plan: SparkPlan, inserter: Inserter, store: Mapping[str, str], relation: Relation, run: Execution
) -> None:
    records = await _encoded(plan, run)
    if any(value is None for _, value in records):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"a row of NULL is a record without a value in {relation.name}, which VALUES cannot write",
            hint=_ELSEWHERE,
        )
    for key, value in records:
        await asyncio.to_thread(
            inserter.insert,
            store,
            relation.entity or (),
            key=bytes.fromhex(key) if key is not None else None,
            value=bytes.fromhex(value or ""),
            options={},
        )


def _planned(statement: InsertValues, relation: Relation, kind: StoreDescriptor, run: Execution) -> SparkPlan:
    """Return the plan that encodes the rows. Registers schemas that are missing, unless the statement is only checked. Blocks."""
    _refuse_many(statement)
    sink = _sink(statement, relation, kind)
    names = _target(statement, relation)
    rows = [_row(row, names, relation, relation.schema, run) for row in statement.rows]
    plan = plan_values(rows, sink.schema, sink.format)
    client = run.registry_client(run.connection(sink.store)[0])
    base = (
        run.registry_client(run.store(Identifier(sink.subjects.base_store))[0])
        if sink.subjects.base_store
        else client
    )
    schemas = sink_schemas(sink, client, base)
    if run.checking:
        return plan
    run.services.engine.functions.prepare(plan.functions)
    return pinned(plan, registered(schemas, client), encoded_step(plan))


def _refuse_many(statement: InsertValues) -> None:
    if len(statement.rows) > ROWS_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"VALUES takes at most {ROWS_MAX} rows, found {len(statement.rows)}",
            hint="Divide them into several statements, or write the records with a client of the store.",
            span=statement.span,
        )


def _sink(statement: InsertValues, relation: Relation, kind: StoreDescriptor) -> EntitySink:
    """Return the relation's entity as it is declared. A key that no column has is left out."""
    record_sink(kind, relation.kind, statement.name.span)
    entity, layout = relation.entity or (), relation.format
    check_written(kind, entity, statement.name.span)
    if not layout.key_columns:
        layout = replace(layout, key=None, key_type=None)
    reader = sink_reader((), Scope.INSERT, kind, relation=relation)
    return EntitySink(
        relation=relation.name,
        kind=relation.kind,
        store=relation.store or "",
        connector=kind.type,
        entity=entity,
        schema=relation.schema,
        format=layout,
        subjects=subjects(reader, layout.value, layout.key),
    )


def _target(statement: InsertValues, relation: Relation) -> tuple[str, ...]:
    """Return the columns that the values are for. Raises UserError 42703, 42601."""
    check_listed(statement.columns, relation)
    return tuple(column.name for column in statement.columns) or tuple(relation.schema.names)


def _row(
    row: Select, names: Sequence[str], relation: Relation, schema: Schema, run: Execution
) -> LogicalPlan:
    """Return a row of a relation with the columns of `schema`. Raises UserError 42804 for values that do not fit."""
    logical = _bound(row, run)
    root = logical.root
    if not isinstance(root, Project):
        raise _reading(row)
    if len(root.items) != len(names):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the row has {counted(len(root.items), 'value')}, expected one for each of "
            f"{', '.join(map(printed, names))}",
            hint="List the columns that the row has behind the relation's name; the others become NULL.",
            span=row.span,
        )
    columns = {column.name: column for column in relation.schema.columns}
    items = tuple(_value(item, columns[name]) for item, name in zip(root.items, names, strict=True))
    return matched(replace(logical, root=replace(root, items=items)), Schema(schema.columns))


def _value(item: Item, column: Column) -> Item:
    """Return a value under the name of its column; a NULL, which SELECT returns as a VARCHAR, has any type. Raises UserError 42804."""
    value = item.expression
    if not isinstance(value, Literal) or value.text is not None:
        return Item(column.name, value)
    if not column.nullable:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the column {printed(column.name)} is NOT NULL",
            hint="Write a value.",
            span=value.span,
        )
    return Item(column.name, replace(value, type=column.type))


def _reading(row: Select) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        "a value of VALUES is computed from constants, and cannot read a relation",
        hint=_ELSEWHERE,
        span=row.span,
    )


def _bound(row: Select, run: Execution) -> LogicalPlan:
    # The errors of a relation's name would be about queries that run on.
    if row.expression.find(exp.Table) is not None:
        raise _reading(row)
    state = run.catalog.snapshot()
    context = BindingContext(
        catalog=SystemLookup(state, run.role),
        session=run.context,
        connectors=connector,
        inside_views=SystemLookup(state, None),
    )
    return bind(row, context, continuous=True)
