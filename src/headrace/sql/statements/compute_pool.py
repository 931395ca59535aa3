"""COMPUTE_POOL: create, update, start, stop, drop, describe, list. Grammar: dialect section 7.6."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar

_NAME = "the name of the compute pool"


@dataclass(frozen=True)
class CreateComputePool(Statement):
    """`CREATE COMPUTE_POOL [IF NOT EXISTS] name [WITH ('compute_pool.size' = small, …)]`."""

    name: Identifier
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        return f"CREATE COMPUTE_POOL {exists}{self.name}{self.properties.sql()}"


@grammar("CREATE COMPUTE_POOL")
def create_compute_pool(cursor: Cursor) -> CreateComputePool:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier(_NAME)
    return CreateComputePool(*cursor.origin, name, cursor.properties(), if_not_exists)


@dataclass(frozen=True)
class UpdateComputePool(Statement):
    """`UPDATE COMPUTE_POOL name WITH ('key' = value [, …])`."""

    name: Identifier
    properties: Properties

    def sql(self) -> str:
        return f"UPDATE COMPUTE_POOL {self.name}{self.properties.sql()}"


@grammar("UPDATE COMPUTE_POOL")
def update_compute_pool(cursor: Cursor) -> UpdateComputePool:
    return UpdateComputePool(*cursor.origin, cursor.identifier(_NAME), cursor.changes())


@dataclass(frozen=True)
class StartComputePool(Statement):
    """`START COMPUTE_POOL name`."""

    name: Identifier

    def sql(self) -> str:
        return f"START COMPUTE_POOL {self.name}"


@grammar("START COMPUTE_POOL")
def start_compute_pool(cursor: Cursor) -> StartComputePool:
    return StartComputePool(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class StopComputePool(Statement):
    """`STOP COMPUTE_POOL name`."""

    name: Identifier

    def sql(self) -> str:
        return f"STOP COMPUTE_POOL {self.name}"


@grammar("STOP COMPUTE_POOL")
def stop_compute_pool(cursor: Cursor) -> StopComputePool:
    return StopComputePool(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class DropComputePool(Statement):
    """`DROP COMPUTE_POOL name [CASCADE]`."""

    name: Identifier
    cascade: bool = False

    def sql(self) -> str:
        return f"DROP COMPUTE_POOL {self.name}{' CASCADE' if self.cascade else ''}"


@grammar("DROP COMPUTE_POOL")
def drop_compute_pool(cursor: Cursor) -> DropComputePool:
    return DropComputePool(*cursor.origin, cursor.identifier(_NAME), cursor.cascade())


@dataclass(frozen=True)
class ListComputePools(Statement):
    """`LIST COMPUTE_POOLS`."""

    def sql(self) -> str:
        return "LIST COMPUTE_POOLS"


@grammar("LIST COMPUTE_POOLS")
def list_compute_pools(cursor: Cursor) -> ListComputePools:
    return ListComputePools(*cursor.origin)


@dataclass(frozen=True)
class DescribeComputePool(Statement):
    """`DESCRIBE COMPUTE_POOL name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE COMPUTE_POOL {self.name}"


@grammar("DESCRIBE COMPUTE_POOL")
def describe_compute_pool(cursor: Cursor) -> DescribeComputePool:
    return DescribeComputePool(*cursor.origin, cursor.identifier(_NAME))
