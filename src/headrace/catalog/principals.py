"""Users, their roles, and their API tokens, which are stored only as digests (docs/adr/0028)."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import delete, insert, select, update

from headrace.catalog import tables
from headrace.catalog.access import BUILT_IN_ROLES, PUBLIC
from headrace.catalog.kinds.role import ROLE
from headrace.catalog.objects import ApiToken, Invitation, Members, Principal, User
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage
from headrace.catalog.times import micros, moment, present
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

ADMINISTRATOR = "admin"
ADMINISTRATOR_TOKEN = "administrator"  # noqa: S105 - its name
Seal = Callable[[str, str, str], bytes | None]
"""Returns the encrypted verifier of a secret, by the label to encrypt it for, the user's name and the secret; None without SCRAM."""

PREFIX = "hrt_"
"""What a token begins with: whoever looks for leaked ones finds them by it."""


def read(storage: Storage) -> Members:
    """Return all members with their existing roles."""
    is_role = tables.objects.c.kind == ROLE.kind
    roles = {row["id"]: row["name"] for row in storage.rows(select(tables.objects).where(is_role))}
    held: dict[str, list[str]] = defaultdict(list)
    for row in storage.rows(select(tables.user_roles)):
        held[row["user_id"]].append(roles[row["role_id"]])
    users = {
        row["id"]: User(
            row["name"],
            tuple(sorted(held[row["id"]])),
            row["default_role"],
            moment(row["created_at"]),
            row["password"],
            json.loads(row["defaults"]),
            row["scram"],
            id=row["id"],
        )
        for row in storage.rows(select(tables.users))
    }
    tokens = {
        row["digest"]: ApiToken(
            row["name"],
            users[row["user_id"]].name,
            roles[row["role_id"]] if row["role_id"] is not None else None,
            moment(row["created_at"]),
            moment(row["updated_at"]),
            moment(row["expires_at"]) if row["expires_at"] is not None else None,
            row["parent"],
            row["scram"],
            id=row["id"],
        )
        for row in storage.rows(select(tables.tokens))
    }
    invitations = {
        row["digest"]: Invitation(
            row["user_name"],
            tuple(roles[role] for role in json.loads(row["roles"]) if role in roles) or (PUBLIC,),
            roles.get(row["default_role"], PUBLIC),
            row["invited_by"],
            moment(row["created_at"]),
            moment(row["expires_at"]),
            id=row["id"],
        )
        for row in storage.rows(select(tables.invitations))
    }
    return Members({user.name: user for user in users.values()}, tokens, invitations)


def seed(storage: Storage) -> None:
    """Create the first user, with every built-in role; the roles must exist."""
    _insert_user(storage, User(ADMINISTRATOR, BUILT_IN_ROLES, "sysadmin", moment(present())))


def ensure_administrator(storage: Storage, token: str | None, seal: Seal) -> str | None:
    """See `Catalog.ensure_administrator`."""
    with storage.transaction():
        created = None
        if token is None:
            if _administrators(storage.state.members) or storage.state.members.tokens:
                return None
            token = created = new_token()
        if ADMINISTRATOR not in storage.state.members.users:
            seed(storage)
            reread(storage)
        now = moment(present())
        replacing = ApiToken(ADMINISTRATOR_TOKEN, ADMINISTRATOR, None, now, now)
        before = token_named(storage.state.members, ADMINISTRATOR_TOKEN, ADMINISTRATOR)
        if before is not None and before == storage.state.members.tokens.get(digest(token)):
            # The tokens that were made with it live on.
            return None
        if before is not None:
            drop_token(storage, before)
        create_token(storage, replacing, token, seal)
        return created


def new_token() -> str:
    """Return a random token of 256 bits."""
    return PREFIX + secrets.token_urlsafe(32)


def new_code() -> str:
    """Return a random invitation code of 256 bits."""
    return "hri_" + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Return the stored digest of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def authenticate(state: CatalogState, token: str) -> Principal | None:
    """Return the principal of a token, None for an unknown or expired one."""
    stored = state.members.tokens.get(digest(token))
    return principal_of(state, stored) if stored is not None else None


