"""Privileges of roles, and roles granted to roles. The right to change them is checked before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, delete, insert, select

from headrace.catalog import principals, tables
from headrace.catalog.access import BUILT_IN_ROLE_GRANTS, ORGADMIN, PUBLIC, Grant, Privilege
from headrace.catalog.objects import Role
from headrace.catalog.policy import Grants, RoleGraph
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState


def read(storage: Storage) -> Grants:
    """Return all grants, by object and privilege."""
    grants: dict[str, dict[Privilege, dict[str, Grant]]] = defaultdict(lambda: defaultdict(dict))
    for row in storage.rows(select(tables.grants)):
        privilege = Privilege(row["privilege"])
        grant = Grant(row["object"], privilege, row["role"], row["grantor"], row["grantable"])
        grants[grant.object][privilege][grant.role] = grant
    return {identifier: dict(of_object) for identifier, of_object in grants.items()}


def read_graph(storage: Storage) -> RoleGraph:
    """Return the graph of granted roles, with the built-in ones."""
    granted = dict(BUILT_IN_ROLE_GRANTS)
    for row in storage.rows(select(tables.role_grants)):
        granted[row["grantee"]] = granted.get(row["grantee"], frozenset()) | {row["role"]}
    return RoleGraph(granted)


def each(grants: Grants) -> Iterator[Grant]:
    """Yield every grant."""
    return (
        grant for of_object in grants.values() for holders in of_object.values() for grant in holders.values()
    )


def add(storage: Storage, grant: Grant) -> bool:
    """Store a grant; True if anything changed: an existing grant may only gain its grant option."""
    with storage.transaction():
        holders = storage.state.grants.get(grant.object, {}).get(grant.privilege, {})
        known = holders.get(grant.role)
        if known is not None and (known.grantable or not grant.grantable):
            return False
        values = {**vars(grant), "privilege": grant.privilege.value}
        storage.execute(delete(tables.grants).where(_same(grant)))
        storage.execute(insert(tables.grants).values(values))
        _put(storage, grant, {**holders, grant.role: grant})
        return True


def remove(storage: Storage, grants: Iterable[Grant], *, option_only: bool = False) -> None:
    """Remove grants, or with `option_only` their right to grant on."""
    with storage.transaction():
        for grant in grants:
            holders = dict(storage.state.grants[grant.object][grant.privilege])
            storage.execute(delete(tables.grants).where(_same(grant)))
            del holders[grant.role]
            _put(storage, grant, holders)
            if option_only:
                add(storage, replace(grant, grantable=False))


def revoke(
    storage: Storage, keys: Iterable[tuple[str, Privilege, str]], *, option_only: bool, cascade: bool
) -> int:
    """See `Catalog.revoke`."""
    with storage.transaction():
        known = storage.state.grants
        candidates = [known.get(place, {}).get(privilege, {}).get(role) for place, privilege, role in keys]
        revoked = [
            grant for grant in candidates if grant is not None and (grant.grantable or not option_only)
        ]
        rest = dependents(storage.state, revoked)
        if rest and not cascade:
            names = ", ".join(sorted({grant.role for grant in rest}))
            raise UserError(
                SqlState.DEPENDENT_OBJECTS_EXIST,
                f"{revoked[0].privilege.value} was granted with its grant option to {names}",
                hint="REVOKE … CASCADE revokes these grants too.",
            )
        remove(storage, revoked, option_only=option_only)
        remove(storage, rest)
        return len(revoked) + len(rest)


def dependents(state: CatalogState, revoked: Sequence[Grant]) -> list[Grant]:
    """Return the grants that depend on the grant options in `revoked`, transitively."""
    remaining: dict[tuple[str, Privilege, str], Grant] = {}
    waiting = [grant for grant in revoked if grant.grantable]
    names = {(grant.object, grant.privilege, grant.role) for grant in revoked}
    while waiting:
        option = waiting.pop()
        if _decides(state, option.object) == option.role:
            continue
        for grant in state.grants.get(option.object, {}).get(option.privilege, {}).values():
            key = (grant.object, grant.privilege, grant.role)
            if grant.grantor == option.role and key not in names:
                names.add(key)
                remaining[key] = grant
                waiting.append(grant)
    return list(remaining.values())


def _decides(state: CatalogState, identifier: str) -> str:
    if identifier == state.organization.id:
        return ORGADMIN
    # The state does not contain finished queries, so all of their grants count as made by a grant option.
    entity = state.by_id.get(identifier) or state.queries.get(identifier)
    return state.policy.decides(entity) if entity is not None else ""


def forget_objects(storage: Storage, identifiers: Iterable[str]) -> None:
    """Remove all grants on dropped objects."""
    known = [identifier for identifier in identifiers if identifier in storage.state.grants]
    if not known:
        return
    storage.execute(delete(tables.grants).where(tables.grants.c.object.in_(known)))
    left = {key: value for key, value in storage.state.grants.items() if key not in known}
    storage.put(replace(storage.state, grants=left))


def forget_role(storage: Storage, role: str) -> None:
    """Remove a role's grants and memberships before it is dropped; users with it as the default role get `public`."""
    revoked = [grant for grant in each(storage.state.grants) if grant.role == role]
    remove(storage, [*revoked, *dependents(storage.state, revoked)])
    table = tables.role_grants
    storage.execute(delete(table).where((table.c.role == role) | (table.c.grantee == role)))
    users = tables.users
    storage.execute(users.update().where(users.c.default_role == role).values(default_role=PUBLIC))


