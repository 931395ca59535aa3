"""SECRET: create, update, drop, describe, list; and the key that all secrets are sealed with. Grammar: dialect section 7.4."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

_NAME = "the name of the secret"


@dataclass(frozen=True)
class CreateSecret(Statement):
    """`CREATE SECRET [IF NOT EXISTS] name WITH ('type' = generic_string, 'secret_string' = '…' [, …])`."""

    name: Identifier
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        return f"CREATE SECRET {exists}{self.name}{self.properties.sql()}"


@grammar("CREATE SECRET")
def create_secret(cursor: Cursor) -> CreateSecret:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier(_NAME)
    properties = cursor.properties()
    if not properties:
        raise cursor.error("WITH ( 'type' = generic_string, 'secret_string' = '…' )")
    return CreateSecret(*cursor.origin, name, properties, if_not_exists)


@dataclass(frozen=True)
class UpdateSecret(Statement):
    """`UPDATE SECRET name WITH ('key' = value [, …])`."""

    name: Identifier
    properties: Properties

    def sql(self) -> str:
        return f"UPDATE SECRET {self.name}{self.properties.sql()}"


@grammar("UPDATE SECRET")
def update_secret(cursor: Cursor) -> UpdateSecret:
    return UpdateSecret(*cursor.origin, cursor.identifier(_NAME), cursor.changes())


@dataclass(frozen=True)
class DropSecret(Statement):
    """`DROP SECRET name [CASCADE]`."""

    name: Identifier
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP SECRET {self.name}{' CASCADE' if self.cascade else ''}"


@grammar("DROP SECRET")
def drop_secret(cursor: Cursor) -> DropSecret:
    return DropSecret(*cursor.origin, cursor.identifier(_NAME), cursor.cascade())


@dataclass(frozen=True)
class RotateKey(Statement):
    """`ROTATE KEY`."""

    def sql(self) -> str:
        return "ROTATE KEY"


@grammar("ROTATE KEY")
def rotate_key(cursor: Cursor) -> RotateKey:
    return RotateKey(*cursor.origin)


@dataclass(frozen=True)
class DescribeSecret(Statement):
    """`DESCRIBE SECRET name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE SECRET {self.name}"


@grammar("DESCRIBE SECRET")
def describe_secret(cursor: Cursor) -> DescribeSecret:
    return DescribeSecret(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class ListSecrets(Statement):
    """`LIST SECRETS`."""

    def sql(self) -> str:
        return "LIST SECRETS"


@grammar("LIST SECRETS")
def list_secrets(cursor: Cursor) -> ListSecrets:
    return ListSecrets(*cursor.origin)
