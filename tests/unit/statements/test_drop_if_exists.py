"""DROP … IF EXISTS: an existing object is dropped, a missing one is no error, and everything else is as with DROP. CREATE … IF NOT EXISTS
too."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.catalog.objects import Principal
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState


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
        ("SECRET", "gone", '["gone"]'),
        ("ROLE", "gone", '["gone"]'),
        ("COMPUTE_POOL", "gone", '["gone"]'),
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


async def test_a_token_and_a_user_go_too(session: Session) -> None:
    root = Principal("admin", ("orgadmin",), "orgadmin")
    await session.answer("CREATE API_TOKEN orders WITH ('token.role_name' = public)", root)
    ((*_, code),) = await session.answer("INVITE USER 'anna@x.org' WITH ('roles' = (public))", root)
    assert session.catalog.accept_invitation(code or "", "correct horse battery") is not None
    for kind, name, written in [("api_token", "orders", "orders"), ("user", "anna@x.org", "'anna@x.org'")]:
        for left in (False, True):
            (row,) = await session.answer(f"DROP {kind} IF EXISTS {written}", root)
            assert (row[0], row[1], row[2], row[4]) == (kind, name, "DROP", f'["{name}"]')
            assert str(row[3]).startswith("nothing was dropped: the ") is left
    assert not session.catalog.api_tokens()
    assert session.catalog.user("anna@x.org") is None


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
async def test_existing_objects_are_not_reported_as_created(
    session: Session, made: str, summary: str
) -> None:
    assert await session.rows(f"CREATE {made.replace(' ', ' IF NOT EXISTS ', 1)}", "Summary") == [(summary,)]
