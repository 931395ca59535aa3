"""The parts of an application as one query: their figures, and the border at which they are copied."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from harness.checkpoint import write_checkpoint
from harness.patience import until
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import UserError
from headrace.engine.checkpoint_copy import Border, border
from headrace.engine.driver.application import RunningApplication, together
from headrace.engine.driver.border import BatchBorder
from headrace.engine.driver.channel import Channel
from headrace.engine.driver.options import DriverOptions
from headrace.engine.protocol import Ack, ApplyView, Message, QueryProgress, Rows, StartQuery, StepRows
from headrace.planner.physical import ReadEntity, SparkPlan, Step, WriteEntity


def of(part: str, **figures: object) -> QueryProgress:
    known = {"batch_id": 0, "input_rows": 0, "input_rows_per_second": 0.0, "batch_duration_ms": 0}
    return QueryProgress.model_validate({"query_id": f"q-{part}", **known, **figures})


def test_rows_of_what_is_new_are_summed_and_of_all_parts_what_is_so_now() -> None:
    a = of("a", batch_id=3, input_rows=10, state_rows=5, watermark_ms=2000, batch_duration_ms=7, late_rows=1)
    b = of("b", batch_id=8, input_rows=90, state_rows=6, watermark_ms=1000, batch_duration_ms=9)
    progress = together("q", [a], [a, b])
    assert (progress.query_id, progress.batch_id, progress.input_rows, progress.late_rows) == ("q", 11, 10, 1)
    assert (progress.state_rows, progress.watermark_ms, progress.batch_duration_ms) == (11, 1000, 7)


def test_bytes_are_known_if_all_parts_know_them_and_the_oldest_commit_counts() -> None:
    a = of("a", input_bytes=5, output_bytes=1, committed_at_ms=2_000, checkpoint_bytes=10)
    b = of("b", input_bytes=7, committed_at_ms=1_000, checkpoint_bytes=20)
    progress = together("q", [a], [a, b])
    assert (progress.input_bytes, progress.output_bytes) == (5, None)
    assert (progress.committed_at_ms, progress.checkpoint_bytes) == (1_000, 30)


def test_a_split_that_two_parts_read_is_as_far_behind_as_the_slower_one() -> None:
    a, b = of("a", lag={"t": {"0": 4, "1": 0}}), of("b", lag={"t": {"0": 9}, "u": {"0": 1}})
    assert together("q", [b], [a, b]).lag == {"t": {"0": 9, "1": 0}, "u": {"0": 1}}


def test_details_are_by_part() -> None:
    a, b = of("a", detail={"batches": 1}), of("sink_b", detail={"batches": 2})
    passed = [StepRows(step="WHERE x", input_rows=3, output_rows=1)]
    steps = together("q", [of("a", steps=passed)], [of("a", steps=passed), of("sink_b", steps=passed)]).steps
    # The rows of a part without a new report were counted before.
    assert [(step.step, step.input_rows) for step in steps] == [("a WHERE x", 3)]
    assert together("q", [a], [a, b]).detail == {"parts": {"a": {"batches": 1}, "sink_b": {"batches": 2}}}


class _Unheard:
    """A channel whose messages nobody reads."""

    def send(self, message: Message) -> None:
        """Drop a message."""

    def ask(
        self, make: Callable[[int], Rows | ApplyView], payload: bytes, *, stopped: threading.Event
    ) -> Ack:
        """Refuse to answer: no batch is written here."""
        raise NotImplementedError


def application(folder: Path) -> RunningApplication:
    """Return an application of the parts a and b that has finished three batches of each; Spark has not started it."""
    steps: list[Step] = []
    for name in ("a", "b"):
        write_checkpoint(folder / "q" / "parts" / f"sink_{name}", batches=3)
        steps += [
            ReadEntity(id=f"read_{name}", store="k", connector="kafka", entity=(name,)),
            WriteEntity(id=f"sink_{name}", input=f"read_{name}", store="k", connector="kafka", entity=("t",)),
        ]
    plan = SparkPlan(steps=steps, outputs=["sink_a", "sink_b"])
    start = StartQuery(query_id="q", generation=1, plan=plan, checkpoint=str(folder / "q"))
    return RunningApplication(
        cast(SparkSession, None),
        start,
        cast(Channel, _Unheard()),
        options=DriverOptions(work_dir=folder / "work"),
        ended=lambda _: None,
    )


def borders(application: RunningApplication) -> list[BatchBorder]:
    return [part._sink.border for part in application._parts]


def commit(folder: Path, part: str, batch: int) -> None:
    (folder / "q" / "parts" / part / "commits" / str(batch)).write_text("v1\n{}")


def test_each_part_waits_at_its_border_until_all_are_copied(tmp_path: Path) -> None:
    running = application(tmp_path)
    first, second = borders(running)
    second.enter(3)
    with ThreadPoolExecutor() as threads:
        copy = threads.submit(running.copy_checkpoint, tmp_path / "copy", hold=False)
        copied = tmp_path / "copy" / "parts"
        until(lambda: (copied / "sink_a" / "commits" / "2").exists(), "the first part to be copied")
        batch = threads.submit(first.enter, 3)
        assert not wait([batch, copy], 0.2).done
        (tmp_path / "q" / "parts" / "sink_b" / "offsets" / "3").write_text("v1\n{}")
        (tmp_path / "q" / "parts" / "sink_b" / "state" / "0" / "0" / "4.changelog").write_text("4")
        commit(tmp_path, "sink_b", 3)
        assert copy.result() == Border(2 + 3, is_interrupted=False)
        batch.result()
    assert border(LocalFolder(copied / "sink_a")) == Border(2, is_interrupted=False)
    assert border(LocalFolder(copied / "sink_b")) == Border(3, is_interrupted=False)


def test_an_application_that_is_to_be_stopped_runs_no_batch_after_the_copy(tmp_path: Path) -> None:
    running = application(tmp_path)
    running.copy_checkpoint(tmp_path / "copy", hold=True)
    with ThreadPoolExecutor() as threads:
        batches = [threads.submit(each.enter, 3) for each in borders(running)]
        assert not wait(batches, 0.2).done
        running.release()
        assert not wait(batches).not_done


def test_a_copy_that_fails_holds_no_part(tmp_path: Path) -> None:
    running = application(tmp_path)
    (tmp_path / "q" / "parts" / "sink_b" / "state" / "0" / "0" / "3.changelog").unlink()
    with pytest.raises(UserError, match=r"has no file 3\.changelog"):
        running.copy_checkpoint(tmp_path / "copy", hold=True)
    for each in borders(running):
        each.enter(3)
