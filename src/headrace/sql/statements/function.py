"""FUNCTION: create, drop, describe, list. Grammar: dialect section 7.3."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.errors import Span
from headrace.core.names import Identifier, printed
from headrace.core.signature import Signature
from headrace.core.types import DataType, Struct
from headrace.sql.ast import Properties, Statement, quoted_text
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import call_of_values, grammar
from headrace.sql.limits import LIST_MAX, too_many_items
from headrace.sql.statements.query import SelectStatement


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function: `name TYPE`."""

    name: Identifier
    type: DataType

    def sql(self) -> str:
        """Return canonical text."""
        return f"{self.name} {self.type}"


@dataclass(frozen=True)
class CreateFunction(Statement):
    """`CREATE FUNCTION [IF NOT EXISTS] name ( [parameter TYPE [, …]] ) RETURNS { TYPE | TABLE ( column TYPE [, …] ) }
    { LANGUAGE JAVA WITH (…) | LANGUAGE PYTHON { AS 'code' [WITH (…)] | WITH (…) } }`.

    The rows of a TABLE are STRUCTs in `returns`; the function of a function source has no `code`.
    """

    name: Identifier
    parameters: tuple[Parameter, ...]
    returns: DataType
    properties: Properties
    if_not_exists: bool = False
    table: bool = False
    language: str = "JAVA"
    code: str | None = None
    code_span: Span | None = field(default=None, compare=False, repr=False)

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        parameters = ", ".join(parameter.sql() for parameter in self.parameters)
        returns = str(self.returns)
        if self.table and isinstance(self.returns, Struct):
            returns = f"TABLE({', '.join(f'{printed(name)} {kind}' for name, kind in self.returns.fields)})"
        language = self.language if self.code is None else f"{self.language} AS {quoted_text(self.code)}"
        return f"CREATE FUNCTION {exists}{self.name}({parameters}) RETURNS {returns} LANGUAGE {language}{self.properties.sql()}"


@grammar("CREATE FUNCTION")
def create_function(cursor: Cursor) -> CreateFunction:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier("the name of the function")
    cursor.expect("(", hint="List the parameters: name(parameter TYPE, …), or name() for none.")
    parameters = _parameters(cursor, "the name of a parameter")
    cursor.expect("RETURNS")
    table = cursor.at("TABLE", "(")
    if table:
        cursor.expect("TABLE", "(")
        columns = _parameters(cursor, "the name of a column")
        returns: DataType = Struct(tuple((column.name.name, column.type) for column in columns))
    else:
        returns = cursor.data_type()
    cursor.expect("LANGUAGE")
    language = cursor.accept_any("JAVA", "PYTHON")
    if language is None:
        raise cursor.error("JAVA or PYTHON")
    code, code_span = None, None
    if language == "PYTHON" and not cursor.at("WITH"):
        cursor.expect("AS", hint="Write the code between dollar signs: AS $$ def name(parameter): … $$.")
        start = cursor.index
        code = cursor.string("the code of the function")
        code_span = cursor.span_from(start)
    properties = cursor.properties()
    if language == "JAVA" and not properties:
        raise cursor.error("WITH ( 'source.name' = …, 'class.name' = … )")
    return CreateFunction(
        *cursor.origin, name, parameters, returns, properties, if_not_exists, table, language, code, code_span
    )


def _parameters(cursor: Cursor, what: str) -> tuple[Parameter, ...]:
    parameters: list[Parameter] = []
    while not cursor.accept(")"):
        if parameters:
            cursor.expect(",")
        if len(parameters) == LIST_MAX:
            raise too_many_items(cursor.origin[0])
        parameters.append(Parameter(cursor.identifier(what), cursor.data_type()))
    return tuple(parameters)


@grammar("TEST FUNCTION")
def check_function(cursor: Cursor) -> SelectStatement:
    """`TEST FUNCTION name(value, …)`: a SELECT of the result."""
    return SelectStatement(*cursor.origin, call_of_values(cursor))


@dataclass(frozen=True)
class DropFunction(Statement):
    """`DROP FUNCTION name ( [ [parameter] TYPE [, …] ] ) [RESTRICT | CASCADE]`, without the types where one function has the name."""

    name: Signature
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP FUNCTION {self.name}{' CASCADE' if self.cascade else ''}"


@grammar("DROP FUNCTION")
def drop_function(cursor: Cursor) -> DropFunction:
    return DropFunction(*cursor.origin, cursor.signature(), cursor.cascade())


@dataclass(frozen=True)
class DescribeFunction(Statement):
    """`DESCRIBE FUNCTION name [( [TYPE [, …]] )]`."""

    name: Signature

    def sql(self) -> str:
        return f"DESCRIBE FUNCTION {self.name}"


@grammar("DESCRIBE FUNCTION")
def describe_function(cursor: Cursor) -> DescribeFunction:
    return DescribeFunction(*cursor.origin, cursor.signature())


@dataclass(frozen=True)
class ListFunctions(Statement):
    """`LIST FUNCTIONS`."""

    def sql(self) -> str:
        return "LIST FUNCTIONS"


@grammar("LIST FUNCTIONS")
def list_functions(cursor: Cursor) -> ListFunctions:
    return ListFunctions(*cursor.origin)
