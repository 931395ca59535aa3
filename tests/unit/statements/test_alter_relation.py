"""ALTER RELATION: its description and its owner."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from tests.harness.session import Session

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
        ("ALTER STREAM orders RENAME TO rides", SqlState.SYNTAX_ERROR),
        ("ALTER RELATION deltastream.sys.queries SET description = 'x'", SqlState.FEATURE_NOT_SUPPORTED),
    ],
)
async def test_what_it_refuses(session: Session, text: str, state: SqlState) -> None:
    await session.run("USE DATABASE shop")
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state
    assert refused.value.span is not None
