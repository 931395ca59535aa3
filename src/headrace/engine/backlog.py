"""Retained logs: stores that keep their log until a query has read it, as PostgreSQL does for a slot."""

from __future__ import annotations

from headrace.engine.protocol import QueryProgress


def message(progress: QueryProgress, limit_bytes: int) -> str | None:
    """Return a warning while a store retains more than `limit_bytes` of its log for a query, else None."""
    entity, size = max(progress.backlog_bytes.items(), key=lambda item: item[1], default=("", 0))
    if size <= limit_bytes:
        return None
    return (
        f"the store of {entity} retains {size / 2**20:,.0f} MiB of its log, because the query has not "
        "confirmed reading it: see backlog_bytes in DESCRIBE QUERY METRICS. The query is too slow, or a "
        "transaction has been open for long; the store's disk fills up"
    )
