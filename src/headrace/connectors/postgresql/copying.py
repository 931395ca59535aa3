"""COPY of a query's rows by column: parsed at once, outside Python; values stay PostgreSQL's texts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from psycopg.sql import SQL, Composable
from pyarrow import csv

from headrace.connectors.postgresql.connection import Connection


def copied(connection: Connection, query: Composable, names: Sequence[str]) -> pa.Table:
    """Return the rows of a query as a table of texts, NULL where they are, under `names`; raises `psycopg.Error`."""
    # In CSV, a NULL is an empty field, and an empty text is a pair of quotes.
    statement = SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query)
    with connection.cursor().copy(statement) as copy:
        data = b"".join(copy)
    kinds = dict.fromkeys(names, pa.string())
    if not data:
        return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
    return csv.read_csv(
        pa.BufferReader(data),
        # One block, since a row may be as long as it likes.
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=list(names)),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=kinds,
            null_values=[""],
            true_values=[],
            false_values=[],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).combine_chunks()
