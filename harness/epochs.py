"""Epochs of a view, as a driver sends them."""

from __future__ import annotations

import re
from typing import Any

import pyarrow

from headrace.engine.protocol import ApplyView
from headrace.planner.physical import Column
from headrace.planner.view_reads import ViewRead

VIEW = "v-1"
KEYED = [Column(name="k", type="VARCHAR"), Column(name="n", type="BIGINT")]


def reads_of(sql: str) -> list[ViewRead]:
    """All of the views that a query names in quotes after FROM, JOIN or a comma."""
    names = re.findall(r'(?:FROM|JOIN|,)\s+"([^"]+)"', sql)
    return [ViewRead(name) for name in dict.fromkeys(names)]


def batch(rows: list[dict[str, Any]], schema: Any = None) -> bytes:
    """Rows as an Arrow stream."""
    table = pyarrow.Table.from_pylist(rows, schema=schema)
    buffer = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(buffer, table.schema) as out:
        out.write_table(table)
    return bytes(buffer.getvalue())


def epoch(
    number: int,
    *,
    keys: tuple[str, ...] = ("k",),
    deleted: str | None = None,
    sign: str | None = None,
    query: str = "q",
    view: str = VIEW,
) -> ApplyView:
    """Return an epoch's message."""
    return ApplyView(
        sequence=1,
        query_id=query,
        view=view,
        epoch=number,
        key_columns=list(keys),
        deleted=deleted,
        sign=sign,
    )
