"""COMPUTE_POOL: list and describe. Grammar: dialect section 7.6."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


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
    return DescribeComputePool(*cursor.origin, cursor.identifier("the name of the compute pool"))
