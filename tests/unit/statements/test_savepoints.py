"""SAVEPOINT statements and 'resume.from.…' over checkpoints of queries that do not run."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from harness.checkpoint import write_checkpoint
from harness.session import Session
from headrace.catalog.objects import DesiredState, Principal, QueryState
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.planner.physical import SparkPlan

COPY = "INSERT INTO shop.public.orders SELECT n FROM lab.tests.orders"
READER = Principal("eve", ("reader",), "reader")


@pytest.fixture
async def checkpoint(session: Session, tmp_path: Path) -> Path:
    """The checkpoint of the query named copied, which has ended after four batches."""
    await session.run(f"{COPY} QUERY WITH ('query.name' = copied)")
    query = session.catalog.query_by_name("copied")
    assert query is not None
    session.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)
    checkpoint = tmp_path / "checkpoints" / query.id
    write_checkpoint(checkpoint, batches=4)
    return checkpoint


async def refused(session: Session, text: str) -> str:
    with pytest.raises(UserError) as caught:
        await session.run(text)
    return f"{caught.value.state.value} {caught.value.message}"


def checkpoint_of_newest(session: Session, folder: Path) -> Path:
    (query,) = session.catalog.unfinished_queries()
    return folder / "checkpoints" / query.id


async def test_a_savepoint_is_created_listed_and_dropped(
    session: Session, checkpoint: Path, tmp_path: Path
) -> None:
    await session.run("CREATE SAVEPOINT s ON QUERY copied")
    savepoint = session.catalog.savepoints.get("s")
    assert savepoint is not None

    assert await session.rows("LIST SAVEPOINTS", "Name", "QueryID", "QueryName", "Batch") == [
        ("s", checkpoint.name, "copied", "3")
    ]
    described = dict(await session.rows("DESCRIBE SAVEPOINT s"))
    assert (described["id"], described["query"], described["interrupted"]) == (
        savepoint.id,
        f"{COPY} QUERY WITH ('query.name' = copied)",
        "false",
    )
    assert (tmp_path / "savepoints" / savepoint.id / "manifest.json").is_file()
    await session.run("DROP SAVEPOINT s")

    assert not await session.rows("LIST SAVEPOINTS")
    assert not (tmp_path / "savepoints" / savepoint.id).exists()


async def test_a_savepoint_expires_after_its_retention(
    session: Session, checkpoint: Path, tmp_path: Path
) -> None:
    await session.run("CREATE SAVEPOINT s ON QUERY copied WITH ('retention.days' = 7)")
    await session.run(f"CREATE SAVEPOINT kept ON QUERY '{checkpoint.name}'")
    savepoint = session.catalog.savepoints.get("s")
    assert savepoint is not None
    assert savepoint.expires_at is not None
    engine = session.engine
    engine.drop_expired_savepoints(savepoint.expires_at - datetime.timedelta(seconds=1))
    assert len(await session.rows("LIST SAVEPOINTS")) == 2
    engine.drop_expired_savepoints(savepoint.expires_at)
    assert await session.rows("LIST SAVEPOINTS", "Name", "ExpiresAt") == [("kept", None)]
    assert not (tmp_path / "savepoints" / savepoint.id).exists()
    assert "3D008" in await refused(session, "CREATE SAVEPOINT t ON QUERY copied WITH ('retention.days' = 0)")


async def test_a_query_without_a_batch_has_no_savepoint(session: Session, tmp_path: Path) -> None:
    await session.run(f"{COPY} QUERY WITH ('query.name' = new)")

    assert "3E003" in await refused(session, "CREATE SAVEPOINT s ON QUERY new")
    assert not list((tmp_path / "savepoints").iterdir())


async def test_a_query_that_starts_while_its_last_savepoint_is_taken_runs_on(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query may write what the savepoint does not contain, before it ends."""
    await session.run(f"{COPY} QUERY WITH ('query.name' = copied)")
    checkpoint = checkpoint_of_newest(session, tmp_path)
    write_checkpoint(checkpoint, batches=4)
    with monkeypatch.context() as patch:
        patch.setattr(session.engine, "is_with_driver", lambda query_id: query_id == checkpoint.name)
        refusal = await refused(session, "TERMINATE QUERY copied WITH SAVEPOINT s")
    assert refusal.startswith(f"3E003 the query {checkpoint.name} was started again meanwhile")
    query = session.catalog.query_by_name("copied")
    assert query is not None
    assert query.desired_state is DesiredState.RUNNING
    assert session.catalog.savepoints.all() == []
    assert list((tmp_path / "savepoints").iterdir()) == []
    await session.run("TERMINATE QUERY copied WITH SAVEPOINT s")
    query = session.catalog.query_by_name("copied")
    assert query is not None
    assert query.desired_state is DesiredState.TERMINATED