def grant_to_role(storage: Storage, role: Role, *, to_role: str) -> bool:
    """Grant a role to a role; True if anything changed. Raises UserError 0LP01 for a cycle."""
    with storage.transaction():
        graph = storage.state.graph
        if role.name in graph.granted.get(to_role, frozenset()):
            return False
        if to_role in graph.inherited(role.name):
            raise UserError(
                SqlState.INVALID_GRANT_OPERATION,
                f"granting {role.name!r} to {to_role!r} would create a cycle: {to_role!r} is already granted "
                f"to {role.name!r}",
                hint=(
                    f"REVOKE ROLE {to_role} FROM ROLE {role.name}, directly or through the roles between "
                    "them, first."
                ),
            )
        storage.execute(insert(tables.role_grants).values(role=role.name, grantee=to_role))
        reread(storage)
        return True


def revoke_from_role(storage: Storage, role: str, *, from_role: str) -> bool:
    """Revoke a role from a role; True if anything changed."""
    table = tables.role_grants
    same = (table.c.role == role) & (table.c.grantee == from_role)
    if role in BUILT_IN_ROLE_GRANTS.get(from_role, ()):
        message = f"the role {role} cannot be revoked from {from_role}: this grant is built in"
        raise UserError(SqlState.INVALID_GRANT_OPERATION, message)
    with storage.transaction():
        revoked = storage.execute(delete(table).where(same)) > 0
        reread(storage)
        return revoked


def grant_to_user(storage: Storage, role: str, user: str) -> bool:
    """Grant a role to a user; True if anything changed. Raises UserError 3D000."""
    with storage.transaction():
        _check_user(storage, user)
        if role in storage.state.members.users[user].roles:
            return False
        values = {"user_id": storage.state.members.users[user].id, "role_id": storage.state.role_id(role)}
        storage.execute(insert(tables.user_roles).values(values))
        reread(storage)
        return True


def revoke_from_user(storage: Storage, role: str, user: str) -> bool:
    """Revoke a role from a user, whose default role becomes `public` if it was this role; return True if anything changed.
    Raises UserError 3D000 and 0LP01."""
    held, users = tables.user_roles, tables.users
    with storage.transaction():
        _check_user(storage, user)
        members = storage.state.members.users
        others = [name for name, other in members.items() if ORGADMIN in other.roles and name != user]
        if role == ORGADMIN and not others:
            raise UserError(
                SqlState.INVALID_GRANT_OPERATION,
                f"{user!r} is the last user with the role {ORGADMIN}: nobody else could grant it again",
                hint=f"GRANT ROLE {ORGADMIN} TO USER … another one first.",
            )
        same = (held.c.user_id == members[user].id) & (held.c.role_id == storage.state.role_id(role))
        revoked = storage.execute(delete(held).where(same))
        same = (users.c.name == user) & (users.c.default_role == role)
        storage.execute(users.update().where(same).values(default_role=PUBLIC))
        reread(storage)
        return revoked > 0


def _check_user(storage: Storage, user: str) -> None:
    if user not in storage.state.members.users:
        raise UserError(
            SqlState.USER_NOT_FOUND,
            f"the user {user!r} does not exist",
            hint="LIST USERS shows the existing users.",
        )


def _same(grant: Grant) -> ColumnElement[bool]:
    table = tables.grants
    return (
        (table.c.object == grant.object)
        & (table.c.privilege == grant.privilege.value)
        & (table.c.role == grant.role)
    )


def _put(storage: Storage, grant: Grant, holders: Mapping[str, Grant]) -> None:
    of_object = {**storage.state.grants.get(grant.object, {}), grant.privilege: holders}
    left = {privilege: by_role for privilege, by_role in of_object.items() if by_role}
    others = {key: value for key, value in storage.state.grants.items() if key != grant.object}
    grants = {**others, grant.object: left} if left else others
    storage.put(replace(storage.state, grants=grants))


def reread(storage: Storage) -> None:
    """Load the members and the graph of roles from the database into the state."""
    storage.put(replace(storage.state, graph=read_graph(storage), members=principals.read(storage)))
