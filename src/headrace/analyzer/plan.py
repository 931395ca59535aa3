"""A bound query: the tree of logical nodes, what its rows are, and the properties of the query."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from headrace.analyzer.logical import LogicalNode, QueryProperties, Scan, walk
from headrace.analyzer.traits import Traits, traits
from headrace.catalog.objects import RelationKind
from headrace.core.errors import Span
from headrace.core.names import Identifier
from headrace.core.schema import Schema


@dataclass(frozen=True)
class LogicalPlan:
    """A bound query. `snapshot` is true when every relation is a materialized view (the answer is then bounded)."""

    root: LogicalNode
    snapshot: bool
    properties: QueryProperties = field(default_factory=QueryProperties)
    partition_by: tuple[Identifier, ...] = ()
    span: Span | None = field(default=None, compare=False)

    @cached_property
    def traits(self) -> Traits:
        """What is known of the output's rows."""
        return traits(self.root)

    @cached_property
    def schema(self) -> Schema:
        """The output columns; `primary_key` is set for a changelog that selects its whole key."""
        key = self.traits.key if self.kind is RelationKind.CHANGELOG else None
        return Schema(self.root.schema.columns, tuple(name for _, name in key or ()))

    @property
    def kind(self) -> RelationKind:
        """STREAM or CHANGELOG: what the output can be stored as (dialect, section 10.1).

        Rows that a key tells apart are a changelog, even where each key comes once, as of a time window's groups.
        """
        keyed = self.traits.key is not None or not self.traits.insert_only
        return RelationKind.CHANGELOG if keyed else RelationKind.STREAM

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Every relation that is read, leftmost first."""
        return tuple(node for node in walk(self.root) if isinstance(node, Scan))
