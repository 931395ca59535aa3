"""Definitions of what exists, as text, and plans towards a text as the desired state; both over the real catalog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.session import Session, open_session
from headrace.catalog.access import Grant, Privilege
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.sql import parse
from headrace.sql.statements.store import CreateStore
from headrace.statements.base import Execution, Services
from headrace.statements.definitions import Definition, definitions
from headrace.statements.desired_state import Action, Plan
from tests.unit.pipeline import PIPELINE

GUEST = Principal("guest", ("guest",), "guest")
KAFKA = "CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:9092')"
SECURED = (
    "CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = 'http://127.0.0.1:1', 'confluent.username' = 'u', "
    "'confluent.password' = '{}')"
)


def defined(session: Session, database: str, principal: Principal | None = None) -> list[Definition]:
    services = Services(session.catalog, session.engine, None)  # type: ignore[arg-type]
    return definitions(database, Execution(services, principal or session.principal, SessionContext("")))


def texts(session: Session, database: str) -> list[str]:
    return [item.statement for item in defined(session, database) if item.statement is not None]


async def plan(session: Session, text: str, principal: Principal | None = None, **names: str) -> Plan:
    return await session.service.plan(
        text, principal=principal or session.principal, context=SessionContext("", **names), files={}
    )


def actions(result: Plan) -> list[tuple[Action, str]]:
    assert not result.diagnostics, result.diagnostics
    return [(step.action, step.name) for step in result.steps]


async def test_what_exists_runs_elsewhere_and_is_defined_alike_there(tmp_path: Path) -> None:
    async with open_session(tmp_path / "a") as here, open_session(tmp_path / "b") as there:
        await here.run(PIPELINE)
        text = ";\n".join(texts(here, "web"))
        assert {action for action, _ in actions(await plan(here, text))} == {Action.LEAVE}
        planned = await plan(there, text)
        assert {action for action, _ in actions(planned)} == {Action.CREATE, Action.UPDATE}
        for step in planned.steps:
            assert step.statement is not None
            await there.run(step.statement)
        assert texts(there, "web") == texts(here, "web")
        assert {action for action, _ in actions(await plan(there, text))} == {Action.LEAVE}


async def test_each_definition_is_canonical_and_names_its_relations_in_full(session: Session) -> None:
    await session.run(PIPELINE)
    statements = texts(session, "web")
    assert [statement.sql() for text in statements for statement in parse(text)] == statements
    assert statements[-2:] == [
        'CREATE MATERIALIZED VIEW web.public.pages AS SELECT page, COUNT(*) AS n FROM web.raw."Visits" '
        "WITH ('starting.position' = 'earliest') GROUP BY page",
        'CREATE MATERIALIZED VIEW web.raw.twos AS WITH visits AS (SELECT web.raw."Visits".id FROM web.raw."Visits") '
        "SELECT id AS n FROM visits",
    ]


async def test_a_renamed_relation_is_defined_with_a_warning_of_its_entity(session: Session) -> None:
    await session.run(PIPELINE)
    await session.run('ALTER STREAM "Visits" RENAME TO seen')
    stream = next(item for item in defined(session, "web") if item.kind == "stream")
    assert stream.note == "the relation was renamed: name its entity visits in WITH"
    assert texts(session, "web")[-2].endswith(
        "FROM web.raw.seen AS \"Visits\" WITH ('starting.position' = 'earliest') GROUP BY page"
    )


async def test_secrets_are_never_defined_and_their_placeholder_changes_nothing(session: Session) -> None:
    (registry,) = [item for item in session.catalog.schema_registries() if item.name == "r"]
    (store,) = [item for item in session.catalog.stores() if item.name == "k"]
    session.catalog.update_store(replace(store, schema_registry=registry.name))
    (definition,) = [item for item in defined(session, "shop") if item.kind == "schema_registry"]
    assert definition.statement is not None
    assert "hunter2" not in definition.statement
    assert "'confluent.password' = '****'" in definition.statement
    assert definition.note == "secrets are not exported: replace **** of confluent.password"
    assert actions(await plan(session, definition.statement)) == [(Action.LEAVE, "r")]
    elsewhere = await plan(session, definition.statement.replace("REGISTRY r", "REGISTRY s"))
    assert [item.message for item in elsewhere.diagnostics] == [
        "'confluent.password' is the placeholder of a secret, expected its value"
    ]


async def test_defaults_are_left_out_of_definitions(session: Session) -> None:
    (store,) = [item for item in session.catalog.stores() if item.name == "k"]
    defaults = {
        "kafka.sasl.hash_function": "NONE",
        "tls.disabled": "FALSE",
        "tls.verify_server_hostname": "TRUE",
    }
    kept = {"uris": "127.0.0.1:9092"}
    for changed in ({}, {"tls.disabled": "TRUE"}):
        session.catalog.update_store(replace(store, properties={**kept, **defaults, **changed}))
        (text,) = [text for text in texts(session, "shop") if text.startswith("CREATE STORE k ")]
        [statement] = parse(text)
        assert isinstance(statement, CreateStore)
        assert dict(statement.properties.items()) == {"type": "KAFKA", **kept, **changed}


async def test_only_the_owner_learns_whether_a_secret_is_another(session: Session) -> None:
    assert actions(await plan(session, SECURED.format("hunter2"))) == [(Action.LEAVE, "r")]
    (step,) = (await plan(session, SECURED.format("guess"))).steps
    assert (step.action, step.notes) == (Action.UPDATE, ("'confluent.password' changes",))
    session.catalog.create_role("guest", "sysadmin")
    (registry,) = session.catalog.schema_registries()
    session.catalog.grant([Grant(registry.id, Privilege.USAGE, "guest", "sysadmin")])
    assert actions(await plan(session, SECURED.format("guess"), GUEST)) == [(Action.LEAVE, "r")]


async def test_a_store_is_updated_by_what_is_written(session: Session) -> None:
    (step,) = (await plan(session, KAFKA.replace("9092", "9093"))).steps
    assert (step.action, step.statement) == (
        Action.UPDATE,
        "UPDATE STORE k WITH ('uris' = '127.0.0.1:9093')",
    )
    assert actions(await plan(session, KAFKA)) == [(Action.LEAVE, "k")]
    (conflict,) = (await plan(session, "CREATE STORE k WITH ('type' = GENERATOR)")).steps
    assert (conflict.action, conflict.notes) == (
        Action.CONFLICT,
        ("its type is Kafka, which cannot be changed",),
    )


async def test_a_query_is_left_replaced_or_in_conflict_by_its_class(session: Session) -> None:
    insert = (
        "INSERT INTO lab.tests.orders SELECT n FROM shop.public.orders{} QUERY WITH ('query.name' = copy)"
    )
    await session.run(insert.format(""))
    names = {"database": "shop", "schema": "public"}
    same = "insert into lab.tests.orders\n select n from orders -- all\n query with ('query.name' = 'copy')"
    assert actions(await plan(session, same, **names)) == [(Action.LEAVE, "copy")]
    (step,) = (await plan(session, insert.format(" WHERE n > 3"))).steps
    assert (step.action, step.notes[0]) == (Action.REPLACE, "Replacement: compatible")
    assert step.statement is not None
    assert step.statement.startswith("ALTER QUERY ")
    (step,) = (await plan(session, insert.format(" AS o"))).steps
    assert (step.action, step.notes[0], step.statement) == (Action.CONFLICT, "Replacement: anew", None)
    anew = insert.format(" AS o").replace("(", "('query.replacement' = anew, ")
    (step,) = (await plan(session, anew)).steps
    assert (step.action, step.notes[0]) == (Action.REPLACE, "Replacement: anew")
    await session.run(step.statement or "")
    assert actions(await plan(session, anew)) == [(Action.LEAVE, "copy")]


async def test_unnamed_queries_are_matched_one_to_one(session: Session) -> None:
    insert = "INSERT INTO lab.tests.orders SELECT n FROM shop.public.orders"
    await session.run(insert)
    assert [action for action, _ in actions(await plan(session, f"{insert}; {insert}"))] == [
        Action.LEAVE,
        Action.CREATE,
    ]


async def test_a_relation_over_an_entity_that_differs_is_a_conflict(session: Session) -> None:
    await session.run(PIPELINE)
    text = "CREATE STREAM web.raw.\"Visits\" (id BIGINT, page VARCHAR) WITH ('store' = 'made')"
    (step,) = (await plan(session, text)).steps
    assert step.action is Action.CONFLICT
    assert step.notes[0].startswith("another columns or key, ")


async def test_what_a_text_leaves_out_is_dropped_after_its_queries(session: Session) -> None:
    await session.run(
        "USE DATABASE shop; CREATE MATERIALIZED VIEW v AS SELECT n FROM orders QUERY WITH ('query.name' = q)"
    )
    await session.run("INSERT INTO lab.tests.orders SELECT n FROM orders QUERY WITH ('query.name' = copy)")
    result = await plan(session, "CREATE DATABASE shop; CREATE DATABASE extra")
    assert actions(result) == [
        (Action.LEAVE, "shop"),
        (Action.CREATE, "extra"),
        (Action.DROP, "q"),
        (Action.DROP, "shop.public.v"),
        (Action.DROP, 'shop.public."Best"'),
        (Action.DROP, "shop.public.orders"),
    ]
    # The database lab is not in the text.
    assert actions(await plan(session, "CREATE SCHEMA lab.tests")) == [(Action.LEAVE, "lab.tests")]


async def test_a_statement_that_fails_is_reported_and_one_that_destroys_is_refused(session: Session) -> None:
    text = "CREATE STREAM s AS SELECT m FROM shop.public.orders; DROP DATABASE shop; SELECT 1 FORM x"
    result = await plan(session, text, database="shop", store="k")
    assert [
        (item.sqlstate, text[item.span.start : item.span.end]) for item in result.diagnostics if item.span
    ] == [
        ("42703", "m"),
        ("0A000", "DROP DATABASE shop"),
        ("42601", "FORM"),
    ]
    assert all(step.action is not Action.DROP for step in result.steps)


async def test_columns_that_only_a_store_knows_end_the_check_of_names(session: Session) -> None:
    text = (
        "CREATE STREAM s WITH ('store' = 'k', 'topic' = 't', 'value.format' = JSON);"
        "CREATE MATERIALIZED VIEW v AS SELECT anything FROM s"
    )
    result = await plan(session, text, database="shop")
    assert [(step.action, step.kind) for step in result.steps] == [
        (Action.CREATE, "stream"),
        (Action.CREATE, "create materialized"),
    ]


async def test_a_plan_changes_nothing_and_needs_the_privileges_of_its_steps(session: Session) -> None:
    before = session.catalog.snapshot()
    session.catalog.create_role("guest", "sysadmin")
    created = session.catalog.snapshot()
    result = await plan(session, "CREATE DATABASE d; CREATE STORE g WITH ('type' = GENERATOR)", GUEST)
    assert [item.sqlstate for item in result.diagnostics] == ["42501", "42501"]
    await plan(session, PIPELINE)
    assert session.catalog.snapshot() is created is not before


async def test_a_role_sees_the_definitions_of_what_it_sees(session: Session) -> None:
    session.catalog.create_role("guest", "sysadmin")
    session.grant("guest", Privilege.USAGE, "shop")
    assert [(item.kind, item.statement) for item in defined(session, "shop", GUEST)] == [
        ("database", "CREATE DATABASE shop")
    ]


async def test_an_application_is_defined_after_the_names_that_resolve_its_own(tmp_path: Path) -> None:
    async with open_session(tmp_path / "a") as here, open_session(tmp_path / "b") as there:
        await here.run(PIPELINE)
        await here.run(
            "USE SCHEMA web.raw; BEGIN APPLICATION app CREATE MATERIALIZED VIEW tops AS "
            "SELECT page, COUNT(*) AS n FROM \"Visits\" WITH ('starting.position' = 'earliest') GROUP BY page; END APPLICATION"
        )
        text = ";\n".join(texts(here, "web"))
        assert "USE SCHEMA web.raw;\nBEGIN APPLICATION app" in text
        assert {action for action, _ in actions(await plan(here, text))} == {Action.LEAVE}
        await there.run(text)
        assert texts(there, "web") == texts(here, "web")
        before, application = text.split("BEGIN")
        other = await plan(here, f"{before}BEGIN{application.replace('COUNT(*)', 'COUNT(page)')}")
        [changed] = [step for step in other.steps if step.action is not Action.LEAVE]
        assert (changed.action, changed.name) == (Action.CONFLICT, "app")
        assert "TERMINATE QUERY … WITH SAVEPOINT" in changed.notes[0]
