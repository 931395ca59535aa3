"""The border between two batches: work waits for it, and batches wait for the work."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.checkpoint import write_checkpoint
from harness.patience import PATIENCE_S, until
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import UserError
from headrace.engine.checkpoint_copy import Border
from headrace.engine.driver.border import BatchBorder


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def query(tmp_path: Path, stopping: threading.Event) -> BatchBorder:
    write_checkpoint(tmp_path / "q", batches=3)
    return BatchBorder(LocalFolder(tmp_path / "q"), stopping)


def commit(folder: Path, batch: int) -> None:
    (folder / "q" / "commits" / str(batch)).write_text("v1\n{}")


def batch_of(border: Border) -> int:
    return border.batch


def test_a_query_that_waits_for_rows_is_at_a_border(query: BatchBorder) -> None:
    assert query.call(batch_of, timeout_s=PATIENCE_S) == 2


def test_work_waits_until_the_batch_is_committed(query: BatchBorder, tmp_path: Path) -> None:
    query.enter(3)
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(query.call, batch_of, timeout_s=PATIENCE_S)
        time.sleep(0.1)
        assert not answer.done()
        commit(tmp_path, 3)
        assert answer.result() == 3


def test_the_next_batch_does_the_work_before_it_begins(query: BatchBorder) -> None:
    query.enter(3)
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(query.call, batch_of, timeout_s=PATIENCE_S)
        until(lambda: bool(query._waiting), "the work to wait")
        query.enter(4)
        assert answer.result() == 3


def test_the_next_batch_waits_for_work(query: BatchBorder) -> None:
    entered, proceed = threading.Event(), threading.Event()

    def work(border: Border) -> int:
        entered.set()
        proceed.wait(PATIENCE_S)
        return border.batch

    with ThreadPoolExecutor() as threads:
        answer = threads.submit(query.call, work, timeout_s=PATIENCE_S)
        assert entered.wait(PATIENCE_S)
        following = threads.submit(query.enter, 3)
        time.sleep(0.1)
        assert not following.done()
        proceed.set()
        assert answer.result() == 2
        following.result()


def test_a_held_query_begins_no_batch_until_it_is_stopped(
    query: BatchBorder, stopping: threading.Event
) -> None:
    query.call(batch_of, timeout_s=PATIENCE_S, hold=True)
    with ThreadPoolExecutor() as threads:
        following = threads.submit(query.enter, 3)
        time.sleep(0.1)
        assert not following.done()
        stopping.set()
        following.result()


def test_a_held_query_continues_when_it_is_released(query: BatchBorder) -> None:
    query.call(batch_of, timeout_s=PATIENCE_S, hold=True)
    with ThreadPoolExecutor() as threads:
        following = threads.submit(query.enter, 3)
        time.sleep(0.1)
        assert not following.done()
        query.release()
        following.result()


def test_an_error_of_the_work_is_the_callers(query: BatchBorder) -> None:
    def fail(_: Border) -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        query.call(fail, timeout_s=PATIENCE_S)
    query.enter(3)


def test_a_batch_that_does_not_end_is_reported(query: BatchBorder) -> None:
    query.enter(3)
    with pytest.raises(UserError, match=r"did not finish a batch within 0\.1 s"):
        query.call(batch_of, timeout_s=0.1)
    query.enter(4)
