"""ORGANIZATION: update, rename, describe, list. A server has one; another is another data directory or database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from headrace.catalog.access import Privilege
from headrace.catalog.objects import Organization
from headrace.core.errors import UserError
from headrace.core.names import Identifier, printed
from headrace.core.properties import TEXT, PropertyReader, PropertySpec, PropertyType, Scope
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.sql.statements.organization import (
    DescribeOrganization,
    RenameOrganization,
    UpdateOrganization,
)
from headrace.statements.base import Execution, Outcome, ddl, handles, nothing, on_organization
from headrace.statements.listing import ORGANIZATIONS


def _address(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise ValueError(text)
    return text


DESCRIPTION = PropertySpec("description", TEXT, Scope.ORGANIZATION, "a text for lists", default="none")
IMAGE = PropertySpec(
    "profile_image_uri",
    PropertyType("the address of a picture, https://…", _address),
    Scope.ORGANIZATION,
    "the address of a picture, for clients that show it",
    default="none",
)
PROPERTIES = (DESCRIPTION, IMAGE)


def _named(name: Identifier | None, run: Execution) -> Organization:
    """Return the only organization; raises UserError 3D004 for another name than its name and its id."""
    only = run.catalog.organization()
    if name is not None and name.name not in (only.id, only.name):
        raise UserError(
            SqlState.ORGANIZATION_NOT_FOUND,
            f"the organization {name.name!r} does not exist",
            hint=f"The organization of this server is {printed(only.name)}.",
            span=name.span,
        )
    return only


@handles(UpdateOrganization, requires=on_organization(Privilege.OWNERSHIP))
async def update_organization(statement: UpdateOrganization, run: Execution) -> Outcome:
    """Change properties; NULL removes a property."""
    organization = _named(statement.name, run)
    given = [entry for entry in statement.properties.entries if not entry.removed]
    removed = [entry.key for entry in statement.properties.entries if entry.removed]
    reader = PropertyReader(given, PROPERTIES, what="an organization")
    changed = replace(
        organization,
        description=None
        if DESCRIPTION.name in removed
        else reader.take(DESCRIPTION) or organization.description,
        image=None if IMAGE.name in removed else reader.take(IMAGE) or organization.image,
    )
    await asyncio.to_thread(run.catalog.update_organization, changed)
    return Outcome(_answer(changed, "UPDATE", "was updated"))


@handles(RenameOrganization, requires=on_organization(Privilege.OWNERSHIP))
async def rename_organization(statement: RenameOrganization, run: Execution) -> Outcome:
    """Rename the organization; clients connect by its id, which stays."""
    organization = _named(statement.name, run)
    changed = replace(organization, name=statement.new_name.name)
    await asyncio.to_thread(run.catalog.update_organization, changed)
    return Outcome(_answer(changed, "ALTER", f"was {organization.name}"))


def _answer(organization: Organization, command: str, done: str) -> ResultSet:
    name = organization.name
    return ddl("organization", name, command, f"organization {name} {done}", [name])


@handles(DescribeOrganization, requires=nothing)
async def describe_organization(statement: DescribeOrganization, run: Execution) -> Outcome:
    """Return one row of the list."""
    return Outcome(await ORGANIZATIONS.rows(run, id=_named(statement.name, run).id))
