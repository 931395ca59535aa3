"""GRANT and REVOKE of privileges, roles and ownership; LIST GRANTS. Grammar: dialect section 22."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.names import Identifier, QualifiedName
from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

KINDS = (
    "DATABASE",
    "SCHEMA",
    "STORE",
    "SCHEMA_REGISTRY",
    "DESCRIPTOR_SOURCE",
    "FUNCTION_SOURCE",
    "FUNCTION",
    "SECRET",
    "RELATION",
    "COMPUTE_POOL",
    "SAVEPOINT",
    "ALERT",
    "QUERY",
    "ROLE",
)
"""What OWNERSHIP and privileges are on. A relation's own kind is taken for RELATION."""
FUTURE = {f"{kind[:-1]}IES" if kind.endswith("Y") else f"{kind}S": kind for kind in KINDS if kind != "ROLE"}
"""Kinds of objects with grants on future objects, by the plural in SQL."""
_PLACES = {"RELATION": ("SCHEMA", "DATABASE", "ORGANIZATION"), "SCHEMA": ("DATABASE", "ORGANIZATION")}
_RELATIONS = ("STREAM", "CHANGELOG", "TABLE", "MATERIALIZED VIEW", "VIEW")


@dataclass(frozen=True)
class Target:
    """Target of a grant: `ON ORGANIZATION`, or `ON kind name`; `kind` is one of `KINDS`."""

    kind: str | None = None
    name: QualifiedName | None = None

    def sql(self) -> str:
        """Return canonical text."""
        return "ORGANIZATION" if self.kind is None else f"{self.kind} {self.name}"


@dataclass(frozen=True)
class GrantPrivileges(Statement):
    """`GRANT { privilege [, …] | ALL PRIVILEGES } ON target TO ROLE role [, …] [WITH GRANT OPTION]`; without `privileges`, all."""

    privileges: tuple[Identifier, ...]
    target: Target
    roles: tuple[Identifier, ...]
    grantable: bool = False

    def sql(self) -> str:
        option = " WITH GRANT OPTION" if self.grantable else ""
        return f"GRANT {_listed(self.privileges)} ON {self.target.sql()} TO ROLE {_names(self.roles)}{option}"


@grammar("GRANT")
def grant_privileges(cursor: Cursor) -> GrantPrivileges | GrantFuture:
    privileges = _privileges(cursor)
    if cursor.accept("ON", "FUTURE"):
        kind, place = _future(cursor)
        cursor.expect("TO")
        roles, option = _roles(cursor), cursor.accept("WITH", "GRANT", "OPTION")
        return GrantFuture(*cursor.origin, privileges, kind, place, roles, option)
    target = _target(cursor)
    cursor.expect("TO")
    roles = _roles(cursor)
    grantable = cursor.accept("WITH", "GRANT", "OPTION")
    return GrantPrivileges(*cursor.origin, privileges, target, roles, grantable)


@dataclass(frozen=True)
class RevokePrivileges(Statement):
    """`REVOKE [GRANT OPTION FOR] { privilege [, …] | ALL PRIVILEGES } ON target FROM ROLE role [, …] [CASCADE]`."""

    privileges: tuple[Identifier, ...]
    target: Target
    roles: tuple[Identifier, ...]
    option_only: bool = False
    cascade: bool = False

    def sql(self) -> str:
        option = "GRANT OPTION FOR " if self.option_only else ""
        cascade = " CASCADE" if self.cascade else ""
        listed = f"{option}{_listed(self.privileges)}"
        return f"REVOKE {listed} ON {self.target.sql()} FROM ROLE {_names(self.roles)}{cascade}"


@grammar("REVOKE")
def revoke_privileges(cursor: Cursor) -> RevokePrivileges | RevokeFuture:
    option_only = cursor.accept("GRANT", "OPTION", "FOR")
    privileges = _privileges(cursor)
    if not option_only and cursor.accept("ON", "FUTURE"):
        kind, place = _future(cursor)
        cursor.expect("FROM")
        return RevokeFuture(*cursor.origin, privileges, kind, place, _roles(cursor))
    target = _target(cursor)
    cursor.expect("FROM")
    roles = _roles(cursor)
    return RevokePrivileges(*cursor.origin, privileges, target, roles, option_only, cursor.cascade())


