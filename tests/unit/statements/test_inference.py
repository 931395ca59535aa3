"""Columns that a statement does not list."""

from __future__ import annotations

from headrace.connectors.postgresql.rows import check_envelope
from headrace.connectors.registry import connector
from headrace.core.schema import Column
from headrace.core.types import BIGINT, VARCHAR
from headrace.statements.inference import change_columns


def test_a_stream_over_a_table_has_the_columns_of_its_changes() -> None:
    source = connector("postgresql").row_source
    assert source is not None
    columns = change_columns((Column("id", BIGINT, nullable=False), Column("Name", VARCHAR)), source.metadata)
    check_envelope(columns)
    assert [str(column.type) for column in columns if column.name in ("before", "after")] == [
        'STRUCT<id BIGINT, "Name" VARCHAR>',
        'STRUCT<id BIGINT, "Name" VARCHAR>',
    ]
