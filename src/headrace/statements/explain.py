"""EXPLAIN (text for people) and DESCRIBE <statement> (a kind and a plan as JSON, for clients)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headrace.catalog.objects import Relation
from headrace.catalog.policy import Requirement
from headrace.core.errors import InternalError, UserError
from headrace.core.names import RelationName, printed
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.planner import plan_query
from headrace.planner.application_text import (
    ApplicationStatement,
    describe_application,
    explain_application,
)
from headrace.planner.explain import RelationFact, describe, explain
from headrace.planner.sinks import ResultSink
from headrace.planner.table_queries import plan_table_query
from headrace.sql.ast import Statement
from headrace.sql.statements.application import Application
from headrace.sql.statements.query import Explain, InsertInto, ReplaceQuery, SelectStatement
from headrace.sql.statements.relation import CreateRelation, CreateRelationAs, ReplaceRelation
from headrace.sql.statements.session import Use
from headrace.statements.application import Draft, Member, drafted, planned
from headrace.statements.base import REQUIREMENTS, Execution, Outcome, handles
from headrace.statements.continuous_query import Prepared, bound, prepare
from headrace.statements.relation import store_name
from headrace.statements.replacement import prepare_replacement, resolved
from headrace.statements.resuming import Origin


def _of_explained(statement: Explain, run: Execution) -> Iterable[Requirement]:
    """Yield the privileges of running the statement: a plan reveals everything that it reads."""
    explained = statement.statement
    if isinstance(explained, ReplaceRelation):
        explained = resolved(explained, run)
    if not isinstance(
        explained,
        SelectStatement | CreateRelation | CreateRelationAs | InsertInto | Application | ReplaceQuery,
    ):
        return ()
    return REQUIREMENTS[type(explained)](explained, run)


@handles(Explain, requires=_of_explained, checked=True)
async def explain_statement(statement: Explain, run: Execution) -> Outcome:
    """Plan the statement and create nothing."""
    inner = statement.statement
    if isinstance(inner, ReplaceRelation):
        inner = await asyncio.to_thread(resolved, inner, run)
    draft = await drafted(inner, run) if isinstance(inner, Application) else None
    if statement.describe:
        kind, plan = (
            _described_application(draft, run)
            if draft is not None
            else await asyncio.to_thread(_described, inner, run)
        )
        return Outcome(result([("Type", VARCHAR), ("Info", VARCHAR)], [(kind, plan)]))
    if draft is not None and isinstance(inner, Application):
        text = await asyncio.to_thread(_explained_application, inner.name.name, draft)
    else:
        text = await asyncio.to_thread(_explained, inner, run)
    return Outcome(result([("Plan", VARCHAR)], [(line,) for line in text.splitlines()]))


def _explained(statement: Statement, run: Execution) -> str:
    if isinstance(statement, SelectStatement):
        logical = bound(statement.select, run)
        if logical.of_tables:
            return explain(logical, plan_table_query(logical, run.target), ResultSink())
        if logical.snapshot:
            return explain(logical, None, None)
        return explain(logical, plan_query(logical, ResultSink(), run.target), ResultSink())
    if isinstance(statement, CreateRelationAs | InsertInto):
        prepared = prepare(statement, run)
        explained = explain(prepared.logical, prepared.plan, prepared.sink)
        return "\n".join([*_continued(prepared.origin), explained])
    if isinstance(statement, ReplaceQuery):
        replacement = prepare_replacement(statement, run)
        prepared, changes = replacement.prepared, replacement.comparison.lines()
        return "\n".join([*changes, explain(prepared.logical, prepared.plan, prepared.sink)])
    raise _unexplained(statement)


def _continued(origin: Origin | None) -> list[str]:
    return [f"Continues from {origin.described}"] if origin is not None else []


def _described(statement: Statement, run: Execution) -> tuple[str, str]:
    organization = run.context.organization_id
    if isinstance(statement, CreateRelation):
        name = run.relation_name(statement.name)
        store, _ = run.store(store_name(statement.properties))
        fact = _fact(name, statement.kind.lower(), store.name)
        return describe(kind=f"CREATE_{statement.kind}", ddl=fact)
    if isinstance(statement, CreateRelationAs | InsertInto):
        prepared = prepare(statement, run)
        sources = tuple(map(_relation_fact, prepared.logical.named))
        sink = _sink_fact(prepared, run)
        return describe(
            kind=prepared.kind.value,
            ddl=sink if prepared.relation else None,
            sink=sink,
            sources=sources,
            organization_id=organization,
        )
    if isinstance(statement, SelectStatement):
        logical = bound(statement.select, run)
        sources = tuple(map(_relation_fact, logical.named))
        return describe(kind="SELECT", sources=sources, organization_id=organization)
    raise _unexplained(statement)


def _explained_application(name: str, draft: Draft) -> str:
    parts = draft.parts
    if not parts:
        return f"Application {printed(name)}: no queries"
    virtual = [item.relation for item in draft.virtual.values()]
    plan, origin = planned(draft)
    return "\n".join([*_continued(origin), explain_application(name, parts, plan, virtual)])


def _described_application(draft: Draft, run: Execution) -> tuple[str, str]:
    statements = [
        ApplicationStatement(
            member.statement.sql(),
            _relation_fact(relation) if (relation := _made_by(member)) is not None else None,
            _written_by(member, draft),
            tuple(map(_relation_fact, member.reads)),
        )
        for member in draft.members
        if not isinstance(member.statement, Use)
    ]
    return describe_application(statements, run.context.organization_id)


def _made_by(member: Member) -> Relation | None:
    return member.definition.relation if member.definition is not None else None


def _written_by(member: Member, draft: Draft) -> RelationFact | None:
    if not isinstance(member.definition, Prepared):
        return None
    relation = member.definition.relation or draft.catalog.relation(member.definition.sink_name)
    return _relation_fact(relation) if relation is not None else None


def _sink_fact(prepared: Prepared, run: Execution) -> RelationFact:
    relation = prepared.relation or run.catalog.relation(prepared.sink_name)
    if relation is None:
        raise InternalError(f"the relation {prepared.sink_name} was dropped while the statement was planned")
    return _relation_fact(relation)


def _relation_fact(relation: Relation) -> RelationFact:
    return _fact(relation.name, relation.kind.value, relation.store)


def _fact(name: RelationName, kind: str, store: str | None) -> RelationFact:
    return RelationFact(type=kind, database=name.database, schema=name.schema, name=name.name, store=store)


def _unexplained(statement: Statement) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        "only queries and CREATE of relations have a plan",
        hint="EXPLAIN supports SELECT, CREATE … AS SELECT and INSERT INTO.",
        span=statement.span,
    )