@dataclass(frozen=True)
class GrantFuture(Statement):
    """`GRANT { privilege [, …] | ALL PRIVILEGES } ON FUTURE kinds IN place TO ROLE role [, …] [WITH GRANT OPTION]`; `kind` is the
    singular, such as STORE of STORES."""

    privileges: tuple[Identifier, ...]
    kind: str
    place: Target
    roles: tuple[Identifier, ...]
    grantable: bool = False

    def sql(self) -> str:
        option = " WITH GRANT OPTION" if self.grantable else ""
        where = f"ON FUTURE {several(self.kind)} IN {self.place.sql()}"
        return f"GRANT {_listed(self.privileges)} {where} TO ROLE {_names(self.roles)}{option}"


@dataclass(frozen=True)
class RevokeFuture(Statement):
    """`REVOKE { privilege [, …] | ALL PRIVILEGES } ON FUTURE kinds IN place FROM ROLE role [, …]`."""

    privileges: tuple[Identifier, ...]
    kind: str
    place: Target
    roles: tuple[Identifier, ...]

    def sql(self) -> str:
        where = f"ON FUTURE {several(self.kind)} IN {self.place.sql()}"
        return f"REVOKE {_listed(self.privileges)} {where} FROM ROLE {_names(self.roles)}"


@dataclass(frozen=True)
class ListFutureGrants(Statement):
    """`LIST FUTURE GRANTS [IN { SCHEMA name | DATABASE name | ORGANIZATION } | TO ROLE role]`."""

    place: Target | None = None
    to_role: Identifier | None = None

    def sql(self) -> str:
        if self.place is not None:
            return f"LIST FUTURE GRANTS IN {self.place.sql()}"
        return "LIST FUTURE GRANTS" if self.to_role is None else f"LIST FUTURE GRANTS TO ROLE {self.to_role}"


@grammar("LIST FUTURE GRANTS")
def list_future_grants(cursor: Cursor) -> ListFutureGrants:
    if cursor.accept("IN"):
        return ListFutureGrants(*cursor.origin, _place(cursor, _PLACES["RELATION"]))
    if cursor.accept("TO", "ROLE"):
        return ListFutureGrants(*cursor.origin, to_role=cursor.identifier("the name of a role"))
    return ListFutureGrants(*cursor.origin)


@dataclass(frozen=True)
class GrantOwnership(Statement):
    """`GRANT OWNERSHIP ON kind name TO ROLE role`."""

    target: Target
    role: Identifier

    def sql(self) -> str:
        return f"GRANT OWNERSHIP ON {self.target.sql()} TO ROLE {self.role}"


@grammar("GRANT OWNERSHIP")
def grant_ownership(cursor: Cursor) -> GrantOwnership:
    if cursor.at("ON", "ORGANIZATION"):
        cursor.expect("ON")
        raise cursor.error(
            "a kind of object", hint="The organization belongs to orgadmin: GRANT ROLE orgadmin TO …."
        )
    target = _target(cursor)
    cursor.expect("TO", "ROLE")
    return GrantOwnership(*cursor.origin, target, cursor.identifier("the name of a role"))


@dataclass(frozen=True)
class GrantRole(Statement):
    """`GRANT ROLE role TO { ROLE role | USER user }`, with either `to_role` or `to_user`."""

    role: Identifier
    to_role: Identifier | None
    to_user: str | None = field(default=None)

    def sql(self) -> str:
        return f"GRANT ROLE {self.role} TO {_member(self.to_role, self.to_user)}"


@grammar("GRANT ROLE")
def grant_role(cursor: Cursor) -> GrantRole:
    role = cursor.identifier("the name of a role")
    cursor.expect("TO")
    return GrantRole(*cursor.origin, role, *_accept_member(cursor))


@dataclass(frozen=True)
class RevokeRole(Statement):
    """`REVOKE ROLE role FROM { ROLE role | USER user }`, with either `from_role` or `from_user`."""

    role: Identifier
    from_role: Identifier | None
    from_user: str | None = None

    def sql(self) -> str:
        return f"REVOKE ROLE {self.role} FROM {_member(self.from_role, self.from_user)}"


@grammar("REVOKE ROLE")
def revoke_role(cursor: Cursor) -> RevokeRole:
    role = cursor.identifier("the name of a role")
    cursor.expect("FROM")
    return RevokeRole(*cursor.origin, role, *_accept_member(cursor))


