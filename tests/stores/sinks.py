"""A table of each store type that takes batches exactly once, and a run of a query that gives one of them.

The batches are files as Spark would have written them, and what sends them is the store type's own; `tests/slt` shows that Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from harness.clickhouse import ClickHouseServer
from harness.databricks import CATALOG, Workspace
from harness.postgresql import PostgresServer
from harness.snowflake import SnowflakeServer
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.connectors.clickhouse.client import identifier as clickhouse_name
from headrace.connectors.clickhouse.spark import output as clickhouse_output
from headrace.connectors.databricks.spark import output as databricks_output
from headrace.connectors.journal import Journal
from headrace.connectors.postgresql import writing as postgresql_writing
from headrace.connectors.registry import connector
from headrace.connectors.snowflake import tables as snowflake_tables
from headrace.connectors.snowflake import writing as snowflake_writing
from headrace.connectors.snowflake.client import Snowflake, quoted
from headrace.connectors.streaming import RowSinkRequest
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader, Scope, of_scope
from headrace.core.schema import Column, Schema
from headrace.core.types import BIGINT, VARCHAR
from headrace.formats.types import name_sql
from tests.clickhouse.conftest import store_of as clickhouse_store
from tests.databricks.conftest import store_of as databricks_store
from tests.postgresql.conftest import store_of as postgresql_store
from tests.snowflake.conftest import store_of as snowflake_store

ODD = "v`\"'; DROP TABLE x; --"
"""A name that tries to be more than one."""
Rows = Sequence[tuple[int, str | None]]
Servers = dict[str, Any]


@dataclass(frozen=True)
class Sink:
    """A table: its store by a port of the server's or of a line to it, where it is, and how another tool speaks of it."""

    type: str
    port: int
    store: Callable[[int], dict[str, str]]
    path: EntityPath
    select: str
    execute: Callable[[str], list[tuple[Any, ...]]]
    text: str = ODD

    @property
    def columns(self) -> tuple[Column, ...]:
        """A number, and a text that must be there."""
        return Column("id", BIGINT), Column(self.text, VARCHAR, nullable=False)

    def create(self, columns: Sequence[Column] = ()) -> None:
        """Create the table, or a new table of the same name."""
        kind = connector(self.type)
        assert kind.row_sink is not None
        reader = PropertyReader({}, of_scope(kind.properties, Scope.ENTITY), what="a table")
        kind.row_sink.create(self.store(self.port), self.path, Schema(tuple(columns) or self.columns), reader)

    def drop(self) -> None:
        """Drops it."""
        entities = connector(self.type).entities
        assert entities is not None
        entities.drop_entity(self.store(self.port), self.path)

    def rows(self) -> list[tuple[int, str]]:
        """Return its content, read by the other tool."""
        return sorted((int(number), text) for number, text in self.execute(self.select))

    def write(self, query: str, epoch: int, rows: Rows, folder: Path, *, port: int | None = None) -> None:
        """Write like a run of a query that starts with this batch; `folder` is the folder of its checkpoint."""
        with ExitStack() as resources:
            request = RowSinkRequest(
                query_id=query,
                entity=self.path,
                columns=self.columns,
                key=(),
                upsert=False,
                properties=self.store(port or self.port),
                guarantee="exactly_once",
                options={"databricks.commit.interval.ms": "0"},
                checkpoint=LocalFolder(folder),
                resources=resources,
            )
            _WRITERS[self.type](request, epoch, rows)


def _table(rows: Rows, names: Sequence[str]) -> pa.Table:
    numbers, texts = zip(*rows, strict=True)
    return pa.table({names[0]: pa.array(numbers, pa.int64()), names[1]: pa.array(texts, pa.string())})


def _postgresql(request: RowSinkRequest, epoch: int, rows: Rows) -> None:
    names = tuple(column.name for column in request.columns)
    target = postgresql_writing.Target(request.properties, request.entity, names, query=request.query_id)
    postgresql_writing.prepare(target)
    lines = pa.BufferOutputStream()
    csv.write_csv(_table(rows, names), lines, csv.WriteOptions(include_header=False))
    postgresql_writing.write(target, epoch, [bytes(lines.getvalue())])


