"""Privileges in one catalog state. Listing and checking are one question: a role sees an object if it has a privilege on it. See
`access` for the words and ADR 27 for the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.catalog.access import (
    BUILT_IN_PRIVILEGES,
    BUILT_IN_ROLE_GRANTS,
    ON_ORGANIZATION,
    ORGADMIN,
    PUBLIC,
    Grant,
    Privilege,
)
from headrace.catalog.kinds import described, kind_of
from headrace.catalog.kinds.spec import Path
from headrace.catalog.objects import (
    Need,
    Organization,
    Principal,
    Query,
    Relation,
    RelationKind,
    Role,
    SchemaObject,
)
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import plural

Holders = Mapping[str, Grant]
"""Grants of one privilege on one object, by the role that has it."""
Grants = Mapping[str, Mapping[Privilege, Holders]]
"""All grants, by the object's id."""


@dataclass(frozen=True)
class Requirement:
    """A privilege that a statement needs on an object; `target` None is the organization. `grantable`: with the right to grant it.

    `through` is the materialized view whose query uses the target: then the view's owner must have the privilege, instead of the
    active role.
    """

    privilege: Privilege
    target: object | None = None
    grantable: bool = False
    through: Relation | None = None

    def __str__(self) -> str:
        option = " WITH GRANT OPTION" if self.grantable else ""
        owner = f" for {self.through.owner}, the owner of {named(self.through)}" if self.through else ""
        return f"{self.privilege.value} on {named(self.target)}{option}{owner}"


@dataclass(frozen=True)
class RoleGraph:
    """Roles granted to roles: `granted` maps a role's name to the roles granted to it directly."""

    granted: Mapping[str, frozenset[str]] = field(default_factory=lambda: BUILT_IN_ROLE_GRANTS)
    _closures: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)

    def inherited(self, role: str) -> frozenset[str]:
        """Return `role` and every role that it inherits, including `public`."""
        known = self._closures.get(role)
        if known is not None:
            return known
        closure, waiting = {role, PUBLIC}, [role]
        while waiting:
            below = self.granted.get(waiting.pop(), frozenset()) - closure
            closure |= below
            waiting += below
        self._closures[role] = frozenset(closure)
        return self._closures[role]

    def roles_of(self, principal: Principal) -> frozenset[str]:
        """Return the roles that a principal may activate: the granted roles and all roles that they inherit."""
        return frozenset[str]().union(*map(self.inherited, principal.roles))

    def commands(self, principal: Principal, role: Role) -> bool:
        """True if a principal may take on a role, or owns it and so may grant it to itself."""
        return not self.roles_of(principal).isdisjoint((role.name, role.owner))

    def first_role(self, principal: Principal) -> str:
        """Return the initial role of a principal's session: the default role, or `public` if that role was dropped."""
        default = principal.default_role
        return default if default in self.roles_of(principal) else PUBLIC