@dataclass(frozen=True)
class ListGrants(Statement):
    """`LIST GRANTS [ON target | TO ROLE role | OF ROLE role]`: on an object, to a role, or of a role to others; else all."""

    target: Target | None = None
    to_role: Identifier | None = None
    of_role: Identifier | None = None

    def sql(self) -> str:
        if self.target is not None:
            return f"LIST GRANTS ON {self.target.sql()}"
        if self.to_role is not None:
            return f"LIST GRANTS TO ROLE {self.to_role}"
        return f"LIST GRANTS OF ROLE {self.of_role}" if self.of_role is not None else "LIST GRANTS"


@grammar("LIST GRANTS")
def list_grants(cursor: Cursor) -> ListGrants:
    if cursor.at("ON"):
        return ListGrants(*cursor.origin, target=_target(cursor))
    if cursor.accept("TO", "ROLE"):
        return ListGrants(*cursor.origin, to_role=cursor.identifier("the name of a role"))
    if cursor.accept("OF", "ROLE"):
        return ListGrants(*cursor.origin, of_role=cursor.identifier("the name of a role"))
    return ListGrants(*cursor.origin)


def _privileges(cursor: Cursor) -> tuple[Identifier, ...]:
    if cursor.accept("ALL"):
        cursor.accept("PRIVILEGES")
        return ()
    privileges = [cursor.identifier("a privilege, such as SELECT, or ALL PRIVILEGES")]
    while cursor.accept(","):
        privileges.append(cursor.identifier("a privilege"))
    return tuple(privileges)


def _future(cursor: Cursor) -> tuple[str, Target]:
    several = cursor.accept_any(*FUTURE)
    if several is None:
        raise cursor.error(", ".join(FUTURE))
    cursor.expect("IN")
    return FUTURE[several], _place(cursor, _PLACES.get(FUTURE[several], ("ORGANIZATION",)))


def several(kind: str) -> str:
    """Return the word of `FUTURE` for a kind; for any other text the text, which the grammar refuses."""
    return next((word for word, word_kind in FUTURE.items() if word_kind == kind), kind)


def _place(cursor: Cursor, places: tuple[str, ...]) -> Target:
    kind = cursor.accept_any(*places)
    if kind is None:
        raise cursor.error(" or ".join(places))
    if kind == "ORGANIZATION":
        return Target()
    return Target(
        kind, cursor.qualified_name(f"the name of the {kind.lower()}", 2 if kind == "SCHEMA" else 1)
    )


def _target(cursor: Cursor) -> Target:
    cursor.expect("ON")
    if cursor.accept("ORGANIZATION"):
        return Target()
    if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept_any(*_RELATIONS):
        kind: str | None = "RELATION"
    else:
        kind = cursor.accept_any(*KINDS)
    if kind is None:
        hint = "Write the kind of the object before its name, such as ON RELATION orders."
        raise cursor.error(f"ORGANIZATION, {', '.join(KINDS)}", hint=hint)
    if kind == "QUERY":
        return Target(kind, cursor.query_reference())
    if kind == "FUNCTION":
        return Target(kind, QualifiedName((cursor.signature(),)))
    most = {"SCHEMA": 2, "RELATION": 3}.get(kind, 1)
    return Target(kind, cursor.qualified_name(f"the name of the {kind.lower()}", most))


def _roles(cursor: Cursor) -> tuple[Identifier, ...]:
    cursor.expect("ROLE", hint="Privileges belong to roles: write ROLE before the name of a role.")
    roles = [cursor.identifier("the name of a role")]
    while cursor.accept(","):
        roles.append(cursor.identifier("the name of a role"))
    return tuple(roles)


def _accept_member(cursor: Cursor) -> tuple[Identifier | None, str | None]:
    if cursor.accept("ROLE"):
        return cursor.identifier("the name of a role"), None
    cursor.expect("USER")
    token = cursor.token
    if token is not None and cursor.source.text[token.start] == "'":
        return None, cursor.string()
    return None, cursor.identifier("the name of a user").name


def _member(role: Identifier | None, user: str | None) -> str:
    return f"ROLE {role}" if role is not None else f"USER {Identifier(user or '')}"


def _listed(privileges: tuple[Identifier, ...]) -> str:
    return (
        ", ".join(str(name) if str(name).startswith('"') else str(name).upper() for name in privileges)
        or "ALL PRIVILEGES"
    )


def _names(roles: tuple[Identifier, ...]) -> str:
    return ", ".join(map(str, roles))
