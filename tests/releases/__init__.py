"""Data directories as landed releases left them; `python -m tests.releases VERSION` records one of the present release."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from headrace.connectors.checkpoint_store import LocalFolder
from headrace.engine.checkpoint_copy import IDENTITIES, relocate

FOLDER = Path(__file__).parent
LANDED = sorted(path.stem for path in FOLDER.glob("v*.zip"))
KEY = bytes(range(32))
"""The key of the recorded catalogs."""
WINDOWED = "by_minute"
"""The query whose checkpoint is recorded: it writes windows exactly once."""
SOURCE, SINK = "release_orders", "release_by_minute"
"""Its topics."""
RECORDS = (
    '{"id": 1, "customer": "a", "amount": 2.5, "at": "2026-01-01 00:00:10"}',
    '{"id": 2, "customer": "b", "amount": 4.0, "at": "2026-01-01 00:00:20"}',
    '{"id": 3, "customer": "a", "amount": 1.5, "at": "2026-01-01 00:00:30"}',
)
"""What the query had read: one window that is open."""
ELSEWHERE = Path("/checkpoint")
"""The path at which a recorded checkpoint believes to be."""


def restore(version: str, folder: Path) -> None:
    """Write the catalog of a release, with its key, into a data directory."""
    (folder / "catalog.key").touch(mode=0o600)
    (folder / "catalog.key").write_bytes(KEY)
    with ZipFile(FOLDER / f"{version}.zip") as archive:
        script = archive.read("catalog.sql").decode()
    with closing(sqlite3.connect(folder / "catalog.db")) as stored:
        stored.executescript(script)


def restore_checkpoint(version: str, folder: Path, identities: Mapping[str, str]) -> None:
    """Write the checkpoint of the windowed query into `folder`, for topics that have the present `identities`."""
    with TemporaryDirectory() as name, ZipFile(FOLDER / f"{version}.zip") as archive:
        archive.extractall(name)
        relocate(Path(name, "checkpoint"), folder, LocalFolder(folder))
    known = json.loads((folder / IDENTITIES).read_text())
    renewed = {step: {topic: identities[topic] for topic in topics} for step, topics in known.items()}
    (folder / IDENTITIES).write_text(json.dumps(renewed))