@dataclass(frozen=True)
class Policy:
    """Answers for one state: the objects by kind and path, the graph of roles, and the grants."""

    organization: Organization
    objects: Mapping[str, Mapping[Path, Any]]
    graph: RoleGraph
    grants: Grants
    _entered: dict[tuple[str, str, Path], bool] = field(default_factory=dict, compare=False, repr=False)

    # --- the question

    def check(self, role: str, privilege: Privilege, target: object | None = None) -> bool:
        """True if `role` may use `privilege` on `target` (None: the organization): it has the privilege and USAGE on all that the target
        is in."""
        return self.fulfils(role, Requirement(privilege, target))

    def fulfils(self, role: str, requirement: Requirement) -> bool:
        """Check a requirement as `check` does; it may require the grant option, or concern the owner of a view."""
        if requirement.through is not None:
            role = requirement.through.owner
        holds = self._holds(role, requirement)
        return holds and (requirement.grantable or self._enters(role, requirement.target))

    def visible(self, role: str, target: object) -> bool:
        """True if `role` may know of an object: it has a privilege on it, or may grant on it. Roles are known to everybody."""
        if isinstance(target, Role) or (self._has_any(role, target) and self._enters(role, target)):
            return True
        return self.manages_grants(role)

    def known(self, role: str, target: object) -> bool:
        """True if `role` has some privilege on the object itself, regardless of its place."""
        return isinstance(target, Role) or self._has_any(role, target) or self.manages_grants(role)

    def may(self, role: str, privilege: Privilege, target: object) -> bool:
        """True if `role` has a privilege on the object itself, regardless of its place."""
        return self._holds(role, Requirement(privilege, target))

    def manages_grants(self, role: str) -> bool:
        """True if `role` may grant everything to everybody."""
        return self._holds(role, Requirement(Privilege.MANAGE_GRANTS))

    # --- stored requirements of queries

    def need(self, requirement: Requirement) -> Need:
        """Return a requirement as it is stored."""
        view = requirement.through.id if requirement.through is not None else None
        return Need(requirement.privilege.value, self._id(requirement.target), view)

    def refuse_query(self, query: Query, objects: Mapping[str, Any]) -> None:
        """Raises UserError 42501 when the role of a query lacks something that the query needs, or lost the role itself; see `lost`."""
        reason = self.lost(query.owner, query.needs, objects)
        if reason is not None:
            raise UserError(
                SqlState.INSUFFICIENT_PRIVILEGE,
                reason,
                hint=(
                    "The query runs with the privileges of that role. GRANT the missing privilege, then "
                    "RESTART QUERY."
                ),
            )

    def lost(self, role: str, needs: Iterable[Need], objects: Mapping[str, Any]) -> str | None:
        """Return the first of `needs` that `role`, or the owner of a view, lacks; None if none is missing. `objects` are the catalog's
        by id. Dropped objects are ignored."""
        for need in needs:
            of_organization = need.object == self.organization.id
            target, view = objects.get(need.object), objects.get(need.view or "")
            if (target is None and not of_organization) or (view is None and need.view is not None):
                continue
            requirement = Requirement(Privilege(need.privilege), target, through=view)
            if not self.fulfils(role, requirement):
                return self.lacks(role, requirement)
        return None

    def lacks(self, role: str, requirement: Requirement) -> str:
        """Return the missing privilege as a text for `role`; the text must not reveal which objects a view's query reads."""
        view = requirement.through
        if view is None:
            return lacking(role, self.missing(role, requirement))
        if view.owner in self.graph.inherited(role) or self.known(role, requirement.target):
            own = replace(requirement, through=None)
            return f"{named(view)}: {lacking(view.owner, self.missing(view.owner, own))}"
        return (
            f"{named(view)}: its owner, the role {view.owner!r}, lacks a privilege on a relation that the "
            "view reads"
        )

    # --- why, and by whom

    def chain(self, requirement: Requirement) -> Iterator[Requirement]:
        """Yield the chain of a requirement, outermost first: USAGE on the database, USAGE on the schema, and the requirement itself.
        Granting needs only the last."""
        place = _place(requirement.target) if not requirement.grantable else None
        if place is not None:
            yield from self.chain(Requirement(Privilege.USAGE, self.objects[place[0]][place[1]]))
        yield requirement

    def missing(self, role: str, requirement: Requirement) -> list[Requirement]:
        """Return the members of a requirement's chain that `role` lacks, outermost first."""
        return [step for step in self.chain(requirement) if not self._holds(role, step)]

    def source(self, role: str, step: Requirement) -> str | None:
        """Return how `role` has a privilege on the object itself: a text that names the owner or the role that has the grant; None if
        it has no such privilege. The role's own grant comes before those that it inherits."""
        inherited, target = self.graph.inherited(role), step.target
        if target is not None and owner_of(target) in inherited:
            return f"owned by {owner_of(target)}"
        holders = self._holders(step)
        granted = [
            name for name in sorted(inherited, key=lambda name: (name != role, name)) if name in holders
        ]
        if granted:
            return f"granted to {granted[0]}"
        built_in = (
            name
            for name in sorted(inherited)
            if name == ORGADMIN or step.privilege in BUILT_IN_PRIVILEGES.get(name, ())
        )
        name = next(built_in, None) if target is None else None
        return f"built into {name}" if name is not None else None

    def holder(self, requirement: Requirement) -> str:
        """Return a role that fulfils a requirement: the object's owner."""
        if requirement.target is not None:
            return self.decides(requirement.target) if requirement.grantable else owner_of(requirement.target)
        held = (
            role for role, privileges in BUILT_IN_PRIVILEGES.items() if requirement.privilege in privileges
        )
        return next(held, ORGADMIN) if not requirement.grantable else ORGADMIN

    def grantor(self, role: str, requirement: Requirement) -> str | None:
        """Return the role whose grant option is used, `role` or a role that it inherits; None if none has the grant option."""
        inherited, target = self.graph.inherited(role), requirement.target
        decides = self.decides(target)
        if decides in inherited:
            return decides
        holders = self._holders(requirement) if self._managed_by(target) is None else {}
        given = sorted(name for name, grant in holders.items() if grant.grantable and name in inherited)
        if given:
            return given[0]
        return role if self.manages_grants(role) else None

    def decides(self, target: object | None) -> str:
        """Return the role that may grant on an object: its owner, or in a schema with managed access that schema's."""
        return self._managed_by(target) or (ORGADMIN if target is None else owner_of(target))

    def _managed_by(self, target: object | None) -> str | None:
        place = _place(target)
        schema = self.objects[place[0]].get(place[1]) if place is not None else None
        return schema.owner if isinstance(schema, SchemaObject) and schema.managed else None

    def _enters(self, role: str, target: object | None) -> bool:
        """True if `role` has USAGE on all that the target is in. It is the same for all that is in one schema."""
        place = _place(target)
        if place is None:
            return True
        known = self._entered.get((role, *place))
        if known is None:
            known = self.check(role, Privilege.USAGE, self.objects[place[0]][place[1]])
            self._entered[role, *place] = known
        return known

    def _holds(self, role: str, step: Requirement) -> bool:
        """True if `role` or a role that it inherits has a privilege on the object itself."""
        if step.grantable:
            return self.grantor(role, step) is not None
        inherited, target, privilege = self.graph.inherited(role), step.target, step.privilege
        if target is None:
            built_in = (privilege in BUILT_IN_PRIVILEGES.get(name, ()) for name in inherited)
            if ORGADMIN in inherited or any(built_in):
                return True
        elif owner_of(target) in inherited:
            return True
        return not _disjoint(inherited, self._holders(step))

    def _has_any(self, role: str, target: object) -> bool:
        inherited = self.graph.inherited(role)
        if owner_of(target) in inherited or self._managed_by(target) in inherited:
            return True
        granted = self.grants.get(self._id(target), {})
        return not all(_disjoint(inherited, holders) for holders in granted.values())

    def _holders(self, step: Requirement) -> Holders:
        return self.grants.get(self._id(step.target), {}).get(step.privilege, {})

    def _id(self, target: Any) -> str:
        identifier: str = self.organization.id if target is None else target.id
        return identifier


