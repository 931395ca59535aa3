"""Access control: inheritance upward, ownership by role, refusal by default, and no access to data without a chain."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.access import BUILT_IN_ROLE_GRANTS, BUILT_IN_ROLES, ON_ORGANIZATION, Grant, Privilege
from headrace.catalog.kinds import KINDS, spec_of
from headrace.catalog.objects import (
    Database,
    Organization,
    Principal,
    Relation,
    RelationKind,
    Role,
    SchemaObject,
    StoreFacts,
)
from headrace.catalog.policy import Policy, Requirement, RoleGraph, check_role, privileges_on, refusal
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ANNA = Principal("anna", ("sysadmin",), "sysadmin")
OWNERS = ("sysadmin", "a", "b", "c")
ROLES = (*BUILT_IN_ROLES, "a", "b", "c", "d")


def relation(owner: str, schema: str = "s") -> Relation:
    name = RelationName("db", schema, "r")
    return Relation(name, RelationKind.STREAM, Schema(()), owner, NOW, NOW, id=f"r-{schema}")


def policy(
    *objects: object, granted: dict[str, frozenset[str]] | None = None, grants: tuple[Grant, ...] = ()
) -> Policy:
    known: dict[str, dict[tuple[str, ...], object]] = {spec.kind: {} for spec in KINDS}
    for value in objects:
        known[spec_of(value).kind][spec_of(value).path(value)] = value
    given: dict[str, dict[Privilege, dict[str, Grant]]] = {}
    for grant in grants:
        given.setdefault(grant.object, {}).setdefault(grant.privilege, {})[grant.role] = grant
    graph = RoleGraph({**BUILT_IN_ROLE_GRANTS, **(granted or {})})
    return Policy(Organization("org", "o", NOW), known, graph, given)


def world(owner: str = "sysadmin", *grants: Grant, **granted: frozenset[str]) -> tuple[Policy, Relation]:
    """A relation in a schema of a database, all of one owner."""
    database = Database("db", owner, NOW, id="db")
    schema = SchemaObject("db", "s", owner, NOW, id="s")
    target = relation(owner)
    return policy(database, schema, target, granted=granted, grants=grants), target


def test_a_role_has_what_the_roles_granted_to_it_have() -> None:
    graph = RoleGraph()
    assert graph.inherited("orgadmin") == set(BUILT_IN_ROLES)
    assert graph.inherited("sysadmin") == {"sysadmin", "public"}
    assert graph.roles_of(ANNA) == {"sysadmin", "public"}
    assert RoleGraph({**BUILT_IN_ROLE_GRANTS, "sysadmin": frozenset({"a"})}).inherited("orgadmin") >= {"a"}


@pytest.mark.parametrize("lower", BUILT_IN_ROLES)
def test_whoever_inherits_a_role_may_do_at_least_as_much(lower: str) -> None:
    rules, target = world(lower)
    for role in (role for role in BUILT_IN_ROLES if lower in rules.graph.inherited(role)):
        assert all(rules.check(role, privilege, target) for privilege in Privilege)
        assert all(
            rules.check(role, privilege) >= rules.check(lower, privilege) for privilege in ON_ORGANIZATION
        )


def test_what_is_not_known_of_is_told_of_as_what_does_not_exist() -> None:
    rules, target = world()
    error = refusal(rules, "public", Requirement(Privilege.OWNERSHIP, target))
    assert (error.state, error.message) == (
        SqlState.RELATION_NOT_FOUND,
        "the stream db.s.r does not exist or is not authorized",
    )
    assert "USE ROLE" in (error.hint or "")


def test_what_is_known_of_is_refused_with_the_chain_that_is_missing() -> None:
    rules, target = world("sysadmin", Grant("r-s", Privilege.SELECT, "a", "sysadmin"))
    error = refusal(rules, "a", Requirement(Privilege.SELECT, target))
    assert error.state is SqlState.INSUFFICIENT_PRIVILEGE
    assert "USAGE on the database db → USAGE on the schema db.s" in error.message
    assert not rules.visible("a", target)


def test_a_role_that_the_user_does_not_hold_is_refused() -> None:
    with pytest.raises(UserError) as failure:
        check_role(RoleGraph(), ANNA, "orgadmin", exists=True)
    assert failure.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    with pytest.raises(UserError) as failure:
        check_role(RoleGraph(), ANNA, "nobody", exists=False)
    assert failure.value.state is SqlState.ROLE_NOT_FOUND


def test_a_grant_option_gives_the_right_to_grant_and_no_other_privilege() -> None:
    rules, target = world("sysadmin", Grant("r-s", Privilege.SELECT, "a", "sysadmin", grantable=True))
    assert rules.grantor("a", Requirement(Privilege.SELECT, target)) == "a"
    assert rules.grantor("a", Requirement(Privilege.INSERT, target)) is None
    assert rules.grantor("securityadmin", Requirement(Privilege.INSERT, target)) == "securityadmin"
    assert rules.grantor("orgadmin", Requirement(Privilege.INSERT, target)) == "sysadmin"


# --- properties

GRAPHS = st.fixed_dictionaries(
    {
        "sysadmin": st.frozensets(st.sampled_from("abcd")).map(lambda below: below | {"public"}),
        # Downward only, as GRANT ROLE keeps them: without circles.
        "a": st.frozensets(st.sampled_from("bcd")),
        "b": st.frozensets(st.sampled_from("cd")),
        "c": st.frozensets(st.sampled_from("d")),
    }
)
PLACES = ("org", "db", "s", "t", "r-s", "r-t", "k")
GRANTS = st.lists(
    st.builds(
        Grant,
        st.sampled_from(PLACES),
        st.sampled_from([privilege for privilege in Privilege if privilege is not Privilege.OWNERSHIP]),
        st.sampled_from(ROLES),
        st.just("sysadmin"),
        st.booleans(),
    ),
    max_size=12,
).map(tuple)


@st.composite
def worlds(draw: Callable[[st.SearchStrategy[object]], object]) -> tuple[Policy, tuple[object, ...]]:
    """A database with two schemas and a relation in each, and a store; owners, role graph and grants at random."""
    owner = st.sampled_from(OWNERS)
    objects = (
        Database("db", str(draw(owner)), NOW, id="db"),
        SchemaObject("db", "s", str(draw(owner)), NOW, bool(draw(st.booleans())), id="s"),
        SchemaObject("db", "t", str(draw(owner)), NOW, id="t"),
        relation(str(draw(owner)), "s"),
        relation(str(draw(owner)), "t"),
        StoreFacts("k", "kafka", str(draw(owner)), NOW, NOW, id="k"),
        Role("d", "useradmin", NOW, id="d"),
    )
    return policy(*objects, granted=draw(GRAPHS), grants=draw(GRANTS)), objects  # type: ignore[arg-type]


def holds(
    rules: Policy, role: str, privilege: Privilege, target: object, seen: frozenset[str] = frozenset()
) -> bool:
    """The rule in plain code: the role owns the object or was granted the privilege, or a role granted to it was."""
    granted = any(
        role == grant.role
        for grant in rules.grants.get(target.id, {}).get(privilege, {}).values()  # type: ignore[attr-defined]
    )
    if target.owner == role or granted:  # type: ignore[attr-defined]
        return True
    below = set(rules.graph.granted.get(role, ())) | ({"public"} - {role})
    return any(holds(rules, lower, privilege, target, seen | {role}) for lower in below - seen)


@settings(max_examples=150)
@given(worlds())
def test_there_is_no_way_to_data_without_a_chain(made: tuple[Policy, tuple[object, ...]]) -> None:
    rules, (database, s, t, in_s, in_t, *_) = made
    for role in ROLES:
        for schema, target in ((s, in_s), (t, in_t)):
            for privilege in (Privilege.SELECT, Privilege.INSERT):
                chain = (
                    holds(rules, role, Privilege.USAGE, database)
                    and holds(rules, role, Privilege.USAGE, schema)
                    and holds(rules, role, privilege, target)
                )
                assert rules.check(role, privilege, target) == chain
                assert (rules.missing(role, Requirement(privilege, target)) == []) == chain


@settings(max_examples=150)
@given(worlds())
def test_what_is_listed_is_what_some_check_allows(made: tuple[Policy, tuple[object, ...]]) -> None:
    rules, objects = made
    for role in ROLES:
        for target in objects:
            allowed = any(rules.check(role, privilege, target) for privilege in Privilege)
            # Who decides on what is in a schema with managed access must see it, and no more.
            if isinstance(target, Relation) and rules.decides(target) in rules.graph.inherited(role):
                lacked = rules.missing(role, Requirement(Privilege.SELECT, target))
                allowed |= all(step.privilege is not Privilege.USAGE for step in lacked)
            everybodys = isinstance(target, Role) or rules.check(role, Privilege.MANAGE_GRANTS)
            assert rules.visible(role, target) == (allowed or everybodys)


@settings(max_examples=100)
@given(worlds())
def test_whoever_is_above_a_role_may_do_what_it_may(made: tuple[Policy, tuple[object, ...]]) -> None:
    rules, objects = made
    for role in ROLES:
        for lower in rules.graph.inherited(role):
            for target in objects:
                for privilege in privileges_on(target):
                    assert rules.check(role, privilege, target) >= rules.check(lower, privilege, target)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_nobody_grants_but_who_decides(made: tuple[Policy, tuple[object, ...]]) -> None:
    """An object's owner, a grant option and MANAGE_GRANTS; in a schema with managed access its owner and MANAGE_GRANTS alone."""
    rules, (_, s, t, in_s, in_t, *_) = made
    for role in ROLES:
        inherited = rules.graph.inherited(role)
        for schema, target in ((s, in_s), (t, in_t)):
            for privilege in (Privilege.SELECT, Privilege.INSERT, Privilege.OWNERSHIP):
                holders = rules.grants.get(target.id, {}).get(privilege, {})  # type: ignore[attr-defined]
                option = any(grant.grantable for name, grant in holders.items() if name in inherited)
                managed = schema.managed  # type: ignore[attr-defined]
                decides = schema.owner if managed else target.owner  # type: ignore[attr-defined]
                may = decides in inherited or (option and not managed) or rules.manages_grants(role)
                assert (
                    rules.grantor(role, Requirement(privilege, target, grantable=True)) is not None
                ) == may
