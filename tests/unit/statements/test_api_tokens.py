"""API tokens: bound to a role, shown once, good until they expire or are dropped."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.catalog.objects import Principal
from headrace.core.errors import UserError
from tests.harness.session import Session

ROOT = Principal("admin", ("orgadmin",), "orgadmin")
CREATE = "CREATE API_TOKEN ci WITH ('token.role_name' = useradmin)"


async def token_of(session: Session, text: str, principal: Principal = ROOT) -> str:
    ((kind, name, _command, summary, token),) = await session.answer(text, principal)
    assert (kind, name) == ("api_token", text.split()[2])
    assert token is not None
    assert summary is not None
    assert token not in summary
    return token


async def refused(session: Session, text: str, principal: Principal) -> str:
    with pytest.raises(UserError) as failed:
        await session.answer(text, principal)
    return failed.value.state.value


async def test_a_token_has_one_role_and_an_end(session: Session, tmp_path: Path) -> None:
    before = datetime.datetime.now(datetime.UTC)
    token = await token_of(session, CREATE)
    principal = session.catalog.authenticate(token)
    assert principal is not None
    assert (principal.user, principal.roles, principal.default_role) == ("admin", ("useradmin",), "useradmin")
    assert await refused(session, "USE ROLE sysadmin", principal) == "42501"
    assert await refused(session, "CREATE DATABASE d", principal) == "42501"
    kept = session.catalog.api_token("ci")
    assert kept is not None
    assert kept.expires_at is not None
    assert (
        datetime.timedelta(0)
        <= kept.expires_at - before - datetime.timedelta(days=90)
        < datetime.timedelta(hours=1)
    )
    assert all(token.encode() not in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    (row,) = await session.answer("DESCRIBE API_TOKEN ci", ROOT)
    assert row[:3] == ("ci", "useradmin", "admin")
    assert token not in str(await session.answer("LIST API_TOKENS", ROOT))


async def test_a_token_ends_when_it_is_dropped_renewed_or_expires(session: Session) -> None:
    first = await token_of(session, CREATE)
    principal = session.catalog.authenticate(first)
    assert principal is not None
    assert session.catalog.ended(principal) is None
    second = await token_of(session, "ALTER API_TOKEN ci WITH ('token.expires_in_days' = 1)")
    assert session.catalog.authenticate(first) is None
    known = session.catalog.api_token("ci")
    assert known is not None
    again = session.catalog.authenticate(second)
    assert again == principal
    session.catalog.renew_api_token(replace(known, expires_at=known.updated_at))
    assert session.catalog.ended(principal) == "the API token 'ci' has expired"
    third = await token_of(session, "ALTER API_TOKEN ci")
    await session.answer("DROP API_TOKEN ci", ROOT)
    assert session.catalog.authenticate(third) is None
    assert session.catalog.ended(principal) == "the API token was dropped"
    assert await refused(session, "DROP API_TOKEN ci", ROOT) == "3D012"


async def test_a_token_gives_nothing_that_its_maker_has_not(session: Session) -> None:
    await token_of(
        session, "CREATE API_TOKEN short WITH ('token.role_name' = useradmin, 'token.expires_in_days' = 1)"
    )
    known = session.catalog.api_token("short")
    assert known is not None
    principal = Principal("admin", ("useradmin",), "useradmin", known.id)
    assert (
        await refused(session, "CREATE API_TOKEN up WITH ('token.role_name' = orgadmin)", principal)
        == "42501"
    )
    await session.answer("CREATE API_TOKEN long WITH ('token.role_name' = public)", principal)
    made = session.catalog.api_token("long")
    assert made is not None
    assert made.expires_at == known.expires_at, "else a token could outlive itself"
    assert await refused(session, "CREATE API_TOKEN long WITH ('token.role_name' = public)", ROOT) == "42P09"
    assert await refused(session, "CREATE API_TOKEN x WITH ('token.role_name' = nobody)", ROOT) == "3D001"
    assert await refused(session, "CREATE API_TOKEN x", ROOT) == "3D021"
    assert await refused(session, CREATE.replace(")", ", 'token.expires_in_days' = 0)"), ROOT) == "3D008"


async def test_tokens_of_others_are_seen_by_who_manages_members_only(session: Session) -> None:
    token = await token_of(session, CREATE)
    stranger = Principal("anna", ("sysadmin",), "sysadmin")
    rows = "SELECT name, user_name, expired FROM deltastream.sys.api_tokens"
    assert await session.answer("LIST API_TOKENS", stranger) == await session.answer(rows, stranger) == []
    for verb in ("DESCRIBE", "ALTER", "DROP"):
        assert await refused(session, f"{verb} API_TOKEN ci", stranger) == "3D012", verb
    manager = Principal("anna", ("useradmin",), "useradmin")
    assert [row[0] for row in await session.answer("LIST API_TOKENS", manager)] == ["ci"]
    assert await session.answer(rows, manager) == [("ci", "admin", "false")]
    assert await refused(session, "ALTER API_TOKEN ci", manager) == "42501", "its secret is its user's"
    await session.answer("DROP API_TOKEN ci", manager)
    assert session.catalog.authenticate(token) is None