async def test_another_query_continues_from_a_savepoint(
    session: Session, checkpoint: Path, tmp_path: Path
) -> None:
    await session.run("CREATE SAVEPOINT s ON QUERY copied")

    rows = await session.rows(
        f"{COPY.replace('SELECT n', 'SELECT n + 1 AS n')} QUERY WITH ('resume.from.savepoint' = s)", "Summary"
    )

    assert "it continues from the savepoint s" in str(rows)
    continued = checkpoint_of_newest(session, tmp_path)
    assert (continued / "resumed").read_text() == "3"
    assert (continued / "offsets" / "3").is_file()
    assert continued != checkpoint


async def test_another_query_continues_from_one_that_has_ended(
    session: Session, checkpoint: Path, tmp_path: Path
) -> None:
    for number, origin in enumerate(
        (f"'resume.from.query.id' = '{checkpoint.name}'", "'resume.from.query.name' = copied")
    ):
        await session.run(f"{COPY} QUERY WITH ({origin}, 'query.name' = next{number})")
        query = session.catalog.query_by_name(f"next{number}")
        assert query is not None
        assert (tmp_path / "checkpoints" / query.id / "resumed").read_text() == "3"
    assert "3D019" in await refused(
        session, f"{COPY} QUERY WITH ('resume.from.query.name' = copied, 'resume.from.query.version' = 7)"
    )


async def test_what_cannot_continue_is_refused_and_leaves_nothing(
    session: Session, checkpoint: Path, tmp_path: Path
) -> None:
    await session.run("CREATE SAVEPOINT s ON QUERY copied")
    grouped = "CREATE MATERIALIZED VIEW shop.public.v AS SELECT n FROM lab.tests.orders"
    other = "INSERT INTO lab.tests.orders SELECT n FROM shop.public.orders"

    assert "0A000" in await refused(session, f"{grouped} QUERY WITH ('resume.from.savepoint' = s)")
    assert "cannot continue from the savepoint s" in await refused(
        session, f"{other} QUERY WITH ('resume.from.savepoint' = s)"
    )
    (tmp_path / "savepoints" / _id(session) / "checkpoint" / "offsets" / "3").write_text("changed")
    assert "XX001 the file offsets/3 of the savepoint" in await refused(
        session, f"{COPY} QUERY WITH ('resume.from.savepoint' = s)"
    )
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [checkpoint.name]
    assert not session.catalog.unfinished_queries()


async def test_a_stopped_batch_is_not_written_twice(session: Session, checkpoint: Path) -> None:
    (checkpoint / "offsets" / "4").write_text("v1\n{}")
    once = COPY.replace("SELECT", "WITH ('delivery.guarantee' = exactly_once) SELECT", 1)
    await session.run(f"{once} QUERY WITH ('query.name' = once)")
    query = session.catalog.query_by_name("once")
    assert query is not None
    session.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)
    checkpoint.rename(checkpoint.with_name(query.id))

    for origin in ("'resume.from.query.name' = once", "'resume.from.savepoint' = s"):
        await session.run("CREATE SAVEPOINT IF NOT EXISTS s ON QUERY once")
        assert "was stopped during a batch" in await refused(session, f"{once} QUERY WITH ({origin})")


@pytest.mark.usefixtures("checkpoint")
async def test_a_renamed_store_is_followed(session: Session) -> None:
    await session.run("CREATE SAVEPOINT s ON QUERY copied")
    await session.run("ALTER STORE k RENAME TO kafka")

    await session.run(f"{COPY} QUERY WITH ('resume.from.savepoint' = s, 'query.name' = next)")

    assert session.catalog.query_by_name("next") is not None


