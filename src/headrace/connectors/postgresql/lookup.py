"""Look-up of a table's current rows by key, with one statement for all keys of a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from headrace.connectors.postgresql import batch, tables
from headrace.connectors.postgresql.connection import Connection, connect
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.streaming import LookupRequest
from headrace.core.names import EntityPath
from headrace.core.schema import Column

_TEXT_OIDS, _UUID_OID = frozenset((25, 1043)), 2950
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

_open: dict[str, Connection] = {}
"""The connections of this process, which is one of Spark's workers and serves one batch at a time."""


@dataclass(frozen=True)
class Lookup:
    """Look-up function, serialized to Spark's workers. `oids` are the types of the key's columns in PostgreSQL."""

    store: Mapping[str, str] = field(repr=False)
    path: EntityPath
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    oids: tuple[int, ...]

    def __call__(self, keys: pa.Table) -> pa.Table:
        """Return the rows that may have one of `keys`; raises UserError 22000 for a value that does not fit its column, ExternalError
        57015."""
        query = self._query(keys)
        place = repr((sorted(self.store.items()), self.path[:-2]))
        with classified(self.store):
            connection = _open.pop(place, None)
            if connection is not None:
                # The other side may have closed it since the last batch.
                with suppress(psycopg.OperationalError):
                    return self._rows(place, connection, query)
            return self._rows(place, connect(self.store, *self.path[:-2]), query)

    def _rows(self, place: str, connection: Connection, query: Composed) -> pa.Table:
        try:
            with connection.cursor().copy(query) as copy:
                rows = list(copy.rows())
        except BaseException:
            connection.close()
            raise
        _open[place] = connection
        return pa.Table.from_batches([batch.columns_of(self.path, self.columns, rows)])

    def _query(self, keys: pa.Table) -> Composed:
        compared = [
            _compared(name, oid, keys.column(name).combine_chunks())
            for name, oid in zip(self.key, self.oids, strict=True)
        ]
        if len(compared) == 1:
            ((column, values),) = compared
            where = SQL("{} = ANY({})").format(column, values)
        else:
            where = SQL("({}) IN (SELECT * FROM unnest({}))").format(
                SQL(", ").join(column for column, _ in compared),
                SQL(", ").join(values for _, values in compared),
            )
        return SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT").format(
            SQL(", ").join(Identifier(column.name) for column in self.columns),
            tables.named(self.path),
            where,
        )


def prepare(request: LookupRequest) -> Lookup:
    """Looks the columns up; raises UserError 3D007 for a missing table, 42703 for a missing column, ExternalError 57015."""
    store, path = request.properties, request.entity
    with classified(store), connect(store, *path[:-2]) as connection:
        batch.check_columns(connection, path, request.columns)
        oids = batch.type_oids(connection, path)
    return Lookup(dict(store), path, request.columns, request.key, tuple(oids[name] for name in request.key))


def _compared(name: str, oid: int, keys: pa.Array) -> tuple[Composable, Composable]:
    """Return the compared expression of the column, which an index on it supports, and the keys as a PostgreSQL array."""
    column: Composable = Identifier(name)
    kind = keys.type
    if pa.types.is_string(kind):
        texts: Sequence[Any] = [text if "\0" not in text else None for text in keys.to_pylist()]
        if oid == _UUID_OID:
            texts = [text if text and _UUID.match(text) else None for text in texts]
            return column, SQL("{}::uuid[]").format(Literal(texts))
        if oid not in _TEXT_OIDS:
            # The keys are texts as COPY writes them, so compare them with the column's text in the same format.
            column = SQL("format('%s', {})").format(column)
        return column, SQL("{}::text[]").format(Literal(texts))
    if pa.types.is_binary(kind):
        return column, SQL("{}::bytea[]").format(Literal([f"\\x{value.hex()}" for value in keys.to_pylist()]))
    if pa.types.is_timestamp(kind):
        return column, SQL("{}::timestamptz[]").format(
            Literal([value.isoformat() for value in keys.to_pylist()])
        )
    array = (
        "bool"
        if pa.types.is_boolean(kind)
        else "date"
        if pa.types.is_date(kind)
        else "numeric"
        if pa.types.is_decimal(kind)
        else "int8"
    )
    return column, SQL(f"{{}}::{array}[]").format(Literal([str(value) for value in keys.to_pylist()]))
