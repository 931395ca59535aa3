"""Mutations for single statements, generated from the classes of the grammar: an argument for each field.

The arguments become a statement, whose own text runs. The text is parsed first, and refused unless the result equals that statement.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import strawberry
from strawberry.types import Info
from strawberry.utils.str_converters import to_camel_case

from headrace.core.errors import Span, UserError
from headrace.core.names import Identifier, QualifiedName
from headrace.core.signature import Signature
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType
from headrace.server.graphql.statements import ContextInput, StatementAnswer, run_text, session_context
from headrace.sql import parse
from headrace.sql import statements as grammar
from headrace.sql.ast import Properties, Property, Select, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.lexer import Source, tokens
from headrace.sql.statements.application import Application, CreateVirtual
from headrace.sql.statements.descriptor_source import CreateDescriptorSource
from headrace.sql.statements.function import Parameter
from headrace.sql.statements.function_source import CreateFunctionSource
from headrace.sql.statements.grant import Target
from headrace.sql.statements.query import InsertValues, SelectStatement
from headrace.sql.statements.relation import ColumnDefinition, CreateRelationAs, ReplaceRelation

T = TypeVar("T")
_READING = ("CAN", "COPY", "DESCRIBE", "EXPLAIN", "GENERATE", "LIST", "PRINT", "TEST", "USE")
"""First words of statements that change nothing: queries of GraphQL and `execute` answer them."""
_AS_TEXT = (
    Application,
    CreateVirtual,
    InsertValues,
    SelectStatement,
    CreateDescriptorSource,
    CreateFunctionSource,
)
"""Statements of other statements or of expressions, and those that need an attached file."""
_ARGUMENTS_OF: Mapping[type[Statement], type[Statement]] = {ReplaceRelation: CreateRelationAs}
"""Statements whose only field is another statement, which has their arguments."""
_UNWRITTEN = (Span(0, 0, 1, 1), "")
"""Place and text of a statement that has no text yet."""
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


@strawberry.input(
    description="A property of WITH: its value, or the name of a secret; an UPDATE can `remove` it."
)
class PropertyInput:
    """A property of WITH."""

    name: str
    value: str | None = None
    secret: str | None = None
    remove: bool = False


@strawberry.input(description="A column of a relation.")
class ColumnInput:
    """A column of a relation."""

    name: str
    type: str
    nullable: bool = True


@strawberry.input(description="A parameter of a function.")
class ParameterInput:
    """A parameter of a function."""

    name: str
    type: str


@strawberry.input(
    description="The object of a grant: its kind, such as STORE, and the parts of its name; neither for the organization."
)
class TargetInput:
    """The object of a grant."""

    kind: str | None = None
    name: list[str] | None = None


@strawberry.input(
    description="A function: its name, and the types of its arguments if several functions have the name."
)
class SignatureInput:
    """A function by its name and the types of its arguments."""

    name: str
    types: list[str] | None = None


def _qualified(parts: list[str]) -> QualifiedName:
    if not parts:
        raise UserError(SqlState.SYNTAX_ERROR, "expected the parts of a name, found an empty list")
    return QualifiedName(tuple(map(Identifier, parts)))


def _properties(entries: list[PropertyInput]) -> Properties:
    return Properties(tuple(map(_property, entries)))


def _property(entry: PropertyInput) -> Property:
    if (entry.value is not None) + (entry.secret is not None) + entry.remove > 1:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"the property '{entry.name}' has more than one of value, secret and remove",
        )
    names_secret = entry.secret is not None
    return Property(
        entry.name, entry.secret if names_secret else entry.value, _UNWRITTEN[0], entry.remove, names_secret
    )


def _type(text: str) -> DataType:
    def read() -> DataType:
        source = Source(text)
        cursor = Cursor(source, tokens(source))
        data_type = cursor.data_type()
        cursor.finish("the end of the type")
        return data_type

    return _without_position(read)


def _select(text: str) -> Select:
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], SelectStatement):
        raise UserError(SqlState.SYNTAX_ERROR, "expected one SELECT in the argument `select`")
    return statements[0].select


def _target(entry: TargetInput) -> Target:
    return Target(entry.kind, _qualified(entry.name) if entry.name is not None else None)


def _signature(entry: SignatureInput) -> Signature:
    return Signature(entry.name, types=tuple(map(_type, entry.types)) if entry.types is not None else None)


def _column(entry: ColumnInput) -> ColumnDefinition:
    return ColumnDefinition(Identifier(entry.name), _type(entry.type), entry.nullable)


def _parameter(entry: ParameterInput) -> Parameter:
    return Parameter(Identifier(entry.name), _type(entry.type))


_INPUTS: Mapping[Any, tuple[Any, Callable[[Any], Any]]] = {
    str: (str, str),
    int: (int, int),
    bool: (bool, bool),
    Identifier: (str, Identifier),
    QualifiedName: (list[str], _qualified),
    Properties: (list[PropertyInput], _properties),
    Select: (str, _select),
    DataType: (str, _type),
    Target: (TargetInput, _target),
    Signature: (SignatureInput, _signature),
    ColumnDefinition: (ColumnInput, _column),
    Parameter: (ParameterInput, _parameter),
}
"""The input type for each type of a field, and the function from one to the other."""


@dataclass(frozen=True)
class Argument:
    """An argument of a mutation, for a field of its statement. Without it, the field is `default`."""

    name: str
    type: Any
    convert: Callable[[Any], Any]
    default: Any

    def value(self, argument: Any) -> Any:
        """Return the value of the field. Raises UserError."""
        return self.default if argument is None else self.convert(argument)

    def parameter(self) -> inspect.Parameter:
        """Return the argument as a parameter of the resolver, from which strawberry generates the schema."""
        default, annotation = self.default, self.type
        if default is MISSING:
            default = inspect.Parameter.empty
        elif not isinstance(default, bool | str | int):
            default, annotation = None, annotation | None
        return inspect.Parameter(self.name, _KEYWORD, default=default, annotation=annotation)


def statements() -> list[type[Statement]]:
    """Return the statements that have a mutation, by name."""
    kinds = [
        kind
        for kind in Statement.__subclasses__()
        if kind.__module__.startswith(f"{grammar.__name__}.")
        and kind not in _AS_TEXT
        and _form(kind).split()[0] not in _READING
    ]
    return sorted(kinds, key=lambda kind: kind.__name__)


def _form(kind: type[Statement]) -> str:
    """Return the form of a statement, the first code in its docstring."""
    return (kind.__doc__ or "").split("`")[1]


def arguments(kind: type[Statement]) -> list[Argument]:
    """Return the arguments of a statement: its fields without the positions, which take no part in comparisons."""
    kind = _ARGUMENTS_OF.get(kind, kind)
    hints = get_type_hints(kind)
    return [_argument(field, hints[field.name]) for field in fields(kind) if field.compare]


def _argument(field: Field[Any], declared: Any) -> Argument:
    is_optional = NoneType in get_args(declared)
    kind = get_args(declared)[0] if is_optional else declared
    is_list = get_origin(kind) is tuple
    input_type, convert = _INPUTS[get_args(kind)[0] if is_list else kind]
    default: Any = field.default
    if is_optional:
        default = None
    elif is_list:
        default = ()
    elif kind is Properties:
        default = Properties()
    if is_list:
        list_type = list[input_type]  # type: ignore[valid-type] # chosen at run time
        return Argument(field.name, list_type, lambda values: tuple(map(convert, values)), default)
    return Argument(field.name, input_type, convert, default)


def text_of(kind: type[Statement], given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text of a statement in two parts, the second of which is the argument `select` as it was written.

    Raises UserError for arguments that do not form the statement. Its position, if it has one, is in `select`.
    """
    values = {argument.name: argument.value(given.get(argument.name)) for argument in arguments(kind)}
    statement = _statement(kind, values)
    written, start = "", statement.sql()
    if "select" in values:
        written, start = given["select"], start.removesuffix(values["select"].sql())
    if _without_position(lambda: parse(start + written)) != [statement]:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"the arguments do not form the statement {_form(kind)}",
            hint="Write words such as STREAM in upper case, and the names of properties and users in lower case.",
        )
    return start, written


