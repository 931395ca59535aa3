"""Changes as Arrow batches of a relation's rows: an envelope in Debezium's terms for streams, the rows themselves for changelogs; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import compute

from headrace.connectors.arrow_types import arrow_type
from headrace.connectors.postgresql import columns
from headrace.connectors.postgresql.changes import Change, Row, Table
from headrace.connectors.postgresql.snapshot import Rows
from headrace.core.errors import UserError
from headrace.core.internal_columns import DELETED, ENTITY, ROW_KEY, ROW_METADATA, ROW_TIME, SEQUENCE, SPLIT
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, BYTES, VARCHAR, DataType, Struct
from headrace.core.wording import with_article

METADATA = Struct((("db", VARCHAR), ("schema", VARCHAR), ("table", VARCHAR), ("lsn", BIGINT)))
"""Where a change stands; the envelope's `source` has some of it."""

_IMAGES = ("before", "after")
_HINT = (
    'A stream has the columns op VARCHAR, ts_ms BIGINT, "before" and "after" STRUCT<columns of the table>, or BYTES for them as JSON, '
    'and "source" STRUCT<db VARCHAR, "schema" VARCHAR, "table" VARCHAR, lsn BIGINT>, or some of them. '
    "CREATE CHANGELOG reads the rows themselves."
)


@dataclass(frozen=True)
class Layout:
    """Rows of a relation: its columns, whether it is a changelog (`upsert`), and the values that all of its rows share."""

    columns: tuple[Column, ...]
    upsert: bool
    entity: str
    database: str


def check_envelope(given: Sequence[Column]) -> None:
    """Raises UserError 42P16 for columns that are none of a stream of changes."""
    for column in given:
        kind, name = column.type, column.name
        if name in _IMAGES:
            fits = isinstance(kind, Struct) or kind in (BYTES, VARCHAR)
        elif name == "source":
            fits = isinstance(kind, Struct) and set(kind.fields) <= set(METADATA.fields)
        else:
            fits = (name, kind) in (("op", VARCHAR), ("ts_ms", BIGINT))
        if not fits:
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the changes of a table have no column {name} {kind}",
                hint=_HINT,
            )


def needed_columns(given: Sequence[Column], *, upsert: bool) -> tuple[str, ...] | None:
    """Return names of the table's columns that a relation needs; None: all that it has, since one of its columns is JSON."""
    if upsert:
        return tuple(column.name for column in given)
    images = [column.type for column in given if column.name in _IMAGES]
    if not all(isinstance(kind, Struct) for kind in images):
        return None
    return tuple(
        dict.fromkeys(name for kind in images if isinstance(kind, Struct) for name, _ in kind.fields)
    )


def batch(layout: Layout, changes: Sequence[Change] | Rows, first: int) -> pa.RecordBatch:
    """Changes, the first of which has the number `first`, as the driver half's `rows` gives them.

    Raises UserError 22000 for a value that does not fit its column's type, and for a TRUNCATE in a changelog.
    """
    facts = _facts(changes)
    arrays = _upserts(layout, changes) if layout.upsert else _envelopes(layout, changes, facts)
    count = len(changes)
    ended = compute.equal(facts.ops, "d") if layout.upsert else pa.repeat(False, count)
    hidden = {
        ROW_TIME: facts.committed_us.cast(pa.timestamp("us", "UTC")),
        ROW_KEY: pa.nulls(count, pa.string()),
        DELETED: ended,
        ENTITY: pa.repeat(layout.entity, count),
        SPLIT: pa.repeat(pa.scalar(0, pa.int32()), count),
        SEQUENCE: pa.array(range(first, first + count), pa.int64()),
        ROW_METADATA: _metadata(layout, METADATA, facts),
    }
    return pa.RecordBatch.from_pydict({**arrays, **hidden})


@dataclass(frozen=True)
class _Facts:
    """Facts of changes besides their rows, a column each."""

    ops: pa.Array
    committed_us: pa.Array
    schemas: pa.Array
    tables: pa.Array
    lsns: pa.Array


