"""Backups of a data directory while its server runs: catalog, checkpoints, views and savepoints that fit together. ADR 65.

The catalog is copied first: it lists what else there is. A query that runs is copied between two batches. If it writes a materialized
view, it is held there until a snapshot of the view is open, so that both are of the same batch.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from headrace import __version__
from headrace.catalog.catalog import Catalog
from headrace.catalog.identity import FILE as IDENTITY_FILE
from headrace.catalog.keys import KEY_FILE
from headrace.catalog.objects import Query, Relation, RelationKind, Savepoint
from headrace.catalog.storage import FILE as CATALOG_FILE
from headrace.connectors.checkpoint_bucket import SCHEME
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.connectors.marks import RESUMED, WRITER
from headrace.core.atomic_file import write_atomically
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import (
    VIEWS,
    Folder,
    border,
    copy_failure,
    copy_whole,
    newest_batch,
    parts_of,
)
from headrace.engine.checkpoints import folder_name
from headrace.engine.copies import Copies
from headrace.engine.digests import digests
from headrace.engine.pool_properties import CHECKPOINTS as CHECKPOINTS_SPEC
from headrace.engine.view_copies import views_of
from headrace.engine.views.backup import new_copy
from headrace.engine.views.duckdb import DuckDbViews
from headrace.engine.views.store import ViewStore
from headrace.planner.physical import SparkPlan
from headrace.planner.upgrades import UnreadablePlanError

FORMAT = 1
"""Version of a backup's layout. A later release reads all earlier ones."""
MANIFEST = "manifest.json"
CHECKPOINTS = "checkpoints"
SAVEPOINTS = "savepoints"
_TOKEN_FILE = "token"  # noqa: S105 - the name of a file


@dataclass(frozen=True)
class Backup:
    """A complete backup: its folder, the numbers of what it contains, and the ids of the queries that have no position in it."""

    folder: Path
    queries: int
    views: int
    savepoints: int
    size: int
    without_position: tuple[str, ...]


