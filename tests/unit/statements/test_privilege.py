"""CAN I and CAN ROLE: what a role may do, and why not."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.catalog.objects import Principal
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

ROOT = Principal("admin", ("orgadmin",), "orgadmin")


async def test_a_privilege_that_is_held(session: Session) -> None:
    await session.run(
        "CREATE MATERIALIZED VIEW shop.public.v AS SELECT n FROM shop.public.orders QUERY WITH ('query.name' = q)"
    )
    for on in (
        "CREATE_QUERY",
        "create_database ON ORGANIZATION",
        "USAGE ON DATABASE shop",
        "CREATE_RELATION ON SCHEMA lab.tests",
        "USAGE ON STORE k",
        "USAGE ON SCHEMA_REGISTRY r",
        "SELECT ON RELATION lab.tests.orders",
        "USAGE ON COMPUTE_POOL default_pool",
        "OWNERSHIP ON QUERY q",
    ):
        assert await session.rows(f"CAN I {on}") == [("true", None)], on


async def test_one_that_is_not_held_is_answered_with_the_reason(session: Session) -> None:
    [(allowed, reason)] = await session.rows("CAN I MANAGE_GRANTS")
    assert allowed == "false"
    assert "the role 'sysadmin' lacks the privilege MANAGE_GRANTS on the organization" in str(reason)
    await session.run("USE ROLE public")
    for name in ("orders", "nothing"):
        full = f"lab.tests.{name}"
        chain = f"USAGE on the database lab → USAGE on the schema lab.tests → SELECT on the relation {full}"
        reason = f"the role 'public' lacks the privileges {chain}: the relation {full} does not exist or is not authorized"
        assert await session.rows(f"CAN I SELECT ON RELATION {full}") == [("false", reason)]


async def test_another_role_is_answered_with_the_source_of_each_privilege(session: Session) -> None:
    for text in (
        "CREATE ROLE reader",
        "CREATE ROLE analyst",
        "GRANT ROLE reader TO ROLE analyst",
        "GRANT USAGE ON DATABASE lab TO ROLE analyst",
        "GRANT SELECT ON RELATION lab.tests.orders TO ROLE reader",
    ):
        await session.answer(text, ROOT)
    asked = "CAN ROLE analyst SELECT ON RELATION lab.tests.orders"
    [(allowed, reason)] = await session.answer(asked, ROOT)
    assert allowed == "false"
    assert "'analyst' lacks the privilege USAGE on the schema lab.tests" in str(reason)
    await session.answer("GRANT USAGE ON SCHEMA lab.tests TO ROLE reader", ROOT)
    chain = (
        "USAGE on the database lab (granted to analyst) → USAGE on the schema lab.tests (granted to reader) → "
        "SELECT on the stream lab.tests.orders (granted to reader)"
    )
    assert await session.answer(asked, ROOT) == [("true", chain)]
    for text, source in (
        ("CAN ROLE sysadmin USAGE ON DATABASE lab", "USAGE on the database lab (owned by sysadmin)"),
        (
            "CAN ROLE sysadmin CREATE_DATABASE",
            "CREATE_DATABASE on the organization (built into sysadmin)",
        ),
        (
            "CAN ROLE reader SELECT ON RELATION deltastream.sys.stores",
            "system relations are readable by every role",
        ),
    ):
        assert await session.answer(text, ROOT) == [("true", source)], text


async def test_a_role_that_is_not_inherited_needs_the_right_to_manage_grants(session: Session) -> None:
    await session.run("USE ROLE sysadmin")
    assert await session.rows("CAN ROLE public USAGE ON DATABASE lab") != []
    for asked in (
        "USAGE ON DATABASE lab",
        "CREATE_QUERY",
        "CREATE_QUERY ON ORGANIZATION",
        "USAGE ON DATABASE no_such",
    ):
        with pytest.raises(UserError, match="MANAGE_GRANTS") as error:
            await session.rows(f"CAN ROLE securityadmin {asked}")
        assert error.value.state is SqlState.INSUFFICIENT_PRIVILEGE, asked


async def test_a_role_is_not_answered_about_what_it_may_not_know_of(session: Session) -> None:
    await session.answer("CREATE ROLE outsider", ROOT)
    for name in ("orders", "no_such"):
        text = f"CAN ROLE outsider SELECT ON RELATION lab.tests.{name}"
        [(allowed, reason)] = await session.answer(text, ROOT)
        assert allowed == "false"
        assert str(reason).endswith(f"lab.tests.{name} does not exist or is not authorized")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CAN I CREATE_QERY", SqlState.SYNTAX_ERROR),
        ("CAN I", SqlState.SYNTAX_ERROR),
        ("CAN ROLE nobody CREATE_QUERY", SqlState.ROLE_NOT_FOUND),
        ("CAN ROLE", SqlState.SYNTAX_ERROR),
        ("CAN ROLE public", SqlState.SYNTAX_ERROR),
        ("CAN ROLE public CREATE_QERY ON ORGANIZATION", SqlState.SYNTAX_ERROR),
        ("CAN ROLE public SELECT ON ORGANIZATION", SqlState.SYNTAX_ERROR),
        ("CAN ROLE public CREATE_QUERY ON ORGANIZATION org", SqlState.SYNTAX_ERROR),
        ("CAN ROLE public USAGE ON", SqlState.SYNTAX_ERROR),
        ("CAN ROLE public USAGE ON DATABASE", SqlState.SYNTAX_ERROR),
        ("CAN I SELECT ON thing", SqlState.SYNTAX_ERROR),
        ("CAN I SELECT ON STORE k", SqlState.SYNTAX_ERROR),
    ],
)
async def test_what_is_neither(session: Session, text: str, state: SqlState) -> None:
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state
    assert refused.value.span is not None