def _facts(changes: Sequence[Change] | Rows) -> _Facts:
    if isinstance(changes, Rows):
        same = ("r", changes.began_us, changes.table.schema, changes.table.name, changes.log.lsn)
        return _Facts(*(pa.repeat(value, len(changes)) for value in same))
    return _Facts(
        pa.array([change.op for change in changes], pa.string()),
        pa.array([change.committed_us for change in changes], pa.int64()),
        pa.array([change.table.schema for change in changes], pa.string()),
        pa.array([change.table.name for change in changes], pa.string()),
        pa.array([change.lsn for change in changes], pa.int64()),
    )


def _upserts(layout: Layout, changes: Sequence[Change] | Rows) -> dict[str, pa.Array]:
    if isinstance(changes, Rows):
        return _columns(changes, [(column.name, column.type) for column in layout.columns])
    rows: list[Row] = []
    for change in changes:
        row = change.before if change.op == "d" else change.after
        if row is None:
            where = f"{change.table.schema}.{change.table.name}"
            raise UserError(
                SqlState.DATA_EXCEPTION,
                f"the table {where} was truncated, and PostgreSQL does not report which keys a changelog must delete",
                hint="Drop the replication slot, and create the query again: it reads the table from the start. "
                "Use DELETE FROM instead of TRUNCATE.",
            )
        rows.append(row)
    if not changes:
        return {column.name: columns.column([], column.type) for column in layout.columns}
    table = changes[0].table
    return {
        column.name: _converted(table, column.name, column.type, [row[place] for row in rows])
        for column in layout.columns
        for place in (table.columns.index(column.name),)
    }


def _envelopes(layout: Layout, changes: Sequence[Change] | Rows, facts: _Facts) -> dict[str, pa.Array]:
    return {column.name: _envelope(layout, column, changes, facts) for column in layout.columns}


def _envelope(layout: Layout, column: Column, changes: Sequence[Change] | Rows, facts: _Facts) -> pa.Array:
    if column.name == "op":
        return facts.ops
    if column.name == "ts_ms":
        return compute.divide(facts.committed_us, 1000)
    if column.name == "source" and isinstance(column.type, Struct):
        return _metadata(layout, column.type, facts)
    is_before = column.name == "before"
    if isinstance(changes, Rows) and isinstance(column.type, Struct):
        if is_before:
            return pa.nulls(len(changes), arrow_type(column.type))
        return columns.struct(_columns(changes, column.type.fields))
    single = list(changes)
    images = [change.before if is_before else change.after for change in single]
    if isinstance(column.type, Struct):
        return _image(column.type, images, single)
    texts = [
        None if row is None else columns.json_row(change.table.columns, change.table.type_oids, row)
        for change, row in zip(single, images, strict=True)
    ]
    return pa.array(texts, pa.string()).cast(arrow_type(column.type))


def _columns(rows: Rows, typed: Iterable[tuple[str, DataType]]) -> dict[str, pa.Array]:
    return {
        name: _converted(rows.table, name, kind, rows.texts.column(name).combine_chunks())
        for name, kind in typed
    }


def _image(kind: Struct, images: Sequence[Row | None], changes: Sequence[Change]) -> pa.Array:
    missing = [row is None for row in images]
    if all(missing):
        return pa.nulls(len(images), arrow_type(kind))
    table = changes[0].table
    children = {
        name: _converted(table, name, field, [None if row is None else row[place] for row in images])
        for name, field in kind.fields
        for place in (table.columns.index(name),)
    }
    return columns.struct(children, missing)


def _converted(table: Table, name: str, kind: DataType, texts: columns.Texts) -> pa.Array:
    try:
        return columns.column(texts, kind)
    except ValueError as error:
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"a value of column {name} of {table.schema}.{table.name} is not {with_article(str(kind))}: {error}",
            hint="Declare the column as DESCRIBE ENTITY shows it, or as VARCHAR, which takes every value as PostgreSQL's text.",
        ) from None


def _metadata(layout: Layout, kind: Struct, facts: _Facts) -> pa.Array:
    values = {
        "db": pa.repeat(layout.database, len(facts.ops)),
        "schema": facts.schemas,
        "table": facts.tables,
        "lsn": facts.lsns,
    }
    return columns.struct({name: values[name] for name, _ in kind.fields})
