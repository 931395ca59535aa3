"""CAN I: what the active role may do, and why not."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState


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


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CAN I CREATE_QERY", SqlState.SYNTAX_ERROR),
        ("CAN I", SqlState.SYNTAX_ERROR),
        ("CAN I SELECT ON thing", SqlState.SYNTAX_ERROR),
        ("CAN I SELECT ON STORE k", SqlState.SYNTAX_ERROR),
    ],
)
async def test_what_is_neither(session: Session, text: str, state: SqlState) -> None:
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state
    assert refused.value.span is not None
