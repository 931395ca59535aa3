"""Meaning of a request for rows to the source."""

from __future__ import annotations

from headrace.connectors.checkpoint_store import facts_of
from headrace.connectors.postgresql import replication
from headrace.connectors.postgresql.connection import connect
from headrace.connectors.postgresql.failures import classified
from headrace.connectors.postgresql.options import SLOT, URIS, address
from headrace.connectors.postgresql.relations import read_tables
from headrace.connectors.postgresql.rows import Layout
from headrace.connectors.postgresql.spark.source import CHANGES_PER_READ, Reading
from headrace.connectors.streaming import RowRequest
from headrace.core.names import path_text
from headrace.core.schema import Schema


def slot_lag(request: RowRequest) -> int:
    """Return how many bytes of its log the server retains for a query's slot, 0 before it exists; raises ExternalError 57015."""
    database = request.entity[0] if len(request.entity) != 2 else None
    with classified(request.properties), connect(request.properties, database) as connection:
        return replication.lag_bytes(connection, request.options[SLOT.name]) or 0


def reading(request: RowRequest) -> Reading:
    """Asks the store for the tables; raises as `read_tables`."""
    schema = Schema(request.columns, request.key)
    database = request.entity[0] if len(request.entity) != 2 else None
    tables_read = read_tables(
        request.properties, request.entity, schema, request.options, upsert=request.upsert
    )
    return Reading(
        store=dict(request.properties),
        database=database,
        slot=request.options[SLOT.name],
        tables=tables_read,
        layout=Layout(
            request.columns,
            request.upsert,
            path_text(request.entity),
            database or address(request.properties[URIS.name]).name,
        ),
        with_rows=request.starting_position == "earliest",
        per_read=request.records_per_batch or CHANGES_PER_READ,
        kept=facts_of(request.kept) if request.kept is not None else None,
    )
