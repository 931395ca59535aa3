"""Users: invited, described, with a password, dropped; nobody gets by them at more than they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.session import Session
from headrace.catalog.objects import Principal, User
from headrace.core.errors import UserError

ROOT = Principal("admin", ("orgadmin",), "orgadmin")
MANAGER = Principal("mia", ("useradmin",), "useradmin")
PASSWORD = "correct horse battery"
INVITE = "INVITE USER 'Anna@x.org' WITH ('roles' = (sysadmin, useradmin), 'default' = sysadmin)"


async def refused(session: Session, text: str, principal: Principal) -> str:
    with pytest.raises(UserError) as failed:
        await session.answer(text, principal)
    assert PASSWORD not in failed.value.text()
    return failed.value.state.value


async def joined(session: Session, text: str = INVITE) -> User:
    ((kind, identifier, _command, _summary, code),) = await session.answer(text, ROOT)
    assert kind == "invitation"
    assert identifier is not None
    assert code is not None
    user = session.catalog.accept_invitation(code, PASSWORD)
    assert user is not None
    assert session.catalog.accept_invitation(code, PASSWORD) is None, "an invitation is good once"
    return user


async def test_who_is_invited_becomes_a_user_once(session: Session, tmp_path: Path) -> None:
    user = await joined(session)
    assert (user.name, user.roles, user.default_role) == ("anna@x.org", ("sysadmin", "useradmin"), "sysadmin")
    assert session.catalog.user("anna@x.org") == user
    assert await session.answer("LIST INVITATIONS", ROOT) == []
    (row,) = await session.answer("DESCRIBE USER 'anna@x.org'", ROOT)
    assert row[:4] == ("anna@x.org", "sysadmin, useradmin", "sysadmin", "true")
    assert await refused(session, INVITE, ROOT) == "42P07"
    assert all(PASSWORD.encode() not in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


async def test_an_invitation_is_replaced_and_revoked(session: Session) -> None:
    ((_, _, _, _, first),) = await session.answer(INVITE, ROOT)
    ((_, identifier, _, _, second),) = await session.answer(INVITE, ROOT)
    assert first is not None
    assert second is not None
    assert session.catalog.accept_invitation(first, PASSWORD) is None
    ((listed, user, roles, *_),) = await session.answer("LIST INVITATIONS", ROOT)
    assert (listed, user, roles) == (identifier, "anna@x.org", "sysadmin, useradmin")
    await session.answer(f"REVOKE INVITATION {identifier}", ROOT)
    assert session.catalog.accept_invitation(second, PASSWORD) is None
    assert await refused(session, f"REVOKE INVITATION {identifier}", ROOT) == "3D000"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("INVITE USER 'a@x' WITH ('roles' = (nobody))", "3D001"),
        ("INVITE USER 'a@x'", "3D021"),
        ("INVITE USER 'a@x' WITH ('roles' = sysadmin, 'default' = public)", "3D008"),
        ("INVITE USER 'a@x' WITH ('role' = sysadmin)", "3D008"),
    ],
)
async def test_an_invitation_that_says_nothing_of_use_is_refused(
    session: Session, text: str, state: str
) -> None:
    assert await refused(session, text, ROOT) == state


async def test_who_manages_members_gives_no_roles_and_takes_no_accounts_beyond_its_own(
    session: Session,
) -> None:
    assert await refused(session, INVITE, MANAGER) == "42501"
    await session.answer("INVITE USER 'b@x' WITH ('roles' = (public))", MANAGER)
    await joined(session)
    for text in ("ALTER USER admin SET PASSWORD 'x'", "DROP USER admin", "DROP USER 'anna@x.org'"):
        assert await refused(session, text, MANAGER) == "42501", text
    security = Principal("sam", ("securityadmin",), "securityadmin")
    await session.answer("INVITE USER 'c@x' WITH ('roles' = (sysadmin))", security)


async def test_members_see_themselves_and_managers_everybody(session: Session) -> None:
    await joined(session)
    anna = Principal("anna@x.org", ("public",), "public")
    assert [row[0] for row in await session.answer("LIST USERS", anna)] == ["anna@x.org"]
    rows = "SELECT name FROM deltastream.sys.users ORDER BY name"
    assert await session.answer(rows, anna) == [("anna@x.org",)]
    for text in ("DESCRIBE USER admin", "DESCRIBE USER nobody", "ALTER USER admin SET PASSWORD 'x'"):
        assert await refused(session, text, anna) == "3D000", "nothing tells who is there"
    assert await refused(session, "LIST INVITATIONS", anna) == "42501"
    assert await refused(session, "INVITE USER 'a@x' WITH ('roles' = (public))", anna) == "42501"
    assert [row[0] for row in await session.answer("LIST USERS", MANAGER)] == ["admin", "anna@x.org"]
    assert await session.answer(rows, MANAGER) == [("admin",), ("anna@x.org",)]


async def test_a_token_of_one_role_sets_no_password(session: Session) -> None:
    user = await joined(session)
    whole, narrow = (Principal(user.name, roles, "public", "some id") for roles in (user.roles, ("public",)))
    text = f"ALTER USER 'anna@x.org' SET PASSWORD '{PASSWORD} staple'"
    assert await refused(session, text, narrow) == "42501"
    await session.answer(text, whole)
    changed = session.catalog.user(user.name)
    assert changed is not None
    assert changed.password != user.password
    assert await refused(session, "ALTER USER 'anna@x.org' SET PASSWORD 'short'", whole) == "3D008"


async def test_the_last_administrator_stays(session: Session) -> None:
    session.catalog.ensure_administrator("the-token-of-the-start")
    assert await refused(session, "DROP USER admin", ROOT) == "2BP01"
    await joined(session, "INVITE USER 'anna@x.org' WITH ('roles' = (orgadmin))")
    await session.answer("DROP USER admin", ROOT)
    assert session.catalog.authenticate("the-token-of-the-start") is None
    anna = Principal("anna@x.org", ("orgadmin",), "orgadmin")
    assert await refused(session, "DROP USER 'anna@x.org'", anna) == "2BP01"
    assert session.catalog.ensure_administrator(None) is None
    session.catalog.ensure_administrator("locked-out")
    assert session.catalog.authenticate("locked-out") is not None, "whoever has the machine gets in"
