"""Users, roles, tokens and grants as system relations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.catalog.access import Privilege
from headrace.catalog.kinds import kind_of
from headrace.catalog.objects import ApiToken, Relation, User
from headrace.catalog.policy import Requirement, named, owner_of, privileges_on
from headrace.core.schema import Column
from headrace.core.types import BOOLEAN, TIMESTAMP, VARCHAR
from headrace.statements.base import Execution
from headrace.statements.system.relation import Reference, Rows, always, system_relation


@dataclass(frozen=True)
class GrantRow:
    """A privilege, an ownership or a membership, as in lists; `grantor` is None if it is built in or cannot be revoked."""

    privilege: str
    kind: str
    name: str
    grantee_kind: str
    grantee: str
    grantable: bool = False
    grantor: str | None = None


def visible_users(run: Execution) -> list[User]:
    """Return the current user, or with MANAGE_MEMBERS all users; by name."""
    everybody = run.may(Privilege.MANAGE_MEMBERS)
    return [user for user in run.catalog.users() if everybody or user.name == run.principal.user]


def visible_tokens(run: Execution) -> list[ApiToken]:
    """Return the API tokens of the current user, or with MANAGE_MEMBERS of all users; by name.

    A session of a token with a single role does not see its user's tokens that have more roles.
    """
    tokens, principal = run.catalog.api_tokens(), run.principal
    if run.may(Privilege.MANAGE_MEMBERS):
        return tokens
    whole, graph = has_all_roles(run), run.policy.graph
    commanded = {role.name for role in run.catalog.roles() if graph.commands(principal, role)}
    return [token for token in tokens if token.user == principal.user and (whole or token.role in commanded)]


def has_all_roles(run: Execution) -> bool:
    """True if the session has all roles of its user: a session of an API token with a single role does not."""
    user = run.catalog.user(run.principal.user)
    held = user.roles if user is not None and run.principal.token is not None else ()
    return run.policy.graph.roles_of(run.principal) >= set(held)


def grant_rows(run: Execution) -> list[GrantRow]:
    """Return owners and grants of the objects that the active role sees, and the roles granted to roles and users."""
    return [*_rows_of_objects(run), *_rows_of_roles(run)]


def _rows_of_objects(run: Execution) -> Iterator[GrantRow]:
    state = run.catalog.snapshot()
    queries = run.visible(state.queries.values())
    for target in (None, *run.visible(state.by_id.values()), *queries):
        identifier = state.organization.id if target is None else target.id
        kind, name = kind_and_name(target, state.organization.name)
        if target is not None:
            owner = owner_of(target)
            yield GrantRow("OWNERSHIP", kind, name, "role", owner, state.policy.decides(target) == owner)
        for holders in state.grants.get(identifier, {}).values():
            for grant in holders.values():
                word = grant.privilege.value
                yield GrantRow(word, kind, name, "role", grant.role, grant.grantable, grant.grantor)


def _rows_of_roles(run: Execution) -> Iterator[GrantRow]:
    state = run.catalog.snapshot()
    for role, granted in sorted(state.graph.granted.items()):
        yield from (GrantRow("USAGE", "role", name, "role", role) for name in sorted(granted))
    if run.may(Privilege.MANAGE_MEMBERS) or run.may(Privilege.MANAGE_GRANTS):
        for user in run.catalog.users():
            yield from (GrantRow("USAGE", "role", name, "user", user.name) for name in sorted(user.roles))


class FutureRow(NamedTuple):
    """A grant on future objects, as in lists: `kind` and `name` are of the place, `grant_on` is the kind of the future objects."""

    privilege: str
    grant_on: str
    kind: str
    name: str
    grantee: str
    grantable: bool
    grantor: str


def future_rows(run: Execution) -> list[FutureRow]:
    """Return future grants of the organization, and of the schemas and databases that the active role sees."""
    state, rows = run.catalog.snapshot(), []
    for grant in state.future_grants:
        place = state.by_id.get(grant.place)
        if place is None or run.visible([place]):
            where = kind_and_name(place, state.organization.name)
            what = (grant.privilege.value, grant.kind.replace("_", " "))
            rows.append(FutureRow(*what, *where, grant.role, grant.grantable, grant.grantor))
    return sorted(rows, key=lambda row: (row.kind, row.name, row.grant_on, row.grantee, row.privilege))


def kind_and_name(target: Any, organization: str) -> tuple[str, str]:
    """Return an object's kind and full name, as lists show them."""
    if target is None:
        return "organization", organization
    what = target.kind.value.replace("_", " ") if isinstance(target, Relation) else kind_of(target).word
    return what, named(target).removeprefix(f"the {what} ")


