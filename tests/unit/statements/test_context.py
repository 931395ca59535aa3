"""Names in a request's context: which are refused and which are returned, and that no session keeps an invalid name."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from harness.session import ADMINISTRATOR, Session
from headrace.core.context import SessionContext
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server.app import create_app
from headrace.server.ports import ServerParts

FULL = {
    "roleName": "sysadmin",
    "databaseName": "shop",
    "schemaName": "public",
    "storeName": "k",
    "computePoolName": "default_pool",
}


@pytest.mark.parametrize(
    ("wrong", "state"),
    [
        ({"role": "nobody"}, SqlState.ROLE_NOT_FOUND),
        ({"role": "orgadmin"}, SqlState.INSUFFICIENT_PRIVILEGE),
        ({"organization_id": str(uuid.uuid4())}, SqlState.ORGANIZATION_NOT_FOUND),
        ({"organization_id": "acme"}, SqlState.ORGANIZATION_NOT_FOUND),
    ],
)
@pytest.mark.parametrize(
    "text", ["LIST DATABASES", "", "CREATE DATABASE d", "USE DATABASE shop; USE ROLE sysadmin"]
)
async def test_a_foreign_role_or_organization_is_refused_at_once(
    session: Session, text: str, wrong: dict[str, str], state: SqlState
) -> None:
    session.context = replace(session.context, **wrong)
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state


async def test_the_organization_may_be_named_by_id_or_name(session: Session) -> None:
    organization = session.catalog.organization()
    for named in (organization.id, organization.name, ""):
        session.context = SessionContext(named)
        await session.run("LIST DATABASES")
        assert session.context.organization_id == organization.id


async def test_use_gets_a_session_out_of_a_foreign_role_or_organization(session: Session) -> None:
    session.context = replace(session.context, role="nobody")
    await session.run("USE ROLE public")
    assert session.context.role == "public"
    session.context = replace(session.context, organization_id="acme")
    await session.run(f"USE ORGANIZATION {session.catalog.organization().id}; LIST DATABASES")
    assert session.context.organization_id == session.catalog.organization().id


@pytest.mark.parametrize(
    ("gone", "text", "state"),
    [
        (
            {"store": "gone"},
            "CREATE STREAM s (n BIGINT) WITH ('value.format' = JSON)",
            SqlState.STORE_NOT_FOUND,
        ),
        (
            {"store": "gone"},
            "DESCRIBE CREATE STREAM s (n BIGINT) WITH ('value.format' = JSON)",
            SqlState.STORE_NOT_FOUND,
        ),
        ({"store": "gone"}, "LIST ENTITIES", SqlState.STORE_NOT_FOUND),
        ({"database": "gone"}, "LIST RELATIONS", SqlState.DATABASE_NOT_FOUND),
        ({"database": "gone", "schema": "gone"}, "LIST SCHEMAS", SqlState.DATABASE_NOT_FOUND),
        ({"schema": "gone"}, "DESCRIBE RELATION orders", SqlState.SCHEMA_NOT_FOUND),
        ({"compute_pool": "gone"}, "SELECT n FROM orders", SqlState.COMPUTE_POOL_NOT_FOUND),
        (
            {"compute_pool": "gone"},
            "INSERT INTO orders SELECT n FROM lab.tests.orders",
            SqlState.COMPUTE_POOL_NOT_FOUND,
        ),
    ],
)
async def test_other_names_are_refused_and_not_repeated(
    session: Session, gone: dict[str, str], text: str, state: SqlState
) -> None:
    await session.run("USE DATABASE shop; USE STORE k; USE COMPUTE_POOL default_pool")
    session.context = replace(session.context, **gone)
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state
    assert "gone" in refused.value.message
    await session.run("LIST DATABASES")
    assert "gone" not in session.context.__dict__.values()


async def test_a_session_whose_names_were_dropped_goes_on(session: Session) -> None:
    gone = SessionContext("", database="gone", schema="gone", store="gone", compute_pool="gone")
    for text in (
        "USE STORE k",
        "USE DATABASE shop",
        "USE COMPUTE_POOL default_pool",
        "DROP RELATION shop.public.orders",
    ):
        session.context = gone
        await session.run(text)
    session.context = gone
    await session.run("CREATE DATABASE next")
    assert (session.context.database, session.context.schema) == ("next", "public")


@pytest.mark.parametrize(
    "text", ["SELEC", "DESCRIBE STORE nothing", "USE DATABASE lab; DESCRIBE STORE nothing"]
)
async def test_errors_carry_the_context_from_before_the_request(
    session: Session, tmp_path: Path, text: str
) -> None:
    app = create_app(ServerParts(Settings(data_dir=tmp_path), session.service, lambda _token: ADMINISTRATOR))
    names = {"database": "shop", "schema": "public", "store": "k", "computePool": "default_pool"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://headrace", headers={"Authorization": "Bearer x"}
    ) as http:
        for wrong in ({}, {"role": "nobody"}, {"organization": "acme"}):
            answer = await http.post("/v2/statements", json={"statement": text, **names, **wrong})
            assert answer.json()["sqlState"] != "00000"
            context = {"organizationID": session.catalog.organization().id, **FULL}
            assert answer.json()["metadata"]["context"] == context
