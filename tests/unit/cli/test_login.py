"""headrace login with a password, over the real catalog and its sign-in."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.session import Session, open_session
from headrace.catalog.objects import Invitation
from headrace.cli import profiles
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.cli.test_command_line import Ended, headrace
from tests.unit.server.scripted import serving

PASSWORD = "correct horse battery"
NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
async def session(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Session]:
    monkeypatch.setattr(profiles, "user_config_path", lambda _name: tmp_path / "config")
    async with open_session(tmp_path / "data") as opened:
        catalog = opened.catalog
        end = NOW + datetime.timedelta(days=1)
        invited = Invitation("anna@x.org", ("sysadmin", "public"), "sysadmin", "admin", NOW, end)
        assert catalog.accept_invitation(catalog.create_invitation(invited), PASSWORD)
        parts = ServerParts(
            Settings(data_dir=tmp_path / "data"),
            opened.service,
            catalog.authenticate,
            ended=catalog.ended,
            accounts=catalog,
        )
        async with serving(create_app(parts), port):
            yield opened


async def login(port: int, password: str, *more: str) -> Ended:
    options = ("--user", "anna@x.org", "--profile", "p", "--no-keyring", *more)
    return await headrace(f"127.0.0.1:{port}", "login", *options, stdin=f"{password}\n", token=None)


def saved(folder: Path) -> dict[str, str]:
    content: dict[str, str] = tomllib.loads((folder / "config" / "config.toml").read_text())["profiles"]["p"]
    return content


async def test_a_password_creates_a_token_and_is_not_saved(
    session: Session, port: int, tmp_path: Path
) -> None:
    ended = await login(port, PASSWORD)
    assert ended.code == 0, ended.err
    first = saved(tmp_path)["token"]
    principal = session.catalog.authenticate(first)
    assert principal is not None
    assert (principal.user, principal.roles) == ("anna@x.org", ("sysadmin",))
    assert PASSWORD not in (tmp_path / "config" / "config.toml").read_text()
    # The next login on this machine replaces the token, and may choose another role.
    assert (await login(port, PASSWORD, "--role", "public")).code == 0
    assert session.catalog.authenticate(first) is None
    principal = session.catalog.authenticate(saved(tmp_path)["token"])
    assert principal is not None
    assert principal.roles == ("public",)
    assert len(session.catalog.api_tokens()) == 1


async def test_a_wrong_password_saves_nothing(session: Session, port: int, tmp_path: Path) -> None:
    ended = await login(port, "wrong")
    assert ended.code == 4
    assert "the user or the password is wrong" in ended.err
    assert not (tmp_path / "config").exists()
    assert session.catalog.api_tokens() == []
