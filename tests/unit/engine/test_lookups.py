"""A table that is cached whole, in the workers: shared, replaced, and removed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.engine.driver.lookups import CachedTable, matching

SCHEMA = pa.schema([("k", pa.int32()), ("name", pa.string())])


def keep(table: CachedTable, rows: list[dict[str, object]]) -> None:
    written = pa.Table.from_pylist(rows, SCHEMA)
    with pa.ipc.new_file(f"{table.path}.new", written.schema) as file:
        file.write_table(written)
    Path(f"{table.path}.new").replace(table.path)


def test_rows_are_found_in_the_newest_file_until_there_is_a_failure(tmp_path: Path) -> None:
    table = CachedTable(str(tmp_path / "table"))
    keep(table, [{"k": 1, "name": "a"}, {"k": 1, "name": "b"}, {"k": None, "name": "c"}])
    keys = pa.table({"k": pa.array([1, 2, None, 3_000_000_000], pa.int64())})

    def names() -> list[list[str]]:
        return [[row["name"] for row in rows] for rows in matching(keys, table, SCHEMA).to_pylist()]

    assert names() == [["a", "b"], [], [], []]
    keep(table, [{"k": 2, "name": "d"}])
    assert names() == [[], ["d"], [], []]
    Path(table.failure).write_text("the table is gone")
    with pytest.raises(RuntimeError, match="the table is gone"):
        names()
