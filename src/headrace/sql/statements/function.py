"""FUNCTION: create, drop, describe, list. Grammar: dialect section 7.3."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.core.signature import Signature
from headrace.core.types import DataType
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar
from headrace.sql.limits import LIST_MAX, too_many_items


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
    """`CREATE FUNCTION [IF NOT EXISTS] name ( [parameter TYPE [, …]] ) RETURNS TYPE LANGUAGE JAVA WITH (…)`."""

    name: Identifier
    parameters: tuple[Parameter, ...]
    returns: DataType
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        parameters = ", ".join(parameter.sql() for parameter in self.parameters)
        signature = f"{self.name}({parameters}) RETURNS {self.returns}"
        return f"CREATE FUNCTION {exists}{signature} LANGUAGE JAVA{self.properties.sql()}"


@grammar("CREATE FUNCTION")
def create_function(cursor: Cursor) -> CreateFunction:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier("the name of the function")
    cursor.expect("(", hint="List the parameters: name(parameter TYPE, …), or name() for none.")
    parameters: list[Parameter] = []
    while not cursor.accept(")"):
        if parameters:
            cursor.expect(",")
        if len(parameters) == LIST_MAX:
            raise too_many_items(cursor.origin[0])
        parameters.append(Parameter(cursor.identifier("the name of a parameter"), cursor.data_type()))
    cursor.expect("RETURNS")
    returns = cursor.data_type()
    cursor.expect("LANGUAGE", "JAVA")
    properties = cursor.properties()
    if not properties:
        raise cursor.error("WITH ( 'source.name' = …, 'class.name' = … )")
    return CreateFunction(*cursor.origin, name, tuple(parameters), returns, properties, if_not_exists)


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
