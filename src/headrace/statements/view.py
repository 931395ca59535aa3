"""CREATE VIEW: a name for a query, which is part of each query that reads the view. See docs/adr/0075."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

from headrace.analyzer import LogicalPlan
from headrace.catalog.objects import Relation, RelationKind, ViewDefinition
from headrace.catalog.policy import Requirement
from headrace.core.errors import UserError
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import Select
from headrace.sql.statements.relation import CreateView
from headrace.statements.base import Execution, Outcome, handles, now, relation_ddl
from headrace.statements.continuous_query import bound, of_select
from headrace.statements.relation import creation
from headrace.statements.select import planned


def _of_view(statement: CreateView, run: Execution) -> Iterator[Requirement]:
    name = run.relation_name(statement.name)
    yield from creation(name, run)
    if not (statement.if_not_exists and run.knows(run.catalog.relation(name))):
        yield from of_select(statement.select, run)


@handles(CreateView, requires=_of_view, checked=True)
async def create_view(statement: CreateView, run: Execution) -> Outcome:
    """Create a view. Its query is bound and planned once, so that its errors are reported now."""
    name = run.relation_name(statement.name)
    existing = run.catalog.relation(name)
    if existing is not None and statement.if_not_exists and run.knows(existing):
        return Outcome(relation_ddl(existing, "CREATE", "already exists"))
    if existing is not None:
        raise UserError(
            SqlState.DUPLICATE_RELATION,
            f"the relation {name} already exists",
            hint="Choose another name, or drop it first.",
            span=statement.name.span,
        )
    return Outcome(await asyncio.to_thread(_created, statement, run))


def _created(statement: CreateView, run: Execution) -> ResultSet:
    _refuse_clauses_of_queries(statement.select)
    logical = bound(statement.select, run)
    _refuse_system_relations(logical, statement.select)
    planned(logical, run)
    moment = now()
    definition = ViewDefinition(
        statement.text,
        run.context.database,
        run.context.schema,
        tuple(relation.name for relation in logical.named),
        tuple(str(each.function.signature) for each in logical.functions.get(None, ())),
    )
    relation = Relation(
        name=run.relation_name(statement.name),
        kind=RelationKind.VIEW,
        schema=logical.schema,
        owner=run.role,
        created_at=moment,
        updated_at=moment,
        id=str(uuid.uuid4()),
        definition=definition,
    )
    run.catalog.create_relation(relation)
    return relation_ddl(relation, "CREATE", "was created")


def _refuse_clauses_of_queries(select: Select) -> None:
    if select.query_properties or select.partition_by:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "QUERY WITH and PARTITION BY require a query that writes: a view is part of the queries that read it",
            hint="Put them into the queries that read the view.",
            span=select.span,
        )


def _refuse_system_relations(logical: LogicalPlan, select: Select) -> None:
    """Raise UserError 0A000 for a system relation: its rows depend on the role that reads it, a view's on its owner."""
    for relation in logical.named:
        if relation.kind is RelationKind.SYSTEM:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"a view cannot read {relation.name}: the rows of a system relation depend on the role that reads it",
                hint="SELECT from the system relation itself.",
                span=select.span,
            )
