"""Past states of queries."""

from __future__ import annotations

import datetime

from sqlalchemy import delete, insert, select

from headrace.catalog import tables
from headrace.catalog.objects import QueryState
from headrace.catalog.storage import Storage
from headrace.catalog.times import moment, present

EVENTS_PER_QUERY_MAX = 200


def add(storage: Storage, query_id: str, state: QueryState, message: str | None) -> None:
    """Store the newest event of a query, and delete the oldest beyond `EVENTS_PER_QUERY_MAX`."""
    table = tables.query_events
    values = {"query_id": query_id, "time": present(), "state": state.value, "message": message}
    storage.execute(insert(table).values(values))
    oldest_kept = (
        select(table.c.id)
        .where(table.c.query_id == query_id)
        .order_by(table.c.id.desc())
        .offset(EVENTS_PER_QUERY_MAX - 1)
        .limit(1)
    )
    storage.execute(
        delete(table).where((table.c.query_id == query_id) & (table.c.id < oldest_kept.scalar_subquery()))
    )


def read(storage: Storage, query_id: str) -> list[tuple[datetime.datetime, QueryState, str | None]]:
    """Return a query's events, oldest first: (time, state, message)."""
    table = tables.query_events
    rows = storage.rows(select(table).where(table.c.query_id == query_id).order_by(table.c.id))
    return [(moment(row["time"]), QueryState(row["state"]), row["message"]) for row in rows]
