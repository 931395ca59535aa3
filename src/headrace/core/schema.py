"""Columns and schemas of relations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from headrace.core.types import DataType


@dataclass(frozen=True)
class Column:
    """A named, typed column; `nullable` is False for NOT NULL and primary-key columns."""

    name: str
    type: DataType
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """The ordered columns of a relation and, for a changelog, its primary key (column names)."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()

    def column(self, name: str) -> Column | None:
        """Return the column called `name` (exact, after case folding), or None; the first of several."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in reversed(self.columns)}

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)
