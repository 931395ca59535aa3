"""Figures of an application's parts, reported as figures of one query."""

from __future__ import annotations

from headrace.engine.driver.application import together
from headrace.engine.protocol import QueryProgress, StepRows


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
