"""The result columns in docs/reference/statements.md equal the columns that the statements return.

Statements that need a broker are asked in tests/clients/test_documented_answers.py.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

from harness.checkpoint import write_checkpoint
from harness.reference_page import assert_documented, documented, kinds
from harness.session import open_session
from headrace.catalog.objects import Invitation, Principal
from headrace.connectors.iceberg.admin import OPTIMIZER
from headrace.core.context import SessionContext
from headrace.core.resultset import ResultSet
from headrace.sql import parse
from tests.clients.test_documented_answers import WITH_A_BROKER

ORGADMIN = Principal("admin", ("orgadmin",), "orgadmin")
MEMBERS = [
    "CREATE BACKUP",
    "UPDATE ORGANIZATION headrace WITH ('description' = 'ours')",
    "ALTER ORGANIZATION headrace RENAME TO acme",
    "ALTER ORGANIZATION acme RENAME TO headrace",
    "INVITE USER 'anna@x.org' WITH ('roles' = (public))",
    "LIST INVITATIONS",
    "ROTATE KEY",
    "REVOKE INVITATION '{invitation}'",
    "LIST USERS",
    "DESCRIBE USER admin",
    "ALTER USER admin SET PASSWORD 'correct horse battery'",
    "DROP USER 'ben@x.org'",
]
"""What an administrator of members says, when ben@x.org is one."""
OTHERS_COLUMNS = {"FilteredList", "SelectStatement"}
"""What answers in the columns of what it is given."""
INSIDE = {"CreateVirtual"}
"""What stands in a statement that answers for it."""
WITH_A_LAKE = {"OptimizeEntity": [column.name for column in OPTIMIZER.columns]}
"""What needs more than is here to answer."""
STATEMENTS = [
    "USE DATABASE shop",
    "USE STORE k",
    "SET DEFAULT STORE k",
    "CREATE DATABASE IF NOT EXISTS other",
    "CREATE SCHEMA IF NOT EXISTS other.more",
    "DESCRIBE SCHEMA other.more",
    "LIST SCHEMAS",
    "DROP SCHEMA other.more",
    "DESCRIBE DATABASE other",
    "LIST DATABASES",
    "DROP DATABASE other",
    "LIST STORES",
    "DESCRIBE STORE k",
    "TEST STORE k",
    "LIST ENTITIES IN a.b",
    "LIST RELATIONS",
    "DESCRIBE RELATION orders",
    "ALTER RELATION orders SET description = 'rides'",
    "ALTER RELATION orders OWNER TO sysadmin",
    "ALTER STORE unused RENAME TO other",
    "ALTER STORE other RENAME TO unused",
    "DESCRIBE RELATION COLUMNS orders",
    "CREATE MATERIALIZED VIEW best AS SELECT n FROM orders QUERY WITH ('query.name' = best)",
    "INSERT INTO orders SELECT n FROM lab.tests.orders QUERY WITH ('query.name' = copied)",
    "SELECT n FROM best",
    "CREATE VIEW seen AS SELECT n FROM best",
    "BEGIN APPLICATION app CREATE MATERIALIZED VIEW of_app AS SELECT n FROM orders; END APPLICATION",
    "LIST QUERIES",
    "DESCRIBE QUERY best",
    "DESCRIBE QUERY HISTORY best",
    "DESCRIBE QUERY EVENTS best",
    "DESCRIBE QUERY METRICS best",
    "DESCRIBE QUERY STATE best",
    "DESCRIBE QUERY VERSIONS best",
    "EXPLAIN WHY best",
    "RESTART QUERY best",
    "ALTER QUERY copied AS SELECT n + 1 AS n FROM lab.tests.orders",
    "ALTER QUERY copied ROLLBACK TO VERSION 1",
    "CREATE OR REPLACE MATERIALIZED VIEW replaced AS SELECT n FROM orders",
    "CREATE SAVEPOINT s ON QUERY copied",
    "LIST SAVEPOINTS",
    "DESCRIBE SAVEPOINT s",
    "DROP SAVEPOINT s",
    "CREATE ALERT a ON QUERY copied WHEN errored WITH ('url' = 'https://example.com/hook')",
    "LIST ALERTS",
    "DESCRIBE ALERT a",
    "DROP ALERT a",
    "STOP MATERIALIZED VIEW best",
    "START MATERIALIZED VIEW best",
    "TERMINATE QUERY best",
    "EXPLAIN SELECT n FROM orders",
    "DESCRIBE SELECT n FROM orders",
    'DROP RELATION "Best"',
    "LIST COMPUTE_POOLS",
    "DESCRIBE COMPUTE_POOL default_pool",
    "CREATE COMPUTE_POOL p",
    "UPDATE COMPUTE_POOL p WITH ('compute_pool.timeout_min' = 5)",
    "STOP COMPUTE_POOL p",
    "START COMPUTE_POOL p",
    "DROP COMPUTE_POOL p",
    "LIST ORGANIZATIONS",
    "GENERATE TEMPLATE FOR CREATE STORE KAFKA",
    "DESCRIBE ORGANIZATION headrace",
    "LIST ROLES",
    "USE ROLE securityadmin",
    "CREATE ROLE analyst",
    "DESCRIBE ROLE analyst",
    "GRANT USAGE ON DATABASE shop TO ROLE analyst",
    "LIST GRANTS",
    "GRANT SELECT ON FUTURE RELATIONS IN DATABASE shop TO ROLE analyst",
    "LIST FUTURE GRANTS",
    "REVOKE SELECT ON FUTURE RELATIONS IN DATABASE shop FROM ROLE analyst",
    "REVOKE USAGE ON DATABASE shop FROM ROLE analyst",
    "GRANT ROLE analyst TO USER admin",
    "REVOKE ROLE analyst FROM USER admin",
    "GRANT OWNERSHIP ON DATABASE lab TO ROLE sysadmin",
    "DROP ROLE analyst",
    "USE ROLE orgadmin",
    "CREATE SAVEPOINT IF NOT EXISTS saved FROM 'of another server'",
    "ALTER SCHEMA shop.public DISABLE MANAGED ACCESS",
    "USE ROLE sysadmin",
    "CAN I CREATE_QUERY",
    "CREATE API_TOKEN ci WITH ('token.role_name' = sysadmin)",
    "ALTER API_TOKEN ci",
    "DESCRIBE API_TOKEN ci",
    "LIST API_TOKENS",
    "DROP API_TOKEN ci",
    "LIST DESCRIPTOR_SOURCES",
    "LIST DESCRIPTORS",
    "CREATE DESCRIPTOR_SOURCE IF NOT EXISTS p FROM '@p.desc'",
    "DESCRIBE DESCRIPTOR_SOURCE p",
    "DROP DESCRIPTOR_SOURCE p",
    "CREATE FUNCTION_SOURCE IF NOT EXISTS u FROM '@u.jar'",
    "DESCRIBE FUNCTION_SOURCE u",
    "COPY FUNCTION_SOURCE u TO 'u.jar'",
    "LIST FUNCTIONS",
    "LIST FUNCTION_SOURCES",
    "CREATE FUNCTION f() RETURNS BIGINT LANGUAGE JAVA WITH ('source.name' = u, 'class.name' = 'com.x.Again')",
    "DESCRIBE FUNCTION f()",
    "DROP FUNCTION f()",
    "DROP FUNCTION_SOURCE u CASCADE",
    "LIST SCHEMA_REGISTRIES",
    "DESCRIBE SCHEMA_REGISTRY r",
    "DROP SCHEMA_REGISTRY r",
    "DROP SCHEMA_REGISTRY IF EXISTS r",
    "CREATE SECRET s WITH ('type' = generic_string)",
    "UPDATE SECRET s WITH ('secret_string' = 'x')",
    "DESCRIBE SECRET s",
    "LIST SECRETS",
    "DROP SECRET s",
    "LIST STORES WHERE name = 'k'",
    "DROP STORE unused",
]


async def test_the_page_names_every_column_of_every_answer(tmp_path: Path) -> None:
    answered: dict[str, set[str]] = {}
    async with open_session(tmp_path) as session:
        session.principal = replace(session.principal, roles=("orgadmin",))
        for text in STATEMENTS:
            if text == "CREATE SAVEPOINT s ON QUERY copied":
                copied = session.catalog.query_by_name("copied")
                assert copied is not None
                write_checkpoint(tmp_path / "checkpoints" / copied.id, batches=3)
                session.save("saved", copied)
            (statement,) = parse(text)
            kind = type(statement).__name__
            columns = [column.name for column in (await session.run(text)).columns]
            answered.setdefault(kind, set()).update(columns)
            if kind not in OTHERS_COLUMNS:
                assert_documented(kind, columns)
        now = datetime.datetime.now(datetime.UTC)
        end = now + datetime.timedelta(days=1)
        ben = Invitation("ben@x.org", ("public",), "public", "admin", now, end)
        assert session.catalog.accept_invitation(
            session.catalog.create_invitation(ben), "correct horse battery"
        )
        for text in MEMBERS:
            listed = session.catalog.invitations()
            said = text.format(invitation=listed[0].id if listed else "")
            executed = await session.service.execute(said, principal=ORGADMIN, context=SessionContext(""))
            assert isinstance(executed.outcome, ResultSet)
            kind = type(parse(said)[0]).__name__
            columns = [column.name for column in executed.outcome.columns]
            answered.setdefault(kind, set()).update(columns)
            assert_documented(kind, columns)
    assert answered["FilteredList"] == answered["ListStores"]
    for kind in answered.keys() - OTHERS_COLUMNS:
        assert set(documented(kind)) <= answered[kind], f"the page promises columns that {kind} does not have"
    for kind, columns in WITH_A_LAKE.items():
        assert_documented(kind, columns)
    assert kinds() == {*answered, *INSIDE, *WITH_A_BROKER, *WITH_A_LAKE}
