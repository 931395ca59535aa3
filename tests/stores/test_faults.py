"""Faults of a batch on its way into a table, the same for every store type with exactly-once delivery."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harness.line import Line
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR
from tests.conftest import GROUPS
from tests.stores.sinks import SINKS, Sink

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("postgresql"),
    pytest.mark.parametrize("postgresql", [18], indirect=True),
]


@pytest.fixture(
    # The stand-in for a warehouse of Databricks is a Spark of its own: a minute each.
    params=[
        pytest.param(
            kind,
            marks=[
                pytest.mark.xdist_group(GROUPS.get(kind, "stores")),
                *([pytest.mark.prove] if kind == "databricks" else []),
            ],
        )
        for kind in SINKS
    ]
)
def sink(request: pytest.FixtureRequest, seed: str) -> Sink:
    made = SINKS[request.param](request.getfixturevalue(request.param), seed)
    made.create()
    return made


def test_two_at_once_commit_each_batch_once(sink: Sink, tmp_path: Path) -> None:
    """An earlier run of a query that is not dead yet, with its next one; and another query into the same table."""
    batches = [(query, [(n, query) for n in range(20)]) for query in ("first'", "first'", "second")]
    failures: list[HeadraceError] = []

    def run(number: int) -> None:
        query, rows = batches[number]
        try:
            sink.write(query, 0, rows, tmp_path / str(number))
        except HeadraceError as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(batches))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    # Who comes too late may be told to try again, and then has nothing to do.
    assert all(isinstance(error, ExternalError) for error in failures), failures
    for number in range(len(batches)):
        run(number)
    assert sink.rows() == sorted({row for _, rows in batches for row in rows})


def test_a_store_that_was_away_has_the_batch_once(sink: Sink, tmp_path: Path) -> None:
    with Line(sink.port) as line:
        sink.write("q", 0, [(0, "a")], tmp_path, port=line.port)
        line.cut()
        with pytest.raises(ExternalError) as away:
            sink.write("q", 1, [(1, "b")], tmp_path, port=line.port)
        assert away.value.state is SqlState.REMOTE_UNAVAILABLE
        assert str(line.port) in away.value.message
        assert sink.rows() == [(0, "a")]
        line.mend()
        for _ in range(2):
            sink.write("q", 1, [(1, "b")], tmp_path, port=line.port)
    assert sink.rows() == [(0, "a"), (1, "b")]


def test_a_value_that_does_not_fit_leaves_nothing_of_its_batch(sink: Sink, tmp_path: Path) -> None:
    sink.write("q", 0, [(0, "a")], tmp_path)
    with pytest.raises(UserError) as refused:
        sink.write("q", 1, [(1, "b"), (2, None)], tmp_path)
    assert refused.value.state is SqlState.DATA_EXCEPTION
    assert refused.value.hint
    assert sink.rows() == [(0, "a")]


def test_a_table_that_another_tool_changes_is_not_written(sink: Sink, tmp_path: Path) -> None:
    sink.write("q", 0, [(0, "a")], tmp_path)
    sink.drop()
    with pytest.raises(UserError) as gone:
        sink.write("q", 1, [(1, "b")], tmp_path)
    assert gone.value.state is SqlState.ENTITY_NOT_FOUND
    sink.create([Column("id", BIGINT), Column("other", VARCHAR)])
    with pytest.raises(UserError) as other:
        sink.write("q", 1, [(1, "b")], tmp_path)
    assert other.value.state is SqlState.UNDEFINED_COLUMN
    sink.drop()
    sink.create()
    sink.write("q", 1, [(1, "b")], tmp_path)
    assert sink.rows() == [(1, "b")]
