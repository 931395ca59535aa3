"""Rows that a task returns, and when."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace.connectors.carried_errors import carried
from headrace.connectors.transaction_task import in_a_transaction
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState


def batches(*parts: list[int]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"v": pa.array(part, pa.int64())}) for part in parts])


def values(batch: pa.RecordBatch) -> list[int]:
    return list(batch.column(0).to_pylist())


def test_all_rows_are_one_transaction() -> None:
    written: list[list[list[int]]] = []
    given = list(
        in_a_transaction(values, lambda parts: written.append(list(parts)))(batches([1], [], [2, 3]))
    )
    assert written == [[[1], [2, 3]]]
    assert [batch.num_rows for batch in given] == [0]


def test_without_rows_nothing_is_begun() -> None:
    written: list[object] = []
    list(in_a_transaction(values, written.append)(batches([], [])))
    assert written == []


def test_what_was_written_before_is_read_to_its_end() -> None:
    """Spark waits for a task to take what it is sent."""
    sent = batches([1], [2], [3])
    list(in_a_transaction(values, lambda _: None)(sent))
    assert next(sent, None) is None


def test_a_refused_row_is_reported_to_the_driver() -> None:
    def refuse(parts: Iterator[list[int]]) -> None:
        raise UserError(SqlState.DATA_EXCEPTION, f"not {next(parts)}", hint="another")

    with pytest.raises(RuntimeError) as raised:
        list(in_a_transaction(values, refuse)(batches([7])))
    error = carried(str(raised.value))
    assert error is not None
    assert (error.state, error.message, error.hint) == (SqlState.DATA_EXCEPTION, "not [7]", "another")
