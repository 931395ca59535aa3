"""A table that is cached whole, in the workers: shared, replaced, and removed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.engine.driver.lookups import CachedTable, matching

SCHEMA = pa.schema([("k", pa.int32()), ("name", pa.string())])


def test_rows_are_found_in_the_newest_file_until_there_is_a_failure(tmp_path: Path) -> None:
    table = CachedTable(str(tmp_path / "table"))
    keys = pa.table({"k": pa.array([1, 2, None, 3_000_000_000], pa.int64())})

    def names() -> list[list[str]]:
        return [[row["name"] for row in rows] for rows in matching(keys, table, SCHEMA).to_pylist()]

    rows = [{"k": 1, "name": "a"}, {"k": 1, "name": "b"}, {"k": None, "name": "c"}]
    table.replace(pa.Table.from_pylist(rows, SCHEMA))
    assert names() == [["a", "b"], [], [], []]
    table.replace(pa.Table.from_pylist([{"k": 2, "name": "d"}], SCHEMA))
    assert names() == [[], ["d"], [], []]
    table.refuse("the table is gone")
    with pytest.raises(RuntimeError, match="the table is gone"):
        names()
