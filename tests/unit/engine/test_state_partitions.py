"""Conditions under which the driver divides the state of a checkpoint anew. `StatePartitionsSuite.scala` divides it, and
`tests/s3/test_state_partitions.py` has the order of the requests to a bucket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import UserError
from headrace.engine.driver import state_partitions
from headrace.engine.driver.state_partitions import divide_state

SETTING = "spark.sql.shuffle.partitions"


class FakeSession:
    """A session that notes its settings, and the changes that are requested of the JVM."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.changes: list[tuple[Any, ...]] = []
        self.conf = self
        self._jsparkSession = "session"

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def change(self, *arguments: Any) -> None:
        self.changes.append(arguments)

    def __getattr__(self, name: str) -> Any:
        return self


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(state_partitions, "jvm", lambda session: session)
    return FakeSession()


def checkpoint(folder: Path, *, planned: int, finished: int) -> LocalFolder:
    """Write the logs of a query with two partitions of state."""
    facts = json.dumps({"batchWatermarkMs": 0, "conf": {SETTING: "2"}})
    for log, count in (("offsets", planned), ("commits", finished)):
        (folder / log).mkdir()
        for batch in range(count):
            (folder / log / str(batch)).write_text(f"v1\n{facts}\n{{}}")
    return LocalFolder(folder)


def test_a_query_without_a_number_keeps_the_one_that_it_has(session: Any, tmp_path: Path) -> None:
    divide_state(session, checkpoint(tmp_path, planned=4, finished=4), None)
    assert (session.settings, session.changes) == ({}, [])


def test_a_new_query_starts_with_its_number(session: Any, tmp_path: Path) -> None:
    divide_state(session, LocalFolder(tmp_path), 8)
    assert session.settings == {SETTING: "8"}
    divide_state(session, checkpoint(tmp_path, planned=1, finished=0), 16)
    assert (session.settings, session.changes) == ({SETTING: "16"}, [])


def test_a_copy_is_divided_as_of_its_last_batch(session: Any, tmp_path: Path) -> None:
    divide_state(session, checkpoint(tmp_path, planned=4, finished=4), 5)
    assert session.changes == [("session", str(tmp_path), 3, 5)]


def test_a_change_that_an_earlier_driver_may_have_left_is_requested_again(
    session: Any, tmp_path: Path
) -> None:
    divide_state(session, checkpoint(tmp_path, planned=5, finished=4), 2)
    assert session.changes == [("session", str(tmp_path), 3, 2)]


def test_a_batch_that_has_begun_is_ended_with_its_partitions(session: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has started a batch with 2 partitions"):
        divide_state(session, checkpoint(tmp_path, planned=5, finished=4), 5)
    assert not session.changes
