"""FUNCTION_SOURCE: create, drop, describe, list. Source: dialect section 7.3, ADR 34."""

from __future__ import annotations

import asyncio
import hashlib

from headrace.catalog.access import Privilege
from headrace.catalog.objects import FunctionSource
from headrace.catalog.policy import Requirement
from headrace.core.errors import HeadraceError, UserError
from headrace.core.properties import TEXT, PropertyReader, PropertySpec, Scope
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.sql.statements.function_source import (
    CreateFunctionSource,
    DescribeFunctionSource,
    DropFunctionSource,
)
from headrace.statements import jar
from headrace.statements.base import Execution, Outcome, ddl, handles, moment_text, now, on_organization
from headrace.statements.copying import download_path
from headrace.statements.dropping import drop, ownership

_KIND = "function_source"
_LANGUAGE = "Java"
FILE = PropertySpec(
    "file",
    TEXT,
    Scope.FUNCTIONS,
    "a JAR with the classes of functions, uploaded with the statement: `'@path/udfs.jar'`",
    default="needed",
    file=True,
)
DESCRIPTION = PropertySpec("description", TEXT, Scope.FUNCTIONS, "a text for DESCRIBE", default="none")
PROPERTIES = (FILE, DESCRIPTION)


@handles(CreateFunctionSource, requires=on_organization(Privilege.CREATE_FUNCTION_SOURCE), checked=True)
async def create_function_source(statement: CreateFunctionSource, run: Execution) -> Outcome:
    """Create a function source from a JAR; any other file is refused. The source is ready when this returns."""
    name = statement.name.name
    existing = run.catalog.function_source(name)
    if existing is not None and not (statement.if_not_exists and run.knows(existing)):
        raise UserError(
            SqlState.DUPLICATE_FUNCTION_SOURCE,
            f"the function source {name!r} already exists",
            hint="Choose another name, or drop it first, with its functions: DROP FUNCTION_SOURCE … CASCADE.",
            span=statement.name.span,
        )
    if existing is None:
        reader = PropertyReader(
            statement.properties.entries, PROPERTIES, what="a function source", lacking=statement.span
        )
        reader.require(FILE)
        description = reader.take(DESCRIPTION)
        entry = next(entry for entry in statement.properties.entries if FILE.matches_name(entry.key))
        # Who checks a text does not send its files.
        data = b"" if run.checking else run.file(entry)
        try:
            classes = 0 if run.checking else await asyncio.to_thread(jar.count_classes, data)
        except HeadraceError as error:
            error.span = entry.span
            raise
        moment, digest = now(), hashlib.sha256(data).hexdigest()
        source = FunctionSource(name, run.role, moment, moment, digest, len(data), classes, description)
        await asyncio.to_thread(run.catalog.create_function_source, source, data)
    done = "was created" if existing is None else "already exists"
    return Outcome(ddl(_KIND, name, "CREATE", f"function source {name} {done}", [name]))


@handles(
    DropFunctionSource,
    requires=lambda statement, run: ownership(
        run.function_source(statement.name), run, cascade=statement.cascade
    ),
    checked=True,
)
async def drop_function_source(statement: DropFunctionSource, run: Execution) -> Outcome:
    """Drop a function source. Refused with 2BP01 while it has functions, unless CASCADE drops them too."""
    source = run.function_source(statement.name)
    also = await drop(source, run, cascade=statement.cascade, span=statement.name.span)
    name = source.name
    return Outcome(ddl(_KIND, name, "DROP", f"function source {name} was dropped{also}", [name]))


@handles(
    DescribeFunctionSource,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.function_source(statement.name))],
)
async def describe_function_source(statement: DescribeFunctionSource, run: Execution) -> Outcome:
    """Return property and value rows."""
    source = run.function_source(statement.name)
    functions = [function for function in run.catalog.functions() if function.source == source.name]
    facts = {
        "name": source.name,
        "state": "ready",
        "language": _LANGUAGE,
        "description": source.description,
        "size_bytes": str(source.size),
        "sha256": source.digest,
        "classes": str(source.classes),
        "functions": ", ".join(function.declaration for function in run.visible(functions)) or None,
        "url": download_path(source, run),
        "owner": source.owner,
        "created_at": moment_text(source.created_at),
        "updated_at": moment_text(source.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(facts.items())))
