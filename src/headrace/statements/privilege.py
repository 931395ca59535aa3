"""Privileges: CAN I and CAN ROLE."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from headrace.catalog.access import ON_ORGANIZATION, Privilege
from headrace.catalog.kinds import BY_NAME
from headrace.catalog.kinds.spec import Path
from headrace.catalog.policy import Requirement, lacking
from headrace.core.errors import UserError
from headrace.core.names import Identifier, QualifiedName, RelationName
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import suggestion
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.core.wording import with_article
from headrace.sql.statements.privilege import CanI
from headrace.statements.base import Execution, Outcome, handles
from headrace.statements.system import system_relation_of


def _requirements(statement: CanI, run: Execution) -> Iterator[Requirement]:
    """Yield MANAGE_GRANTS for a role that the active role does not inherit: what a role may do shows what exists."""
    if statement.role is None:
        return
    role = run.named_role(statement.role)
    if role.name not in run.policy.graph.inherited(run.role):
        yield Requirement(Privilege.MANAGE_GRANTS)


@handles(CanI, requires=_requirements)
async def can_i(statement: CanI, run: Execution) -> Outcome:
    """Return whether a role may use the privilege, and what is missing; for CAN ROLE also where it has the privileges from. For an object
    that the role may not see, the result is the same as for a missing object."""
    privilege = privilege_of(statement.privilege, statement.kind)
    if statement.role is not None:
        run = replace(run, context=replace(run.context, role=run.named_role(statement.role).name))
    reason = await asyncio.to_thread(_refused, privilege, statement, run)
    allowed = reason is None
    if allowed and statement.role is not None:
        reason = await asyncio.to_thread(_sources, privilege, statement, run)
    return Outcome(result([("Allowed", BOOLEAN), ("Reason", VARCHAR)], [(allowed, reason)]))


def privilege_of(word: Identifier, kind: str | None) -> Privilege:
    """Return the privilege that a word means on a kind of object (None: the organization); raises UserError 42601."""
    if kind is None:
        known = ON_ORGANIZATION
    else:
        granted = (Privilege.USAGE,) if kind == "QUERY" else BY_NAME[kind.lower()].privileges
        known = (*granted, Privilege.OWNERSHIP)
    match = next((privilege for privilege in known if privilege.value == word.name.upper()), None)
    if match is None:
        names = [privilege.value for privilege in known]
        what = "the organization" if kind is None else with_article(kind.lower().replace("_", " "))
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"expected a privilege on {what}, found {word.name.upper()}",
            hint=suggestion(word.name.upper(), names, otherwise=f"The privileges are {', '.join(names)}."),
            span=word.span,
        )
    return match


def _refused(privilege: Privilege, statement: CanI, run: Execution) -> str | None:
    kind, name = statement.kind, statement.name
    if kind is None or name is None:
        requirement = Requirement(privilege)
    elif kind == "QUERY":
        try:
            requirement = Requirement(privilege, run.query(name))
        except UserError as error:
            return error.message
    else:
        return _refused_on(privilege, kind.lower(), name, run)
    missing = run.policy.missing(run.role, requirement)
    return _refusal(missing, run) if missing else None


def _sources(privilege: Privilege, statement: CanI, run: Execution) -> str:
    """Return the chain of the privileges that the role has, each with its source, outermost first."""
    kind, name = statement.kind, statement.name
    if kind is None or name is None:
        target = None
    elif kind == "QUERY":
        target = run.query(name)
    else:
        path = _path(kind.lower(), name, run)
        if kind == "RELATION" and system_relation_of(RelationName(*path)) is not None:
            return "system relations are readable by every role"
        target = run.catalog.snapshot().get(BY_NAME[kind.lower()], path)
    chain = run.policy.chain(Requirement(privilege, target))
    return " → ".join(f"{step} ({run.policy.source(run.role, step)})" for step in chain)


def _refusal(missing: list[Requirement], run: Execution) -> str:
    holder = run.policy.holder(missing[-1])
    return f"{lacking(run.role, missing)}; USE ROLE {holder}, or ask its holder to GRANT it."


def _refused_on(privilege: Privilege, kind: str, name: QualifiedName, run: Execution) -> str | None:
    """Return the refusal, from names alone, so that a missing object looks like an object that the role may not know of."""
    path = _path(kind, name, run)
    system = system_relation_of(RelationName(*path)) if kind == "relation" else None
    if system is not None:
        if privilege is not Privilege.SELECT:
            return f"{name} is in a schema of system relations, which are read-only"
        lacked_here = run.policy.missing(run.role, Requirement(system.needs)) if system.needs else []
        return _refusal(lacked_here, run) if lacked_here else None
    state, steps = run.catalog.snapshot(), [*_steps(privilege, kind, path)]
    target = state.get(BY_NAME[kind], path)
    if target is not None and state.policy.known(run.role, target):
        missing = state.policy.missing(run.role, Requirement(privilege, target))
        return _refusal(missing, run) if missing else None
    lacked = []
    for needed, of_kind, where in steps:
        container = state.get(BY_NAME[of_kind], where)
        if container is None or not state.policy.may(run.role, needed, container):
            lacked.append(f"{needed.value} on {BY_NAME[of_kind].described(where)}")
    return f"{lacking(run.role, lacked)}: {BY_NAME[kind].described(path)} does not exist or is not authorized"


def _steps(privilege: Privilege, kind: str, path: Path) -> Iterator[tuple[Privilege, str, Path]]:
    parent = BY_NAME[kind].parent
    if parent is not None:
        yield from _steps(Privilege.USAGE, parent, path[:-1])
    yield privilege, kind, path


def _path(kind: str, name: QualifiedName, run: Execution) -> Path:
    """Return the full name of an object, existing or not. Raises UserError 3D002 if the name needs a database and none is selected."""
    if kind == "function":
        try:
            return (str(run.function(name.last).signature),)
        except UserError:
            return (str(name.last),)
    length = {"schema": 2, "relation": 3}.get(kind, 1)
    selected = (run.context.database, run.context.schema or "public")[: length - 1]
    path = (*selected[: length - len(name.parts)], *name.path[-length:])
    if None in path:
        run.database_of(None)
    return tuple(part for part in path if part is not None)
