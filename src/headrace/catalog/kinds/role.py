"""Roles."""

from __future__ import annotations

from headrace.catalog.kinds.spec import KindSpec
from headrace.catalog.objects import Role
from headrace.core.sqlstate import SqlState

ROLE = KindSpec(
    kind="role",
    value=Role,
    path=lambda role: (role.name,),
    write=lambda _: {},
    read=lambda stored: Role(stored.name, stored.owner, stored.created_at, id=stored.id),
    duplicate=SqlState.DUPLICATE_ROLE,
    missing=SqlState.ROLE_NOT_FOUND,
    privileges=(),
)
