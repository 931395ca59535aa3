"""DESCRIPTOR_SOURCE: create, drop, describe, list; and LIST DESCRIPTORS. Source: dialect section 7.2."""

from __future__ import annotations

import asyncio

from headrace.catalog.access import Privilege
from headrace.catalog.objects import DescriptorSource
from headrace.catalog.policy import Requirement
from headrace.core.errors import HeadraceError, UserError
from headrace.core.properties import TEXT, PropertyReader, PropertySpec, Scope
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.formats.protobuf_schema import of_set
from headrace.sql.statements.descriptor_source import (
    CreateDescriptorSource,
    DescribeDescriptorSource,
    DropDescriptorSource,
)
from headrace.statements.base import Execution, Outcome, ddl, handles, moment_text, now, on_organization
from headrace.statements.copying import download_path
from headrace.statements.dropping import drop, ownership

_KIND = "descriptor_source"
FILE = PropertySpec(
    "file",
    TEXT,
    Scope.DESCRIPTORS,
    "the output of `protoc --include_imports --descriptor_set_out=x.desc x.proto`, uploaded with the "
    "statement: `'@path/x.desc'`",
    default="needed",
    file=True,
)
DESCRIPTION = PropertySpec("description", TEXT, Scope.DESCRIPTORS, "a text for DESCRIBE", default="none")
PROPERTIES = (FILE, DESCRIPTION)


@handles(CreateDescriptorSource, requires=on_organization(Privilege.CREATE_DESCRIPTOR_SOURCE))
async def create_descriptor_source(statement: CreateDescriptorSource, run: Execution) -> Outcome:
    """Create a descriptor source from a file; a file without descriptors, or without their imports, is refused."""
    name = statement.name.name
    existing = run.catalog.descriptor_source(name)
    if existing is not None and not (statement.if_not_exists and run.knows(existing)):
        raise UserError(
            SqlState.DUPLICATE_DESCRIPTOR,
            f"the descriptor source {name!r} already exists",
            hint=(
                "Choose another name, or drop it first: relations keep the descriptors that they were "
                "created with."
            ),
            span=statement.name.span,
        )
    if existing is None:
        reader = PropertyReader(
            statement.properties.entries, PROPERTIES, what="a descriptor source", lacking=statement.span
        )
        reader.require(FILE)
        description = reader.take(DESCRIPTION)
        entry = next(entry for entry in statement.properties.entries if FILE.matches_name(entry.key))
        data = run.file(entry)
        try:
            await asyncio.to_thread(of_set, data)
        except HeadraceError as error:
            error.span = entry.span
            raise
        moment = now()
        source = DescriptorSource(name, run.role, moment, moment, data, description)
        await asyncio.to_thread(run.catalog.create_descriptor_source, source)
    done = "was created" if existing is None else "already exists"
    return Outcome(ddl(_KIND, name, "CREATE", f"descriptor source {name} {done}", [name]))


@handles(
    DropDescriptorSource,
    requires=lambda statement, run: ownership(run.descriptor_source(statement.name), run),
)
async def drop_descriptor_source(statement: DropDescriptorSource, run: Execution) -> Outcome:
    """Drop a descriptor source; relations made with it keep its descriptors."""
    source = run.descriptor_source(statement.name)
    await drop(source, run, cascade=False, span=statement.name.span)
    name = source.name
    return Outcome(ddl(_KIND, name, "DROP", f"descriptor source {name} was dropped", [name]))


@handles(
    DescribeDescriptorSource,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.descriptor_source(statement.name))],
)
async def describe_descriptor_source(statement: DescribeDescriptorSource, run: Execution) -> Outcome:
    """Return property and value rows."""
    source = run.descriptor_source(statement.name)
    facts = {
        "name": source.name,
        "type": "Protobuf",
        "messages": ", ".join(of_set(source.descriptors).messages),
        "description": source.description,
        "url": download_path(source, run),
        "owner": source.owner,
        "created_at": moment_text(source.created_at),
        "updated_at": moment_text(source.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(facts.items())))
