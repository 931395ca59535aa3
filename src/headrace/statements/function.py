"""FUNCTION: create, drop, describe, list. Source: dialect section 7.3, ADRs 34 and 58."""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace

from headrace.analyzer.functions import is_built_in
from headrace.catalog.access import Privilege
from headrace.catalog.objects import FunctionSource, Language, UserFunction
from headrace.catalog.policy import Requirement
from headrace.core.errors import HeadraceError, Span, UserError
from headrace.core.names import Identifier
from headrace.core.properties import BOOLEAN, TEXT, PropertyReader, PropertySpec, PropertyType, Scope
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.sql.statements.function import CreateFunction, DescribeFunction, DropFunction
from headrace.statements import jar, python_package
from headrace.statements.base import Execution, Outcome, ddl, handles, moment_text, now
from headrace.statements.dropping import drop, ownership
from headrace.statements.python_function import checked_python

_KIND = "function"
SIGNATURE_BYTES_MAX = 1000
"""It is a key of the catalog's database."""
_CLASS_NAME = re.compile(r"[^\W\d][\w$]*(\.[^\W\d][\w$]*)*")
_DESTINATION = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w*][\w.*-]*)(:\d{1,5})?", re.ASCII)


def _class_name(text: str) -> str:
    if not _CLASS_NAME.fullmatch(text):
        raise ValueError(text)
    return text


def _destinations(text: str) -> tuple[str, ...]:
    destinations = tuple(part.strip() for part in text.split(",") if part.strip())
    if not all(_DESTINATION.fullmatch(part) for part in destinations):
        raise ValueError(text)
    return destinations


SOURCE = PropertySpec(
    "source.name",
    TEXT,
    Scope.FUNCTION,
    "the [function source](statements.md#functions) that contains its class, or its Python function",
    default="needed",
)
CLASS = PropertySpec(
    "class.name",
    PropertyType("the full name of a class, such as com.example.Udf", _class_name),
    Scope.FUNCTION,
    "the class that implements it, with its package",
    default="needed",
)
EGRESS = PropertySpec(
    "egress.allow.uris",
    PropertyType("hosts with or without a port, such as api.example.com:443", _destinations),
    Scope.FUNCTION,
    "hosts that it may connect to, separated by commas",
    default="nowhere",
)
HANDLER = PropertySpec(
    "handler",
    TEXT,
    Scope.FUNCTION,
    "the Python function, or the class of an aggregate, that is called; in a wheel behind its module: `package.module.f`",
    default="the name of the function",
)
VECTORIZED = PropertySpec(
    "vectorized",
    BOOLEAN,
    Scope.FUNCTION,
    "in Python, whether it is called with an Arrow array for each parameter, and returns one",
    default="false",
)
DETERMINISTIC = PropertySpec(
    "deterministic",
    BOOLEAN,
    Scope.FUNCTION,
    "in Python, whether the results of equal arguments are equal",
    default="true",
)
_OF_JAVA = (SOURCE, CLASS, EGRESS)
_OF_CODE = (HANDLER, VECTORIZED, DETERMINISTIC, EGRESS)
_OF_PYTHON_SOURCE = (SOURCE, *_OF_CODE)
PROPERTIES = (SOURCE, CLASS, HANDLER, VECTORIZED, DETERMINISTIC, EGRESS)


def _creation(statement: CreateFunction, run: Execution) -> Iterator[Requirement]:
    yield Requirement(Privilege.CREATE_FUNCTION)
    if statement.properties.get(SOURCE.name) is not None:
        yield Requirement(Privilege.USAGE, _source(statement, run))


def _source(statement: CreateFunction, run: Execution) -> FunctionSource:
    name = statement.properties.get(SOURCE.name) or ""
    return run.function_source(Identifier(name, statement.properties.span(SOURCE.name)))


@handles(CreateFunction, requires=_creation, checked=True)
async def create_function(statement: CreateFunction, run: Execution) -> Outcome:
    """Create a function. Functions of the same name differ by their argument types; the names of built-in functions are reserved."""
    new_function = declared_function(statement, run)
    _check_names(new_function, statement)
    signature = str(new_function.signature)
    existing = next(
        (
            item
            for item in run.catalog.functions(new_function.name)
            if item.signature == new_function.signature
        ),
        None,
    )
    if existing is not None and not (statement.if_not_exists and run.knows(existing)):
        raise UserError(
            SqlState.DUPLICATE_FUNCTION,
            f"the function {signature} already exists",
            hint="Use other argument types or another name, or drop the existing function first.",
            span=statement.name.span,
        )
    if existing is None:
        new_function = await asyncio.to_thread(_completed, new_function, statement, run)
        await asyncio.to_thread(run.catalog.create_function, new_function)
    done = "was created" if existing is None else "already exists"
    return Outcome(ddl(_KIND, signature, "CREATE", f"function {signature} {done}", [signature]))


