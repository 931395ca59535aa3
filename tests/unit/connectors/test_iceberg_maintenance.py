"""Snapshots that OPTIMIZE ENTITY must leave to queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connectors.checkpoint_store import LocalFolder
from headrace.connectors.iceberg.spark.maintenance import read_snapshots
from headrace.connectors.streaming import OptimizeRequest
from headrace.core.errors import UserError


def test_a_folder_that_the_driver_does_not_have_is_refused(tmp_path: Path) -> None:
    request = OptimizeRequest(("s", "t"), {}, ("q",), (LocalFolder(tmp_path / "missing"),))
    with pytest.raises(UserError, match=r"does not have the folder .*/missing with their checkpoints"):
        read_snapshots(request)
