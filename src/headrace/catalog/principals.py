"""Users, the roles that they hold, and their API tokens, of which only digests are kept (docs/adr/0028)."""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from dataclasses import replace
from typing import Any

from sqlalchemy import delete, insert, select, update

from headrace.catalog import tables
from headrace.catalog.access import BUILT_IN_ROLES
from headrace.catalog.objects import ApiToken, Members, Principal, User
from headrace.catalog.policy import RoleGraph
from headrace.catalog.storage import Storage
from headrace.catalog.times import micros, moment, present
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

ADMINISTRATOR = "admin"
ADMINISTRATOR_TOKEN = "administrator"  # noqa: S105 - its name
PREFIX = "hrt_"
"""What a token begins with: whoever looks for leaked ones finds them by it."""


def read(storage: Storage) -> Members:
    """All of them."""
    held: dict[str, list[str]] = defaultdict(list)
    for row in storage.rows(select(tables.user_roles)):
        held[row["user_name"]].append(row["role"])
    users = {
        row["name"]: User(
            row["name"], tuple(sorted(held[row["name"]])), row["default_role"], moment(row["created_at"])
        )
        for row in storage.rows(select(tables.users))
    }
    tokens = {
        row["digest"]: ApiToken(
            row["name"],
            row["user_name"],
            row["role"],
            moment(row["created_at"]),
            moment(row["updated_at"]),
            moment(row["expires_at"]) if row["expires_at"] is not None else None,
            id=row["id"],
        )
        for row in storage.rows(select(tables.tokens))
    }
    return Members(users, tokens)


def seed(storage: Storage) -> None:
    """The first user, with every built-in role."""
    values = {"name": ADMINISTRATOR, "default_role": "sysadmin", "created_at": present()}
    storage.execute(insert(tables.users).values(values))
    held = [{"user_name": ADMINISTRATOR, "role": role} for role in BUILT_IN_ROLES]
    for row in held:
        storage.execute(insert(tables.user_roles).values(row))


def ensure_administrator(storage: Storage, token: str | None) -> str | None:
    """See `Catalog.ensure_administrator`."""
    with storage.transaction():
        made = None
        if token is None:
            if storage.state.members.tokens:
                return None
            token = made = new_token()
        before = token_named(storage.state.members, ADMINISTRATOR_TOKEN)
        if before is not None:
            drop_token(storage, before)
        now = moment(present())
        create_token(storage, ApiToken(ADMINISTRATOR_TOKEN, ADMINISTRATOR, None, now, now), token)
        return made


def new_token() -> str:
    """A random one, of 256 bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def authenticate(members: Members, graph: RoleGraph, token: str) -> Principal | None:
    """Whose token it is, None when it is none, or none any more."""
    found = members.tokens.get(digest(token))
    return _principal(members, graph, found) if found is not None else None


def ended(members: Members, graph: RoleGraph, principal: Principal) -> str | None:
    """Why what `principal` signed in with is good no longer; None while it is."""
    if principal.token is None:
        return None
    found = next((token for token in members.tokens.values() if token.id == principal.token), None)
    if found is None:
        return "the API token was dropped"
    if found.has_expired():
        return f"the API token {found.name!r} has expired"
    now = _principal(members, graph, found)
    if now is None or not graph.roles_of(now) >= set(principal.roles):
        return f"the roles of the user {found.user!r} were changed"
    return None


def _principal(members: Members, graph: RoleGraph, token: ApiToken) -> Principal | None:
    """None where the user no longer holds the role of the token."""
    user = members.users[token.user]
    holder = Principal(user.name, user.roles, user.default_role, token.id)
    if token.has_expired():
        return None
    if token.role is None:
        return holder
    return (
        replace(holder, roles=(token.role,), default_role=token.role)
        if token.role in graph.roles_of(holder)
        else None
    )


# --- API tokens


def token_named(members: Members, name: str) -> ApiToken | None:
    """The API token of that name, or None."""
    return next((token for token in members.tokens.values() if token.name == name), None)


def create_token(storage: Storage, token: ApiToken, secret: str) -> None:
    """Raises UserError 42P09 when the name is taken."""
    with storage.transaction():
        if token_named(storage.state.members, token.name) is not None:
            raise UserError(
                SqlState.DUPLICATE_API_TOKEN,
                f"the API token {token.name!r} already exists",
                hint="Choose another name; ALTER API_TOKEN makes a new token of an old name.",
            )
        values = {"id": token.id, "name": token.name, "user_name": token.user, "role": token.role}
        storage.execute(
            insert(tables.tokens).values(
                **values, created_at=micros(token.created_at), **_changing(token, secret)
            )
        )
        _reread(storage)


def renew_token(storage: Storage, token: ApiToken, secret: str) -> None:
    """Another secret, and the end that `token` has; the secret before is good no longer."""
    with storage.transaction():
        known = tables.tokens.c.id == token.id
        storage.execute(update(tables.tokens).where(known).values(_changing(token, secret)))
        _reread(storage)


def drop_token(storage: Storage, token: ApiToken) -> None:
    """Whoever signed in with it is signed out."""
    with storage.transaction():
        storage.execute(delete(tables.tokens).where(tables.tokens.c.id == token.id))
        _reread(storage)


def _changing(token: ApiToken, secret: str) -> dict[str, Any]:
    end = micros(token.expires_at) if token.expires_at is not None else None
    return {"digest": digest(secret), "updated_at": micros(token.updated_at), "expires_at": end}


def _reread(storage: Storage) -> None:
    storage.put(replace(storage.state, members=read(storage)))
