"""Queries: of CREATE … AS SELECT and of INSERT INTO."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from headrace.analyzer import properties as dialect
from headrace.analyzer.full_names import PARTS
from headrace.catalog.kinds import described
from headrace.catalog.objects import Query, QueryKind, Relation
from headrace.core.errors import UserError
from headrace.core.names import Identifier, QualifiedName
from headrace.core.properties import value_of
from headrace.sql.statements.query import InsertInto, ReplaceQuery
from headrace.sql.statements.relation import CreateRelationAs, ReplaceRelation
from headrace.statements.base import REQUIREMENTS, Execution
from headrace.statements.definitions import normal_form, stored_statement
from headrace.statements.desired_state.comparison import LEAVE, UNWRITTEN, Described, Verdict, compares
from headrace.statements.desired_state.relation import creator_ids, creators, find_relation
from headrace.statements.desired_state.steps import Action
from headrace.statements.replacement import prepare_replacement, resolved


def _find(statement: InsertInto, run: Execution, desired: Collection[str]) -> Described:
    query = _present_insert(statement, run, desired)
    name = query_name(query) if query is not None else f"INSERT INTO {run.relation_name(statement.name)}"
    return Described(query, "query", name)


@compares(CreateRelationAs, find=find_relation, covers=creator_ids)
def compare_relation(statement: CreateRelationAs, relation: Relation, run: Execution) -> Verdict:
    """Replace the query that created a relation, if it differs."""
    creator = next(
        (query for query in reversed(creators(relation, run)) if query.kind is not QueryKind.INSERT_INTO),
        None,
    )
    if creator is None or not run.knows(creator):
        return Verdict(Action.CONFLICT, ("no query created it, or the query is not authorized",))
    if creator.kind is QueryKind.APPLICATION:
        return Verdict(Action.CONFLICT, (f"the application {query_name(creator)} created it",))
    present = stored_statement(creator, relation)
    if present is not None and normal_form(present, _stored_name) == normal_form(statement, _names(run)):
        return LEAVE
    try:
        replaced = resolved(ReplaceRelation(statement.span, statement.text, statement), run)
    except UserError as error:
        return Verdict(Action.CONFLICT, (error.message,))
    if not isinstance(replaced, ReplaceQuery):
        return Verdict(Action.CONFLICT, (f"{described(relation)} is not authorized",))
    again = ReplaceRelation(*UNWRITTEN, replace(statement, if_not_exists=False))
    return _replaced(replaced, creator, again.sql(), run)


@compares(InsertInto, find=_find)
def compare_insert(statement: InsertInto, query: Query, run: Execution) -> Verdict:
    """Replace a query that differs."""
    present = stored_statement(query, None)
    if present is not None and normal_form(present, _stored_name) == normal_form(statement, _names(run)):
        return LEAVE
    replaced = ReplaceQuery(statement.span, statement.text, reference(query), statement.select)
    return _replaced(replaced, query, replaced.sql(), run)


def _replaced(statement: ReplaceQuery, query: Query, text: str, run: Execution) -> Verdict:
    """Return whether a query can be replaced, in the words of EXPLAIN."""
    try:
        run.check(REQUIREMENTS[ReplaceQuery](statement, run))
        replacement = prepare_replacement(statement, run)
    except UserError as error:
        return Verdict(Action.CONFLICT, (error.message,))
    if replacement.successor.plan == query.plan and replacement.successor.incarnation == query.incarnation:
        return LEAVE
    comparison = replacement.comparison
    notes = tuple(line.strip() for line in comparison.lines())
    possible = comparison.is_possible
    if not possible and query.kind is not QueryKind.CREATE_MATERIALIZED_VIEW_AS:
        how = "partly" if comparison.kind == "partly" else "anew"
        notes = (*notes, f"QUERY WITH ('{dialect.REPLACEMENT.name}' = '{how}') computes the results again")
    return Verdict(Action.REPLACE if possible else Action.CONFLICT, notes, text if possible else None)


def _present_insert(statement: InsertInto, run: Execution, matched: Collection[str]) -> Query | None:
    """Return the running query of the same name, or, without a name, one with an equal statement that no other statement describes."""
    relation = run.relation(statement.name)
    queries = [
        query
        for query in run.catalog.unfinished_queries()
        if query.kind is QueryKind.INSERT_INTO
        and query.should_run
        and query.sink == relation.name
        and query.id not in matched
        and run.knows(query)
    ]
    name = value_of(statement.properties.entries, dialect.QUERY_NAME) or value_of(
        statement.select.query_properties.entries, dialect.QUERY_NAME
    )
    if name is not None:
        return next((query for query in queries if query.name == name), None)
    normal = normal_form(statement, _names(run))
    return next(
        (
            query
            for query in queries
            if query.name is None
            and (present := stored_statement(query, None)) is not None
            and normal_form(present, _stored_name) == normal
        ),
        None,
    )


def _names(run: Execution) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Return the function that completes the name of a relation by the names of the session."""
    session = (run.context.database or "", run.context.schema or "public")
    return lambda parts: (*session[: PARTS - len(parts)], *parts)


def _stored_name(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the name in a stored statement, which is a full name."""
    return parts


def query_name(query: Query) -> str:
    """Return the name of a query in a plan."""
    return query.name or query.id


def reference(query: Query) -> QualifiedName:
    """Return the name of a query in a statement, which is its id."""
    return QualifiedName((Identifier(query.id),))