def ended(state: CatalogState, principal: Principal) -> str | None:
    """Return why the credential of `principal` is no longer valid; None while it is."""
    if principal.token is None:
        return None
    stored = next((token for token in state.members.tokens.values() if token.id == principal.token), None)
    if stored is None:
        return "the API token was dropped"
    if stored.has_expired():
        return f"the API token {stored.name!r} has expired"
    now = principal_of(state, stored)
    if now is None or not state.graph.roles_of(now) >= set(principal.roles):
        return f"the roles of the user {stored.user!r} were changed"
    return None


def by_password(now: User | None, then: User) -> Principal | None:
    """Return the principal of a user who signed in with a password; None if the user or the password has changed since."""
    if now is None or (now.id, now.password) != (then.id, then.password):
        return None
    return Principal(now.name, now.roles, now.default_role, credential="password")


def principal_of(state: CatalogState, token: ApiToken) -> Principal | None:
    """Return the principal of a token, None if its user no longer holds the token's role."""
    user = state.members.users[token.user]
    holder = Principal(user.name, user.roles, user.default_role, token.id, credential=token.credential)
    if token.has_expired():
        return None
    if token.role is None:
        return holder
    role = state.get(ROLE, (token.role,))
    if role is None or not state.graph.commands(holder, role):
        return None
    return replace(holder, roles=(role.name,), default_role=role.name)


# --- users


def create_invitation(storage: Storage, invitation: Invitation, code: str) -> None:
    """Store an invitation in place of an earlier one of the same user. Raises UserError 42P07 when the user exists."""
    table = tables.invitations
    with storage.transaction():
        _refuse_known(storage, invitation.user)
        storage.execute(delete(table).where(table.c.user_name == invitation.user))
        values = {
            "id": invitation.id,
            "digest": digest(code),
            "user_name": invitation.user,
            "roles": json.dumps([*map(storage.state.role_id, invitation.roles)]),
            "default_role": storage.state.role_id(invitation.default_role),
            "invited_by": invitation.invited_by,
            "created_at": micros(invitation.created_at),
            "expires_at": micros(invitation.expires_at),
        }
        storage.execute(insert(table).values(values))
        reread(storage)


def drop_invitation(storage: Storage, invitation: Invitation) -> None:
    """Withdraw an invitation: its code ends."""
    with storage.transaction():
        storage.execute(delete(tables.invitations).where(tables.invitations.c.id == invitation.id))
        reread(storage)


def accept_invitation(
    storage: Storage, code: str, password: str, scram: Callable[[str], bytes | None]
) -> User | None:
    """Create the user of the invitation with that code, with the hash of a password, and return it; None for an unknown or expired code.
    `scram` returns the encrypted verifier of the password of a user name."""
    with storage.transaction():
        invitation = storage.state.members.invitations.get(digest(code))
        if invitation is None or invitation.has_expired():
            return None
        drop_invitation(storage, invitation)
        created = User(
            invitation.user,
            invitation.roles,
            invitation.default_role,
            moment(present()),
            password,
            scram=scram(invitation.user),
        )
        return create_user(storage, created)


def create_user(storage: Storage, user: User) -> User:
    """Store a user and return it."""
    with storage.transaction():
        _insert_user(storage, user)
        reread(storage)
        return user


def set_password(storage: Storage, user: User, password: str, scram: bytes | None) -> None:
    """Set the hash of a password and its encrypted verifier; sessions that used the earlier password end."""
    _change_user(storage, user.name, password=password, scram=scram)


def set_default_role(storage: Storage, name: str, role: str) -> None:
    """Set the default role of the user's sessions."""
    _change_user(storage, name, default_role=role)


def set_defaults(storage: Storage, name: str, ids: Mapping[str, str | None]) -> None:
    """Set the defaults of the user's sessions, ids by kinds; None for no default of the kind."""
    with storage.transaction():
        known = storage.state.members.users[name].defaults
        given = {kind: identifier for kind, identifier in {**known, **ids}.items() if identifier is not None}
        _change_user(storage, name, defaults=json.dumps(given))


