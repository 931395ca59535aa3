"""Past states of queries."""

from __future__ import annotations

import datetime
from collections.abc import Collection

from sqlalchemy import delete, insert, select

from headrace.catalog import tables
from headrace.catalog.objects import QueryState
from headrace.catalog.storage import Storage
from headrace.catalog.times import moment, present

EVENTS_PER_QUERY_MAX = 200
IDS_MAX = 500
"""Queries that the database selects by their ids: it limits how many values a statement has."""


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


Event = tuple[datetime.datetime, QueryState, str | None]
"""Time, state and message."""


def read(storage: Storage, query_ids: Collection[str] | None = None) -> dict[str, list[Event]]:
    """Return the events of queries, or of all, by the queries' ids; oldest first. One read of the database."""
    table = tables.query_events
    query = select(table).order_by(table.c.id)
    if query_ids is not None and len(query_ids) <= IDS_MAX:
        query = query.where(table.c.query_id.in_(query_ids))
    events: dict[str, list[Event]] = {}
    for row in storage.rows(query):
        event = (moment(row["time"]), QueryState(row["state"]), row["message"])
        events.setdefault(row["query_id"], []).append(event)
    return events
