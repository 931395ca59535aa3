"""Servers that share a catalog: what they must have in common, checked when a server starts (docs/adr/0086)."""

from __future__ import annotations

from pathlib import Path

from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.objects import RelationKind
from headrace.catalog.state import CatalogState
from headrace.core.errors import UserError
from headrace.core.names import printed
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.sizes import pool_resources
from headrace.engine.views.opening import refuse_unshared


def check_settings(settings: Settings, *, kafka_port: int | None) -> None:
    """Raise UserError 3D008 for a setting of `HEADRACE_SHARED_DIR` that would leave something on one machine."""
    if settings.shared_dir is None:
        return
    if settings.catalog_url is None:
        raise _refused(
            "the catalog is a file in the data directory",
            "Set HEADRACE_CATALOG_URL, on all servers.",
        )
    if settings.catalog_key is None and settings.catalog_key_command is None:
        raise _refused(
            "the key of the catalog is a file in the data directory",
            "Set HEADRACE_CATALOG_KEY or HEADRACE_CATALOG_KEY_COMMAND, on all servers.",
        )
    if kafka_port is not None:
        raise _refused(
            "the broker of --with-kafka keeps its topics in the data directory", "Use a Kafka cluster."
        )
    if not settings.shared_dir.is_dir():
        raise _refused(
            f"the folder {settings.shared_dir} does not exist on this machine",
            "Mount it before the server starts.",
        )


def check_catalog(settings: Settings, state: CatalogState) -> None:
    """Raise UserError for what the catalog has on one machine only: 0A000 for rows of views, 3D008 for checkpoints of a pool."""
    if settings.shared_dir is None:
        return
    views = [relation for relation in state.relations() if relation.kind is RelationKind.MATERIALIZED_VIEW]
    if views:
        refuse_unshared(settings)
    for pool in state.all(COMPUTE_POOL):
        folder = pool_resources(pool, settings).place.checkpoints
        if folder is not None and folder.startswith("/") and not Path(folder).is_dir():
            raise _refused(
                f"the compute pool {printed(pool.name)} keeps its checkpoints in {folder}, which does not exist on this machine",
                "Mount that folder on all servers under the same path.",
            )


def _refused(what: str, remedy: str) -> UserError:
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"HEADRACE_SHARED_DIR lets another server take over, but {what}",
        hint=remedy,
    )
