"""SECRET: create, update, drop, describe, list. Source: dialect section 7.4. No statement shows the text of a secret."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from headrace.catalog.access import Privilege
from headrace.catalog.objects import SECRET_STRING, Secret
from headrace.catalog.policy import Requirement
from headrace.core.errors import InternalError, UserError
from headrace.core.properties import MASKED, TEXT, PropertyReader, PropertySpec, Scope, choice
from headrace.core.resultset import ResultSet, result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.sql.ast import Properties
from headrace.sql.statements.secret import (
    CreateSecret,
    DescribeSecret,
    DropSecret,
    RotateKey,
    UpdateSecret,
)
from headrace.statements.base import Execution, Outcome, ddl, handles, moment_text, now, on_organization
from headrace.statements.dropping import drop, ownership

TYPE = PropertySpec("type", choice("generic_string"), Scope.SECRET, "`generic_string`", default="needed")
STRING = PropertySpec(
    SECRET_STRING,
    TEXT,
    Scope.SECRET,
    "the secret value, for the properties that name the secret",
    secret=True,
)
DESCRIPTION = PropertySpec("description", TEXT, Scope.SECRET, "a text for LIST and DESCRIBE", default="none")
OTHERS = PropertySpec(
    "", TEXT, Scope.SECRET, "any other name: stored and masked like the secret value", secret=True, open=True
)
PROPERTIES = (TYPE, STRING, DESCRIPTION, OTHERS)


@handles(CreateSecret, requires=on_organization(Privilege.CREATE_SECRET), checked=True)
async def create_secret(statement: CreateSecret, run: Execution) -> Outcome:
    name = statement.name.name
    existing = next((secret for secret in run.catalog.secrets() if secret.name == name), None)
    exists = existing is not None
    if exists and not (statement.if_not_exists and run.knows(existing)):
        raise UserError(
            SqlState.DUPLICATE_SECRET,
            f"the secret {name!r} already exists",
            hint="Choose another name, or change it with UPDATE SECRET.",
            span=statement.name.span,
        )
    if not exists:
        reader = PropertyReader(
            statement.properties.entries, PROPERTIES, what="a secret", lacking=statement.span
        )
        kind, description = reader.require(TYPE), reader.take(DESCRIPTION)
        moment = now()
        held = _held(statement.properties)
        new_secret = Secret(name, kind, run.role, moment, moment, description, properties=held)
        await asyncio.to_thread(run.catalog.create_secret, new_secret)
    return Outcome(_answer(name, "CREATE", "already exists" if exists else "was created"))


@handles(UpdateSecret, requires=lambda statement, run: ownership(run.secret(statement.name), run))
async def update_secret(statement: UpdateSecret, run: Execution) -> Outcome:
    """Change properties. Stores and registries that name the secret use the new text at once, running queries at their next start."""
    facts = run.secret(statement.name)
    given = [entry for entry in statement.properties.entries if not entry.removed]
    reader = PropertyReader(given, PROPERTIES, what="a secret")
    reader.take(TYPE)
    removed = {entry.key for entry in statement.properties.entries if entry.removed}
    description = None if DESCRIPTION.name in removed else reader.take(DESCRIPTION) or facts.description
    secret = run.catalog.secret(facts.name)
    if secret is None:
        raise InternalError(f"the secret {facts.name} was dropped while it was changed")
    if SECRET_STRING in removed:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{SECRET_STRING}' cannot be removed: stores may use the secret",
            hint="Set another value, or DROP SECRET.",
            span=statement.properties.span(SECRET_STRING),
        )
    left = {name: text for name, text in secret.properties.items() if name not in removed}
    held = {**left, **_held(Properties(tuple(given)))}
    changed = replace(secret, description=description, properties=held, updated_at=now())
    await asyncio.to_thread(run.catalog.update_secret, changed)
    return Outcome(_answer(facts.name, "UPDATE", "was updated"))


@handles(
    DropSecret,
    requires=lambda statement, run: ownership(run.secret(statement.name), run, cascade=statement.cascade),
)
async def drop_secret(statement: DropSecret, run: Execution) -> Outcome:
    """Drop a secret. Refused with 2BP01 while a store or a registry names it; CASCADE drops these too."""
    facts = run.secret(statement.name)
    suffix = await drop(facts, run, cascade=statement.cascade, span=statement.name.span)
    return Outcome(_answer(facts.name, "DROP", f"was dropped{suffix}"))


# The statement changes the key of all secrets of the organization, and runs the operator's command.
@handles(RotateKey, requires=on_organization(Privilege.OWNERSHIP))
async def rotate_key(_statement: RotateKey, run: Execution) -> Outcome:
    """Encrypt all secrets with a new key; only writes wait for it."""
    await asyncio.to_thread(run.catalog.rotate_key)
    return Outcome(ddl("key", "catalog", "ROTATE", "all secrets are encrypted with the new key", ["catalog"]))


@handles(
    DescribeSecret, requires=lambda statement, run: [Requirement(Privilege.USAGE, run.secret(statement.name))]
)
async def describe_secret(statement: DescribeSecret, run: Execution) -> Outcome:
    """Return property and value rows, masked."""
    facts = run.secret(statement.name)
    secret = run.catalog.secret(facts.name)
    held = dict.fromkeys(secret.properties if secret else (), MASKED)
    shown = {
        "name": facts.name,
        "type": facts.type,
        "description": facts.description,
        "status": "ready",
        **held,
        "owner": facts.owner,
        "created_at": moment_text(facts.created_at),
        "updated_at": moment_text(facts.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(shown.items())))


def _held(given: Properties) -> dict[str, str]:
    """Return the encrypted ones among the properties."""
    open_ones = (TYPE.name, DESCRIPTION.name)
    return {entry.key: entry.value or "" for entry in given.entries if entry.key not in open_ones}


def _answer(name: str, command: str, done: str) -> ResultSet:
    return ddl("secret", name, command, f"secret {name} {done}", [name])
