"""API tokens: bound to a role, shown once, good until they expire or are dropped."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from harness.session import Session
from headrace.catalog.objects import ApiToken, Principal
from headrace.catalog.worksheets import WorksheetContent
from headrace.core.errors import UserError

ROOT = Principal("admin", ("orgadmin",), "orgadmin")
CREATE = "CREATE API_TOKEN ci WITH ('token.role_name' = useradmin)"


async def token_of(session: Session, text: str, principal: Principal = ROOT) -> str:
    ((kind, name, _command, summary, token),) = await session.answer(text, principal)
    assert (kind, name) == ("api_token", text.split()[2])
    assert token is not None
    assert summary is not None
    assert token not in summary
    return token


def kept_token(session: Session, name: str, user: str = "admin") -> ApiToken | None:
    known = session.catalog.api_tokens()
    return next((token for token in known if (token.name, token.user) == (name, user)), None)


async def signed_in(session: Session, text: str, principal: Principal = ROOT) -> Principal:
    """Return the principal of the token that a statement creates."""
    authenticated = session.catalog.authenticate(await token_of(session, text, principal))
    assert authenticated is not None
    return authenticated


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
    kept = kept_token(session, "ci")
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
    known = kept_token(session, "ci")
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
    known = kept_token(session, "short")
    assert known is not None
    principal = Principal("admin", ("useradmin",), "useradmin", known.id)
    assert (
        await refused(session, "CREATE API_TOKEN up WITH ('token.role_name' = orgadmin)", principal)
        == "42501"
    )
    await session.answer("CREATE API_TOKEN long WITH ('token.role_name' = public)", principal)
    made = kept_token(session, "long")
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


async def test_a_token_of_one_role_has_no_more_of_its_user_than_that_role(session: Session) -> None:
    weak = await signed_in(session, "CREATE API_TOKEN weak WITH ('token.role_name' = public)")
    await token_of(session, CREATE)
    session.catalog.ensure_administrator("of-the-administrator")
    assert [row[0] for row in await session.answer("LIST API_TOKENS", weak)] == ["weak"]
    for name in ("ci", "administrator"):
        for verb in ("DROP", "ALTER", "DESCRIBE"):
            assert await refused(session, f"{verb} API_TOKEN {name}", weak) == "3D012"
    for text in (
        "SET DEFAULT ROLE public",
        "SET DEFAULT COMPUTE_POOL default_pool",
        "ALTER USER admin SET PASSWORD 'correct horse battery'",
    ):
        assert await refused(session, text, weak) == "42501", text
    everything = session.catalog.authenticate("of-the-administrator")
    assert everything is not None
    await session.answer("SET DEFAULT ROLE sysadmin", everything)
    await session.answer("DROP API_TOKEN weak", weak)
    assert session.catalog.ended(weak) == "the API token was dropped"


async def test_a_token_of_one_role_has_worksheets_of_its_own(session: Session) -> None:
    limited = await signed_in(session, CREATE)
    for principal, name in ((ROOT, "of all roles"), (limited, "of one role")):
        content = WorksheetContent(name, "SELECT 1", database="shop")
        session.catalog.worksheets.save(principal, str(uuid.uuid4()), content, is_open=True, seen=0)
    text = "SELECT name, text, database_name, version FROM deltastream.sys.worksheets"
    assert await session.answer(text, ROOT) == [("of all roles", "SELECT 1", "shop", "1")]
    assert await session.answer(text, limited) == [("of one role", "SELECT 1", "shop", "1")]
    assert await session.answer(text, Principal("nobody", ("orgadmin",), "orgadmin")) == []


async def test_a_user_reads_the_own_statements_and_a_token_of_one_role_those_of_the_role(
    session: Session,
) -> None:
    limited = await signed_in(session, CREATE)
    await session.answer("LIST STORES", limited)
    await session.answer("LIST ROLES", Principal("nobody", ("orgadmin",), "orgadmin"))
    text = "SELECT role_name, statement, outcome FROM deltastream.sys.statements WHERE outcome = 'allowed' ORDER BY id DESC LIMIT 9"
    of_the_role = await session.answer(text, limited)
    assert of_the_role[0] == (limited.default_role, "LIST STORES", "allowed")
    assert {role for role, *_ in of_the_role} == {limited.default_role}
    of_the_user = await session.answer(text, ROOT)
    assert of_the_user[:2] == [(limited.default_role, text, "allowed"), of_the_role[0]]
    assert not [row for row in of_the_user if row[1] == "LIST ROLES"]
    refused = "SELECT sqlstate, role_name FROM deltastream.sys.statements WHERE role_name = 'sysadmin'"
    assert await session.answer(refused, limited) == []


@pytest.mark.parametrize("end", ["DROP API_TOKEN parent", "ALTER API_TOKEN parent", "DROP ROLE below"])
async def test_what_a_token_made_ends_with_it(session: Session, end: str) -> None:
    await session.answer("CREATE ROLE below", ROOT)
    await session.answer("GRANT ROLE below TO USER admin", ROOT)
    holder = Principal("admin", ("below",), "below")
    parent = await signed_in(session, "CREATE API_TOKEN parent WITH ('token.role_name' = below)", holder)
    child = await signed_in(session, "CREATE API_TOKEN child WITH ('token.role_name' = public)", parent)
    grandchild = await signed_in(session, "CREATE API_TOKEN grand WITH ('token.role_name' = public)", child)
    other = await signed_in(session, "CREATE API_TOKEN other WITH ('token.role_name' = public)")
    await session.answer("ALTER API_TOKEN grand WITH ('token.expires_in_days' = 3650)", ROOT)
    assert kept_token(session, "grand").expires_at == kept_token(session, "child").expires_at  # type: ignore[union-attr]
    made_with = "SELECT name FROM deltastream.sys.api_tokens WHERE made_with = '{}'"
    assert await session.answer(made_with.format(parent.token), ROOT) == [("child",)]
    await session.answer(end, ROOT)
    assert [token.name for token in session.catalog.api_tokens() if token.name != "parent"] == ["other"]
    for principal in (child, grandchild):
        assert session.catalog.ended(principal) == "the API token was dropped"
    assert session.catalog.ended(other) is None


async def test_a_later_role_of_the_same_name_is_another_role(session: Session) -> None:
    for text in ("CREATE ROLE r", "GRANT ROLE r TO USER admin", "GRANT USAGE ON STORE k TO ROLE r"):
        await session.answer(text, ROOT)
    token = await token_of(
        session, "CREATE API_TOKEN t WITH ('token.role_name' = r)", Principal("admin", ("r",), "r")
    )
    invite = "INVITE USER 'anna@x.org' WITH ('roles' = (r, useradmin), 'default' = r)"
    ((*_, code),) = await session.answer(invite, ROOT)
    for text in ("DROP ROLE r", "CREATE ROLE r", "GRANT ROLE r TO USER admin"):
        await session.answer(text, ROOT)
    assert session.catalog.authenticate(token) is None
    assert await session.answer("LIST STORES", Principal("admin", ("r",), "r")) == []
    anna = session.catalog.accept_invitation(str(code), "correct horse battery")
    assert anna is not None
    assert (anna.roles, anna.default_role) == (("useradmin",), "public")


async def test_a_roles_owner_makes_tokens_for_it_as_long_as_it_owns_it(session: Session) -> None:
    for text in (
        "CREATE ROLE team",
        "GRANT MANAGE_MEMBERS ON ORGANIZATION TO ROLE team",
        "GRANT ROLE team TO USER admin",
    ):
        await session.answer(text, ROOT)
    team = Principal("admin", ("team",), "team")
    await session.answer("CREATE ROLE loader", team)
    loader = await signed_in(session, "CREATE API_TOKEN nightly WITH ('token.role_name' = loader)", team)
    assert loader.roles == ("loader",)
    assert session.catalog.ended(loader) is None
    stranger = Principal("anna", ("sysadmin",), "sysadmin")
    assert await refused(session, "CREATE API_TOKEN x WITH ('token.role_name' = loader)", stranger) == "42501"
    await session.answer("REVOKE ROLE team FROM USER admin", ROOT)
    assert session.catalog.ended(loader) == "the roles of the user 'admin' were changed"


async def test_names_of_tokens_are_their_users_own(session: Session) -> None:
    await token_of(session, CREATE)
    for user in ("anna@x.org", "ben@x.org"):
        invite = f"INVITE USER '{user}' WITH ('roles' = (useradmin))"
        ((*_, code),) = await session.answer(invite, ROOT)
        assert session.catalog.accept_invitation(str(code), "correct horse battery")
        await token_of(session, CREATE, Principal(user, ("useradmin",), "useradmin"))
    assert await refused(session, CREATE, ROOT) == "42P09"
    (row,) = await session.answer(
        "DESCRIBE API_TOKEN ci", Principal("ben@x.org", ("useradmin",), "useradmin")
    )
    assert row[2] == "ben@x.org"
    await session.answer("DROP API_TOKEN ci", ROOT)
    assert await refused(session, "DROP API_TOKEN ci", ROOT) == "3D012", "two others have one"
    anna = kept_token(session, "ci", "anna@x.org")
    assert anna is not None
    await session.answer(f'DROP API_TOKEN "{anna.id}"', ROOT)
    await session.answer("DROP API_TOKEN ci", ROOT)
    assert session.catalog.api_tokens() == []


async def test_setting_the_administrators_token_again_ends_nothing(session: Session) -> None:
    session.catalog.ensure_administrator("first")
    administrator = session.catalog.authenticate("first")
    assert administrator is not None
    made = await signed_in(session, CREATE, administrator)
    session.catalog.ensure_administrator("first")
    assert session.catalog.ended(made) is None
    session.catalog.ensure_administrator("second")
    assert session.catalog.ended(made) == "the API token was dropped", "the first may have leaked"
