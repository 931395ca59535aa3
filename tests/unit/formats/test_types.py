"""Data types as Spark writes them."""

from __future__ import annotations

import pytest

from headrace.core.types import parse_type
from headrace.formats.types import name_sql, spark_type, text_sql


@pytest.mark.parametrize(
    ("ours", "sparks"),
    [
        ("INTEGER", "INT"),
        ("VARCHAR(10)", "STRING"),
        ("BYTES", "BINARY"),
        ("DECIMAL(12, 3)", "DECIMAL(12, 3)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP"),
        ("ARRAY<MAP<VARCHAR, BIGINT>>", "ARRAY<MAP<STRING, BIGINT>>"),
        ('STRUCT<a INTEGER, "B`c" DATE>', "STRUCT<`a`: INT, `B``c`: DATE>"),
    ],
)
def test_every_type_has_a_spark_type(ours: str, sparks: str) -> None:
    assert spark_type(parse_type(ours)) == sparks


def test_names_and_texts_cannot_break_out_of_the_sql() -> None:
    assert name_sql("a` b") == "`a`` b`"
    assert text_sql("it's \\ a\nline") == "'it\\'s \\\\ a\\nline'"
