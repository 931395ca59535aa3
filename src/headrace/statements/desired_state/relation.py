"""Relations over entities, and descriptions of relations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace.analyzer import properties as dialect
from headrace.catalog.objects import Query, QueryKind, Relation, RelationKind
from headrace.sql.statements.alter import DescribeAs
from headrace.sql.statements.relation import CreateRelation, CreateRelationAs
from headrace.statements.base import REQUIREMENTS, Execution, UncheckedError
from headrace.statements.desired_state.comparison import LEAVE, Described, Verdict, compares
from headrace.statements.desired_state.steps import Action
from headrace.statements.relation import declare

_KINDS = {kind.value.upper().replace("_", " "): kind for kind in RelationKind}
RELATION_WORDS = {kind: word for word, kind in _KINDS.items()}


def find_relation(
    statement: CreateRelation | CreateRelationAs, run: Execution, _desired: Collection[str]
) -> Described:
    """Return the relation of a CREATE. Its kind is the one that it has, if it exists."""
    name = run.relation_name(statement.name)
    relation = run.catalog.snapshot().relation(name)
    kind = RELATION_WORDS[relation.kind] if relation is not None else statement.kind
    return Described(relation, kind.lower(), str(name))


def _find_described(statement: DescribeAs, run: Execution, _desired: Collection[str]) -> Described:
    relation = run.relation(statement.name)
    return Described(relation, RELATION_WORDS[relation.kind].lower(), str(relation.name))


def creators(relation: Relation, run: Execution) -> list[Query]:
    """Return the queries that created a relation or were part of its creation, oldest first."""
    return [query for query in run.catalog.writers(relation) if query.kind is not QueryKind.INSERT_INTO]


def creator_ids(relation: Relation, run: Execution) -> list[str]:
    """Return the ids of the queries that created a relation."""
    return [query.id for query in creators(relation, run)]


@compares(CreateRelation, find=find_relation, covers=creator_ids)
def compare(statement: CreateRelation, relation: Relation, run: Execution) -> Verdict:
    """Compare a relation over an entity: it cannot be changed, so that each difference is a conflict."""
    if any(query.kind is not QueryKind.INSERT_INTO for query in creators(relation, run)):
        return Verdict(Action.CONFLICT, ("it was created by a query",))
    try:
        desired = declare(statement, run).relation
    except UncheckedError:
        # Columns that a store or a registry defines are known when the relation is created.
        desired = replace(relation, kind=_KINDS[statement.kind], properties=_given(statement))
    differences = [
        word
        for word, one, other in (
            ("kind", relation.kind, desired.kind),
            ("columns or key", relation.schema, desired.schema),
            ("store", relation.store, desired.store),
            ("entity", relation.entity, desired.entity),
            ("format", relation.format.value.format, desired.format.value.format),
            ("properties", _folded(relation.properties), _folded(desired.properties)),
        )
        if one != other
    ]
    if not differences:
        return LEAVE
    note = f"another {', '.join(differences)}: a relation without a query cannot be changed, DROP it first"
    return Verdict(Action.CONFLICT, (note,))


def _given(statement: CreateRelation) -> dict[str, str]:
    return {
        key: value or "" for key, value in statement.properties.items() if not dialect.STORE.matches_name(key)
    }


def _folded(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties as they are compared: words such as JSON have no case."""
    return {name: text.casefold() for name, text in properties.items()}


@compares(DescribeAs, find=_find_described, covers=creator_ids)
def compare_description(statement: DescribeAs, relation: Relation, run: Execution) -> Verdict:
    """Update a description that differs."""
    if relation.description == statement.description:
        return LEAVE
    run.check(REQUIREMENTS[DescribeAs](statement, run))
    return Verdict(Action.UPDATE, ("the description changes",), statement.sql())