def _disjoint(inherited: frozenset[str], holders: Holders) -> bool:
    """True if the two have no element in common. Iterates over the shorter one."""
    if len(holders) < len(inherited):
        return not any(name in inherited for name in holders)
    return not any(name in holders for name in inherited)


def owner_of(target: Any) -> str:
    """Return the role that owns an object."""
    owner: str = target.owner
    return owner


def _place(target: object | None) -> tuple[str, Path] | None:
    """Return kind and path of an object's container; None for the organization. System relations are public."""
    if target is None or (isinstance(target, Relation) and target.kind is RelationKind.SYSTEM):
        return None
    kind = kind_of(target)
    return None if kind.parent is None else (kind.parent, kind.path(target)[:-1])


def privileges_on(target: object | None) -> tuple[Privilege, ...]:
    """Return the privileges that can be granted on an object, or on the organization."""
    return ON_ORGANIZATION if target is None else kind_of(target).privileges


def named(target: object | None) -> str:
    """Return an object as a text names it."""
    if target is None:
        return "the organization"
    if isinstance(target, Relation):
        return f"the {target.kind.value.replace('_', ' ')} {target.name}"
    return described(target)


def check_role(
    graph: RoleGraph, principal: Principal, role: str, *, exists: bool, span: Span | None = None
) -> None:
    """Raises UserError 3D001 for a role that does not exist, 42501 for a role that `principal` may not use."""
    held = graph.roles_of(principal)
    if role in held:
        return
    hint = f"USE ROLE one of {', '.join(sorted(held))}."
    if not exists:
        raise UserError(SqlState.ROLE_NOT_FOUND, f"the role {role!r} does not exist", hint=hint, span=span)
    message = f"the user {principal.user!r} does not hold the role {role!r}"
    raise UserError(SqlState.INSUFFICIENT_PRIVILEGE, message, hint=hint, span=span)


def lacking(role: str, missing: Iterable[object]) -> str:
    """Return the privileges that a role lacks as a text, outermost first."""
    steps = [*map(str, missing)]
    return f"the role {role!r} lacks the {plural('privilege', len(steps))} {' → '.join(steps)}"


def refusal(policy: Policy, role: str, requirement: Requirement) -> UserError:
    """Return the refusal: the same as for a missing object if `role` may not know the object, else 42501 with the missing part of the
    chain."""
    target = requirement.target
    if target is not None and requirement.through is None and not policy.known(role, target):
        return UserError(
            kind_of(target).missing,
            f"{named(target)} does not exist or is not authorized",
            hint=(
                "Check the name. If the object exists, USE ROLE a role that has a privilege on it, or ask "
                "its owner to GRANT one."
            ),
        )
    if requirement.through is not None:
        hint = "Queries cannot follow the view until that role has the privilege again."
        return UserError(SqlState.INSUFFICIENT_PRIVILEGE, policy.lacks(role, requirement), hint=hint)
    missing = policy.missing(role, requirement)
    return UserError(
        SqlState.INSUFFICIENT_PRIVILEGE,
        policy.lacks(role, requirement),
        hint=f"USE ROLE {policy.holder(missing[-1])}, or ask its holder to GRANT it.",
    )
