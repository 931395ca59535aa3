"""The organization: its description, who may change it, and that it is the only one."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.catalog.objects import Principal
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql import parse

ADMINISTRATOR = Principal("admin", ("orgadmin",), "orgadmin")
SAID = "LIST ORGANIZATIONS"


async def test_what_is_said_of_it_changes_and_its_id_stays(session: Session) -> None:
    [(identifier, name, description, image, created)] = await session.rows(SAID)
    assert (name, description, image) == ("headrace", None, None)
    assert created
    given = "'description' = 'what we do', 'profile_image_uri' = 'https://x.org/a.png'"
    await session.answer(f"UPDATE ORGANIZATION headrace WITH ({given})", ADMINISTRATOR)
    await session.answer(f'ALTER ORGANIZATION {identifier} RENAME TO "Acme Inc"', ADMINISTRATOR)
    assert await session.rows(SAID) == [
        (identifier, "Acme Inc", "what we do", "https://x.org/a.png", created)
    ]
    await session.run('USE ORGANIZATION "Acme Inc"')
    update = "UPDATE ORGANIZATION \"Acme Inc\" WITH ('profile_image_uri' = NULL)"
    await session.answer(update, ADMINISTRATOR)
    described = await session.rows('DESCRIBE ORGANIZATION "Acme Inc"', "Description", "ProfileImageURI")
    assert described == [("what we do", None)]


async def test_what_is_said_is_there_after_a_restart(session: Session) -> None:
    await session.answer("UPDATE ORGANIZATION headrace WITH ('description' = 'ours')", ADMINISTRATOR)
    before = session.catalog.organization()
    with session.catalog.transaction():
        session.catalog._storage.read()
    assert session.catalog.organization() == before


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("UPDATE ORGANIZATION other WITH ('description' = 'x')", SqlState.ORGANIZATION_NOT_FOUND),
        ("DESCRIBE ORGANIZATION other", SqlState.ORGANIZATION_NOT_FOUND),
        (
            "UPDATE ORGANIZATION headrace WITH ('profile_image_uri' = 'javascript:x')",
            SqlState.INVALID_PARAMETER,
        ),
        ("UPDATE ORGANIZATION headrace WITH ('colour' = 'x')", SqlState.INVALID_PARAMETER),
        ("ALTER ROLE analyst RENAME TO x", SqlState.FEATURE_NOT_SUPPORTED),
    ],
)
async def test_what_is_refused(session: Session, text: str, state: SqlState) -> None:
    with pytest.raises(UserError) as refused:
        await session.answer(text, ADMINISTRATOR)
    assert refused.value.state is state
    assert refused.value.span is not None


async def test_only_orgadmin_changes_it(session: Session) -> None:
    for text in (
        "UPDATE ORGANIZATION headrace WITH ('description' = 'x')",
        "ALTER ORGANIZATION headrace RENAME TO x",
    ):
        with pytest.raises(UserError) as refused:
            await session.run(text)
        assert refused.value.state is SqlState.INSUFFICIENT_PRIVILEGE
        assert "USE ROLE orgadmin" in (refused.value.hint or "")


async def test_a_role_gets_another_owner(session: Session) -> None:
    await session.answer("CREATE ROLE analyst", ADMINISTRATOR)
    await session.answer("ALTER ROLE analyst OWNER TO sysadmin", ADMINISTRATOR)
    owner = "SELECT \"owner\" FROM deltastream.sys.roles WHERE name = 'analyst'"
    assert await session.rows(owner) == [("sysadmin",)]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("CREATE ORGANIZATION x", "A server has exactly one organization"),
        ("DROP ORGANIZATION x", "A server has exactly one organization"),
        ("CREATE METRICS INTEGRATION m", "Prometheus reads /metrics"),
        ("LIST METRICS INTEGRATIONS", "Prometheus reads /metrics"),
        ("ALTER SECURITY INTEGRATION s", "settings specify who may sign in"),
        ("LIST SECURITY INTEGRATIONS", "settings specify who may sign in"),
        ("START SANDBOX", "--data-dir"),
        ("REJECT INVITATION x", "REVOKE INVITATION"),
    ],
)
def test_what_there_is_not_is_refused_with_the_reason(text: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        parse(text)
    assert refused.value.state is SqlState.FEATURE_NOT_SUPPORTED
    assert hint in (refused.value.hint or "")
