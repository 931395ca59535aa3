"""Users, the roles that they hold, and the tokens that they sign in with, of which only digests are kept."""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import delete, insert, select

from headrace.catalog import tables
from headrace.catalog.access import BUILT_IN_ROLES
from headrace.catalog.objects import Principal
from headrace.catalog.storage import Storage
from headrace.catalog.times import present

ADMINISTRATOR = "admin"


def read(storage: Storage) -> Mapping[str, Principal]:
    """Who each token's digest belongs to."""
    held: dict[str, list[str]] = defaultdict(list)
    for row in storage.rows(select(tables.user_roles)):
        held[row["user_name"]].append(row["role"])
    users = {
        row["name"]: Principal(row["name"], tuple(sorted(held[row["name"]])), row["default_role"])
        for row in storage.rows(select(tables.users))
    }
    return {row["digest"]: users[row["user_name"]] for row in storage.rows(select(tables.tokens))}


def seed(storage: Storage) -> None:
    """The first user, with every built-in role."""
    storage.execute(insert(tables.users).values(name=ADMINISTRATOR, default_role="sysadmin"))
    held = [{"user_name": ADMINISTRATOR, "role": role} for role in BUILT_IN_ROLES]
    for row in held:
        storage.execute(insert(tables.user_roles).values(row))


def ensure_administrator(storage: Storage, token: str | None) -> str | None:
    """See `Catalog.ensure_administrator`."""
    with storage.transaction():
        made = None
        if token is None:
            if storage.state.tokens:
                return None
            token = made = secrets.token_urlsafe(32)
        table, kept = tables.tokens, digest(token)
        storage.execute(delete(table).where((table.c.user_name == ADMINISTRATOR) & (table.c.digest != kept)))
        if kept not in storage.state.tokens:
            values = {"digest": kept, "user_name": ADMINISTRATOR, "created_at": present()}
            storage.execute(insert(table).values(values))
        storage.put(replace(storage.state, tokens=read(storage)))
        return made


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
