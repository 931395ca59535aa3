"""The rows of a batch that reach a view."""

from __future__ import annotations

import pyarrow

from headrace.engine.driver.sinks import last_of_each


def test_of_one_key_the_last_row_is_kept_however_its_zero_is_signed() -> None:
    nan = float("nan")
    batch = pyarrow.table({"k": [0.0, -0.0, nan, nan, -1.5], "n": [1, 2, 3, 4, 5]})
    rows = last_of_each(batch, ["k"])
    assert rows["n"].to_pylist() == [2, 4, 5]
    assert str(rows["k"][0]) == "0.0"


def test_a_key_keeps_its_type() -> None:
    batch = pyarrow.table({"k": pyarrow.array([-0.0, 0.5], pyarrow.float32()), "t": ["a", "b"]})
    assert last_of_each(batch, ["k", "t"]).schema == batch.schema
