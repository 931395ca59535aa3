"""FUNCTION_SOURCE: create, drop, describe, list. Source: dialect section 7.3, ADRs 34 and 78."""

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
LIBRARY = PropertySpec(
    "lib",
    TEXT,
    Scope.FUNCTIONS,
    "a JAR with the libraries that the classes require, uploaded with the statement like the file",
    default="none",
    file=True,
)
DESCRIPTION = PropertySpec("description", TEXT, Scope.FUNCTIONS, "a text for DESCRIBE", default="none")
PROPERTIES = (FILE, LIBRARY, DESCRIPTION)


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
        data, classes = await _uploaded(FILE, statement, run)
        library = (await _uploaded(LIBRARY, statement, run))[0] if reader.is_set(LIBRARY) else None
        moment = now()
        source = FunctionSource(
            name,
            run.role,
            moment,
            moment,
            hashlib.sha256(data).hexdigest(),
            len(data),
            classes,
            description,
            hashlib.sha256(library).hexdigest() if library is not None else None,
        )
        await asyncio.to_thread(run.catalog.create_function_source, source, data, library)
    done = "was created" if existing is None else "already exists"
    return Outcome(ddl(_KIND, name, "CREATE", f"function source {name} {done}", [name]))


async def _uploaded(
    spec: PropertySpec[str], statement: CreateFunctionSource, run: Execution
) -> tuple[bytes, int]:
    """Return the JAR that a property names, and the number of its classes. Raises UserError 22000 for any other file."""
    entry = next(entry for entry in statement.properties.entries if spec.matches_name(entry.key))
    if run.checking:
        return b"", 0  # who checks a text does not send its files
    data = run.file(entry)
    try:
        return data, await asyncio.to_thread(jar.count_classes, data)
    except HeadraceError as error:
        error.span = entry.span
        raise


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
        "lib_sha256": source.library,
        "classes": str(source.classes),
        "functions": ", ".join(function.declaration for function in run.visible(functions)) or None,
        "url": download_path(source, run),
        "owner": source.owner,
        "created_at": moment_text(source.created_at),
        "updated_at": moment_text(source.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(facts.items())))
