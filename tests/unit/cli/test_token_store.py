"""Tokens of profiles in a keyring, and in the file where there is none."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
import typer
from keyring.backend import KeyringBackend
from keyring.backends import fail
from keyring.errors import KeyringLocked, PasswordDeleteError

from headrace.cli import token_store
from headrace.cli.commands import _save, _server, logout
from headrace.cli.profiles import Profile, ProfileError, config_file, read_profile
from headrace.runtime.doctor import State


class Memory(KeyringBackend):
    """Keyring in memory, which can be locked."""

    priority = 5

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self._refuse_locked()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._refuse_locked()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._refuse_locked()
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("not there")

    def _refuse_locked(self) -> None:
        if self.is_locked:
            raise KeyringLocked("the keyring is locked")


class Plain(Memory):
    """Backend that stores texts in a file."""

    priority = 0.5


for _backend in (Memory, Plain):
    # The package chooses among all classes that exist: other tests must not get these.
    KeyringBackend._classes.discard(_backend)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def ring() -> Iterator[Memory]:
    before, ring = keyring.get_keyring(), Memory()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def saved(name: str) -> dict[str, object]:
    return dict(tomllib.loads(config_file().read_text())["profiles"][name])


def token(name: str | None, folder: Path) -> str:
    return _server(None, None, folder, name).token


def test_a_token_is_in_the_keyring_and_not_in_the_file(ring: Memory, tmp_path: Path) -> None:
    _save("prod", Profile("https://prod/", "secret 1", {"database": "shop"}), keyring=True)
    assert ring.kept == {("headrace https://prod", "prod"): "secret 1"}
    assert saved("prod") == {"url": "https://prod/", "database": "shop", "keyring": True}
    assert config_file().stat().st_mode & 0o777 == 0o600
    assert token("prod", tmp_path) == "secret 1"
    check = token_store.check()
    assert (check.state, "Memory" in check.actual) == (State.OK, True)
    _save("prod", Profile("https://prod", "secret 1b"), keyring=True)
    assert token("prod", tmp_path) == "secret 1b"
    # The token of a server that the profile no longer names is deleted.
    _save("prod", Profile("https://other", "secret 2"), keyring=True)
    assert ring.kept == {("headrace https://other", "prod"): "secret 2"}
    _save("prod", Profile("https://other", "secret 3"), keyring=False)
    assert ring.kept == {}
    assert saved("prod") == {"url": "https://other", "token": "secret 3"}
    check = token_store.check()
    assert (check.state, check.actual.endswith(": prod")) == (State.OPTIONAL, True)


@pytest.mark.usefixtures("ring")
def test_a_profile_that_was_moved_to_another_server_has_no_token(tmp_path: Path) -> None:
    _save("prod", Profile("https://prod", "secret"), keyring=True)
    config_file().write_text(config_file().read_text().replace("https://prod", "https://evil"))
    config_file().chmod(0o600)
    profile = read_profile("prod")
    assert profile is not None
    with pytest.raises(ProfileError, match="does not contain it"):
        token_store.token_of("prod", profile)
    assert _server(None, "given", tmp_path, "prod").token == "given"


@pytest.mark.parametrize("in_keyring", [True, False])
def test_logout_deletes_the_token_from_both(ring: Memory, in_keyring: bool) -> None:
    _save("default", Profile("https://a", "secret", {"role": "r"}), keyring=in_keyring)
    _save("other", Profile("https://a", "kept"), keyring=True)
    # One that an earlier login stored and that the file no longer names.
    ring.kept["headrace https://a", "default"] = "secret"
    logout(profile="default")
    assert saved("default") == {"url": "https://a", "role": "r"}
    assert ring.kept == {("headrace https://a", "other"): "kept"}


def test_a_locked_keyring_is_reported_and_a_new_token_is_in_the_file(
    ring: Memory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _save("default", Profile("https://a", "secret 1"), keyring=True)
    ring.is_locked = True
    with pytest.raises(typer.Exit) as ended:
        _server(None, None, tmp_path, None)
    assert ended.value.exit_code == 2
    assert "the keyring is locked" in capsys.readouterr().err
    with pytest.raises(typer.Exit) as ended:
        logout(profile="default")
    assert ended.value.exit_code == 1
    assert saved("default") == {"url": "https://a", "keyring": True}
    _save("new", Profile("https://a", "secret 2"), keyring=True)
    assert saved("new") == {"url": "https://a", "token": "secret 2"}


def test_without_a_keyring_that_encrypts_the_file_has_the_token(tmp_path: Path) -> None:
    before = keyring.get_keyring()
    for useless in (fail.Keyring(), Plain()):
        keyring.set_keyring(useless)
        try:
            _save("default", Profile("https://a", "secret"), keyring=True)
            assert token(None, tmp_path) == "secret"
            assert saved("default") == {"url": "https://a", "token": "secret"}
            check = token_store.check()
            assert (check.state, "0600" in check.actual) == (State.OPTIONAL, True)
            logout(profile="default")
            assert saved("default") == {"url": "https://a"}
        finally:
            keyring.set_keyring(before)
