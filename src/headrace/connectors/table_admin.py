"""Common part of store types whose entities are tables: CREATE, DESCRIBE, LIST and DROP ENTITY, PRINT, and rows written to a new table.

A type brings the functions of its own module `tables`, and a session in which they run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from headrace.connectors.base import EntityDescription, PrintedRecord, PrintStart
from headrace.connectors.table_columns import NewTable
from headrace.connectors.table_printing import printed
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader
from headrace.core.schema import Column, Schema

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Tables(Protocol[S_contra]):
    """Functions of the module `tables` of a type. Each function raises what `connectors.base.EntityAdmin` says."""

    def describe(self, session: S_contra, path: EntityPath, /) -> EntityDescription:
        """Return columns and key of the table."""
        ...

    def create(
        self, session: S_contra, path: EntityPath, columns: Sequence[Column], key: Sequence[str], /
    ) -> None:
        """Create the table."""
        ...

    def drop(self, session: S_contra, path: EntityPath, /) -> None:
        """Drop the table."""
        ...


@dataclass(frozen=True)
class TableAdmin(Generic[S]):
    """The `EntityAdmin` and the `Printer` of such a type.

    `session` opens one for the properties of a store and the path of a table. `list_entities` is the method of `EntityAdmin`, which a type
    has itself: it refuses a path that is too long before it opens a session. `sample` returns up to so many rows of a table.
    """

    tables: Tables[S]
    session: Callable[[Mapping[str, str], EntityPath], AbstractContextManager[S]]
    new_table: NewTable
    list_entities: Callable[[Mapping[str, str], EntityPath], list[tuple[str, bool]]]
    sample: Callable[[S, EntityPath, int], list[PrintedRecord]]

    def describe_entity(self, store: Mapping[str, str], path: EntityPath) -> EntityDescription:
        """Return columns and key of a table."""
        with self.session(store, path) as session:
            return self.tables.describe(session, path)

    def create_entity(
        self, store: Mapping[str, str], path: EntityPath, options: PropertyReader
    ) -> EntityDescription:
        """Create a table with the columns and the key in `options`."""
        columns, key = self.new_table.read(options)
        with self.session(store, path) as session:
            self.tables.create(session, path, columns, key)
            return self.tables.describe(session, path)

    def drop_entity(self, store: Mapping[str, str], path: EntityPath) -> None:
        """Drop a table."""
        with self.session(store, path) as session:
            self.tables.drop(session, path)

    async def print_entity(
        self, store: Mapping[str, str], path: EntityPath, *, start: PrintStart
    ) -> AsyncGenerator[PrintedRecord]:
        """Yield the present rows of a table."""
        return await printed(partial(self._sampled, store, path), start)

    def create_rows(
        self, store: Mapping[str, str], path: EntityPath, schema: Schema, _options: PropertyReader
    ) -> None:
        """Create a table for rows of a schema."""
        with self.session(store, path) as session:
            self.tables.create(session, path, schema.columns, schema.primary_key)

    def _sampled(self, store: Mapping[str, str], path: EntityPath, limit: int) -> list[PrintedRecord]:
        with self.session(store, path) as session:
            return self.sample(session, path, limit)
