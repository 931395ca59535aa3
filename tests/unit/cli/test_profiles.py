"""Profiles: a file that only the user can read, and whose tokens go to their own servers only."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from headrace.cli.commands import _server
from headrace.cli.profiles import Profile, ProfileError, config_file, read_profile, save_profile


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_profiles_are_read_as_they_were_saved() -> None:
    assert read_profile(None) is None
    save_profile("default", Profile("http://a", 'secret "1"', {"database": "shop"}))
    save_profile("prod é", Profile("https://b"))
    save_profile("default", Profile("http://a", "secret 2", {"role": "r"}))
    assert read_profile(None) == Profile("http://a", "secret 2", {"role": "r"})
    assert read_profile("prod é") == Profile("https://b")
    assert config_file().stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(read_profile(None))


def test_a_missing_profile_and_a_file_of_everybody_are_refused() -> None:
    with pytest.raises(ProfileError, match="headrace login --profile prod"):
        read_profile("prod")
    save_profile("default", Profile("http://a", "t"))
    config_file().chmod(0o644)
    with pytest.raises(ProfileError, match="chmod 600"):
        read_profile(None)
    config_file().chmod(0o600)
    config_file().write_text("[profiles")
    with pytest.raises(ProfileError, match="cannot read"):
        read_profile(None)


def test_a_profile_s_token_goes_to_its_own_server_only(tmp_path: Path) -> None:
    save_profile("prod", Profile("https://prod:443/", "secret", {"database": "shop"}))
    server = _server(None, None, tmp_path, "prod")
    assert (server.url, server.token) == ("https://prod:443/", "secret")
    assert server.context is not None
    assert server.context.database == "shop"
    assert _server(None, "other", tmp_path, "prod").token == "other"
    assert _server("https://prod:443", None, tmp_path, "prod").token == "secret"
    with pytest.raises(typer.Exit):
        _server("https://elsewhere", None, tmp_path, "prod")
