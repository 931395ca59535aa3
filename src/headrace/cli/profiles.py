"""Profiles: servers with names, in config.toml of the user's configuration, which only the user can read; tokens only without a keyring."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from headrace.core.context import SessionContext

DEFAULT = "default"
_IN_KEYRING = "keyring"
_NAMES = ("role", "database", "schema", "store", "compute_pool")


class ProfileError(Exception):
    """A profile that does not exist, or a file that cannot be used; the text contains a hint."""


@dataclass(frozen=True)
class Profile:
    """A server, the token for it unless it is `in_keyring`, and the session's names."""

    url: str
    token: str | None = field(default=None, repr=False)
    names: dict[str, str] = field(default_factory=dict)
    in_keyring: bool = False

    @property
    def context(self) -> SessionContext:
        """The session's names."""
        return SessionContext("", **self.names)

    def serves(self, url: str) -> bool:
        """True if the profile is for the server at an address."""
        return self.url.rstrip("/") == url.rstrip("/")


def config_file() -> Path:
    """Return the path of the configuration."""
    return user_config_path("headrace") / "config.toml"


def read_profile(name: str | None) -> Profile | None:
    """Return the profile of that name; without a name, the default profile or None. Raises ProfileError."""
    profiles = _read().get("profiles", {})
    if name is None and DEFAULT not in profiles:
        return None
    chosen = _profile(profiles.get(name or DEFAULT))
    if chosen is None:
        known = ", ".join(sorted(profiles)) or "none"
        raise ProfileError(
            f"expected a profile {name or DEFAULT} with a url in {config_file()}, found {known}\n"
            f"hint: headrace login --profile {name or DEFAULT} --url URL creates it."
        )
    return chosen


def find_profile(name: str) -> Profile | None:
    """Return the profile of that name, None if there is none. Raises ProfileError for a file that cannot be used."""
    return _profile(_read().get("profiles", {}).get(name))


def _profile(given: Any) -> Profile | None:
    if not isinstance(given, dict) or not isinstance(given.get("url"), str):
        return None
    names = {key: str(given[key]) for key in _NAMES if key in given}
    token = given.get("token")
    in_keyring = given.get(_IN_KEYRING) is True
    return Profile(given["url"], str(token) if token is not None else None, names, in_keyring)


def profiles_with_tokens() -> list[str]:
    """Return the names of the profiles whose tokens are in the file; empty for a file that cannot be used."""
    try:
        return sorted(name for name, given in _read().get("profiles", {}).items() if "token" in given)
    except ProfileError:
        return []


def save_profile(name: str, profile: Profile) -> None:
    """Write a profile, in place of an earlier one of that name; other profiles stay. Raises ProfileError, OSError."""
    content = _read()
    entry: dict[str, str | bool] = {"url": profile.url, **profile.names}
    if profile.in_keyring:
        entry[_IN_KEYRING] = True
    elif profile.token:
        entry["token"] = profile.token
    content.setdefault("profiles", {})[name] = entry
    file = config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        for title, values in content["profiles"].items():
            out.write(f"[profiles.{json.dumps(title, ensure_ascii=False)}]\n")
            out.writelines(
                f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()
            )
            out.write("\n")
    draft.replace(file)


def _read() -> dict[str, Any]:
    file = config_file()
    try:
        if file.stat().st_mode & 0o077:
            raise ProfileError(f"other users can read {file}, which contains tokens\nhint: chmod 600 {file}")
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"cannot read {file}: {error}") from None
