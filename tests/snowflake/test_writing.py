"""Batches into tables: each is written once, even after kills; and writes into a table that was changed.

The batches are files as Spark would have written them. That Spark does is shown by `tests/slt/snowflake.slt`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from harness.patience import PATIENCE_S
from harness.snowflake import SnowflakeServer
from headrace.connectors.marks import MARKS
from headrace.connectors.snowflake import tables
from headrace.connectors.snowflake.client import Snowflake
from headrace.connectors.snowflake.writing import DELETED, Output, Target
from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, Varchar

COLUMNS = (Column("id", BIGINT, nullable=False), Column("na me", Varchar(5)))
Store = dict[str, str]
Rows = Sequence[tuple[object, ...]]


@pytest.fixture
def path(store: Store, schema: tuple[str, str]) -> tuple[str, ...]:
    """A table. The stand-in would enforce a key, as Snowflake does not."""
    made = (*schema, "Orders; --")
    with Snowflake(store) as session:
        tables.create(session, made, COLUMNS, ())
    return made


def written(folder: Path, rows: Rows, *, deleted: bool = False) -> Mapping[Path, int]:
    """Return two files of rows; a third column marks deleted keys."""
    names = ["C0", "C1", *([DELETED] if deleted else [])]
    half = len(rows) // 2
    files = {}
    for number, part in enumerate((rows[:half], rows[half:])):
        if part:
            file = folder / f"{number}.parquet"
            parquet.write_table(
                pa.table(dict(zip(names, map(list, zip(*part, strict=True)), strict=True))), file
            )
            files[file] = len(part)
    return files


def kept(snowflake: SnowflakeServer, path: tuple[str, ...]) -> Rows:
    return snowflake.execute(f'SELECT ID, "na me" FROM {tables.named(path)} ORDER BY ID')


def test_a_batch_is_appended_or_merged_by_key(
    snowflake: SnowflakeServer, store: Store, path: tuple[str, ...], tmp_path: Path
) -> None:
    with Snowflake(store) as session:
        append = Output(session, Target(path, COLUMNS))
        assert not append.contains(0)
        append.write(0, written(tmp_path, [(1, "a"), (2, "\\N"), (3, None)]))
        assert kept(snowflake, path) == [(1, "a"), (2, "\\N"), (3, None)]
    with Snowflake(store) as session:
        upsert = Output(session, Target(path, COLUMNS, ("id",)))
        changes = [(1, "A", False), (2, None, True), (4, "d", False), (5, None, True)]
        upsert.write(0, written(tmp_path, changes, deleted=True))
        assert kept(snowflake, path) == [(1, "A"), (3, None), (4, "d")]


def test_an_epoch_is_written_once(
    snowflake: SnowflakeServer, store: Store, path: tuple[str, ...], tmp_path: Path
) -> None:
    target = Target(path, COLUMNS, query="q'1")
    for _ in range(
        2
    ):  # the second run begins where Spark's checkpoint was left: before the commit that it did not see
        with Snowflake(store) as session:
            output = Output(session, target)
            if not output.contains(7):
                output.write(7, written(tmp_path, [(1, "a"), (2, "b")]))
    assert kept(snowflake, path) == [(1, "a"), (2, "b")]
    with Snowflake(store) as session:
        output = Output(session, target)
        # Both look, and only one of them writes.
        output.write(7, written(tmp_path, [(1, "a"), (2, "b")]))
        assert kept(snowflake, path) == [(1, "a"), (2, "b")]
        with pytest.raises(UserError, match="the checkpoint is older than the table"):
            output.contains(6)
        snowflake.execute(f"DELETE FROM {tables.named((*path[:-1], MARKS))}")
        with pytest.raises(UserError, match="is missing"):
            output.contains(8)
        # Another start makes the mark of a query that is new, and no other.
        with pytest.raises(UserError, match="is missing"):
            Output(session, replace(target, is_begun=True)).contains(8)
        assert not Output(session, target).contains(8)


def write_epochs(store: Store, path: Sequence[str], folder: str, epochs: int) -> None:
    """Write as a driver does, in a process of its own, which a fail point may kill."""
    with Snowflake(store) as session:
        output = Output(session, Target(tuple(path), COLUMNS, query="q"))
        for epoch in range(epochs):
            if not output.contains(epoch):
                output.write(epoch, written(Path(folder), [(epoch * 10 + n, "x") for n in range(10)]))


def _run_writer(*arguments: object, **environment: str) -> int:
    command = (
        "import json, os, sys; os.environ['HEADRACE_DRIVER_PID'] = str(os.getpid()); "
        "from tests.snowflake.test_writing import write_epochs; write_epochs(*json.loads(sys.argv[1]))"
    )
    return subprocess.run(
        [sys.executable, "-c", command, json.dumps(arguments)],
        env=os.environ | environment,
        timeout=PATIENCE_S,
        check=False,
    ).returncode


@pytest.mark.prove
def test_nothing_is_lost_or_doubled_when_the_writer_is_killed_before_it_commits(
    snowflake: SnowflakeServer,
    store: Store,
    path: tuple[str, ...],
    tmp_path: Path,
) -> None:
    work = (store, path, str(tmp_path), 4)
    assert _run_writer(*work, HEADRACE_FAIL_POINT="inside_transaction:2") == -signal.SIGKILL
    assert len(kept(snowflake, path)) == 10
    snowflake.abort_transactions()
    assert _run_writer(*work) == 0
    assert [row[0] for row in kept(snowflake, path)] == list(range(40))


def test_a_batch_is_whole_or_not_at_all(
    snowflake: SnowflakeServer, store: Store, path: tuple[str, ...], tmp_path: Path
) -> None:
    target, table = Target(path, COLUMNS, query="q"), tables.named(path)
    with Snowflake(store) as session:
        output = Output(session, target)
        output.write(0, written(tmp_path, [(1, "a")]))
        snowflake.execute(f"DROP TABLE {table}")
        with pytest.raises(UserError) as gone:
            output.write(1, written(tmp_path, [(2, "b"), (3, "c")]))
        assert gone.value.state is SqlState.ENTITY_NOT_FOUND
    with Snowflake(store) as session:
        tables.create(session, path, COLUMNS, ())
        output = Output(session, target)
        assert not output.contains(1)
        output.write(1, written(tmp_path, [(2, "b"), (3, "c")]))
        assert kept(snowflake, path) == [(2, "b"), (3, "c")]


def test_what_a_transaction_wrote_before_it_failed_is_gone(
    snowflake: SnowflakeServer, store: Store, path: tuple[str, ...], tmp_path: Path
) -> None:
    """The session's next DDL would commit what is left."""
    with Snowflake(store) as session:
        output = Output(session, Target(path, COLUMNS, query="q"))
        output.write(0, written(tmp_path, [(1, "a")]))
        snowflake.execute(f"DELETE FROM {tables.named((*path[:-1], MARKS))}")
        with pytest.raises(UserError, match="is missing"):
            output.write(1, written(tmp_path, [(2, "b"), (3, "c")]))
        session.execute(f"CREATE TABLE {tables.named((*path[:-1], 'OTHER'))} (X NUMBER)")
    assert kept(snowflake, path) == [(1, "a")]


def test_a_table_that_has_become_another_is_not_written(
    snowflake: SnowflakeServer, store: Store, path: tuple[str, ...]
) -> None:
    table = tables.named(path)
    snowflake.execute(f"DROP TABLE {table}", f"CREATE TABLE {table} (ID VARCHAR, OTHER NUMBER(3,0))")
    with Snowflake(store) as session:
        with pytest.raises(UserError, match='has no column "na me"') as missing:
            Output(session, Target(path, COLUMNS))
        with pytest.raises(UserError, match=r"id is VARCHAR.*, which does not accept BIGINT") as wrong:
            Output(session, Target(path, COLUMNS[:1]))
    assert missing.value.state is SqlState.UNDEFINED_COLUMN
    assert wrong.value.state is SqlState.INVALID_RELATION_DEFINITION
