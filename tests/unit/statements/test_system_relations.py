"""System relations: what the clients read of them, that they are of the moment, and that nothing else can be done with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.session import Session, open_session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Principal
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.metrics import QueryMetrics
from headrace.engine.metrics_history import PoolSample, TaskHour
from headrace.engine.protocol import QueryProgress, TaskTime
from headrace.statements.system import RELATIONS

TERRAFORM = {
    'SELECT name, "owner", created_at FROM deltastream.sys."databases" WHERE name = \'shop\';': [
        ("shop", "sysadmin")
    ],
    "SELECT name, \"owner\", created_at FROM deltastream.sys.\"schemas\" WHERE database_name = 'lab' AND name = 'tests'": [
        ("tests", "sysadmin")
    ],
    'SELECT type, status, "owner", created_at, updated_at FROM deltastream.sys."stores" WHERE name = \'k\'': [
        ("Kafka", "ready", "sysadmin")
    ],
    'SELECT name, fqn, relation_type, "owner", "state", created_at, updated_at FROM deltastream.sys."relations" '
    'WHERE fqn = \'"lab"."tests"."orders"\'': [
        ("orders", '"lab"."tests"."orders"', "stream", "sysadmin", "created")
    ],
    'SELECT 1 FROM deltastream.sys."relations" WHERE fqn = \'"shop"."public"."Best"\'': [("1",)],
    'SELECT type, "description", "status", "owner", created_at, updated_at FROM deltastream.sys."secrets"': [],
    'SELECT name, type, "status", "owner", created_at, updated_at FROM deltastream.sys."schema_registries"': [
        ("r", "Confluent", "ready", "sysadmin")
    ],
    "SELECT name, owner, created_at FROM deltastream.sys.descriptor_sources": [("p", "sysadmin")],
    'select database_name, schema_name, name, relation_type, primary_key, "owner" from deltastream.sys."relations" '
    "where database_name = 'shop' and schema_name in ('public', 'other')": [
        ("shop", "public", "Best", "materialized_view", None, "sysadmin"),
        ("shop", "public", "orders", "stream", None, "sysadmin"),
    ],
}
"""What the public clients send (client-contract, sections 6.4 and 6.6), and the answer without its times."""


@pytest.mark.parametrize(("text", "expected"), TERRAFORM.items(), ids=range(len(TERRAFORM)))
async def test_the_clients_queries_are_answered_at_once(
    session: Session, text: str, expected: list[tuple[str | None, ...]]
) -> None:
    answer = await session.run(text)
    times = [str(column.type) == "TIMESTAMP" for column in answer.columns]
    assert [
        tuple(cell for cell, time in zip(row, times, strict=True) if not time) for row in answer.rows
    ] == expected
    assert all(cell for row in answer.rows for cell, time in zip(row, times, strict=True) if time)


async def test_a_query_has_its_row_in_the_next_statement_and_keeps_it(session: Session) -> None:
    await session.run("USE DATABASE shop")
    rows = await session.rows(
        "CREATE MATERIALIZED VIEW v AS SELECT n FROM orders QUERY WITH ('query.name' = q)"
    )
    query = rows[1][1]
    text = (
        'SELECT name, "version", intended_state, current_state, "owner" FROM deltastream.sys."queries" '
        f"WHERE id = '{query}'"
    )
    assert await session.rows(text) == [("q", "1", "running", "starting", "sysadmin")]
    await session.run(f"TERMINATE QUERY {query}")
    [(_, _, intended, _, _)] = await session.rows(text)
    assert intended == "terminated"
    events = f"SELECT state FROM deltastream.sys.query_events WHERE query_id = '{query}'"
    assert await session.rows(events) == [("starting",)]


async def test_the_steps_of_a_plan_are_rows(session: Session) -> None:
    await session.run("USE DATABASE shop")
    [*_, (_, query, *_)] = await session.rows(
        "CREATE MATERIALIZED VIEW v AS SELECT n FROM orders WHERE n > 1"
    )
    text = (
        "SELECT step, kind, inputs, entity, sql IS NOT NULL FROM deltastream.sys.query_plan_steps "
        f"WHERE query_id = '{query}' ORDER BY position"
    )
    steps = await session.rows(text)
    assert steps[0] == ("read_orders", "read_entity", "", "shop_orders", "false")
    assert steps[-1][:2] == ("sink", "write_view")
    assert [(kind, has_sql) for _, kind, _, _, has_sql in steps if has_sql == "true"] == [
        ("sql_transform", "true")
    ]
    known = {step for step, *_ in steps}
    assert all(source in known for _, _, inputs, _, _ in steps for source in inputs.split(", ") if source)
    assert await session.rows(text.replace(query, "another")) == []


async def test_the_history_of_one_query_is_read_without_the_others(session: Session) -> None:
    await session.run("USE DATABASE shop")
    for name in ("a", "b"):
        await session.run(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT n FROM orders QUERY WITH ('query.name' = {name})"
        )
    ids = dict(await session.rows("SELECT name, id FROM deltastream.sys.queries"))
    sample = QueryMetrics.after(
        None,
        QueryProgress(
            query_id="q", batch_id=1, input_rows=10, input_rows_per_second=2.5, batch_duration_ms=7
        ),
    )
    for seconds in (1.0, 2.0):
        session.engine.history.add(seconds, dict.fromkeys([*ids.values(), "dropped"], sample))
    history = "SELECT query_id, input_rows_total FROM deltastream.sys.query_metrics_history"
    chosen = await session.rows(f"{history} WHERE query_id = '{ids['a']}'")
    assert chosen == [(ids["a"], "10"), (ids["a"], "10")]
    assert await session.rows(f"{history} WHERE query_id = 'dropped'") == []
    assert len(await session.rows(history)) == 4


async def test_the_slots_of_a_pool_over_time_have_hours_and_a_price(tmp_path: Path) -> None:
    for price, costs in ((None, [None, None]), (0.25, ["0.5", "0.5"])):
        async with open_session(tmp_path / str(price), slot_hour_price=price) as session:
            pool = session.catalog.compute_pool("default_pool")
            assert pool is not None
            samples = [PoolSample(pool.id, 1800.0, 4, 1, 900_000), PoolSample("dropped", 1800.0, 8, None)]
            for seconds in (1800.0, 3600.0):
                session.engine.history.add(seconds, {}, samples)
            read = "SELECT pool_name, slots, slots_used, slot_hours, slot_hours_used, cost FROM deltastream.sys.pool_usage"
            assert await session.rows(read) == [
                ("default_pool", "4", "1", "2.0", "0.25", cost) for cost in costs
            ]
            total = "SELECT SUM(slot_hours) AS hours FROM deltastream.sys.pool_usage"
            assert await session.rows(total) == [("4.0",)]


async def test_what_a_query_used_of_its_pool_has_hours_and_a_price(tmp_path: Path) -> None:
    for price, cost in ((None, None), (0.5, "0.75")):
        async with open_session(tmp_path / str(price), slot_hour_price=price) as session:
            await session.run("USE DATABASE shop; CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
            [(query,)] = await session.rows('SELECT id FROM deltastream.sys."queries"')
            pool = session.catalog.compute_pool("default_pool")
            assert pool is not None
            used = TaskTime(slot_ms=5_400_000, cpu_ms=90_500)
            of = ((query, pool.id), (query, "dropped"), ("dropped", pool.id))
            hours = [TaskHour.at(7300, query_id, pool_id, used) for query_id, pool_id in of]
            session.engine.history.add(7300, {}, (), hours)
            read = (
                "SELECT query_id, pool_name, CAST(since AS VARCHAR), slot_hours, processor_seconds, cost "
                "FROM deltastream.sys.query_usage"
            )
            expected = (query, "default_pool", "1970-01-01 02:00:00.000000", "1.5", "90.5", cost)
            assert await session.rows(read) == [expected]
            assert await session.rows(f"{read} WHERE query_id = '{query}'") == [expected]
            assert await session.rows(f"{read} WHERE query_id = 'dropped'") == []


async def test_what_lists_tell_can_be_selected(session: Session) -> None:
    await session.run("USE DATABASE shop; CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
    entities = "SELECT store_name, name, relations, relation_fqns FROM deltastream.sys.entities"
    assert await session.rows(entities) == [
        ("k", "lab_orders", "1", '"lab"."tests"."orders"'),
        ("k", "shop_orders", "1", '"shop"."public"."orders"'),
    ]
    messages = "SELECT name FROM deltastream.sys.descriptors WHERE message LIKE 'shop.O%' ORDER BY name DESC"
    assert await session.rows(messages) == [("p.shop.Other",), ("p.shop.Order.Item",), ("p.shop.Order",)]
    views = "SELECT table_name, view_definition FROM information_schema.views ORDER BY table_name DESC"
    assert (await session.rows(views))[0] == ("v", "CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")


async def test_properties_and_signatures_are_rows(session: Session) -> None:
    read = "SELECT store_type, statements, is_secret FROM deltastream.sys.properties WHERE name = 'kafka.sasl.password'"
    assert await session.rows(read) == [
        (kind, "CREATE STORE, UPDATE STORE", "true") for kind in ("KAFKA", "CONFLUENT_KAFKA")
    ]
    read = "SELECT allowed_values FROM deltastream.sys.properties WHERE name = 'value.format' AND store_type IS NULL"
    [(formats,)] = await session.rows(read)
    assert "json" in str(formats).split(", ")
    read = "SELECT signature FROM deltastream.sys.functions WHERE name = 'REPEAT' AND built_in"
    assert await session.rows(read) == [("REPEAT(text, integer)",)]


async def test_invitations_are_for_who_manages_members(session: Session) -> None:
    administrator = Principal("admin", ("orgadmin",), "orgadmin")
    await session.answer("INVITE USER 'anna@x.org' WITH ('roles' = (public, sysadmin))", administrator)
    read = "SELECT user_name, roles, default_role, invited_by FROM deltastream.sys.invitations"
    assert await session.answer(read, administrator) == [
        ("anna@x.org", "public, sysadmin", "public", "admin")
    ]
    assert await session.rows(read) == []


async def test_they_are_joined_grouped_and_sorted_also_with_views(session: Session) -> None:
    await session.run("USE DATABASE shop; CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
    grouped = (
        "WITH c AS (SELECT relation_name, count(*) AS n FROM deltastream.sys.relation_columns GROUP BY relation_name) "
        "SELECT r.database_name, c.n FROM deltastream.sys.relations AS r JOIN c ON r.name = c.relation_name "
        "WHERE r.name = 'orders' ORDER BY r.database_name DESC LIMIT 1"
    )
    assert await session.rows(grouped) == [("shop", "2")]
    beside = (
        "SELECT r.name, v.n FROM deltastream.sys.relations AS r LEFT JOIN v ON v.n = 1 WHERE r.name = 'v'"
    )
    assert await session.rows(beside) == [("v", None)]


async def test_each_relation_can_be_read_and_described(session: Session) -> None:
    session.grant("sysadmin", Privilege.READ_AUDIT)
    for schema, name in RELATIONS:
        full = f'deltastream.sys."{name}"' if schema == "sys" else f'shop.{schema}."{name}"'
        read = [column.name for column in (await session.run(f"SELECT * FROM {full}")).columns]
        assert await session.rows(f"DESCRIBE RELATION COLUMNS {full}", "Name") == [(title,) for title in read]


async def test_settings_are_shown_to_auditors_without_secrets(tmp_path: Path) -> None:
    given = {"spark_secret": "hunter2", "checkpoint_folders": ("/a", "/b"), "shuffle_partitions": 7}
    chosen = (
        "SELECT name, value, default_value, is_set FROM deltastream.sys.settings "
        "WHERE is_set AND name NOT IN ('HEADRACE_DATA_DIR', 'HEADRACE_SNAPSHOT_TIMEOUT_MS') OR name = 'HEADRACE_TOKEN' ORDER BY name"
    )
    async with open_session(tmp_path / "data", **given) as session:
        with pytest.raises(UserError) as refused:
            await session.run(chosen)
        assert refused.value.state is SqlState.INSUFFICIENT_PRIVILEGE
        session.grant("sysadmin", Privilege.READ_AUDIT)
        assert await session.rows(chosen) == [
            ("HEADRACE_CHECKPOINT_FOLDERS", "/a,/b", None, "true"),
            ("HEADRACE_SHUFFLE_PARTITIONS", "7", "2", "true"),
            ("HEADRACE_SPARK_SECRET", "****", None, "true"),
            ("HEADRACE_TOKEN", None, None, "false"),
        ]


async def test_the_information_schema_is_of_one_database(session: Session) -> None:
    tables = "SELECT table_schema, table_name, table_type FROM shop.information_schema.tables"
    assert await session.rows(tables) == [
        ("public", "Best", "MATERIALIZED VIEW"),
        ("public", "orders", "STREAM"),
    ]
    await session.run("USE DATABASE lab")
    columns = "SELECT table_name, column_name, ordinal_position, data_type FROM information_schema.columns"
    assert await session.rows(columns) == [("orders", "n", "1", "BIGINT")]
    with pytest.raises(UserError) as refused:
        await session.run("SELECT * FROM lap.information_schema.tables")
    assert (refused.value.state, refused.value.hint) == (SqlState.DATABASE_NOT_FOUND, "Did you mean lab?")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SELECT * FROM deltastream.sys.relation", SqlState.RELATION_NOT_FOUND),
        ("SELECT * FROM shop.public.orders, deltastream.sys.queries", SqlState.FEATURE_NOT_SUPPORTED),
        (
            "CREATE MATERIALIZED VIEW shop.public.v AS SELECT id FROM deltastream.sys.queries",
            SqlState.FEATURE_NOT_SUPPORTED,
        ),
        (
            "INSERT INTO deltastream.sys.queries SELECT n FROM shop.public.orders",
            SqlState.FEATURE_NOT_SUPPORTED,
        ),
        ("DROP RELATION deltastream.sys.queries", SqlState.FEATURE_NOT_SUPPORTED),
        ("CREATE DATABASE deltastream", SqlState.DUPLICATE_DATABASE),
        ("CREATE SCHEMA shop.information_schema", SqlState.DUPLICATE_SCHEMA),
        (
            "SELECT * FROM deltastream.sys.queries WITH ('starting.position' = 'earliest')",
            SqlState.INVALID_PARAMETER,
        ),
        ("SELECT rowtime() FROM deltastream.sys.queries", SqlState.FEATURE_NOT_SUPPORTED),
    ],
)
async def test_nothing_else_can_be_done_with_them(session: Session, text: str, state: SqlState) -> None:
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state
    assert refused.value.hint
    assert refused.value.span is not None