def declared_function(statement: CreateFunction, run: Execution) -> UserFunction:
    """Return the function that a statement declares. Raises UserError 3D008 and 3D021 for its properties."""
    in_python = statement.language == "PYTHON"
    specs = _OF_CODE if statement.code is not None else _OF_PYTHON_SOURCE if in_python else _OF_JAVA
    reader = PropertyReader(statement.properties.entries, specs, what="a function", lacking=statement.span)
    moment = now()
    parameters = tuple((parameter.name.name, parameter.type) for parameter in statement.parameters)
    common = (run.role, moment, moment)
    source: str | None = None
    if statement.code is None:
        reader.require(SOURCE)
        source = _checked_source(statement, run).name
    if in_python:
        repeatable = reader.take(DETERMINISTIC)
        return UserFunction(
            statement.name.name,
            parameters,
            statement.returns,
            source,
            reader.take(HANDLER) or statement.name.name,
            *common,
            reader.take(EGRESS) or (),
            repeatable=True if repeatable is None else repeatable,
            language=Language.PYTHON,
            code=textwrap.dedent(statement.code).strip("\n") if statement.code is not None else None,
            vectorized=reader.take(VECTORIZED) or False,
        )
    class_name, egress = reader.require(CLASS), reader.take(EGRESS) or ()
    return UserFunction(
        statement.name.name, parameters, statement.returns, source, class_name, *common, egress
    )


def _checked_source(statement: CreateFunction, run: Execution) -> FunctionSource:
    """Return the function source of a statement. Raises UserError 3D018, or 42804 for one in another language."""
    source = _source(statement, run)
    if source.language.value.upper() != statement.language:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the function source {source.name} is in {source.language.value}",
            hint=f"Write LANGUAGE {source.language.value.upper()}, or name another source.",
            span=statement.properties.span(SOURCE.name),
        )
    return source


def _check_names(function: UserFunction, statement: CreateFunction) -> None:
    refuse_built_in(statement.name)
    seen: set[str] = set()
    for parameter in statement.parameters:
        if parameter.name.name in seen:
            message = f"the function declares the parameter {parameter.name} twice"
            raise UserError(SqlState.SYNTAX_ERROR, message, span=parameter.name.span)
        seen.add(parameter.name.name)
    if len(str(function.signature).encode()) > SIGNATURE_BYTES_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"expected a signature of at most {SIGNATURE_BYTES_MAX} bytes, found {len(str(function.signature).encode())}",
            hint="Use a STRUCT, an ARRAY or a MAP instead of many arguments.",
            span=statement.name.span,
        )


def refuse_built_in(name: Identifier) -> None:
    """Raises UserError 42P015 for the name of a built-in function, which a call would mean whatever else had it."""
    if is_built_in(name.name):
        raise UserError(
            SqlState.DUPLICATE_FUNCTION,
            f"the function {name} is built in",
            hint="Choose another name.",
            span=name.span,
        )


def _completed(function: UserFunction, statement: CreateFunction, run: Execution) -> UserFunction:
    """Return the function with what its code says of it. Raises UserError as `checked_python` and `jar.checked_class` do."""
    if function.code is not None:
        return checked_python(function, function.code, table=statement.table, span=statement.code_span)
    source = run.catalog.function_source(function.source or "")
    if source is None:
        return function
    try:
        content, library = run.catalog.file_of(source), run.catalog.library_of(source)
    except UserError:
        if run.checking:
            # An earlier statement of the application creates the source, so its file is not stored yet.
            return function
        raise
    if function.language is Language.PYTHON:
        span = statement.properties.span(HANDLER.name) or statement.name.span
        return checked_python(function, _module(content, function, span), table=statement.table, span=span)
    try:
        known = jar.checked_class(content, function, library)
    except HeadraceError as error:
        error.span = statement.properties.span(CLASS.name)
        raise
    return replace(function, kind=known.kind, repeatable=known.repeatable)


def _module(content: bytes, function: UserFunction, span: Span | None) -> str:
    """Return the text of the module that has a function. Raises UserError 3D017 if a wheel does not contain it."""
    if not python_package.is_wheel(content):
        return python_package.module_text(content)
    module = function.class_name.rpartition(".")[0]
    text = python_package.wheel_module(content, module)
    if text is None:
        raise UserError(
            SqlState.FUNCTION_NOT_FOUND,
            f"the wheel contains no module {module or 'for the function'}",
            hint="Name the function with its module: 'handler' = 'package.module.name'.",
            span=span,
        )
    return text


@handles(
    DropFunction,
    requires=lambda statement, run: ownership(run.function(statement.name), run, cascade=statement.cascade),
    checked=True,
)
async def drop_function(statement: DropFunction, run: Execution) -> Outcome:
    function = run.function(statement.name)
    also = await drop(function, run, cascade=statement.cascade, span=statement.name.span)
    signature = str(function.signature)
    return Outcome(ddl(_KIND, signature, "DROP", f"function {signature} was dropped{also}", [signature]))


@handles(
    DescribeFunction,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.function(statement.name))],
)
async def describe_function(statement: DescribeFunction, run: Execution) -> Outcome:
    """Return property and value rows."""
    function = run.function(statement.name)
    facts = {
        "name": function.name,
        "signature": function.declaration,
        "returns": str(function.returns),
        "type": function.kind.value,
        "deterministic": str(function.repeatable).lower(),
        "language": function.language.value,
        "vectorized": str(function.vectorized).lower(),
        "source.name": function.source,
        "class.name": function.class_name,
        "egress.allow.uris": ",".join(function.egress) or None,
        "code": function.code,
        "owner": function.owner,
        "created_at": moment_text(function.created_at),
        "updated_at": moment_text(function.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(facts.items())))
