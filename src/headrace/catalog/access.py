"""Who may do what.

Rules (dialect section 22, Snowflake's semantics): privileges are granted to roles, roles to users and roles; a role has
the privileges of the roles beneath it. Objects are owned by roles; the owner, and whoever inherits it, may do everything
with an object. What is not granted is refused.
The built-in roles are a tree: orgadmin over sysadmin and securityadmin, securityadmin over useradmin, and `public` beneath everyone.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from headrace.catalog.kinds import described
from headrace.catalog.objects import Principal, Query, Relation
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState


class Privilege(Enum):
    """What can be granted; the value is the word of GRANT."""

    CREATE_DATABASE = "CREATE_DATABASE"
    CREATE_STORE = "CREATE_STORE"
    CREATE_SCHEMA_REGISTRY = "CREATE_SCHEMA_REGISTRY"
    CREATE_DESCRIPTOR_SOURCE = "CREATE_DESCRIPTOR_SOURCE"
    CREATE_QUERY = "CREATE_QUERY"
    CREATE_COMPUTE_POOL = "CREATE_COMPUTE_POOL"
    MANAGE_MEMBERS = "MANAGE_MEMBERS"
    MANAGE_GRANTS = "MANAGE_GRANTS"
    CREATE_SCHEMA = "CREATE_SCHEMA"
    CREATE_RELATION = "CREATE_RELATION"
    USAGE = "USAGE"
    SELECT = "SELECT"
    INSERT = "INSERT"
    OWNERSHIP = "OWNERSHIP"


_BENEATH: dict[str, tuple[str, ...]] = {
    "orgadmin": ("sysadmin", "securityadmin"),
    "sysadmin": ("public",),
    "securityadmin": ("useradmin",),
    "useradmin": ("public",),
    "public": (),
}
BUILT_IN_ROLES = tuple(_BENEATH)
_ON_ORGANIZATION: dict[str, frozenset[Privilege]] = {
    "sysadmin": frozenset(
        {
            Privilege.CREATE_DATABASE,
            Privilege.CREATE_STORE,
            Privilege.CREATE_SCHEMA_REGISTRY,
            Privilege.CREATE_DESCRIPTOR_SOURCE,
            Privilege.CREATE_QUERY,
            Privilege.CREATE_COMPUTE_POOL,
        }
    ),
    "securityadmin": frozenset({Privilege.MANAGE_GRANTS}),
    "useradmin": frozenset({Privilege.MANAGE_MEMBERS}),
}


def inherited(role: str) -> frozenset[str]:
    """`role` and every role beneath it; an unknown role has only itself."""
    return frozenset({role}).union(*(inherited(below) for below in _BENEATH.get(role, ())))


def roles_of(principal: Principal) -> frozenset[str]:
    """The roles that a principal may take on: those held, and those beneath them."""
    return frozenset[str]().union(*(inherited(role) for role in principal.roles))


def check_role(principal: Principal, role: str, *, span: Span | None = None) -> None:
    """Raises UserError 3D001 for a role that does not exist, 42501 for one that `principal` may not take on."""
    held = roles_of(principal)
    if role in held:
        return
    hint = f"USE ROLE one of {', '.join(sorted(held))}."
    if role not in BUILT_IN_ROLES:
        raise UserError(SqlState.ROLE_NOT_FOUND, f"the role {role!r} does not exist", hint=hint, span=span)
    message = f"the user {principal.user!r} does not hold the role {role!r}"
    raise UserError(SqlState.INSUFFICIENT_PRIVILEGE, message, hint=hint, span=span)


def authorize(principal: Principal, role: str, privilege: Privilege, target: object | None = None) -> None:
    """Raises UserError 42501 (or 3D001) unless `principal` holds `role` and `role` holds `privilege` on `target`.

    `target` is an object of the catalog, or None for the organization. The text names role, privilege and object.
    """
    check_role(principal, role)
    if allows(role, privilege, target):
        return
    name = _described(target)
    raise UserError(
        SqlState.INSUFFICIENT_PRIVILEGE,
        f"the role {role!r} lacks the privilege {privilege.value} on {name}",
        hint=f"USE ROLE {_holder(privilege, target)}, or ask its holder to GRANT it.",
    )


def allows(role: str, privilege: Privilege, target: object | None) -> bool:
    """Whether `role` holds `privilege` on `target`."""
    held = inherited(role)
    if target is None:
        return any(privilege in _ON_ORGANIZATION.get(name, ()) for name in held)
    return _owner(target) in held


def _owner(target: Any) -> str:
    owner: str = target.owner
    return owner


def _holder(privilege: Privilege, target: object | None) -> str:
    if target is not None:
        return _owner(target)
    return next((role for role, held in _ON_ORGANIZATION.items() if privilege in held), "orgadmin")


def _described(target: object | None) -> str:
    if target is None:
        return "the organization"
    if isinstance(target, Relation):
        return f"the {target.kind.value.replace('_', ' ')} {target.name}"
    return f"the query {target.id}" if isinstance(target, Query) else described(target)
