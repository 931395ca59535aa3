"""Materialized views: the rows that continuous queries keep up to date, and SELECTs of them.

Start at `store.py`, which says what a store of views does; `duckdb.py` is the one in the data directory, `clickhouse.py` the one for
many rows.
"""

from __future__ import annotations

from headrace.core.settings import Settings
from headrace.engine.views.clickhouse import ClickHouseViews, store_of
from headrace.engine.views.duckdb import DuckDbViews
from headrace.engine.views.store import PURGE_INTERVAL_S, ViewStore

__all__ = ["PURGE_INTERVAL_S", "ViewStore", "open_views"]


def open_views(settings: Settings, *, owner: str) -> ViewStore:
    """The store that the settings ask for; `owner` is the id of the catalog that knows its views."""
    folder, rows_max = settings.data_dir, settings.snapshot_rows_max
    if settings.views is None:
        return DuckDbViews(folder / "views.duckdb", rows_max=rows_max)
    store = store_of(settings.views, settings.password_of_views())
    return ClickHouseViews(store, owner=owner, spill=folder / "views.tmp", rows_max=rows_max)
