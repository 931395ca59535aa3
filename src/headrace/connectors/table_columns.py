"""Columns and primary key of CREATE ENTITY for a table, in a store type's own properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from headrace.core.errors import UserError
from headrace.core.properties import LINE, PropertyReader, PropertySpec, PropertyType, Scope, Specs
from headrace.core.schema import Column
from headrace.core.types import Struct, parse_type

Columns = tuple[Column, ...]


def _columns(text: str) -> Columns:
    try:
        kind = parse_type(f"STRUCT<{text}>")
    except UserError as error:
        raise ValueError(f"expected names with types, as 'id BIGINT, name VARCHAR': {error}") from None
    return tuple(Column(name, field) for name, field in cast(Struct, kind).fields)


@dataclass(frozen=True)
class NewTable:
    """The two properties under the names that a store type has for them."""

    columns: PropertySpec[Columns]
    primary_key: PropertySpec[str]

    @property
    def specs(self) -> Specs:
        """Both of them."""
        return self.columns, self.primary_key

    def read(self, reader: PropertyReader) -> tuple[Columns, tuple[str, ...]]:
        """Return columns and primary key of a table that is to be made; raises UserError 3D008 / 3D021."""
        columns = reader.require(self.columns)
        names = [column.name for column in columns]
        key = tuple(name.strip() for name in (reader.take(self.primary_key) or "").split(",") if name.strip())
        if any(name not in names for name in key) or len(set(key)) < len(key):
            raise reader.bad(self.primary_key, f"names of columns, each once, of {', '.join(names)}")
        return columns, key


def new_table(prefix: str, *, needed: str = "needed", keyed: str = "") -> NewTable:
    """Return the properties with names that begin with `prefix` and a dot; `needed` (when columns
    are required) and `keyed` (the effect of a key) are texts for the documentation."""
    return NewTable(
        PropertySpec(
            f"{prefix}.columns",
            PropertyType("", _columns),
            Scope.ENTITY,
            "for CREATE ENTITY: names and types of the table's columns, in this dialect, as `'id BIGINT, name VARCHAR'`",
            default=needed,
        ),
        PropertySpec(
            f"{prefix}.primary.key",
            LINE,
            Scope.ENTITY,
            "for CREATE ENTITY: the columns of the table's primary key, separated by commas"
            + (f"; {keyed}" if keyed else ""),
            default="none",
        ),
    )
