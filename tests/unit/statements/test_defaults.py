"""SET DEFAULT: the objects that a user's sessions start with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from harness.session import ADMINISTRATOR, Session, open_session
from headrace.catalog.access import Privilege
from headrace.catalog.catalog import Catalog
from headrace.core.context import SessionContext
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server.app import create_app
from headrace.server.ports import ServerParts

CHOSEN = "SET DEFAULT SCHEMA lab.tests; SET DEFAULT STORE k; SET DEFAULT COMPUTE_POOL p"


def names(context: SessionContext) -> tuple[str | None, ...]:
    return context.database, context.schema, context.store, context.compute_pool


async def begin(session: Session, text: str = "LIST DATABASES") -> SessionContext:
    """The names after a statement of a new session."""
    session.context = SessionContext("")
    await session.run(text)
    return session.context


async def test_new_sessions_begin_with_the_defaults_and_use_changes_only_the_session(
    session: Session,
) -> None:
    await session.run("CREATE COMPUTE_POOL p; USE DATABASE shop; USE STORE unused")
    before = session.context
    (row,) = await session.rows("SET DEFAULT STORE k")
    assert row == ("store", "k", "SET DEFAULT", "store k is the default of new sessions", '["k"]')
    await session.run(CHOSEN)
    assert session.context == before
    assert names(await begin(session)) == ("lab", "tests", "k", "p")
    await session.run("USE DATABASE shop; USE STORE unused; USE COMPUTE_POOL default_pool")
    assert names(session.context) == ("shop", "public", "unused", "default_pool")
    assert await session.rows("LIST DATABASES WHERE is_default = TRUE", "Name") == [("lab",)]
    assert await session.rows("LIST SCHEMAS IN DATABASE lab WHERE is_default = TRUE", "Name") == [("tests",)]
    assert await session.rows("LIST STORES WHERE is_default = TRUE", "Name") == [("k",)]
    assert await session.rows("DESCRIBE DATABASE shop", "IsDefault") == [("false",)]


async def test_the_answer_to_a_request_without_names_contains_them(session: Session, tmp_path: Path) -> None:
    """The page and `headrace sql` send their first request so."""
    await session.run(f"CREATE COMPUTE_POOL p; {CHOSEN}")
    app = create_app(ServerParts(Settings(data_dir=tmp_path), session.service, lambda _token: ADMINISTRATOR))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://headrace", headers={"Authorization": "Bearer x"}
    ) as http:
        answer = await http.post("/v2/statements", json={"statement": "LIST DATABASES;"})
    assert answer.json()["metadata"]["context"] == {
        "organizationID": session.catalog.organization().id,
        "roleName": "sysadmin",
        "databaseName": "lab",
        "schemaName": "tests",
        "storeName": "k",
        "computePoolName": "p",
    }


async def test_what_a_request_names_is_not_replaced(session: Session) -> None:
    await session.run("SET DEFAULT SCHEMA lab.tests; SET DEFAULT STORE k")
    session.context = SessionContext("", database="shop", store="unused")
    await session.run("LIST DATABASES")
    assert names(session.context) == ("shop", "public", "unused", None)
    assert names(await begin(session, "USE DATABASE lab")) == ("lab", "public", "k", None)


async def test_a_database_comes_with_its_schema_public_and_names_follow(session: Session) -> None:
    await session.run(f"CREATE COMPUTE_POOL p; {CHOSEN}; SET DEFAULT DATABASE shop")
    assert names(await begin(session))[:2] == ("shop", "public")
    await session.run("ALTER DATABASE shop RENAME TO sales; ALTER STORE k RENAME TO broker")
    assert names(await begin(session)) == ("sales", "public", "broker", "p")


async def test_a_default_that_was_dropped_is_none(session: Session) -> None:
    await session.run(f"CREATE COMPUTE_POOL p; {CHOSEN}; STOP COMPUTE_POOL p")
    await session.run("DROP DATABASE lab CASCADE; DROP STORE k CASCADE; DROP COMPUTE_POOL p")
    await session.run("CREATE DATABASE lab; CREATE SCHEMA lab.tests; CREATE COMPUTE_POOL p")
    assert names(await begin(session)) == (None, None, None, None)
    await session.run("USE DATABASE shop; USE STORE unused")
    assert await session.rows("LIST DATABASES WHERE is_default = TRUE", "Name") == [("shop",)]
    assert await session.rows("LIST STORES WHERE is_default = TRUE", "Name") == [("unused",)]


async def test_a_role_begins_with_the_defaults_that_it_may_use(session: Session) -> None:
    await session.run(f"CREATE COMPUTE_POOL p; {CHOSEN}")
    session.context = SessionContext("", role="public")
    await session.run("LIST DATABASES")
    assert names(session.context) == (None, None, None, None)
    session.grant("public", Privilege.USAGE, "lab")
    session.context = SessionContext("", role="public")
    await session.run("LIST DATABASES")
    assert names(session.context) == ("lab", "public", None, None)


async def test_the_default_role_counts_while_the_user_holds_it(session: Session) -> None:
    user = session.catalog.user("admin")
    assert user is not None
    session.principal = replace(session.principal, roles=user.roles)
    await session.run("USE ROLE orgadmin; CREATE ROLE analyst; GRANT ROLE analyst TO ROLE useradmin")
    await session.run("SET DEFAULT ROLE analyst")
    assert session.context.role == "orgadmin"
    user = session.catalog.user("admin")
    assert user is not None
    session.principal = replace(session.principal, default_role=user.default_role)
    assert (await begin(session)).role == "analyst"
    await session.run("USE ROLE orgadmin; REVOKE ROLE analyst FROM ROLE useradmin")
    assert (await begin(session)).role == "public"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SET DEFAULT DATABASE nothing", SqlState.DATABASE_NOT_FOUND),
        ("SET DEFAULT SCHEMA lab.nothing", SqlState.SCHEMA_NOT_FOUND),
        ("SET DEFAULT STORE nothing", SqlState.STORE_NOT_FOUND),
        ("SET DEFAULT COMPUTE_POOL nothing", SqlState.COMPUTE_POOL_NOT_FOUND),
        ("SET DEFAULT ROLE nobody", SqlState.ROLE_NOT_FOUND),
        ("SET DEFAULT ROLE orgadmin", SqlState.INSUFFICIENT_PRIVILEGE),
        ("USE ROLE public; SET DEFAULT STORE k", SqlState.STORE_NOT_FOUND),
        ("SET DEFAULT ORGANIZATION headrace", SqlState.SYNTAX_ERROR),
    ],
)
async def test_what_it_refuses(session: Session, text: str, state: SqlState) -> None:
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state


async def test_defaults_are_kept(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        await session.run("SET DEFAULT STORE k")
        store = session.catalog.store("k")
    catalog = Catalog.open(tmp_path)
    user = catalog.user("admin")
    catalog.close()
    assert store is not None
    assert user is not None
    assert user.defaults == {"store": store.id}
