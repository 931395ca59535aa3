"""Lineage: edges between entities, relations and queries, and between columns."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.catalog.objects import Relation
from headrace.core.names import RelationName, path_text
from headrace.core.schema import Column
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.statements.base import Execution
from headrace.statements.system.relation import Reference, Rows, always, system_relation

_ENTITY, _RELATION, _QUERY = "entity", "relation", "query"


@system_relation(
    "lineage",
    always("source_kind"),
    always("source"),
    always("target_kind"),
    always("target"),
    key=("source_kind", "source", "target_kind", "target"),
    references=(
        Reference(
            "source_relation",
            "relations",
            ("source",),
            "downstream",
            targets=("fqn",),
            when=("source_kind", "relation"),
        ),
        Reference(
            "target_relation",
            "relations",
            ("target",),
            "upstream",
            targets=("fqn",),
            when=("target_kind", "relation"),
        ),
        Reference("source_query", "queries", ("source",), "downstream", when=("source_kind", "query")),
        Reference("target_query", "queries", ("target",), "upstream", when=("target_kind", "query")),
    ),
    doc=(
        "The edges along which data flows: from an `entity` to the `relation` over it, on to each `query` that reads it, to the relation "
        "that the query writes, and to the entity of that; and from each relation to the views that read it. An entity is named by its "
        "store and its name, a relation by its full name, and a query by its id. Queries that have ended are left out."
    ),
)
def lineage(run: Execution) -> Rows:
    relations = {item.name: item for item in run.visible(run.catalog.relations())}
    queries = run.visible(run.catalog.unfinished_queries())
    written = {sink for query in queries for sink in query.sinks}
    for relation in relations.values():
        if (entity := _entity(relation)) is not None:
            edge = ((_ENTITY, entity), (_RELATION, relation.name.fqn))
            (before, after) = reversed(edge) if relation.name in written else edge
            yield (*before, *after)
        for name in relation.definition.reads if relation.definition is not None else ():
            if name in relations:
                yield _RELATION, name.fqn, _RELATION, relation.name.fqn
    for query in queries:
        yield from _edges(query.sources, query.id, relations, to_query=True)
        yield from _edges(query.sinks, query.id, relations, to_query=False)


def _entity(relation: Relation) -> str | None:
    if relation.store is None or not relation.entity:
        return None
    return f"{relation.store}.{path_text(relation.entity)}"


def _edges(
    names: tuple[RelationName, ...], query: str, known: dict[RelationName, Relation], *, to_query: bool
) -> Iterator[tuple[object, ...]]:
    for name in names:
        if name in known:
            relation = (_RELATION, name.fqn)
            yield (*relation, _QUERY, query) if to_query else (_QUERY, query, *relation)


@system_relation(
    "column_lineage",
    always("query_id"),
    always("relation"),
    Column("column_name", VARCHAR),
    always("source_relation"),
    always("source_column"),
    always("usage"),
    always("is_direct", BOOLEAN),
    key=("query_id", "relation", "column_name", "source_relation", "source_column", "usage"),
    references=(
        Reference("query", "queries", ("query_id",), "column_lineage"),
        Reference("target", "relations", ("relation",), "column_lineage", targets=("fqn",)),
        Reference("source", "relations", ("source_relation",), "column_uses", targets=("fqn",)),
    ),
    doc=(
        "From which columns each query computes each column of the relation that it writes. `usage` is as in OpenLineage: `IDENTITY`, "
        "`TRANSFORMATION` and `AGGREGATION` are direct; a column of `JOIN`, `GROUP_BY`, `FILTER`, `SORT`, `WINDOW` or `CONDITIONAL` "
        "decides about values or rows. `column_name` is NULL where it decides about rows. Queries of releases before 0.3.0 have no rows."
    ),
)
def column_lineage(run: Execution) -> Rows:
    relations = {item.id: item for item in run.visible(run.catalog.relations())}
    names = {item.name for item in relations.values()}
    for query in run.visible(run.catalog.unfinished_queries()):
        for use in query.lineage:
            source, target = relations.get(use.relation), query.sinks[use.sink]
            if source is not None and target in names:
                yield (
                    query.id,
                    target.fqn,
                    use.column,
                    source.name.fqn,
                    use.source,
                    use.kind.value,
                    use.kind.is_direct,
                )