def _statement(kind: type[Statement], values: Mapping[str, Any]) -> Statement:
    build: Callable[..., Statement] = kind
    if kind in _ARGUMENTS_OF:
        return build(*_UNWRITTEN, _statement(_ARGUMENTS_OF[kind], values))
    return build(*_UNWRITTEN, **values)


def _without_position(read: Callable[[], T]) -> T:
    """Return the result of a function whose errors have positions in a text that the client has not written."""
    try:
        return read()
    except UserError as error:
        raise UserError(error.state, error.message, hint=error.hint) from None


def name_of(kind: type[Statement]) -> str:
    """Return the name of a statement's mutation: `createStore` of CreateStore."""
    return kind.__name__[0].lower() + kind.__name__[1:]


def mutation_of(kind: type[Statement]) -> Any:
    """Return the field that runs a statement."""

    async def resolver(info: Info, context: ContextInput | None = None, **given: Any) -> StatementAnswer:
        operation, began = info.context, time.perf_counter()
        try:
            start, select = await asyncio.to_thread(text_of, kind, given)
        except UserError as error:
            names = session_context(context, operation.session)
            operation.audit_unparsed(_form(kind), names, error.state, began)
            raise
        return await run_text(info, start + select, context, prefix=start)

    resolver.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # read by `inspect.signature`
        [
            inspect.Parameter("info", _KEYWORD, annotation=Info),
            *(argument.parameter() for argument in arguments(kind)),
            inspect.Parameter("context", _KEYWORD, default=None, annotation=ContextInput | None),
        ],
        return_annotation=StatementAnswer,
    )
    return strawberry.mutation(resolver=resolver, description=_description(kind))


def _description(kind: type[Statement]) -> str:
    """Return the docstring of a statement, which is its form and notes, with GraphQL's names of the arguments."""
    text = " ".join((kind.__doc__ or "").split())
    for argument in arguments(kind):
        text = text.replace(f"`{argument.name}`", f"`{to_camel_case(argument.name)}`")
    return text
