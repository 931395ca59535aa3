"""Terms of access control: privileges, the objects that they are granted on, and the roles that every organization has.

Rules (dialect section 22, Snowflake's semantics): privileges are granted to roles, roles to users and roles; a role inherits
the privileges of the roles granted to it. Objects are owned by roles; the owner, and every role that inherits it, may do everything
with an object. Everything that is not granted is refused. `policy.Policy` applies these rules. ADR 27.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Privilege(Enum):
    """A privilege that can be granted; the value is the word of GRANT."""

    CREATE_DATABASE = "CREATE_DATABASE"
    CREATE_STORE = "CREATE_STORE"
    CREATE_SCHEMA_REGISTRY = "CREATE_SCHEMA_REGISTRY"
    CREATE_DESCRIPTOR_SOURCE = "CREATE_DESCRIPTOR_SOURCE"
    CREATE_FUNCTION_SOURCE = "CREATE_FUNCTION_SOURCE"
    CREATE_FUNCTION = "CREATE_FUNCTION"
    CREATE_SECRET = "CREATE_SECRET"  # noqa: S105
    CREATE_QUERY = "CREATE_QUERY"
    CREATE_COMPUTE_POOL = "CREATE_COMPUTE_POOL"
    MANAGE_MEMBERS = "MANAGE_MEMBERS"
    MANAGE_GRANTS = "MANAGE_GRANTS"
    READ_AUDIT = "READ_AUDIT"
    READ_METRICS = "READ_METRICS"
    EXECUTE_BY_MCP = "EXECUTE_BY_MCP"
    CREATE_SCHEMA = "CREATE_SCHEMA"
    CREATE_RELATION = "CREATE_RELATION"
    USAGE = "USAGE"
    SELECT = "SELECT"
    INSERT = "INSERT"
    OWNERSHIP = "OWNERSHIP"


@dataclass(frozen=True)
class Grant:
    """A privilege on an object or on the organization, granted to a role by a role; `grantable`: with the grant option."""

    object: str
    privilege: Privilege
    role: str
    grantor: str
    grantable: bool = False


@dataclass(frozen=True)
class FutureGrant:
    """A privilege that a role receives on each new object of a kind, such as `relation`, in a place: the id of a schema, a database
    or the organization."""

    place: str
    kind: str
    privilege: Privilege
    role: str
    grantor: str
    grantable: bool = False


ORGADMIN, SYSADMIN, SECURITYADMIN, USERADMIN, PUBLIC = (
    "orgadmin",
    "sysadmin",
    "securityadmin",
    "useradmin",
    "public",
)
BUILT_IN_ROLE_GRANTS: dict[str, frozenset[str]] = {
    ORGADMIN: frozenset({SYSADMIN, SECURITYADMIN}),
    SYSADMIN: frozenset({PUBLIC}),
    SECURITYADMIN: frozenset({USERADMIN}),
    USERADMIN: frozenset({PUBLIC}),
    PUBLIC: frozenset(),
}
"""The built-in roles are a tree: orgadmin over sysadmin and securityadmin, securityadmin over useradmin; `public` is beneath everyone."""
BUILT_IN_ROLES = tuple(BUILT_IN_ROLE_GRANTS)

ON_ORGANIZATION: tuple[Privilege, ...] = (
    Privilege.CREATE_DATABASE,
    Privilege.CREATE_STORE,
    Privilege.CREATE_SCHEMA_REGISTRY,
    Privilege.CREATE_DESCRIPTOR_SOURCE,
    Privilege.CREATE_FUNCTION_SOURCE,
    Privilege.CREATE_FUNCTION,
    Privilege.CREATE_SECRET,
    Privilege.CREATE_QUERY,
    Privilege.CREATE_COMPUTE_POOL,
    Privilege.MANAGE_MEMBERS,
    Privilege.MANAGE_GRANTS,
    Privilege.READ_AUDIT,
    Privilege.READ_METRICS,
    Privilege.EXECUTE_BY_MCP,
)
"""What can be granted on the organization."""

BUILT_IN_PRIVILEGES: dict[str, frozenset[Privilege]] = {
    SYSADMIN: frozenset(ON_ORGANIZATION)
    - {
        Privilege.MANAGE_MEMBERS,
        Privilege.MANAGE_GRANTS,
        Privilege.READ_AUDIT,
        # A program that follows a language model must be allowed to change something explicitly (ADR 62).
        Privilege.EXECUTE_BY_MCP,
    },
    SECURITYADMIN: frozenset({Privilege.MANAGE_GRANTS, Privilege.READ_AUDIT}),
    USERADMIN: frozenset({Privilege.MANAGE_MEMBERS}),
}
"""What built-in roles have on the organization, always."""
