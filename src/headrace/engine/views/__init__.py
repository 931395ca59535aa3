"""Materialized views: the rows that continuous queries keep up to date, and SELECTs of them.

Start at `store.py`, which says what a store of views does; `duckdb.py` is the one in the data directory, `clickhouse.py` the one for
many rows.
"""

from __future__ import annotations

from duckdb import Error as DuckDbError

from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.views.clickhouse import ClickHouseViews, store_of
from headrace.engine.views.duckdb import DuckDbViews
from headrace.engine.views.store import PURGE_INTERVAL_S, ViewStore

__all__ = ["PURGE_INTERVAL_S", "ViewStore", "open_views"]


def open_views(settings: Settings, *, owner: str) -> ViewStore:
    """Open the store that the settings name; `owner` is the id of the catalog that knows its views.

    Raises UserError 3D008 for a damaged file.
    """
    folder, rows_max = settings.data_dir, settings.snapshot_rows_max
    if settings.views is None:
        try:
            return DuckDbViews(folder / "views.duckdb", rows_max=rows_max)
        except DuckDbError as error:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"cannot open the rows of materialized views in {folder / 'views.duckdb'}: {str(error).partition(chr(10))[0]}",
                hint="Restore that file from a backup together with the checkpoints, or move it away: its views then begin without rows, "
                "and are to be dropped and created again.",
            ) from None
    store = store_of(settings.views, settings.password_of_views())
    return ClickHouseViews(store, owner=owner, spill=folder / "views.tmp", rows_max=rows_max)