def _change_user(storage: Storage, name: str, **values: str | bytes | None) -> None:
    with storage.transaction():
        storage.execute(update(tables.users).where(tables.users.c.name == name).values(**values))
        reread(storage)


def drop_user(storage: Storage, user: User) -> None:
    """Drop a user with the user's API tokens. Raises UserError 2BP01 for the last one who can sign in and holds orgadmin."""
    with storage.transaction():
        if _administrators(storage.state.members) == {user.name}:
            raise UserError(
                SqlState.DEPENDENT_OBJECTS_EXIST,
                f"{user.name!r} is the last user who can sign in and has the role orgadmin",
                hint="Invite another administrator first.",
            )
        storage.execute(delete(tables.users).where(tables.users.c.name == user.name))
        reread(storage)


def _administrators(members: Members) -> set[str]:
    """Return the names of users who hold orgadmin and can sign in for good: with a password, or a token with every role and no expiry."""
    lasting = {
        token.user for token in members.tokens.values() if token.role is None and token.expires_at is None
    }
    return {
        user.name
        for user in members.users.values()
        if "orgadmin" in user.roles and (user.password is not None or user.name in lasting)
    }


def _insert_user(storage: Storage, user: User) -> None:
    names = ("id", "name", "default_role", "password", "scram")
    values = {name: getattr(user, name) for name in names}
    storage.execute(insert(tables.users).values(**values, created_at=micros(user.created_at)))
    for role in user.roles:
        values = {"user_id": user.id, "role_id": storage.state.role_id(role)}
        storage.execute(insert(tables.user_roles).values(values))


def _refuse_known(storage: Storage, name: str) -> None:
    if name in storage.state.members.users:
        raise UserError(
            SqlState.DUPLICATE_USER,
            f"the user {name!r} is already a member",
            hint="GRANT ROLE … TO USER grants another role.",
        )


# --- API tokens


def token_named(members: Members, name: str, user: str) -> ApiToken | None:
    """Return the API token of a user that has that name, or None."""
    return next(
        (token for token in members.tokens.values() if (token.name, token.user) == (name, user)), None
    )


def create_token(storage: Storage, token: ApiToken, secret: str, seal: Seal) -> None:
    """Store a token. Raises UserError 42P09 when the user has a token of that name."""
    # Before the transaction: a verifier takes a tenth of a second.
    changing = _changing(token, secret, seal)
    with storage.transaction():
        if token_named(storage.state.members, token.name, token.user) is not None:
            raise UserError(
                SqlState.DUPLICATE_API_TOKEN,
                f"the API token {token.name!r} already exists",
                hint="Choose another name; ALTER API_TOKEN renews the token of an existing name.",
            )
        values = {
            "id": token.id,
            "name": token.name,
            "user_id": storage.state.members.users[token.user].id,
            "role_id": storage.state.role_id(token.role) if token.role is not None else None,
            "parent": token.parent,
        }
        storage.execute(
            insert(tables.tokens).values(**values, created_at=micros(token.created_at), **changing)
        )
        reread(storage)


def renew_token(storage: Storage, token: ApiToken, secret: str, seal: Seal) -> None:
    """Renew a token with a new secret and the expiry of `token`; the earlier secret and the tokens made with it end."""
    changing = _changing(token, secret, seal)
    with storage.transaction():
        known = tables.tokens.c.id == token.id
        storage.execute(delete(tables.tokens).where(tables.tokens.c.parent == token.id))
        storage.execute(update(tables.tokens).where(known).values(changing))
        reread(storage)


def drop_token(storage: Storage, token: ApiToken) -> None:
    """Drop a token with the tokens made with it; their sessions end."""
    with storage.transaction():
        storage.execute(delete(tables.tokens).where(tables.tokens.c.id == token.id))
        reread(storage)


def _changing(token: ApiToken, secret: str, seal: Seal) -> dict[str, Any]:
    end = micros(token.expires_at) if token.expires_at is not None else None
    return {
        "digest": digest(secret),
        "updated_at": micros(token.updated_at),
        "expires_at": end,
        "scram": seal(token.id, token.user, secret),
    }


def reread(storage: Storage) -> None:
    storage.put(replace(storage.state, members=read(storage)))
