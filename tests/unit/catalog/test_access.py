"""Who may do what: inheritance upward, ownership by role, refusal by default."""

from __future__ import annotations

import datetime

import pytest

from headrace.catalog.access import BUILT_IN_ROLES, Privilege, allows, authorize, inherited, roles_of
from headrace.catalog.objects import Database, Principal
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ANNA = Principal("anna", ("sysadmin",), "sysadmin")


def test_a_role_has_what_the_roles_beneath_it_have() -> None:
    assert inherited("orgadmin") == set(BUILT_IN_ROLES)
    assert inherited("sysadmin") == {"sysadmin", "public"}
    assert roles_of(ANNA) == {"sysadmin", "public"}


@pytest.mark.parametrize("lower", BUILT_IN_ROLES)
def test_whoever_inherits_a_role_may_do_at_least_as_much(lower: str) -> None:
    higher = [role for role in BUILT_IN_ROLES if lower in inherited(role)]
    target = Database("d", lower, NOW)
    for privilege in Privilege:
        for role in higher:
            assert allows(role, privilege, target)
            assert allows(role, privilege, None) >= allows(lower, privilege, None)


def test_what_is_not_granted_is_refused_with_role_privilege_and_object_named() -> None:
    with pytest.raises(UserError) as failure:
        authorize(ANNA, "public", Privilege.OWNERSHIP, Database("sales", "sysadmin", NOW))
    assert failure.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    for word in ("public", "OWNERSHIP", "database sales"):
        assert word in failure.value.message


def test_a_role_that_the_user_does_not_hold_gives_nothing() -> None:
    with pytest.raises(UserError) as failure:
        authorize(ANNA, "orgadmin", Privilege.CREATE_STORE)
    assert failure.value.state is SqlState.INSUFFICIENT_PRIVILEGE
