"""Snapshot of a view in ClickHouse, to copy it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import duckdb

from headrace.connectors.clickhouse.client import ClickHouse, identifier
from headrace.core.errors import InternalError, UserError
from headrace.core.names import quote
from headrace.engine.views.backup import ROWS, WRITTEN
from headrace.engine.views.clickhouse_tables import ViewTable, decoded, selected
from headrace.planner.duckdb_sql import type_name

READING = {"output_format_arrow_string_as_string": 1, "max_query_size": 1 << 24}
"""Settings of a query whose answer is in Arrow."""


class ClickHouseSnapshot:
    """A `ViewSnapshot` of a view in ClickHouse: an answer that is not read yet. ClickHouse reads all of its rows as of its start.

    `last_epoch` reads the marks of the view. It is called after the start of the answer, so that the answer has no epoch that `epoch` does
    not cover.
    """

    def __init__(
        self, client: ClickHouse, view_id: str, table: ViewTable, now: int, last_epoch: Callable[[], int]
    ) -> None:
        import pyarrow

        self._view = view_id
        self._table = table
        self._answer = ExitStack()
        try:
            sql = f"SELECT {selected(table.types)}, {WRITTEN} FROM {identifier(view_id)} FINAL WHERE {table.alive(now)}"  # noqa: S608
            content = self._answer.enter_context(client.arrow(sql, READING))
            self._rows: Any = pyarrow.ipc.open_stream(content)
            self.epoch = last_epoch()
        except BaseException:
            self._answer.close()
            raise

    def copy(self, copy: duckdb.DuckDBPyConnection) -> bool:
        types = {name: type_name(kind) for name, kind in self._table.types.items()}
        described = ", ".join(f"{quote(name)} {kind}" for name, kind in types.items())
        view, columns = quote(self._view), decoded(self._table.types)
        copy.begin()
        copy.execute(f"CREATE TABLE {view} ({described}, {WRITTEN} TIMESTAMP)")
        copy.register(ROWS, self._rows)
        try:
            copy.execute(f"INSERT INTO {view} SELECT {columns}, make_timestamp({WRITTEN}) FROM {ROWS}")  # noqa: S608
        except (duckdb.Error, UserError) as error:
            raise InternalError(f"the view {self._view} was not copied: {error}") from error
        finally:
            copy.unregister(ROWS)
        copy.commit()
        return True

    def close(self) -> None:
        self._answer.close()
