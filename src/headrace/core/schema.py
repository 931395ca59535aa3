"""Columns and schemas of relations."""

from __future__ import annotations

from dataclasses import dataclass

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
        """The column called `name` (exact, after case folding), or None."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)
