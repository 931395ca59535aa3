"""Choice of the store of views."""

from __future__ import annotations

from pathlib import Path

from duckdb import Error as DuckDbError

from headrace.core.errors import Span, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.views.clickhouse import ClickHouseViews, store_of
from headrace.engine.views.duckdb import DuckDbViews
from headrace.engine.views.store import Bounds, ViewStore


def open_views(settings: Settings, *, owner: str) -> ViewStore:
    """Open the store that the settings name; `owner` is the id of the catalog that knows its views.

    Raises UserError 3D008 for a damaged file.
    """
    folder = settings.data_dir
    spill, bounds = spill_folder(settings), bounds_of(settings)
    if settings.views is None:
        try:
            return DuckDbViews(folder / "views.duckdb", spill=spill, bounds=bounds)
        except DuckDbError as error:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"cannot open the rows of materialized views in {folder / 'views.duckdb'}: {str(error).partition(chr(10))[0]}",
                hint="Restore the file from a backup together with the checkpoints. Or move it away: its "
                "views then start without rows, and must be dropped and created again.",
            ) from None
    store = store_of(settings.views, settings.password_of_views())
    return ClickHouseViews(store, owner=owner, spill=spill, bounds=bounds)


def spill_folder(settings: Settings) -> Path:
    """Return the folder for the rows that queries read and for large results."""
    return settings.data_dir.resolve() / "views.tmp"


def bounds_of(settings: Settings) -> Bounds:
    """Return the limits of a snapshot query."""
    return Bounds(
        settings.snapshot_rows_max,
        settings.snapshot_bytes_max,
        settings.snapshot_memory_mb,
        settings.snapshot_timeout_ms / 1000,
    )


def refuse_unshared(settings: Settings, *, span: Span | None = None) -> None:
    """Raise UserError 0A000 if the rows of materialized views would be on the disk of one of several servers."""
    if settings.shared_dir is not None and settings.views is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "materialized views in DuckDB are on the disk of one server, and HEADRACE_SHARED_DIR lets others take over",
            hint="Set HEADRACE_VIEWS to a ClickHouse database, on all servers.",
            span=span,
        )
