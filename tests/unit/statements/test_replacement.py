"""ALTER QUERY … AS and ROLLBACK over the real catalog; `replacement.slt` runs such queries."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from pathlib import Path

import pytest

from harness.checkpoint import write_checkpoint
from harness.session import Session
from headrace.catalog.objects import DesiredState, Principal, Query, QueryState, ViewDefinition
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.planner.branches import Rebuild
from headrace.planner.physical import ReadEntity, SparkPlan

ROOT = Principal("admin", ("orgadmin",), "orgadmin")
MAKER, LEADER = (Principal(role, (role,), role) for role in ("maker", "leader"))
INSERT = "INSERT INTO lab.tests.orders SELECT n FROM shop.public.orders QUERY WITH ('query.name' = copy)"
MORE = "SELECT n + 1 AS n FROM shop.public.orders WHERE n > 3"


@pytest.fixture
async def copying(session: Session) -> Session:
    await session.run(INSERT)
    return session


def stored(session: Session) -> Query:
    query = session.catalog.query_by_name("copy")
    assert query is not None
    return query


async def refused(session: Session, text: str, state: SqlState) -> UserError:
    before = stored(session)
    with pytest.raises(UserError) as caught:
        await session.run(text)
    assert caught.value.state is state
    assert stored(session) == before
    return caught.value


async def test_a_query_gets_another_statement_and_keeps_its_name_and_sink(copying: Session) -> None:
    before = stored(copying)
    rows = await copying.rows(f"ALTER QUERY copy AS {MORE}", "Summary")
    assert rows == [(f"query {before.id} continues as version 2",)]
    after = stored(copying)
    assert (after.id, after.name, after.sink, after.version) == (before.id, "copy", before.sink, 2)
    assert after.sql == ("INSERT INTO lab.tests.orders SELECT n + 1 AS n FROM shop.public.orders WHERE n > 3")
    assert await copying.rows("DESCRIBE QUERY VERSIONS copy", "Version", "State", "Query", "Message") == [
        ("1", "replaced", INSERT, None),
        ("2", "on trial", after.sql, None),
    ]
    assert await copying.rows(
        "SELECT version, state FROM deltastream.sys.query_versions WHERE until IS NULL"
    ) == [("2", "on trial")]


async def test_explain_changes_nothing_and_lists_what_is_kept(copying: Session) -> None:
    before = stored(copying)
    lines = [line for (line,) in await copying.rows(f"EXPLAIN ALTER QUERY copy AS {MORE}")]
    assert lines[:4] == [
        "Replacement: compatible",
        "  the query continues from its positions, with its state",
        "  read entity read_orders: kept, continues from the checkpoint",
        "  decode rows rows_orders: kept",
    ]
    assert stored(copying) == before


async def test_a_statement_that_cannot_continue_is_refused_with_its_reasons(copying: Session) -> None:
    text = "ALTER QUERY copy AS SELECT o.n FROM shop.public.orders o JOIN shop.public.orders p WITHIN 1 MINUTE ON o.n = p.n"
    error = await refused(copying, text, SqlState.FEATURE_NOT_SUPPORTED)
    assert error.message.startswith("with this statement the query cannot continue from its checkpoint: ")
    assert (
        "the step joined_p (interval join) is new; the step read_orders (read entity) is removed"
        in error.message
    )
    assert error.span is not None
    assert text[error.span.start :].startswith("SELECT o.n")


ANEW = (
    "ALTER QUERY copy AS SELECT MAX(n) AS n FROM TUMBLE(shop.public.orders, SIZE 1 MINUTE) GROUP BY window_start, window_end "
    "QUERY WITH ('query.replacement' = 'anew')"
)


async def test_a_query_starts_anew_with_another_checkpoint_at_the_first_records(copying: Session) -> None:
    lines = [line for (line,) in await copying.rows(f"EXPLAIN {ANEW}")]
    assert lines[:2] == [
        "Replacement: anew",
        "  the query starts without state, in another checkpoint, and computes its results again",
    ]
    before = stored(copying)
    assert await copying.rows(ANEW, "Summary") == [
        (f"query {before.id} continues as version 2; it starts without state",)
    ]
    after = stored(copying)
    assert (after.version, after.incarnation, after.is_settled) == (2, 2, False)
    assert '"starting_position": "earliest"' in after.plan
    assert '"starting_position": "latest"' in before.plan
    latest = "FROM shop.public.orders WITH ('starting.position' = 'latest') QUERY WITH ('query.replacement' = 'anew')"
    await copying.run(f"ALTER QUERY copy AS SELECT n {latest}")
    assert '"starting_position": "latest"' in stored(copying).plan


async def test_a_version_that_did_not_begin_well_goes_back_to_the_checkpoint_before(copying: Session) -> None:
    await copying.run(ANEW)
    versions = copying.catalog.versions
    assert not versions.go_back(stored(copying), "it failed", lambda query: query.incarnation != 0)
    assert versions.go_back(stored(copying), "it failed", lambda query: query.incarnation == 0)
    assert (stored(copying).version, stored(copying).incarnation) == (3, 0)


async def test_a_query_returns_to_the_checkpoint_of_an_earlier_version(
    copying: Session, tmp_path: Path
) -> None:
    await copying.run(ANEW)
    error = await refused(copying, "ALTER QUERY copy ROLLBACK TO VERSION 1", SqlState.FEATURE_NOT_SUPPORTED)
    assert "the checkpoint of version 1 is no longer there" in error.message
    (tmp_path / "checkpoints" / stored(copying).id).mkdir(parents=True)
    await copying.run("ALTER QUERY copy ROLLBACK TO VERSION 1")
    assert (stored(copying).version, stored(copying).incarnation) == (3, 0)
    # Version 2 wrote another checkpoint.
    (tmp_path / "checkpoints" / f"{stored(copying).id}.2").mkdir()
    await copying.run("ALTER QUERY copy ROLLBACK TO VERSION 2")
    assert stored(copying).incarnation == 2


BRANCHES = (
    "INSERT INTO lab.tests.orders WITH ('delivery.guarantee' = 'exactly_once') SELECT n FROM shop.public.orders UNION ALL {} "
    "QUERY WITH ('query.name' = copy)"
)
PARTLY = (
    "ALTER QUERY copy AS SELECT n FROM shop.public.orders UNION ALL SELECT DISTINCT n + 1 AS n FROM shop.public.orders "
    "QUERY WITH ('query.replacement' = 'partly')"
)


@pytest.fixture
async def ended(session: Session, tmp_path: Path) -> Path:
    """The checkpoint of a query with two branches, one of which keeps state, that has ended after four batches."""
    await session.run(BRANCHES.format("SELECT DISTINCT n FROM shop.public.orders"))
    query = stored(session)
    (topic,) = {
        step.entity[0] for step in SparkPlan.from_json(query.plan).steps if isinstance(step, ReadEntity)
    }
    session.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)
    checkpoint = tmp_path / "checkpoints" / query.id
    write_checkpoint(checkpoint, batches=4)
    for log in (checkpoint / "offsets").iterdir():
        log.write_text(f'v1\n{{}}\n{{"{topic}":{{"0":7}}}}\n{{"{topic}":{{"0":9}}}}')
    return checkpoint


async def test_a_query_continues_partly_in_a_checkpoint_of_its_own(session: Session, ended: Path) -> None:
    lines = [line for (line,) in await session.rows(f"EXPLAIN {PARTLY}")]
    assert lines[0] == "Replacement: partly"
    assert not ended.with_name(f"{ended.name}.2").exists()
    before = stored(session)
    ((summary,),) = await session.rows(PARTLY, "Summary")
    assert str(summary).startswith(
        f"query {before.id} will continue, when it is started, as version 2; the branches that change start without state; warning: "
    )
    assert (stored(session).version, stored(session).incarnation) == (2, 2)
    checkpoint = ended.with_name(f"{ended.name}.2")
    first, second = (checkpoint / "offsets" / "3").read_text().splitlines()[2:]
    assert (first, second) == ((ended / "offsets" / "3").read_text().splitlines()[2], "-")
    assert (checkpoint / "state" / "0" / "first_version").read_text() == "4"
    assert [path.name for path in ended.parent.iterdir() if path.name.endswith(".copy")] == []


async def test_a_change_that_is_not_requested_partly_is_refused_with_what_is_possible(
    session: Session, ended: Path
) -> None:
    error = await refused(session, PARTLY.partition(" QUERY WITH")[0], SqlState.FEATURE_NOT_SUPPORTED)
    assert "('query.replacement' = 'partly')" in (error.hint or "")
    assert ended.is_dir()


async def test_a_query_in_doubt_does_not_continue_partly(session: Session, ended: Path) -> None:
    (ended / "offsets" / "4").write_text((ended / "offsets" / "3").read_text())
    error = await refused(session, PARTLY, SqlState.FEATURE_NOT_SUPPORTED)
    assert "was stopped during a batch" in error.message
    session.catalog.set_desired_state(stored(session).id, DesiredState.RUNNING)
    error = await refused(session, PARTLY, SqlState.RELATION_NOT_READY)
    assert "it can continue partly only while it runs, or after its end" in error.message
    assert [path.name for path in ended.parent.iterdir()] == [ended.name]


async def test_of_two_replacements_at_once_one_is_stored(session: Session, ended: Path) -> None:
    other = PARTLY.replace("n + 1", "n + 2")
    answers = await asyncio.gather(session.run(PARTLY), session.run(other), return_exceptions=True)
    (error,) = [answer for answer in answers if isinstance(answer, BaseException)]
    assert isinstance(error, UserError)
    assert "was replaced meanwhile" in error.message
    assert stored(session).version == 2
    assert (ended.with_name(f"{ended.name}.2") / "state" / "0" / "first_version").is_file()


async def test_a_query_that_was_started_meanwhile_keeps_its_version(
    session: Session, ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    continued = session.engine.continue_partly

    async def and_started(query: Query, successor: Query, rebuild: Rebuild) -> float:
        held_until = await continued(query, successor, rebuild)
        session.catalog.record_query_state(query.id, QueryState.TERMINATED, restarts=1)
        return held_until

    monkeypatch.setattr(session.engine, "continue_partly", and_started)
    with pytest.raises(UserError) as caught:
        await session.run(PARTLY)
    assert caught.value.state is SqlState.RELATION_NOT_READY
    assert stored(session).version == 1
    assert [path.name for path in ended.parent.iterdir()] == [ended.name]


async def test_a_query_whose_hold_may_have_ended_keeps_its_version(
    session: Session, ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    continued = session.engine.continue_partly

    async def slowly(query: Query, successor: Query, rebuild: Rebuild) -> float:
        await continued(query, successor, rebuild)
        return time.monotonic() - 1

    monkeypatch.setattr(session.engine, "continue_partly", slowly)
    error = await refused(session, PARTLY, SqlState.TIMEOUT)
    assert "nothing was changed" in error.message
    assert stored(session).version == 1
    assert [path.name for path in ended.parent.iterdir()] == [ended.name]


async def test_a_version_whose_storing_is_in_doubt_keeps_its_checkpoint(
    session: Session, ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored_or_not(*_: object) -> None:
        raise ExternalError(SqlState.REMOTE_UNAVAILABLE, "the catalog's database does not answer")

    monkeypatch.setattr(session.catalog.versions, "replace", stored_or_not)
    with pytest.raises(ExternalError):
        await session.run(PARTLY)
    assert ended.with_name(f"{ended.name}.2").is_dir()


async def test_a_query_that_starts_anew_finds_nothing_that_a_killed_server_has_left(
    session: Session, ended: Path
) -> None:
    left = ended.with_name(f"{ended.name}.2")
    write_checkpoint(left, batches=4)
    await session.run(PARTLY.replace("partly", "anew"))
    assert stored(session).incarnation == 2
    assert not left.exists()
    assert ended.is_dir()


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("ALTER QUERY copy AS SELECT missing FROM shop.public.orders", SqlState.UNDEFINED_COLUMN),
        ("ALTER QUERY copy AS SELECT n, n AS m FROM shop.public.orders", SqlState.DATATYPE_MISMATCH),
        ("ALTER QUERY copy AS SELECT 'x' AS n FROM shop.public.orders", SqlState.DATATYPE_MISMATCH),
        (f"ALTER QUERY copy AS {MORE} QUERY WITH ('query.name' = other)", SqlState.INVALID_PARAMETER),
        (f"ALTER QUERY other AS {MORE}", SqlState.QUERY_NOT_FOUND),
        ("ALTER QUERY copy AS", SqlState.SYNTAX_ERROR),
        ("ALTER QUERY copy ROLLBACK TO VERSION 1", SqlState.INVALID_PARAMETER),
        ("ALTER QUERY copy ROLLBACK TO VERSION one", SqlState.SYNTAX_ERROR),
    ],
)
async def test_a_statement_with_an_error_changes_nothing(
    copying: Session, text: str, state: SqlState
) -> None:
    await refused(copying, text, state)


VIEW = (
    "CREATE MATERIALIZED VIEW shop.public.v WITH ('query.name' = 'copy') AS "
    "SELECT n, COUNT(*) AS c FROM shop.public.orders WITH ('starting.position' = 'earliest') GROUP BY n"
)
GROUPED = "SELECT n, COUNT(*) * 2 AS c FROM orders WITH ('starting.position' = 'earliest') GROUP BY n"


def definition(session: Session) -> ViewDefinition:
    (view,) = (each for each in session.catalog.relations() if each.definition is not None)
    assert view.definition is not None
    return view.definition


async def test_a_view_changes_its_definition_with_its_query_and_goes_back_to_it(session: Session) -> None:
    await session.run(VIEW)
    first, view_id = definition(session), stored(session).uses

    await session.run("USE DATABASE shop")
    await session.run(f"ALTER QUERY copy AS {GROUPED}")
    changed = ViewDefinition(
        "CREATE MATERIALIZED VIEW shop.public.v WITH ('query.name' = 'copy') AS " + GROUPED, "shop", "public"
    )
    assert (definition(session), stored(session).uses) == (changed, view_id)
    assert stored(session).sql == changed.sql

    # Renamed in the definitions of all versions, so that going back means the same relation.
    await session.run("ALTER RELATION shop.public.orders RENAME TO sales")
    await session.run("ALTER QUERY copy ROLLBACK TO VERSION 1")
    assert definition(session).sql == first.sql.replace("shop.public.orders", "shop.public.sales").replace(
        "sales WITH", "sales AS orders WITH"
    )

    query = stored(session)
    await session.run(
        f"ALTER QUERY copy AS {GROUPED.replace('orders', 'sales AS orders')} HAVING COUNT(*) > 1"
    )
    before = definition(session)
    assert session.catalog.versions.go_back(stored(session), "it failed", lambda _: False)
    assert definition(session) != before
    assert (definition(session).sql, stored(session).plan) == (
        session.catalog.versions.of(query)[0].definition.sql,  # type: ignore[union-attr]
        query.plan,
    )


@pytest.mark.parametrize(
    ("select", "state", "reason"),
    [
        (
            "SELECT n, CAST(COUNT(*) AS INTEGER) AS c FROM shop.public.orders GROUP BY n",
            SqlState.DATATYPE_MISMATCH,
            "expected the columns and the key of the materialized view shop.public.v: (n BIGINT",
        ),
        (
            "SELECT n + 1 AS n, COUNT(*) AS c FROM shop.public.orders GROUP BY n + 1",
            SqlState.FEATURE_NOT_SUPPORTED,
            "the GROUP BY changes",
        ),
        (
            "SELECT n, COUNT(*) AS c FROM shop.public.orders WHERE n > 1 GROUP BY n",
            SqlState.FEATURE_NOT_SUPPORTED,
            "the rows that are grouped change",
        ),
    ],
)
async def test_a_view_refuses_what_its_rows_do_not_fit(
    session: Session, select: str, state: SqlState, reason: str
) -> None:
    await session.run(VIEW)
    before = definition(session)
    error = await refused(session, f"ALTER QUERY copy AS {select}", state)
    assert reason in error.message
    assert definition(session) == before


@pytest.mark.parametrize(
    "text", ["ALTER QUERY copy AS SELECT n FROM orders", "ALTER QUERY copy ROLLBACK TO VERSION 1"]
)
async def test_the_query_of_a_view_is_replaced_by_the_owner_of_both(session: Session, text: str) -> None:
    await session.run(VIEW)
    (view,) = (each for each in session.catalog.relations() if each.definition is not None)
    session.catalog.update_relation(dataclasses.replace(view, owner="orgadmin"))
    error = await refused(session, text, SqlState.RELATION_NOT_FOUND)
    assert error.message == "the materialized view shop.public.v does not exist or is not authorized"


async def test_going_back_is_a_new_version_of_the_old_statement(copying: Session) -> None:
    await copying.run(f"ALTER QUERY copy AS {MORE}")
    await copying.run("ALTER QUERY copy ROLLBACK TO VERSION 1")
    after = stored(copying)
    assert (after.version, after.sql) == (3, INSERT)
    assert [each.version for each in copying.catalog.versions.of(after)] == [1, 2]


async def test_a_replacement_requires_the_query_and_what_the_new_statement_reads(session: Session) -> None:
    for text in (
        "CREATE ROLE maker",
        "GRANT CREATE_QUERY ON ORGANIZATION TO ROLE maker",
        "GRANT USAGE ON DATABASE shop TO ROLE maker",
        "GRANT USAGE ON SCHEMA shop.public TO ROLE maker",
        "GRANT USAGE ON DATABASE lab TO ROLE maker",
        "GRANT USAGE ON SCHEMA lab.tests TO ROLE maker",
        "GRANT USAGE ON STORE k TO ROLE maker",
        "GRANT SELECT, INSERT ON RELATION lab.tests.orders TO ROLE maker",
        "GRANT SELECT ON RELATION shop.public.orders TO ROLE maker",
        "CREATE ROLE leader",
        "GRANT ROLE maker TO ROLE leader",
        "GRANT SELECT ON RELATION shop.public.orders TO ROLE leader",
    ):
        await session.answer(text, ROOT)
    await session.answer(INSERT, MAKER)
    await session.answer("REVOKE SELECT ON RELATION shop.public.orders FROM ROLE maker", ROOT)
    with pytest.raises(UserError) as caught:
        await session.answer(f"ALTER QUERY copy AS {MORE}", MAKER)
    assert caught.value.state is SqlState.RELATION_NOT_FOUND
    # Another role may read the source, but the query runs with the privileges of its own role.
    with pytest.raises(UserError) as caught:
        await session.answer(f"ALTER QUERY copy AS {MORE}", LEADER)
    assert caught.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    assert "the role 'maker' lacks the privilege SELECT" in caught.value.message
    assert stored(session).version == 1
    await session.answer("GRANT SELECT ON RELATION shop.public.orders TO ROLE maker", ROOT)
    await session.answer(f"ALTER QUERY copy AS {MORE}", MAKER)
    assert stored(session).version == 2


async def test_or_replace_creates_what_is_missing_and_refuses_what_no_query_created(session: Session) -> None:
    create = "CREATE OR REPLACE MATERIALIZED VIEW shop.public.v AS SELECT n FROM shop.public.orders"
    await session.run(create)
    (query,) = session.catalog.queries()
    assert query.sql == create.replace("OR REPLACE ", "")
    again = await session.rows(create, "Summary")
    assert again == [(f"query {query.id} has this statement already",)]
    for text, state in (
        (create.replace("MATERIALIZED VIEW", "STREAM"), SqlState.RELATION_NOT_FOUND),
        (create.replace("public.v", 'public."Best"'), SqlState.QUERY_NOT_FOUND),
        (
            create.replace("public.v AS", "public.v WITH ('query.name' = x) AS"),
            SqlState.FEATURE_NOT_SUPPORTED,
        ),
        ("CREATE OR REPLACE STREAM s (n BIGINT) WITH ('topic' = 't')", SqlState.FEATURE_NOT_SUPPORTED),
        (create.replace("VIEW", "VIEW IF NOT EXISTS"), SqlState.SYNTAX_ERROR),
    ):
        with pytest.raises(UserError) as caught:
            await session.run(text)
        assert caught.value.state is state
    assert session.catalog.queries() == [query]


async def test_a_statement_that_changes_nothing_starts_nothing(copying: Session) -> None:
    before = stored(copying)

    rows = await copying.rows("ALTER QUERY copy AS SELECT n FROM shop.public.orders", "Summary")

    assert rows == [(f"query {before.id} has this statement already",)]
    assert stored(copying) == before
