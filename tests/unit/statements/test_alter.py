"""ALTER: names, owners, and comments and properties of a relation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.session import Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, QueryState
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

SAID = "SELECT description, \"owner\" FROM deltastream.sys.relations WHERE name = 'Best'"


async def test_a_description_is_set_shown_and_taken_away(session: Session) -> None:
    await session.run("USE DATABASE shop")
    set_it = "ALTER RELATION \"Best\" SET description = 'what is\n''best''';"
    assert await session.rows(set_it, "Type", "Name", "Command") == [("materialized_view", "Best", "ALTER")]
    assert await session.rows(SAID) == [("what is\n'best'", "sysadmin")]
    assert dict(await session.rows('DESCRIBE RELATION "Best"'))["Description"] == "what is\n'best'"
    await session.run('ALTER MATERIALIZED VIEW "Best" SET description = NULL')
    assert await session.rows(SAID) == [(None, "sysadmin")]


async def test_an_owner_gives_it_away(session: Session) -> None:
    await session.run('USE DATABASE shop; ALTER RELATION "Best" OWNER TO public')
    assert await session.rows(SAID) == [(None, "public")]
    session.grant("public", Privilege.USAGE, "shop")
    session.grant("public", Privilege.USAGE, "shop", "public")
    session.grant("public", Privilege.SELECT, "shop", "public", "orders")
    await session.run("USE ROLE public; ALTER RELATION \"Best\" SET description = 'ours'")
    with pytest.raises(UserError) as refused:
        await session.run("ALTER RELATION orders SET description = 'theirs'")
    assert refused.value.state is SqlState.INSUFFICIENT_PRIVILEGE


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("ALTER RELATION nothing SET description = 'x'", SqlState.RELATION_NOT_FOUND),
        ("ALTER CHANGELOG orders SET description = 'x'", SqlState.RELATION_NOT_FOUND),
        ("ALTER STREAM orders OWNER TO nobody", SqlState.ROLE_NOT_FOUND),
        ("ALTER STREAM orders OWNER TO orgadmin", SqlState.INSUFFICIENT_PRIVILEGE),
        ("ALTER STREAM orders SET description = x", SqlState.SYNTAX_ERROR),
        ("ALTER STREAM orders RENAME TO shop.rides", SqlState.SYNTAX_ERROR),
        ('ALTER STREAM orders RENAME TO "Best"', SqlState.DUPLICATE_RELATION),
        ("ALTER DATABASE shop RENAME TO lab", SqlState.DUPLICATE_DATABASE),
        ("ALTER DATABASE shop RENAME TO deltastream", SqlState.DUPLICATE_DATABASE),
        ("ALTER SCHEMA public RENAME TO information_schema", SqlState.DUPLICATE_SCHEMA),
        ("ALTER STORE k RENAME TO unused", SqlState.DUPLICATE_STORE),
        ("ALTER STORE nothing RENAME TO s", SqlState.STORE_NOT_FOUND),
        ("ALTER STORE k SET description = 'x'", SqlState.SYNTAX_ERROR),
        ("ALTER SCHEMA_REGISTRY r OWNER TO nobody", SqlState.ROLE_NOT_FOUND),
        ("ALTER QUERY nothing RENAME TO q", SqlState.QUERY_NOT_FOUND),
        ("ALTER RELATION deltastream.sys.queries SET description = 'x'", SqlState.FEATURE_NOT_SUPPORTED),
    ],
)
async def test_what_it_refuses(session: Session, text: str, state: SqlState) -> None:
    await session.run("USE DATABASE shop")
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state
    assert refused.value.span is not None


async def test_a_database_its_schema_and_a_session_in_it_take_new_names(session: Session) -> None:
    await session.run("USE DATABASE lab; USE SCHEMA tests")
    assert await session.rows('ALTER DATABASE lab RENAME TO "Lab"', "Type", "Name", "Path") == [
        ("database", "Lab", '["Lab"]')
    ]
    assert (session.context.database, session.context.schema) == ("Lab", "tests")
    await session.run("ALTER SCHEMA tests RENAME TO trials")
    assert session.context.schema == "trials"
    assert await session.rows("DESCRIBE RELATION orders") == await session.rows(
        'DESCRIBE RELATION "Lab".trials.orders'
    )
    with pytest.raises(UserError) as gone:
        await session.run("DESCRIBE RELATION lab.tests.orders")
    assert gone.value.state is SqlState.DATABASE_NOT_FOUND


async def test_a_store_keeps_its_secrets_and_its_relations(session: Session) -> None:
    registry = session.catalog.schema_registry("r")
    given = session.catalog.store("k")
    assert given
    session.catalog.update_store(replace(given, schema_registry="r"))
    await session.run("ALTER SCHEMA_REGISTRY r RENAME TO schemas; ALTER STORE k RENAME TO kafka")
    renamed, store = session.catalog.schema_registry("schemas"), session.catalog.store("kafka")
    assert registry
    assert renamed
    assert store
    assert (renamed.id, renamed.properties) == (registry.id, registry.properties)
    assert store.schema_registry == "schemas"
    stores = "SELECT DISTINCT store_name FROM deltastream.sys.relations WHERE relation_type = 'stream'"
    assert await session.rows(stores) == [("kafka",)]
    with pytest.raises(UserError) as refused:
        await session.run("DROP STORE kafka")
    assert refused.value.state is SqlState.DEPENDENT_OBJECTS_EXIST


async def test_a_query_takes_no_name_of_another_that_runs(session: Session) -> None:
    await session.run("USE DATABASE shop")
    for name in ("one", "two"):
        await session.run(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT n FROM orders QUERY WITH ('query.name' = '{name}')"
        )
    with pytest.raises(UserError) as refused:
        await session.run("ALTER QUERY two RENAME TO one")
    assert refused.value.state is SqlState.INVALID_PARAMETER
    assert refused.value.span is not None
    assert refused.value.hint
    await session.run(
        "ALTER QUERY two RENAME TO two; ALTER QUERY one RENAME TO three; ALTER QUERY two RENAME TO one"
    )
    names = await session.rows("SELECT name FROM deltastream.sys.queries ORDER BY name")
    assert names == [("one",), ("three",)]


async def test_an_ended_query_is_not_restarted_beside_another_of_its_name(session: Session) -> None:
    await session.run("USE DATABASE shop")
    create = "CREATE MATERIALIZED VIEW {} AS SELECT n FROM orders QUERY WITH ('query.name' = 'q')"
    await session.run(create.format("one"))
    (ended,) = session.catalog.queries()
    session.catalog.set_desired_state(ended.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(ended.id, QueryState.TERMINATED)
    await session.run(create.format("two"))
    with pytest.raises(UserError) as refused:
        await session.run(f"RESTART QUERY '{ended.id}'")
    assert refused.value.state is SqlState.INVALID_PARAMETER
    assert refused.value.span is not None
    await session.run("RESTART QUERY q")


async def test_every_object_has_an_owner_to_change(session: Session) -> None:
    for what in (
        "STORE unused",
        "SCHEMA_REGISTRY r",
        "DESCRIPTOR_SOURCE p",
        "SCHEMA lab.tests",
        "DATABASE lab",
    ):
        rows = await session.rows(f"ALTER {what} OWNER TO public", "Type", "Command")
        assert rows == [(what.partition(" ")[0].lower(), "ALTER")]
    assert await session.rows("SELECT name FROM deltastream.sys.stores WHERE \"owner\" = 'public'") == [
        ("unused",)
    ]
