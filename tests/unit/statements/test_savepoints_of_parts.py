"""Savepoints of applications and of materialized views, over checkpoints of queries that do not run. ADR 102."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest

from harness.checkpoint import write_checkpoint
from harness.epochs import batch
from harness.session import Session
from headrace.catalog.kinds.savepoint import SAVEPOINT
from headrace.catalog.objects import DesiredState, Query, QueryState
from headrace.core.errors import UserError
from headrace.engine.protocol import ApplyView
from headrace.planner.physical import SparkPlan
from headrace.planner.target import Target
from headrace.planner.view_reads import ViewRead
from headrace.statements.base import Execution

APPLICATION = """BEGIN APPLICATION {name}
  CREATE MATERIALIZED VIEW shop.public.{view} AS SELECT n, COUNT(*) AS times FROM shop.public.orders GROUP BY n;
  INSERT INTO {sink} SELECT n FROM shop.public.orders WHERE n > {least};
END APPLICATION"""
CHAIN = """BEGIN APPLICATION {name}
  INSERT INTO lab.tests.orders SELECT n FROM shop.public.orders;
  CREATE MATERIALIZED VIEW shop.public.{view} AS SELECT n, COUNT(*) AS times FROM lab.tests.orders GROUP BY n;
END APPLICATION"""
VIEW = "CREATE MATERIALIZED VIEW shop.public.{view} AS SELECT n, COUNT(*) AS times FROM shop.public.orders WHERE n > {least} GROUP BY n"


def application(
    name: str, *, view: str = "counts", sink: str = "lab.tests.orders", least: int = 0, more: str = ""
) -> str:
    text = APPLICATION.format(name=name, view=view, sink=sink, least=least)
    return f"{text} WITH ({more})" if more else text


async def ended(session: Session, text: str, folder: Path, *, batches: int = 4) -> Query:
    """Run a statement, and return its query, which has ended after so many batches of each part."""
    await session.run(text)
    (query,) = session.catalog.unfinished_queries()
    end(session, query)
    checkpoint = folder / "checkpoints" / query.id
    for sink in ("sink_counts", "sink_orders"):
        write_checkpoint(checkpoint / "parts" / sink, batches=batches)
        batches += 1
    return query


async def ended_view(session: Session, folder: Path, more: str = "") -> Query:
    await session.run(f"{VIEW.format(view='counts', least=0)}{more}")
    (query,) = session.catalog.unfinished_queries()
    end(session, query)
    write_checkpoint(folder / "checkpoints" / query.id, batches=4)
    return query


def end(session: Session, query: Query) -> None:
    session.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)


def view_id(session: Session, view: str) -> str:
    return next(each.id for each in session.catalog.relations() if each.name.name == view)


def count(session: Session, writer: str, epoch: int, *rows: tuple[int, int], view: str = "counts") -> bool:
    """Let a query write groups into a view."""
    message = ApplyView(
        sequence=1, query_id=writer, view=view_id(session, view), epoch=epoch, key_columns=["n"]
    )
    schema = pyarrow.schema({"n": pyarrow.int64(), "times": pyarrow.int64()})
    return session.engine.views.apply(message, batch([{"n": n, "times": times} for n, times in rows], schema))


def counts(session: Session, view: str) -> list[tuple[object, ...]]:
    identifier = view_id(session, view)
    sql = f'SELECT n, times FROM "{identifier}" ORDER BY n'
    return session.engine.views.query(sql, reads=[ViewRead(identifier)])[1]


async def refused(session: Session, text: str) -> str:
    before = {relation.name for relation in session.catalog.relations()}
    with pytest.raises(UserError) as caught:
        await session.run(text)
    assert {relation.name for relation in session.catalog.relations()} == before
    return f"{caught.value.state.value} {caught.value.message}"


def continued(session: Session, folder: Path) -> tuple[Query, Path]:
    (query,) = session.catalog.unfinished_queries()
    return query, folder / "checkpoints" / query.id


async def test_a_view_continues_with_the_rows_of_the_savepoint(session: Session, tmp_path: Path) -> None:
    query = await ended_view(session, tmp_path)
    count(session, query.id, 3, (1, 5), (2, 7))
    await session.run("CREATE SAVEPOINT s ON QUERY shop.public.counts")
    count(session, query.id, 4, (1, 6), (3, 1))
    await session.run("DROP MATERIALIZED VIEW shop.public.counts")

    await session.run(f"{VIEW.format(view='again', least=0)} QUERY WITH ('resume.from.savepoint' = s)")

    query, checkpoint = continued(session, tmp_path)
    assert counts(session, "again") == [(1, 5), (2, 7)]
    assert (checkpoint / "resumed").read_text() == "3"
    assert not (checkpoint / "views.duckdb").exists()
    assert count(session, query.id, 4, (2, 8), view="again")
    assert counts(session, "again") == [(1, 5), (2, 8)]


async def test_a_view_continues_from_the_query_of_another_view(session: Session, tmp_path: Path) -> None:
    query = await ended_view(session, tmp_path)
    count(session, query.id, 2, (1, 5))

    await session.run(
        f"{VIEW.format(view='again', least=0)} QUERY WITH ('resume.from.query.id' = '{query.id}')"
    )

    assert counts(session, "again") == [(1, 5)]
    assert [path.name for path in (tmp_path / "checkpoints").glob("*.copy")] == []


async def test_a_view_of_another_statement_or_without_rows_is_refused(
    session: Session, tmp_path: Path
) -> None:
    query = await ended_view(session, tmp_path)
    count(session, query.id, 3, (1, 5))
    await session.run("CREATE SAVEPOINT s ON QUERY shop.public.counts")

    assert "the rows of the materialized view are of another statement" in await refused(
        session,
        f"{VIEW.format(view='again', least=0)} HAVING COUNT(*) > 1 QUERY WITH ('resume.from.savepoint' = s)",
    )
    (folder,) = (tmp_path / "savepoints").iterdir()
    rows = folder / "checkpoint" / "views.duckdb"
    rows.write_bytes(rows.read_bytes()[:-1])
    assert "XX001 the file views.duckdb" in await refused(
        session, f"{VIEW.format(view='again', least=0)} QUERY WITH ('resume.from.savepoint' = s)"
    )
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [query.id]


@pytest.mark.parametrize(
    "declared", ["", " QUERY WITH ('state.partitions' = 1)"], ids=["default", "declared"]
)
async def test_a_copy_may_have_another_number_of_partitions_of_state_in_a_bucket_too(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: str
) -> None:
    query = await ended_view(session, tmp_path, declared)
    count(session, query.id, 3, (1, 5))
    await session.run("CREATE SAVEPOINT s ON QUERY shop.public.counts")
    again = (
        f"{VIEW.format(view='again', least=0)} QUERY WITH ('resume.from.savepoint' = s, 'state.partitions' = "
    )

    with monkeypatch.context() as patch:
        patch.setattr(Execution, "target", Target(checkpoints="s3", outside_views=True))
        await session.run(f"{again}5)")
    query, _ = continued(session, tmp_path)
    assert SparkPlan.from_json(query.plan).state_partitions == 5

    await session.run(f"{again.replace('again', 'other')}3)")
    numbers = {
        SparkPlan.from_json(query.plan).state_partitions for query in session.catalog.unfinished_queries()
    }
    assert numbers == {3, 5}


async def test_a_view_that_is_ahead_of_its_checkpoint_has_no_savepoint(
    session: Session, tmp_path: Path
) -> None:
    query = await ended_view(session, tmp_path)
    count(session, query.id, 4, (1, 5))

    assert "3E003 a view of the query" in await refused(
        session, "CREATE SAVEPOINT s ON QUERY shop.public.counts"
    )
    assert not list((tmp_path / "savepoints").iterdir())


async def test_an_application_continues_part_by_part(session: Session, tmp_path: Path) -> None:
    query = await ended(session, application("app"), tmp_path)
    count(session, f"{query.id}-sink_counts", 3, (1, 5))
    await session.run("CREATE SAVEPOINT s ON QUERY app")
    assert dict(await session.rows("DESCRIBE SAVEPOINT s"))["sink"] == "shop.public.counts, lab.tests.orders"
    assert await session.rows("LIST SAVEPOINTS", "Name", "Batch") == [("s", "7")]
    await session.run("DROP MATERIALIZED VIEW shop.public.counts CASCADE")

    text = application("app", least=5, more="'resume.from.savepoint' = s, 'state.partitions' = 5")
    explained = await session.rows(f"EXPLAIN {text}")
    assert explained[0] == ("Continues from the savepoint s",)
    rows = await session.rows(text, "Summary")

    assert "it continues from the savepoint s" in str(rows)
    query, checkpoint = continued(session, tmp_path)
    assert [part.state_partitions for part in SparkPlan.from_json(query.plan).parts()] == [5, 5]
    assert counts(session, "counts") == [(1, 5)]
    assert {part.name: (part / "resumed").read_text() for part in (checkpoint / "parts").iterdir()} == {
        "sink_counts": "3",
        "sink_orders": "4",
    }


async def test_an_application_continues_into_other_relations_in_their_order(
    session: Session, tmp_path: Path
) -> None:
    query = await ended(session, application("app"), tmp_path)
    count(session, f"{query.id}-sink_counts", 3, (1, 5))
    await session.run("CREATE SAVEPOINT s ON QUERY app")

    await session.run(application("fork", view="forked", more="'resume.from.savepoint' = s"))

    _, checkpoint = continued(session, tmp_path)
    assert counts(session, "forked") == counts(session, "counts") == [(1, 5)]
    assert sorted(part.name for part in (checkpoint / "parts").iterdir()) == ["sink_counts", "sink_orders"]


async def test_an_application_continues_from_one_that_has_ended(session: Session, tmp_path: Path) -> None:
    await ended(session, application("app"), tmp_path)

    await session.run(application("next", view="more", more="'resume.from.query.name' = app"))

    _, checkpoint = continued(session, tmp_path)
    assert (checkpoint / "parts" / "sink_orders" / "resumed").read_text() == "4"


async def test_other_queries_are_refused_and_nothing_is_left(session: Session, tmp_path: Path) -> None:
    query = await ended(session, application("app"), tmp_path)
    await session.run("CREATE SAVEPOINT s ON QUERY app")
    shorter = (
        "BEGIN APPLICATION b INSERT INTO lab.tests.orders SELECT n FROM shop.public.orders; END APPLICATION"
    )

    assert "0A000" in await refused(session, f"{shorter} WITH ('resume.from.savepoint' = s)")
    assert "grouped_counts (changelog aggregate) gets other rows" in await refused(
        session,
        application("b", view="v", more="'resume.from.savepoint' = s").replace(
            "SELECT n, COUNT(*) AS times FROM shop.public.orders GROUP BY n",
            "SELECT n + 1 AS n, COUNT(*) AS times FROM shop.public.orders GROUP BY n + 1",
        ),
    )
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [query.id]


async def test_a_part_without_a_batch_has_no_savepoint(session: Session, tmp_path: Path) -> None:
    query = await ended(session, application("app"), tmp_path)
    for log in ("commits", "offsets"):
        for file in (tmp_path / "checkpoints" / query.id / "parts" / "sink_orders" / log).iterdir():
            file.unlink()

    assert f"3E003 the part sink_orders of the query {query.id} has not finished a batch" in await refused(
        session, "CREATE SAVEPOINT s ON QUERY app"
    )


async def test_a_query_that_reads_its_own_rows_continues_from_a_final_savepoint_only(
    session: Session, tmp_path: Path
) -> None:
    query = await ended(session, CHAIN.format(name="app", view="counts"), tmp_path)
    await session.run("TERMINATE QUERY app WITH SAVEPOINT s")
    assert dict(await session.rows("DESCRIBE SAVEPOINT s"))["final"] == "true"
    text = f"{CHAIN.format(name='next', view='more')} WITH ('resume.from.savepoint' = s)"
    await session.run(f"EXPLAIN {text}")

    session.catalog.request_restart(query.id)
    end(session, query)

    assert dict(await session.rows("DESCRIBE SAVEPOINT s"))["final"] == "false"
    assert "0A000 the query reads what it writes (lab_orders)" in await refused(session, text)


async def test_a_savepoint_of_an_earlier_release_has_one_sink_and_is_not_final(
    session: Session, tmp_path: Path
) -> None:
    await ended_view(session, tmp_path)
    await session.run("CREATE SAVEPOINT s ON QUERY shop.public.counts")
    (savepoint,) = session.catalog.savepoints.all()
    present = SAVEPOINT.definition(savepoint)
    (sink,) = present.pop("sinks")
    present.pop("is_final")

    upgraded = SAVEPOINT.upgraded({**present, "version": 1, "sink": sink})

    assert {"version": 2, **upgraded} == SAVEPOINT.definition(replace(savepoint, is_final=False))


async def test_savepoints_of_one_query_are_taken_one_after_another(session: Session, tmp_path: Path) -> None:
    query = await ended_view(session, tmp_path)
    async with session.engine.saving(query.id):
        taking = asyncio.create_task(session.run("CREATE SAVEPOINT s ON QUERY shop.public.counts"))
        ended, _ = await asyncio.wait({taking}, timeout=0.5)
        assert not ended
    await taking
    assert [savepoint.name for savepoint in session.catalog.savepoints.all()] == ["s"]
