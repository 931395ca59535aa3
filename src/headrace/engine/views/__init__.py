"""Materialized views: the rows that continuous queries keep up to date, and SELECTs of them.

Start at `store.py`, which says what a store of views does; `duckdb.py` is the one in the data directory.
"""

from __future__ import annotations

from headrace.core.settings import Settings
from headrace.engine.views.duckdb import DuckDbViews
from headrace.engine.views.store import PURGE_INTERVAL_S, ViewStore

__all__ = ["PURGE_INTERVAL_S", "ViewStore", "open_views"]


def open_views(settings: Settings) -> ViewStore:
    """The store that the settings ask for."""
    return DuckDbViews(settings.data_dir / "views.duckdb", rows_max=settings.snapshot_rows_max)
