"""Folders of the queries' progress and state, one each, written by Spark."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import structlog

from headrace.catalog.objects import Query
from headrace.connectors.checkpoint_store import INTERACTIVE, CheckpointStore, LocalFolder
from headrace.connectors.marks import WRITER
from headrace.core.errors import HeadraceError
from headrace.engine.checkpoint_copy import copy_failure, move_copy

log = structlog.get_logger()

ASIDE = "checkpoints.aside"
"""Beside the folder of the checkpoints; each is `<seconds since 1970>-<query id>` there."""


def folder_name(query: Query) -> str:
    """Return the name of the folder of a query in its present incarnation."""
    return f"{query.id}.{query.incarnation}" if query.incarnation else query.id


def copy_checkpoints(
    query_ids: Collection[str], source: CheckpointStore, target: CheckpointStore, beside: Path
) -> None:
    """Copy the folders of queries that do not run from one place to another. Temporary copies are in the folder `beside`.

    Raises UserError XX001, ExternalError 53000 as `copy_failure`, and HeadraceError as S3Folder; what is left is then of no use.
    """
    # What an earlier move left is not to be continued.
    remove_checkpoints(query_ids, target)
    try:
        for name in source.names("") if query_ids else ():
            if name.startswith(tuple(query_ids)):
                move_copy(source.at(name), target.at(name), beside)
    except OSError as error:
        raise copy_failure(error) from error


def remove_checkpoints(query_ids: Collection[str], store: CheckpointStore) -> None:
    """Remove the folders of queries that are in a store."""
    for name in store.names("") if query_ids else ():
        if name.startswith(tuple(query_ids)):
            store.at(name).remove()


class Checkpoints:
    """The folders under `folder`, and in the stores of `elsewhere` for the compute pools that it names. Those of continuous queries stay,
    so that RESTART goes on after TERMINATE and after a crash, until the relation that the query writes is dropped.

    `has_workers` is true of a pool whose tasks run on other machines.
    """

    def __init__(
        self,
        folder: Path,
        elsewhere: Callable[[], Mapping[str, CheckpointStore]] = dict,
        has_workers: Callable[[str], bool] = lambda _pool: False,
    ) -> None:
        self._folder = folder
        self._elsewhere = elsewhere
        self._has_workers = has_workers
        # The names of those that this server has started.
        self._interactive: set[str] = set()

    def store(self, query: Query) -> CheckpointStore:
        """Return the place of a continuous query, in its present incarnation."""
        return self._of(query.compute_pool).at(folder_name(query))

    def path(self, query: Query) -> Path:
        """Return the folder of a continuous query, in its present incarnation."""
        return self.store(query).local()

    def exists(self, query: Query) -> bool:
        """Return True if the folder of a continuous query, in its present incarnation, is there."""
        return self.store(query).exists()

    def new(self, query_id: str, pool: str) -> CheckpointStore:
        """Return the place of a continuous query of a pool that is to be created."""
        return self._of(pool).at(query_id)

    def copy_path(self, checkpoint: CheckpointStore, query_id: str) -> Path:
        """Return the folder for a copy from which a query continues: on the disk of its checkpoint, so that files are linked, if it has
        one."""
        folder = checkpoint.path.parent if isinstance(checkpoint, LocalFolder) else self._folder
        return folder / f"{query_id}.copy"

    def prepare(self, query: Query) -> CheckpointStore:
        """Return the place of a query that is to start. Raises ExternalError 53000.

        A query that starts anew is another writer: the marks of its earlier incarnations in the sink are of other batches.
        """
        store = self.store(query)
        try:
            if query.incarnation and store.read(WRITER) is None:
                # With a letter: a number after the id is that of a bucket (ADR 68).
                store.write(WRITER, f"v{query.incarnation}")
        except OSError as error:
            raise copy_failure(error) from error
        return store

    def places(self, used: Collection[str] = ()) -> list[str]:
        """Return the addresses of the places that contain the checkpoints of the queries of all compute pools, without folders that were
        never written.

        The folder of a pool in `used`, which has queries, is listed even if it is missing: it may be a mount that this machine lacks.
        """
        own = LocalFolder(self._folder)
        return sorted(
            {
                store.uri
                for pool, store in [(None, own), *self._elsewhere().items()]
                if not isinstance(store, LocalFolder) or pool in used or store.exists()
            }
        )

    def temporary(self, query_id: str, pool: str) -> CheckpointStore:
        """Return the place of an interactive query, which is worthless after its end, and so in S3 only if the tasks run elsewhere."""
        store = self._of(pool)
        if not isinstance(store, LocalFolder) and not self._has_workers(pool):
            store = LocalFolder(self._folder)
        self._interactive.add(f"{INTERACTIVE}{query_id}")
        return store.at(f"{INTERACTIVE}{query_id}")

    def remove(self, query_id: str) -> None:
        """Delete the folders of a continuous query that is never to run again, if there are any."""
        for store in (LocalFolder(self._folder), *self._elsewhere().values()):
            remove_checkpoints([query_id], store)

    def remove_temporary(self, query_id: str, pool: str) -> None:
        """Delete the folder of an interactive query, if there is one. One in a bucket that is away stays until a server starts."""
        try:
            self.temporary(query_id, pool).remove()
        except HeadraceError as error:
            log.warning("interactive_checkpoint_not_removed", query_id=query_id, reason=error.message)
        finally:
            self._interactive.discard(f"{INTERACTIVE}{query_id}")

    def retain(self, query_ids: Collection[str], *, days: int) -> None:
        """Set aside the folders of unknown queries. Delete folders of interactive queries, and those set aside more than `days` ago.
        What is in S3 stays: a bucket that is away must not hold up the start of a server.

        Sets aside only what is under `folder`. No query of the catalog needs them: they are what a server that was killed has left. But if
        it is the catalog that is wrong, such as one from an old backup, they are all that can be restored.
        """
        aside = self._folder.with_name(ASIDE)
        for path in self._folder.glob("*"):
            if path.name.startswith(INTERACTIVE):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.partition(".")[0] not in query_ids:
                aside.mkdir(exist_ok=True)
                path.rename(aside / f"{int(time.time())}-{path.name}")
        for store in self._elsewhere().values():
            if isinstance(store, LocalFolder):
                self._remove_interactive(store)
        for path in aside.glob("*"):
            since = path.name.partition("-")[0]
            if since.isdecimal() and int(since) < time.time() - days * 86_400:
                shutil.rmtree(path, ignore_errors=True)

    def remove_remote_interactive(self) -> bool:
        """Delete what servers before this one have left in S3 of interactive queries. Return False if a bucket is away."""
        is_complete = True
        for pool, store in self._elsewhere().items():
            if not isinstance(store, LocalFolder) and self._has_workers(pool):
                try:
                    self._remove_interactive(store)
                except HeadraceError as error:
                    is_complete = False
                    log.warning("interactive_checkpoints_not_removed", place=store.uri, reason=error.message)
        return is_complete

    def _remove_interactive(self, store: CheckpointStore) -> None:
        for name in store.names(""):
            if name.startswith(INTERACTIVE) and name not in self._interactive:
                store.at(name).remove()

    def _of(self, pool: str) -> CheckpointStore:
        return self._elsewhere().get(pool, LocalFolder(self._folder))
