"""Users as an identity provider knows them: who may become one, and which roles its groups give and take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.catalog import grants, principals
from headrace.catalog.access import PUBLIC
from headrace.catalog.kinds.role import ROLE
from headrace.catalog.objects import User
from headrace.catalog.storage import Storage
from headrace.catalog.times import moment, present
from headrace.core.errors import UserError


@dataclass(frozen=True)
class Admitted:
    """A user after the provider's groups were applied: granted roles, revoked roles, and roles that could not be changed."""

    user: User
    given: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def admit(storage: Storage, name: str, roles: Mapping[str, bool], *, create: bool) -> Admitted | None:
    """Return the existing or invited user of that name, or with `create` a new one; None otherwise.

    `roles` maps each role that groups control to whether a group grants it. The user's other roles do not change.
    """
    with storage.transaction():
        user = _user(storage, name, create=create)
        if user is None:
            return None
        changed: dict[str, list[str]] = {"given": [], "taken": [], "left": []}
        for role, held in roles.items():
            if held is (role in user.roles):
                continue
            try:
                if storage.state.get(ROLE, (role,)) is None:
                    changed["left"].append(role)
                elif held:
                    grants.grant_to_user(storage, role, name)
                    changed["given"].append(role)
                else:
                    grants.revoke_from_user(storage, role, name)
                    changed["taken"].append(role)
            except UserError:
                # The last orgadmin keeps it.
                changed["left"].append(role)
        user = storage.state.members.users[name]
        if user.default_role == PUBLIC and changed["given"]:
            user = replace(user, default_role=changed["given"][0])
            principals.set_default_role(storage, user.name, user.default_role)
        return Admitted(user, **{word: tuple(names) for word, names in changed.items()})


def _user(storage: Storage, name: str, *, create: bool) -> User | None:
    members = storage.state.members
    if name in members.users:
        return members.users[name]
    invitations = (item for item in members.invitations.values() if item.user == name)
    invited = next((item for item in invitations if not item.has_expired()), None)
    if invited is not None:
        principals.drop_invitation(storage, invited)
        return principals.create_user(
            storage, User(name, invited.roles, invited.default_role, moment(present()))
        )
    return (
        principals.create_user(storage, User(name, (PUBLIC,), PUBLIC, moment(present()))) if create else None
    )
