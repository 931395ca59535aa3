"""Folders of the queries' progress and state, one each, written by Spark."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

ASIDE = "checkpoints.aside"
"""Beside the folder of the checkpoints; each is `<seconds since 1970>-<query id>` there."""
_INTERACTIVE = "interactive-"


class Checkpoints:
    """The folders under `folder`, and under those of `elsewhere` for the compute pools that it names. Those of continuous queries stay, so
    that RESTART goes on after TERMINATE and after a crash, until the relation that the query writes is dropped.
    """

    def __init__(self, folder: Path, elsewhere: Callable[[], Mapping[str, Path]] = dict) -> None:
        self._folder = folder
        self._elsewhere = elsewhere

    def path(self, query_id: str, pool: str) -> Path:
        """Return the folder of a continuous query of a pool."""
        return self._elsewhere().get(pool, self._folder) / query_id

    def temporary_path(self, query_id: str, pool: str) -> Path:
        """Return the folder of an interactive query, which is worthless after its end."""
        return self.path(f"{_INTERACTIVE}{query_id}", pool)

    def remove(self, query_id: str) -> None:
        """Delete the folder of a continuous query that is never to run again, if there is one."""
        for folder in (self._folder, *self._elsewhere().values()):
            shutil.rmtree(folder / query_id, ignore_errors=True)

    def remove_temporary(self, query_id: str, pool: str) -> None:
        """Delete the folder of an interactive query, if there is one."""
        shutil.rmtree(self.temporary_path(query_id, pool), ignore_errors=True)

    def retain(self, query_ids: Collection[str], *, days: int) -> None:
        """Set aside the folders of unknown queries. Delete folders of interactive queries, and those set aside more than `days` ago.

        Sets aside only what is under `folder`. No query of the catalog needs them: they are what a server that was killed has left. But if
        it is the catalog that is wrong, such as one from an old backup, they are all that can be restored.
        """
        aside = self._folder.with_name(ASIDE)
        for path in self._folder.glob("*"):
            if path.name.startswith(_INTERACTIVE):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in query_ids:
                aside.mkdir(exist_ok=True)
                path.rename(aside / f"{int(time.time())}-{path.name}")
        for folder in self._elsewhere().values():
            for path in folder.glob(f"{_INTERACTIVE}*"):
                shutil.rmtree(path, ignore_errors=True)
        for path in aside.glob("*"):
            since = path.name.partition("-")[0]
            if since.isdecimal() and int(since) < time.time() - days * 86_400:
                shutil.rmtree(path, ignore_errors=True)