class Backups:
    """The backups in the folder `backups` of a data directory."""

    def __init__(self, directory: Path, catalog: Catalog, copies: Copies, views: ViewStore) -> None:
        self._directory = directory
        self._catalog = catalog
        self._copies = copies
        self._views = views

    async def take(self) -> Backup:
        """Write a backup. If that fails, nothing is left.

        Raises UserError 0A000 for a catalog or views in another database, 57000 if something was dropped meanwhile, 57014 for a query that
        does not finish its batch; ExternalError 53000 for a full disk.
        """
        views = self._views
        if not isinstance(views, DuckDbViews):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "the materialized views are in the database of HEADRACE_VIEWS, which this statement does not copy",
                hint="Stop the server, back that database up by its own means, and copy the data directory.",
            )
        self._refuse_shared_checkpoints()
        now = datetime.datetime.now(datetime.UTC)
        folder = self._directory / "backups" / f"{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        try:
            return await self._write(folder, views)
        except BaseException as error:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise copy_failure(error) from error
            raise

    def _refuse_shared_checkpoints(self) -> None:
        """Raise UserError 0A000 for queries with checkpoints elsewhere: a restored server would write to the same ones as this server."""
        shared = {
            pool.name: pool.properties[CHECKPOINTS_SPEC.name]
            for pool in self._catalog.compute_pools()
            if CHECKPOINTS_SPEC.name in pool.properties
        }
        pools = sorted({query.compute_pool for query in self._catalog.queries()} & shared.keys())
        if pools:
            in_s3 = shared[pools[0]].startswith(SCHEME)
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"queries of the compute pool {pools[0]!r} have their checkpoints in the folder of '{CHECKPOINTS_SPEC.name}', which this "
                "statement does not copy",
                hint="What is in S3 outlives the machine: back up the database of HEADRACE_CATALOG_URL by its own means."
                if in_s3
                else "STOP the pool, remove that property with UPDATE COMPUTE_POOL, and repeat the statement.",
            )

    async def _write(self, folder: Path, views: DuckDbViews) -> Backup:
        queries, relations, savepoints = await asyncio.to_thread(self._copy_catalog, folder)
        left = {each.id for each in relations if each.kind is RelationKind.MATERIALIZED_VIEW}
        without_position, count = [], 0
        with closing(await asyncio.to_thread(new_copy, folder / VIEWS)) as copied_views:
            for query in queries:
                target = folder / CHECKPOINTS / folder_name(query)
                written = {view: part for view, part in _views_of(query).items() if view in left}
                left -= written.keys()
                async with self._copied(query, target, hold=bool(written)) as has_position:
                    snapshots = {view: views.snapshot(view) for view in written}
                if not has_position and query.should_run:
                    without_position.append(query.id)
                with ExitStack() as stack:
                    for snapshot in snapshots.values():
                        stack.callback(snapshot.close)
                    for view, snapshot in snapshots.items():
                        if snapshot.epoch > newest_batch(target.joinpath(*written[view])):
                            raise _changed(f"the query {query.id} was started again")
                        count += await asyncio.to_thread(snapshot.copy, copied_views)
            # Of queries whose plan this release cannot read, and which do not run.
            for view in left:
                with closing(views.snapshot(view)) as snapshot:
                    count += await asyncio.to_thread(snapshot.copy, copied_views)
        for savepoint in savepoints:
            source = self._directory / SAVEPOINTS / savepoint.id
            await asyncio.to_thread(copy_whole, source, folder / SAVEPOINTS / savepoint.id)
        self._refuse_dropped(queries, relations, savepoints)
        size = await asyncio.to_thread(_complete, folder)
        return Backup(folder, len(queries), count, len(savepoints), size, tuple(without_position))

    def _copy_catalog(self, folder: Path) -> tuple[list[Query], list[Relation], list[Savepoint]]:
        """Copy the catalog, and what belongs to it; return the queries, relations and savepoints in the copy."""
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
        self._catalog.audit.flush()
        with self._catalog.transaction():
            queries, relations = self._catalog.queries(), self._catalog.relations()
            savepoints = self._catalog.savepoints.all()
            self._catalog.copy(folder / CATALOG_FILE)
        for name in (IDENTITY_FILE, KEY_FILE, _TOKEN_FILE):
            if (self._directory / name).is_file():
                shutil.copy(self._directory / name, folder / name)
        return queries, relations, savepoints

    @asynccontextmanager
    async def _copied(self, query: Query, target: Path, *, hold: bool) -> AsyncIterator[bool]:
        """Copy the checkpoint of a query, and yield whether it has one. With `hold` a query that runs begins no batch until the end of the
        context."""
        async with self._copies.exclusive(query.id):
            current = self._catalog.query(query.id)
            should_run = current is not None and current.should_run
            try:
                # A query that is to be stopped is held at the border of its last savepoint.
                runs = await self._copies.back_up(query, target, hold=hold or not should_run)
                yield runs is not None
                if runs:
                    await asyncio.to_thread(_separate, target)
            finally:
                if hold and should_run:
                    self._copies.release(query)

    def _refuse_dropped(
        self, queries: list[Query], relations: list[Relation], savepoints: list[Savepoint]
    ) -> None:
        """Raise UserError 57000 if a query, a relation or a savepoint was dropped while it was copied."""
        present = {relation.id for relation in self._catalog.relations()}
        for relation in relations:
            if relation.id not in present:
                raise _changed(f"the relation {relation.name} was dropped")
        kept = {savepoint.id for savepoint in self._catalog.savepoints.all()}
        for savepoint in savepoints:
            if savepoint.id not in kept:
                raise _changed(f"the savepoint {savepoint.name} was dropped")
        known = {query.id for query in self._catalog.queries()}
        for query in queries:
            if query.id not in known:
                raise _changed(f"the query {query.id} was dropped")


def _views_of(query: Query) -> dict[str, Folder]:
    """Return the views that a query writes, as `views_of`; none for a plan that cannot be read."""
    try:
        return views_of(SparkPlan.from_json(query.plan))
    except UnreadablePlanError:
        return {}


def _separate(checkpoint: Path) -> None:
    """Let the query of a copy be another writer than the original, which writes on."""
    word = f"restored-{uuid.uuid4().hex[:8]}"
    for part in parts_of(checkpoint):
        if (last := border(LocalFolder(part))) is not None:
            write_atomically(part / WRITER, word)
            write_atomically(part / RESUMED, str(last.batch))


def _complete(folder: Path) -> int:
    """Write the manifest; return the bytes of the files."""
    files = digests(folder)
    content = {"format": FORMAT, "version": __version__, "files": files}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1))
    return sum(size for size, _ in files.values())


def _changed(what: str) -> UserError:
    return UserError(
        SqlState.CANCELLED,
        f"{what} while the backup was written",
        hint="Nothing is left of the backup. Repeat it.",
    )
