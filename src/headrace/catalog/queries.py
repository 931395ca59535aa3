"""Continuous queries: the state contains unfinished queries, and finished queries are read from the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, TextClause, insert, select, update

from headrace.catalog import events, future_grants, tables
from headrace.catalog.objects import DesiredState, Need, Query, QueryKind, QueryState, Relation, Role
from headrace.catalog.storage import Storage
from headrace.catalog.times import micros, moment, present
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState


def read(storage: Storage, where: ColumnElement[bool] | TextClause | None = None) -> list[Query]:
    """Return the queries that match a condition, or all; oldest first."""
    query = select(tables.queries).order_by(tables.queries.c.created_at)
    rows = storage.rows(query if where is None else query.where(where))
    of_them = select(tables.query_relations)
    if where is not None:
        identifiers = select(tables.queries.c.id).where(where)
        of_them = of_them.where(tables.query_relations.c.query_id.in_(identifiers))
    uses: dict[str, set[str]] = {}
    for row in storage.rows(of_them):
        uses.setdefault(row["query_id"], set()).add(row["relation_id"])
    return [_query(row, frozenset(uses.get(row["id"], ()))) for row in rows]


def get(storage: Storage, identifier: str) -> Query | None:
    """Return the query of that id, or None."""
    known = storage.state.queries.get(identifier)
    return known or next(iter(read(storage, tables.queries.c.id == identifier)), None)


def newest_named(storage: Storage, name: str) -> Query | None:
    """Return the newest query of that name, or None."""
    table = tables.queries
    newest = select(table.c.id).where(table.c.name == name).order_by(table.c.created_at.desc()).limit(1)
    return next(iter(read(storage, table.c.id == newest.scalar_subquery())), None)


def writers(storage: Storage, relation: Relation) -> list[Query]:
    """Return the queries that write that very relation, terminated or not; oldest first."""
    table = tables.query_relations
    ids = select(table.c.query_id).where((table.c.relation_id == relation.id) & table.c.is_sink)
    stored = read(storage, tables.queries.c.id.in_(ids))
    # A draft has queries that are in no table.
    queries = storage.state.queries.values()
    drafted = [query for query in queries if relation.id in query.uses and relation.name in query.sinks]
    by_id = {query.id: query for query in (*stored, *drafted)}
    return sorted(by_id.values(), key=lambda query: query.created_at)


def create(storage: Storage, query: Query) -> None:
    """Store a query with its first event. Its uses are the relations that have these names now."""
    state = storage.state
    used = {name: state.relation(name) for name in (*query.sinks, *query.sources)}
    ids = {relation.id: name in query.sinks for name, relation in used.items() if relation is not None}
    with storage.transaction():
        storage.execute(insert(tables.queries).values(_row(query)))
        for relation_id, is_sink in ids.items():
            values = {"query_id": query.id, "relation_id": relation_id, "is_sink": is_sink}
            storage.execute(insert(tables.query_relations).values(values))
        events.add(storage, query.id, query.actual_state, query.message)
        _put(storage, replace(query, uses=frozenset(ids)))
        future_grants.apply(storage, "query", (query.id,), query.id)


def change(storage: Storage, identifier: str, **values: Any) -> None:
    """Raises UserError 3D019."""
    with storage.transaction():
        known = get(storage, identifier)
        if known is None:
            raise UserError(SqlState.QUERY_NOT_FOUND, f"the query {identifier!r} does not exist")
        changed = replace(known, **values, updated_at=moment(present()))
        table, row = tables.queries, _row(changed)
        written = {name: row[name] for name in (*values, "updated_at")}
        storage.execute(update(table).where(table.c.id == identifier).values(written))
        _put(storage, changed)


def leave(storage: Storage, role: Role) -> None:
    """Transfer the finished queries of a role that is dropped to its owner: a later role of the same name must not restart them."""
    table = tables.queries
    storage.execute(update(table).where(table.c.owner == role.name).values(owner=role.owner))


def write_names(storage: Storage, query: Query) -> None:
    """Store the names that are in a query; the state is the caller's."""
    row = _row(query)
    named = {name: row[name] for name in ("sink", "more_sinks", "sources", "compute_pool", "plan")}
    storage.execute(update(tables.queries).where(tables.queries.c.id == query.id).values(named))


def _put(storage: Storage, query: Query) -> None:
    state = storage.state
    done = not query.should_run and query.actual_state is QueryState.TERMINATED
    others = {key: value for key, value in state.queries.items() if key != query.id}
    storage.put(replace(state, queries=others if done else {**others, query.id: query}))


def _row(query: Query) -> dict[str, object]:
    """Return the stored form of a query."""
    return {
        "id": query.id,
        "name": query.name,
        "version": query.version,
        "kind": query.kind.value,
        "sql": query.sql,
        "plan": query.plan,
        "sink": json.dumps(query.sink.path),
        "more_sinks": json.dumps([sink.path for sink in query.more_sinks]),
        "sources": json.dumps([source.path for source in query.sources]),
        "compute_pool": query.compute_pool,
        "owner": query.owner,
        "desired_state": query.desired_state.value,
        "actual_state": query.actual_state.value,
        "message": query.message,
        "sqlstate": query.sqlstate,
        "restarts": query.restarts,
        "generation": query.generation,
        "needs": json.dumps(query.needs),
        "created_at": micros(query.created_at),
        "updated_at": micros(query.updated_at),
    }


def _query(row: RowMapping | Mapping[str, Any], uses: frozenset[str]) -> Query:
    return Query(
        id=row["id"],
        name=row["name"],
        version=row["version"],
        kind=QueryKind(row["kind"]),
        sql=row["sql"],
        plan=row["plan"],
        sink=RelationName(*json.loads(row["sink"])),
        more_sinks=tuple(RelationName(*path) for path in json.loads(row["more_sinks"])),
        sources=tuple(RelationName(*path) for path in json.loads(row["sources"])),
        compute_pool=row["compute_pool"],
        owner=row["owner"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        desired_state=DesiredState(row["desired_state"]),
        actual_state=QueryState(row["actual_state"]),
        message=row["message"],
        sqlstate=row["sqlstate"],
        restarts=row["restarts"],
        generation=row["generation"],
        needs=tuple(Need(*need) for need in json.loads(row["needs"])),
        uses=uses,
    )