def _snowflake(request: RowSinkRequest, epoch: int, rows: Rows) -> None:
    session = request.resources.enter_context(Snowflake(request.properties))
    target = snowflake_writing.Target(request.entity, request.columns, query=request.query_id)
    output = snowflake_writing.Output(session, target)
    if not output.contains(epoch):
        folder = request.checkpoint.local()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "0.parquet"
        parquet.write_table(_table(rows, ("C0", "C1")), file)
        output.write(epoch, {file: len(rows)})


def _of_journal(request: RowSinkRequest, epoch: int, rows: Rows, folder: str, names: Sequence[str]) -> None:
    journal = Journal(request.checkpoint.at(folder), request.resources)
    if not journal.contains(epoch):
        files = journal.begin(epoch)
        files.mkdir()
        parquet.write_table(_table(rows, names), files / "part-0.parquet")
        journal.complete(epoch, 0)


def _clickhouse(request: RowSinkRequest, epoch: int, rows: Rows) -> None:
    _of_journal(request, epoch, rows, "clickhouse", [column.name for column in request.columns])
    clickhouse_output.writer(request)(None, epoch)  # type: ignore[arg-type] - the batch is in the journal


def _databricks(request: RowSinkRequest, epoch: int, rows: Rows) -> None:
    _of_journal(request, epoch, rows, "databricks", ("c0", "c1"))
    databricks_output.writer(request)(None, epoch)  # type: ignore[arg-type] - likewise


_WRITERS: Mapping[str, Callable[[RowSinkRequest, int, Rows], None]] = {
    "postgresql": _postgresql,
    "snowflake": _snowflake,
    "clickhouse": _clickhouse,
    "databricks": _databricks,
}


def postgresql_sink(server: PostgresServer, seed: str) -> Sink:
    path = (f"Shop {seed}", 'or"ders; --')
    server.execute(f'CREATE SCHEMA "{path[0]}"')
    name = f'"{path[0]}"."or""ders; --"'
    return Sink(
        "postgresql",
        server.port,
        lambda port: postgresql_store(uris=server.uri.replace(str(server.port), str(port))),
        path,
        f'SELECT id, "{ODD.replace(chr(34), chr(34) * 2)}" FROM {name}',
        server.execute,
    )


def clickhouse_sink(server: ClickHouseServer, seed: str) -> Sink:
    path = (f"Shop '{seed}", "or`ders; --")
    server.execute(f"CREATE DATABASE {clickhouse_name(path[0])}")
    return Sink(
        "clickhouse",
        server.port,
        lambda port: clickhouse_store(uris=f"jdbc:clickhouse://127.0.0.1:{port}"),
        path,
        f"SELECT id, {clickhouse_name(ODD)} FROM {'.'.join(map(clickhouse_name, path))}",
        server.execute,
    )


def snowflake_sink(server: SnowflakeServer, seed: str) -> Sink:
    # The stand-in puts names between quotes that it does not double; tests/unit/connectors/test_snowflake.py has those with quotes.
    path, text = (f"SHOP_{seed.upper()}", "TILL", "Orders; --"), ODD.replace("'", "")
    server.execute(f"CREATE DATABASE {path[0]}", f"CREATE SCHEMA {path[0]}.{path[1]}")
    return Sink(
        "snowflake",
        server.port,
        lambda port: snowflake_store(uris=f"http://127.0.0.1:{port}"),
        path,
        f"SELECT ID, {quoted(text)} FROM {snowflake_tables.named(path)}",
        server.execute,
        text,
    )


def databricks_sink(server: Workspace, seed: str) -> Sink:
    # Unity Catalog takes no such name of a table.
    path = (CATALOG, f"s{seed}", "orders")
    server.execute(f"CREATE SCHEMA {'.'.join(path[:2])}")
    return Sink(
        "databricks",
        server.front.port,
        lambda port: databricks_store(server, **{"databricks.warehouse_port": str(port)}),
        path,
        f"SELECT id, {name_sql(ODD)} FROM {'.'.join(path)}",
        server.execute,
    )


SINKS: Mapping[str, Callable[[Any, str], Sink]] = {
    "postgresql": postgresql_sink,
    "clickhouse": clickhouse_sink,
    "snowflake": snowflake_sink,
    "databricks": databricks_sink,
}
"""By store type, which is the name of its server's fixture too."""
