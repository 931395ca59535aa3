"""Fixtures of all unit tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.snapshot_workers import SnapshotWorkers
from headrace.engine.views import snapshots


@pytest.fixture(scope="session")
def snapshot_workers() -> Iterator[SnapshotWorkers]:
    """Yield the workers of snapshot queries that one process of the run uses for all of its tests."""
    workers = SnapshotWorkers()
    yield workers
    workers.close()


@pytest.fixture(autouse=True)
def _lasting_snapshot_workers(monkeypatch: pytest.MonkeyPatch, snapshot_workers: SnapshotWorkers) -> None:
    monkeypatch.setattr(snapshots, "_Worker", snapshot_workers)
