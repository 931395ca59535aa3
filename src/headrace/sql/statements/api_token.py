"""API_TOKEN: create, alter, drop, describe, list. Grammar: dialect section 7.5."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

_NAME = "the name of the API token"


@dataclass(frozen=True)
class CreateApiToken(Statement):
    """`CREATE API_TOKEN name WITH ('token.role_name' = role [, 'token.expires_in_days' = n])`."""

    name: Identifier
    properties: Properties

    def sql(self) -> str:
        return f"CREATE API_TOKEN {self.name}{self.properties.sql()}"


@grammar("CREATE API_TOKEN")
def create_api_token(cursor: Cursor) -> CreateApiToken:
    return CreateApiToken(*cursor.origin, cursor.identifier(_NAME), cursor.properties())


@dataclass(frozen=True)
class AlterApiToken(Statement):
    """`ALTER API_TOKEN name [WITH ('token.expires_in_days' = n)]`."""

    name: Identifier
    properties: Properties

    def sql(self) -> str:
        return f"ALTER API_TOKEN {self.name}{self.properties.sql()}"


@grammar("ALTER API_TOKEN")
def alter_api_token(cursor: Cursor) -> AlterApiToken:
    return AlterApiToken(*cursor.origin, cursor.identifier(_NAME), cursor.properties())


@dataclass(frozen=True)
class DropApiToken(Statement):
    """`DROP API_TOKEN name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DROP API_TOKEN {self.name}"


@grammar("DROP API_TOKEN")
def drop_api_token(cursor: Cursor) -> DropApiToken:
    return DropApiToken(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class DescribeApiToken(Statement):
    """`DESCRIBE API_TOKEN name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE API_TOKEN {self.name}"


@grammar("DESCRIBE API_TOKEN")
def describe_api_token(cursor: Cursor) -> DescribeApiToken:
    return DescribeApiToken(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class ListApiTokens(Statement):
    """`LIST API_TOKENS`."""

    def sql(self) -> str:
        return "LIST API_TOKENS"


@grammar("LIST API_TOKENS")
def list_api_tokens(cursor: Cursor) -> ListApiTokens:
    return ListApiTokens(*cursor.origin)