@pytest.mark.usefixtures("checkpoint")
async def test_a_relation_that_was_created_again_is_another_one(session: Session) -> None:
    await session.run("CREATE SAVEPOINT s ON QUERY copied")
    relation = session.catalog.relation(RelationName("lab", "tests", "orders"))
    assert relation is not None
    await session.run("DROP RELATION lab.tests.orders")
    session.catalog.create_relation(replace(relation, id=str(uuid.uuid4())))

    for origin in ("'resume.from.savepoint' = s", "'resume.from.query.name' = copied"):
        assert "the relation lab.tests.orders, which was dropped" in await refused(
            session, f"{COPY} QUERY WITH ({origin})"
        )


@pytest.mark.usefixtures("checkpoint")
async def test_a_savepoint_of_another_server_is_imported(session: Session, tmp_path: Path) -> None:
    await session.run("CREATE SAVEPOINT s ON QUERY copied")
    identifier = _id(session)
    folder = tmp_path / "savepoints" / identifier
    folder.rename(tmp_path / "kept")
    await session.run("DROP SAVEPOINT s")
    (tmp_path / "kept").rename(folder)
    session.principal = Principal("admin", ("orgadmin",), "orgadmin")
    await session.run("USE ROLE orgadmin")

    await session.run(f"CREATE SAVEPOINT t FROM '{identifier}'")

    assert "42P020" in await refused(session, f"CREATE SAVEPOINT u FROM '{identifier}'")
    await session.run("CREATE SAVEPOINT IF NOT EXISTS t ON QUERY copied")
    await session.run(f"{COPY} QUERY WITH ('resume.from.savepoint' = t)")
    assert (checkpoint_of_newest(session, tmp_path) / "resumed").read_text() == "3"


@pytest.mark.usefixtures("checkpoint")
async def test_a_savepoint_is_its_owners(session: Session) -> None:
    await session.run("CREATE SAVEPOINT s ON QUERY copied")
    await session.answer("CREATE ROLE reader", Principal("admin", ("orgadmin",), "orgadmin"))
    for text in ("DESCRIBE SAVEPOINT s", "DROP SAVEPOINT s"):
        with pytest.raises(UserError, match="does not exist or is not authorized"):
            await session.answer(text, READER)
    await session.run("GRANT USAGE ON SAVEPOINT s TO ROLE reader")

    assert await session.answer("DESCRIBE SAVEPOINT s", READER)
    with pytest.raises(UserError, match="OWNERSHIP"):
        await session.answer("DROP SAVEPOINT s", READER)


async def test_the_number_of_partitions_is_in_the_plan_of_a_query_with_state_only(session: Session) -> None:
    grouped = (
        "CREATE MATERIALIZED VIEW shop.public.v AS SELECT n, COUNT(*) AS c FROM lab.tests.orders GROUP BY n"
    )
    await session.run(f"{grouped} QUERY WITH ('state.partitions' = 16)")
    (query,) = session.catalog.unfinished_queries()
    assert SparkPlan.from_json(query.plan).state_partitions == 16

    assert "0A000 'state.partitions' requires a query that keeps state" in await refused(
        session, f"{COPY} QUERY WITH ('state.partitions' = 4)"
    )
    for wrong in ("0", "257", "'many'"):
        assert "3D008" in await refused(session, f"{COPY} QUERY WITH ('state.partitions' = {wrong})")
    again = grouped.replace("CREATE ", "CREATE OR REPLACE ")
    assert "cannot change from 16" in await refused(session, f"{again} QUERY WITH ('state.partitions' = 8)")
    await session.run(f"{again} HAVING COUNT(*) > 1")
    (query,) = session.catalog.unfinished_queries()
    assert (query.version, SparkPlan.from_json(query.plan).state_partitions) == (2, 16)


def _id(session: Session) -> str:
    savepoint = session.catalog.savepoints.get("s")
    assert savepoint is not None
    return savepoint.id