@system_relation(
    "grants",
    always("privilege"),
    always("kind"),
    always("name"),
    always("grantee_kind"),
    always("grantee"),
    always("grant_option", BOOLEAN),
    Column("granted_by", VARCHAR),
    key=("privilege", "kind", "name", "grantee_kind", "grantee", "granted_by"),
    references=(
        Reference("grantee_role", "roles", ("grantee",), "grants", when=("grantee_kind", "role")),
        Reference("grantee_user", "users", ("grantee",), "grants", when=("grantee_kind", "user")),
    ),
    doc=(
        "The privileges on the objects that the active role can see. `privilege` is OWNERSHIP for an "
        "object's owner, and USAGE of a `role` for the roles and users that it was granted to; "
        "`grantee_kind` is `role` or `user`."
    ),
)
def grants(run: Execution) -> Rows:
    return [tuple(vars(row).values()) for row in grant_rows(run)]


@system_relation(
    "future_grants",
    always("privilege"),
    always("grant_on"),
    always("kind"),
    always("name"),
    always("grantee"),
    always("grant_option", BOOLEAN),
    always("granted_by"),
    key=("privilege", "grant_on", "kind", "name", "grantee"),
    references=(Reference("grantee_role", "roles", ("grantee",), "future_grants"),),
    doc=(
        "The privileges that future objects of a place will have. `grant_on` is the kind of the objects; "
        "`kind` and `name` describe the place, a `schema`, a `database` or the `organization`. If several "
        "places have grants for a kind, the innermost applies. `grantee` is a role."
    ),
)
def future_grants(run: Execution) -> Rows:
    return [tuple(row) for row in future_rows(run)]


@system_relation(
    "effective_privileges",
    always("privilege"),
    always("kind"),
    always("name"),
    always("source"),
    key=("privilege", "kind", "name"),
    doc=(
        "The privileges that the active role can use on the organization and on the objects that it sees: also those that it inherits, "
        "has as the owner, or has built in, which `grants` does not list. `source` is as in CAN ROLE. Privileges on objects that the role "
        "cannot reach, for lack of USAGE on its database or schema, are left out."
    ),
)
def effective_privileges(run: Execution) -> Rows:
    state, policy = run.catalog.snapshot(), run.policy
    queries = run.visible(state.queries.values())
    for target in (None, *run.visible(state.by_id.values()), *queries):
        kind, name = kind_and_name(target, state.organization.name)
        own = () if target is None else (Privilege.OWNERSHIP,)
        for privilege in (*own, *privileges_on(target)):
            step = Requirement(privilege, target)
            if policy.fulfils(run.role, step):
                yield (privilege.value, kind, name, policy.source(run.role, step))


@system_relation(
    "users",
    always("name"),
    always("roles"),
    always("default_role"),
    always("has_password", BOOLEAN),
    always("created_at", TIMESTAMP),
    key=("name",),
    doc=(
        "Your user, and with MANAGE_MEMBERS all users. `roles` are the roles that were granted to the user "
        "directly, separated by commas."
    ),
)
def users(run: Execution) -> Rows:
    return [
        (user.name, ", ".join(user.roles), user.default_role, user.password is not None, user.created_at)
        for user in visible_users(run)
    ]


@system_relation(
    "invitations",
    always("id"),
    always("user_name"),
    always("roles"),
    always("default_role"),
    always("invited_by"),
    always("created_at", TIMESTAMP),
    always("expires_at", TIMESTAMP),
    key=("id",),
    doc=(
        "The invitations that can still be accepted, for users with MANAGE_MEMBERS. `roles` is separated by "
        "commas."
    ),
)
def invitations(run: Execution) -> Rows:
    if not run.may(Privilege.MANAGE_MEMBERS):
        return []
    return [
        (
            item.id,
            item.user,
            ", ".join(item.roles),
            item.default_role,
            item.invited_by,
            item.created_at,
            item.expires_at,
        )
        for item in run.catalog.invitations()
    ]


@system_relation(
    "api_tokens",
    always("name"),
    always("user_name"),
    Column("role_name", VARCHAR),
    always("expired", BOOLEAN),
    Column("expires_at", TIMESTAMP),
    always("created_at", TIMESTAMP),
    always("updated_at", TIMESTAMP),
    always("id"),
    Column("made_with", VARCHAR),
    key=("id",),
    references=(
        Reference("user", "users", ("user_name",), "api_tokens"),
        Reference("role", "roles", ("role_name",), "api_tokens"),
        Reference("parent", "api_tokens", ("made_with",), "children"),
    ),
    doc=(
        "Your API tokens, and with MANAGE_MEMBERS the tokens of all users, without the secret. `role_name` "
        "is NULL if a token has all roles of its user. `made_with` is the id of the token that it was "
        "created with, and with which it expires."
    ),
)
def api_tokens(run: Execution) -> Rows:
    return [
        (
            token.name,
            token.user,
            token.role,
            token.has_expired(),
            token.expires_at,
            token.created_at,
            token.updated_at,
            token.id,
            token.parent,
        )
        for token in visible_tokens(run)
    ]
