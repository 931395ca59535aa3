"""An immutable picture of the catalog: what binding sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.catalog.objects import Relation, Store
from headrace.core.names import RelationName


@dataclass(frozen=True)
class CatalogView:
    """Relations and stores as they were at one moment; reads only, from memory."""

    by_name: Mapping[RelationName, Relation]
    by_store_name: Mapping[str, Store]

    def relation(self, name: RelationName, /) -> Relation | None:
        """The relation of that full name, or None."""
        return self.by_name.get(name)

    def relations(self, database: str | None = None, schema: str | None = None) -> Sequence[Relation]:
        """The relations, of one database or schema if named."""
        return [
            relation
            for name, relation in self.by_name.items()
            if database in (None, name.database) and schema in (None, name.schema)
        ]

    def store(self, name: str, /) -> Store | None:
        """The store of that name, or None."""
        return self.by_store_name.get(name)
