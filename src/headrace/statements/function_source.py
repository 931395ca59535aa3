"""FUNCTION_SOURCE: create, drop, describe, list. Source: dialect section 7.3, ADRs 34 and 78."""

from __future__ import annotations

import asyncio
import hashlib

from headrace.catalog.access import Privilege
from headrace.catalog.objects import FunctionSource, Language
from headrace.catalog.policy import Requirement
from headrace.core.errors import HeadraceError, UserError
from headrace.core.properties import TEXT, PropertyReader, PropertySpec, Scope, choice
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.sql.statements.function_source import (
    CreateFunctionSource,
    DescribeFunctionSource,
    DropFunctionSource,
)
from headrace.statements import jar, python_package
from headrace.statements.base import Execution, Outcome, ddl, handles, moment_text, now, on_organization
from headrace.statements.copying import download_path
from headrace.statements.dropping import drop, ownership

_KIND = "function_source"
FILE = PropertySpec(
    "file",
    TEXT,
    Scope.FUNCTIONS,
    "a JAR with the classes of functions, a Python module (`.py`) or a wheel (`.whl`), uploaded with the statement: `'@path/udfs.jar'`",
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
REQUIREMENTS = PropertySpec(
    "requirements",
    TEXT,
    Scope.FUNCTIONS,
    "of a module or a wheel: a list of packages with versions and hashes (`pip-compile --generate-hashes`), uploaded like the file. "
    "The operator allows it with `HEADRACE_FUNCTIONS_REQUIREMENTS`",
    default="none",
    file=True,
)
LANGUAGE = PropertySpec(
    "language",
    choice(*(language.value for language in Language), fold=str.capitalize),
    Scope.FUNCTIONS,
    "`Java` or `Python`, in any case: must be the language of the file",
    default="derived from the name of the file",
)
DESCRIPTION = PropertySpec("description", TEXT, Scope.FUNCTIONS, "a text for DESCRIBE", default="none")
PROPERTIES = (FILE, LIBRARY, REQUIREMENTS, LANGUAGE, DESCRIPTION)


@handles(CreateFunctionSource, requires=on_organization(Privilege.CREATE_FUNCTION_SOURCE), checked=True)
async def create_function_source(statement: CreateFunctionSource, run: Execution) -> Outcome:
    """Create a function source from a JAR, a Python module or a wheel. The source is ready when this returns."""
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
        language = _language(reader, run)
        data, classes = await _uploaded(FILE, statement, run)
        second = LIBRARY if language is Language.JAVA else REQUIREMENTS
        library = (await _uploaded(second, statement, run))[0] if reader.is_set(second) else None
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
            language,
        )
        await asyncio.to_thread(run.catalog.create_function_source, source, data, library)
    done = "was created" if existing is None else "already exists"
    return Outcome(ddl(_KIND, name, "CREATE", f"function source {name} {done}", [name]))


def _language(reader: PropertyReader, run: Execution) -> Language:
    """Return the language of a file, by its name. Raises UserError 3D008 for a second file of the other one, 0A000 for one not allowed."""
    language = Language.PYTHON if reader.require(FILE).lower().endswith((".py", ".whl")) else Language.JAVA
    if reader.take(LANGUAGE) not in (None, language.value):
        raise reader.bad(LANGUAGE, f"{language.value}, the language of the file, or left out")
    second = LIBRARY if language is Language.PYTHON else REQUIREMENTS
    if reader.is_set(second):
        raise reader.bad(second, f"left out: the file is in {language.value}")
    if reader.is_set(REQUIREMENTS) and not run.services.settings.functions_requirements:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "functions of this server cannot require packages",
            hint="Its operator allows it with HEADRACE_FUNCTIONS_REQUIREMENTS=on.",
            span=reader.span(REQUIREMENTS),
        )
    return language


async def _uploaded(
    spec: PropertySpec[str], statement: CreateFunctionSource, run: Execution
) -> tuple[bytes, int]:
    """Return the file that a property names, and the number of its classes. Raises UserError 22000 for a file of another kind."""
    entry = next(entry for entry in statement.properties.entries if spec.matches_name(entry.key))
    if run.checking:
        return b"", 0  # who checks a text does not send its files
    data = run.file(entry)
    try:
        return data, await asyncio.to_thread(_checked, spec, entry.value or "", data)
    except HeadraceError as error:
        error.span = entry.span
        raise


def _checked(spec: PropertySpec[str], name: str, data: bytes) -> int:
    """Return the number of classes of a file. Raises UserError 22000."""
    if spec is REQUIREMENTS:
        python_package.check_requirements(data)
    elif name.lower().endswith(".whl"):
        python_package.check_wheel(data)
    elif name.lower().endswith(".py"):
        python_package.module_text(data)
    else:
        return jar.count_classes(data)
    return 0


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
        "language": source.language.value,
        "description": source.description,
        "size_bytes": str(source.size),
        "sha256": source.digest,
        "lib_sha256": source.library if source.language is Language.JAVA else None,
        "requirements_sha256": source.library if source.language is Language.PYTHON else None,
        "classes": str(source.classes),
        "functions": ", ".join(function.declaration for function in run.visible(functions)) or None,
        "url": download_path(source, run),
        "owner": source.owner,
        "created_at": moment_text(source.created_at),
        "updated_at": moment_text(source.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(facts.items())))
