"""USE and SET DEFAULT: change the session's current names, and the initial names of the user's sessions."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.catalog.access import Privilege
from headrace.catalog.kinds import spec_of
from headrace.catalog.objects import Database, SchemaObject
from headrace.catalog.policy import Requirement
from headrace.core.errors import UserError
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.sql.statements.session import SetDefault, Use
from headrace.statements.base import Execution, Outcome, ddl, handles
from headrace.statements.user import refuse_part


def _usage(statement: Use | SetDefault, run: Execution) -> list[Requirement]:
    """Return USAGE of the selected object. Roles are checked by the user, not by the active role."""
    if statement.kind in ("ORGANIZATION", "ROLE"):
        return []
    return [Requirement(Privilege.USAGE, run.object(statement.kind, statement.name))]


@handles(Use, requires=_usage, checked=True)
async def use(statement: Use, run: Execution) -> Outcome:
    """Answers with the changed context."""
    return await _USES[statement.kind](statement, run)


@handles(SetDefault, requires=_usage)
async def set_default(statement: SetDefault, run: Execution) -> Outcome:
    """Set a user's default; the session keeps its names. As with USE, a database comes with its schema `public` and a schema with its
    database."""
    kind, user = statement.kind.lower(), run.principal.user
    refuse_part(run, "change the defaults", statement.span)
    if kind == "role":
        run.check_role(statement.name.last)
        name = statement.name.last.name
        await asyncio.to_thread(run.catalog.set_default_role, user, name)
        return Outcome(_default(kind, name))
    target: Any = run.object(statement.kind, statement.name)
    defaults: dict[str, Any] = {kind: target}
    if isinstance(target, Database):
        defaults["schema"] = run.catalog.schema(target.name, "public")
    elif isinstance(target, SchemaObject):
        defaults["database"] = run.catalog.database(target.database)
    ids = {word: chosen.id if chosen else None for word, chosen in defaults.items()}
    await asyncio.to_thread(run.catalog.set_defaults, user, ids)
    return Outcome(_default(kind, *spec_of(target).path(target)))


def _default(kind: str, *path: str) -> ResultSet:
    summary = f"{kind.replace('_', ' ')} {'.'.join(path)} is the default of new sessions"
    return ddl(kind, path[-1], "SET DEFAULT", summary, path)


async def _role(statement: Use, run: Execution) -> Outcome:
    name = statement.name.last.name
    run.check_role(statement.name.last)
    return Outcome(_used("role", name), run.with_context(role=name))


async def _database(statement: Use, run: Execution) -> Outcome:
    name = run.database_of(statement.name.last)
    return Outcome(_used("database", name), run.with_context(database=name, schema="public"))


async def _schema(statement: Use, run: Execution) -> Outcome:
    schema = run.schema(statement.name)
    used = _used("schema", schema.database, schema.name)
    return Outcome(used, run.with_context(database=schema.database, schema=schema.name))


async def _store(statement: Use, run: Execution) -> Outcome:
    store, _ = run.store(statement.name.last)
    return Outcome(_used("store", store.name), run.with_context(store=store.name))


async def _compute_pool(statement: Use, run: Execution) -> Outcome:
    pool = run.named_compute_pool(statement.name.last)
    return Outcome(_used("compute_pool", pool.name), run.with_context(compute_pool=pool.name))


async def _organization(statement: Use, run: Execution) -> Outcome:
    name = statement.name.last.name
    organization = run.catalog.organization()
    if name not in (organization.id, organization.name):
        raise UserError(
            SqlState.ORGANIZATION_NOT_FOUND,
            f"the organization {name!r} does not exist",
            hint="LIST ORGANIZATIONS shows the existing organization.",
            span=statement.name.span,
        )
    return Outcome(
        _used("organization", organization.name), run.with_context(organization_id=organization.id)
    )


def _used(kind: str, *path: str) -> ResultSet:
    return ddl(kind, path[-1], "USE", f"using {kind} {path[-1]}", path)


_USES = {
    "ORGANIZATION": _organization,
    "ROLE": _role,
    "DATABASE": _database,
    "SCHEMA": _schema,
    "STORE": _store,
    "COMPUTE_POOL": _compute_pool,
}
