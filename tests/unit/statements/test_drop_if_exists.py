"""DROP … IF EXISTS: what is there goes, what is not is no error, and everything else is as DROP says. CREATE … IF NOT EXISTS too."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from tests.harness.session import Session


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("DATABASE", "gone", '["gone"]'),
        ("SCHEMA", "gone.public", '["gone", "public"]'),
        ("SCHEMA", "shop.gone", '["shop", "gone"]'),
        ("STORE", "gone", '["gone"]'),
        ("SCHEMA_REGISTRY", "gone", '["gone"]'),
        ("DESCRIPTOR_SOURCE", "gone", '["gone"]'),
        ("FUNCTION_SOURCE", "gone", '["gone"]'),
        ("FUNCTION", "gone", '["gone"]'),
        ("RELATION", "shop.gone.s", '["shop", "gone", "s"]'),
        ("MATERIALIZED VIEW", "shop.public.gone", '["shop", "public", "gone"]'),
    ],
)
async def test_what_is_not_there_is_no_error(session: Session, kind: str, name: str, path: str) -> None:
    [(made, _, command, summary, where)] = await session.rows(f"DROP {kind} IF EXISTS {name}")
    assert (made, command, where) == (kind.lower().replace(" ", "_"), "DROP", path)
    assert str(summary).startswith("nothing was dropped: the ")
    with pytest.raises(UserError):
        await session.run(f"DROP {kind} {name}")


async def test_what_is_there_goes(session: Session) -> None:
    assert await session.rows('DROP MATERIALIZED VIEW IF EXISTS shop.public."Best"', "Name") == [("Best",)]
    assert await session.rows("DROP DATABASE IF EXISTS lab CASCADE", "Summary") == [
        ("database lab was dropped with 3 objects",)
    ]
    assert await session.rows("SELECT name FROM deltastream.sys.relations") == [("orders",)]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("DROP DATABASE IF EXISTS shop", SqlState.DEPENDENT_OBJECTS_EXIST),
        ('DROP STREAM IF EXISTS shop.public."Best"', SqlState.RELATION_NOT_FOUND),
        ("DROP RELATION IF EXISTS deltastream.sys.queries", SqlState.FEATURE_NOT_SUPPORTED),
    ],
)
async def test_what_drop_refuses_is_refused(session: Session, text: str, state: SqlState) -> None:
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert refused.value.state is state


@pytest.mark.parametrize(
    ("made", "summary"),
    [
        ("DATABASE lab", "database lab already exists"),
        ("STORE k WITH ('type' = KAFKA)", "store k already exists"),
        ("SCHEMA_REGISTRY r WITH ('type' = CONFLUENT)", "schema registry r already exists"),
        ("DESCRIPTOR_SOURCE p FROM '@p.desc'", "descriptor source p already exists"),
        ("FUNCTION_SOURCE u FROM '@u.jar'", "function source u already exists"),
    ],
)
async def test_what_exists_is_not_said_to_be_created(session: Session, made: str, summary: str) -> None:
    assert await session.rows(f"CREATE {made.replace(' ', ' IF NOT EXISTS ', 1)}", "Summary") == [(summary,)]
