"""Where queries keep their progress and state: one folder each, written by Spark."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path


class Checkpoints:
    """The folders under `folder`. Those of continuous queries stay, so that RESTART goes on after TERMINATE and after a crash,
    until the relation that the query writes is dropped.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, query_id: str) -> Path:
        """The folder of a continuous query."""
        return self._folder / query_id

    def temporary_path(self, query_id: str) -> Path:
        """The folder of an interactive query, worth nothing after its end."""
        return self._folder / f"interactive-{query_id}"

    def remove(self, query_id: str) -> None:
        """Delete the folder of a continuous query that is never to run again, if there is one."""
        shutil.rmtree(self.path(query_id), ignore_errors=True)

    def remove_temporary(self, query_id: str) -> None:
        """Delete the folder of an interactive query, if there is one."""
        shutil.rmtree(self.temporary_path(query_id), ignore_errors=True)

    def retain(self, query_ids: Collection[str]) -> None:
        """Delete every folder but those of these continuous queries: what an earlier server that was killed has left."""
        for path in self._folder.glob("*"):
            if path.name not in query_ids:
                shutil.rmtree(path, ignore_errors=True)
