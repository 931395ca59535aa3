"""Tokens of profiles in the system's keyring (docs/adr/0090), if the extra `headrace[keyring]` is installed and the keyring encrypts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.profiles import Profile, ProfileError, config_file, profiles_with_tokens

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

    from headrace.runtime.doctor import Check

_ENCRYPTS = 1
"""Priority from which on a backend of the package keeps secrets as the system does: those below write files, or nothing."""


def backend() -> KeyringBackend | None:
    """Return the keyring of this session, None if there is none that encrypts."""
    try:
        import keyring

        chosen = keyring.get_keyring()
        return chosen if chosen.priority >= _ENCRYPTS else None
    except (ImportError, RuntimeError):
        # Without the extra, or a backend that the environment names does not work here.
        return None


def save(name: str, profile: Profile) -> bool:
    """Store the token of a profile; False if there is no keyring, or the keyring refuses it, such as one that stays locked."""
    chosen = backend()
    if chosen is None or profile.token is None:
        return False
    from keyring.errors import KeyringError

    try:
        chosen.set_password(_service(profile), name, profile.token)
    except KeyringError:
        return False
    return True


def token_of(name: str, profile: Profile) -> str | None:
    """Return the token of a profile, from the keyring or from the profile. Raises ProfileError if the keyring does not return it."""
    if not profile.in_keyring:
        return profile.token
    chosen, reason = backend(), "no keyring is usable in this session"
    if chosen is not None:
        from keyring.errors import KeyringError

        try:
            token = chosen.get_password(_service(profile), name)
        except KeyringError as error:
            token, reason = None, str(error) or type(error).__name__
        else:
            reason = "the keyring does not contain it"
        if token is not None:
            return token
    raise ProfileError(
        f"cannot read the token of the profile {name} from the keyring: {reason}\n"
        f"hint: Unlock the keyring, or sign in again with headrace login --profile {name}."
    )


def delete(name: str, profile: Profile) -> None:
    """Delete the token of a profile. Raises ProfileError if the keyring still has it."""
    chosen = backend()
    if chosen is None:
        if profile.in_keyring:
            raise ProfileError(
                f"cannot delete the token of the profile {name}: no keyring is usable in this session"
            )
        return
    from keyring.errors import KeyringError

    try:
        if chosen.get_password(_service(profile), name) is not None:
            chosen.delete_password(_service(profile), name)
    except KeyringError as error:
        raise ProfileError(
            f"cannot delete the token of the profile {name} from the keyring: {error}"
        ) from None


def check() -> Check:
    """Return the line of `headrace doctor`: where `headrace login` stores tokens, and which profiles have one in the file."""
    # The doctor's imports would slow down the start of every statement.
    from headrace.runtime.doctor import Check, State

    chosen, name = backend(), "Tokens of profiles"
    in_file = ", ".join(profiles_with_tokens())
    place = f"keyring ({chosen.name})" if chosen is not None else f"{config_file()}, mode 0600"
    if chosen is not None and in_file:
        fix = "Run headrace login again for these profiles."
        return Check(name, State.OPTIONAL, f"{place}; in {config_file()}: {in_file}", fix)
    fix = "To encrypt them: pip install 'headrace[keyring]', in a session with a keyring."
    return Check(name, State.OK if chosen is not None else State.OPTIONAL, place, fix)


def _service(profile: Profile) -> str:
    """Return the name under which the keyring shows the token. It contains the address, so that no other server gets the token."""
    return f"headrace {profile.url.rstrip('/')}"
