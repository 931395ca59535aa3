"""A bound query: the tree of logical nodes, the kind of its rows, and the properties of the query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from headrace.analyzer.expressions import Call
from headrace.analyzer.expressions import walk as parts
from headrace.analyzer.functions.implementation import Implementation
from headrace.analyzer.logical import (
    LogicalNode,
    QueryProperties,
    Scan,
    Subquery,
    expressions,
    transform,
    walk,
)
from headrace.analyzer.traits import INSERTS, Traits, traits
from headrace.catalog.objects import Relation, RelationKind
from headrace.core.errors import Span
from headrace.core.names import Identifier
from headrace.core.schema import Schema


@dataclass(frozen=True)
class LogicalPlan:
    """A bound query. `snapshot` is true when every relation is a materialized view (the answer is then bounded).

    With `of_constants` its rows are constants that are to be written, so that Spark computes them.
    """

    root: LogicalNode
    snapshot: bool
    of_constants: bool = False
    properties: QueryProperties = field(default_factory=QueryProperties)
    partition_by: tuple[Identifier, ...] = ()
    span: Span | None = field(default=None, compare=False)

    @cached_property
    def traits(self) -> Traits:
        """The traits of the output's rows. A result that has an end is final when it is written, and the row of all rows has no key."""
        derived = traits(self.root)
        return replace(derived, changes=INSERTS, key=derived.key or None) if self.has_end else derived

    @cached_property
    def schema(self) -> Schema:
        """The output columns; `primary_key` is set for a changelog that selects its whole key."""
        key = self.traits.key if self.kind is RelationKind.CHANGELOG else None
        return Schema(self.root.schema.columns, tuple(name for _, name in key or ()))

    @property
    def kind(self) -> RelationKind:
        """STREAM or CHANGELOG: the kind of relation that can store the output (dialect, section 10.1).

        Rows that a key tells apart are a changelog, even where each key comes once, as of a time window's groups.
        """
        keyed = self.traits.key is not None or not self.traits.insert_only
        return RelationKind.CHANGELOG if keyed else RelationKind.STREAM

    @property
    def of_tables(self) -> bool:
        """True when a table of a store is read, for a result that has an end."""
        return self.snapshot and any(scan.relation.kind is RelationKind.TABLE for scan in self.scans)

    @property
    def has_end(self) -> bool:
        """True if the query, when it writes its result, ends: it reads tables, or nothing."""
        return self.of_tables or self.of_constants

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Every relation that is read, leftmost first."""
        return tuple(node for node in walk(self.root) if isinstance(node, Scan))

    def from_the_beginning(self, concerned: Callable[[Scan], bool]) -> LogicalPlan:
        """Return it with the reads at `latest` that are `concerned` at `earliest`."""

        def change(node: LogicalNode) -> LogicalNode:
            if (
                not isinstance(node, Scan)
                or node.properties.starting_position != "latest"
                or not concerned(node)
            ):
                return node
            return replace(node, properties=replace(node.properties, starting_position="earliest"))

        return replace(self, root=transform(self.root, change))

    @property
    def functions(self) -> Mapping[Relation | None, tuple[Implementation, ...]]:
        """The users' functions that are called, each once, by the materialized view whose query calls them; None: the query itself."""
        called: dict[Relation | None, dict[str, Implementation]] = {}
        for view, node in _with_views(self.root, None):
            for call in (part for each in expressions(node) for part in parts(each)):
                if isinstance(call, Call) and (user := call.function.user) is not None:
                    called.setdefault(view, {})[user.id] = user
        return {view: tuple(users.values()) for view, users in called.items()}

    @property
    def named(self) -> tuple[Relation, ...]:
        """The relations that the query itself names, each once: materialized views, without the relations of their queries."""
        return _once(_named(self.root))

    @property
    def inside_views(self) -> tuple[tuple[Relation, Relation], ...]:
        """Each materialized view whose query is part of this one, with each relation that the view's query names."""
        return tuple(
            {
                (view.name, relation.name): (view, relation) for view, relation in _inside(self.root, None)
            }.values()
        )

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The relations that the query needs, each once: those that it names, and those that the views' queries name."""
        candidates = (_relation(node) for node in walk(self.root))
        return _once(relation for relation in candidates if relation is not None)


def _once(relations: Iterable[Relation]) -> tuple[Relation, ...]:
    return tuple({relation.name: relation for relation in relations}.values())


def _named(node: LogicalNode) -> Iterator[Relation]:
    relation = _relation(node)
    if relation is not None:
        yield relation
        return
    for child in node.inputs:
        yield from _named(child)


def _inside(node: LogicalNode, view: Relation | None) -> Iterator[tuple[Relation, Relation]]:
    relation = _relation(node)
    if relation is not None and view is not None:
        yield view, relation
    for child in node.inputs:
        yield from _inside(child, relation or view)


def _with_views(node: LogicalNode, view: Relation | None) -> Iterator[tuple[Relation | None, LogicalNode]]:
    yield view, node
    inner = node.view if isinstance(node, Subquery) else None
    for child in node.inputs:
        yield from _with_views(child, inner or view)


def _relation(node: LogicalNode) -> Relation | None:
    if isinstance(node, Subquery):
        return node.view
    return node.relation if isinstance(node, Scan) else None
