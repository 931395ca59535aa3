"""Continuous queries: the state contains unfinished queries, and finished queries are read from the database."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, TextClause, delete, insert, select, update

from headrace.catalog import events, future_grants, plan_names, tables
from headrace.catalog.kinds import BY_NAME
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.query import QUERY
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.kinds.savepoint import SAVEPOINT
from headrace.catalog.kinds.spec import KindSpec, Path
from headrace.catalog.objects import (
    ColumnLineage,
    DesiredState,
    LineageKind,
    Need,
    Query,
    QueryKind,
    QueryState,
    Relation,
    Role,
)
from headrace.catalog.repository import Repository
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage
from headrace.catalog.times import micros, moment, present
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState

Use = tuple[KindSpec[Any], Path]
"""Kind and path of an object that a query uses."""


def read(storage: Storage, where: ColumnElement[bool] | TextClause | None = None) -> list[Query]:
    """Return the queries that match a condition, or all; oldest first."""
    query = select(tables.queries).order_by(tables.queries.c.created_at)
    rows = storage.rows(query if where is None else query.where(where))
    of_them = select(tables.query_uses)
    if where is not None:
        identifiers = select(tables.queries.c.id).where(where)
        of_them = of_them.where(tables.query_uses.c.query_id.in_(identifiers))
    uses: dict[str, set[str]] = {}
    for row in storage.rows(of_them):
        uses.setdefault(row["query_id"], set()).add(row["object_id"])
    return [_query(row, frozenset(uses.get(row["id"], ()))) for row in rows]


def get(storage: Storage, identifier: str) -> Query | None:
    """Return the query of that id, or None."""
    known = storage.state.queries.get(identifier)
    return known or next(iter(read(storage, tables.queries.c.id == identifier)), None)


def of_ids(storage: Storage, identifiers: Collection[str]) -> list[Query]:
    """Return the queries of these ids that exist, oldest first. Read from the database if one of them has ended."""
    known = storage.state.queries
    missing = [identifier for identifier in identifiers if identifier not in known]
    if not missing:
        chosen = [known[identifier] for identifier in identifiers]
    elif len(missing) <= events.IDS_MAX:
        chosen = read(storage, tables.queries.c.id.in_(missing))
        chosen += [known[identifier] for identifier in identifiers if identifier in known]
    else:
        chosen = [query for query in read(storage) if query.id in identifiers]
    return sorted(chosen, key=lambda query: query.created_at)


def required(storage: Storage, identifier: str) -> Query:
    """Return the query of that id. Raises UserError 3D019."""
    if (known := get(storage, identifier)) is None:
        raise UserError(SqlState.QUERY_NOT_FOUND, f"the query {identifier!r} does not exist")
    return known


def newest_named(storage: Storage, name: str, version: int | None = None) -> Query | None:
    """Return the newest query of that name, of a version or of any; None without one."""
    table = tables.queries
    matches = (
        (table.c.name == name) if version is None else (table.c.name == name) & (table.c.version == version)
    )
    newest = select(table.c.id).where(matches).order_by(table.c.created_at.desc()).limit(1)
    return next(iter(read(storage, table.c.id == newest.scalar_subquery())), None)


def writers(storage: Storage, relation: Relation) -> list[Query]:
    """Return the queries that write that very relation, terminated or not; oldest first."""
    table = tables.query_uses
    ids = select(table.c.query_id).where((table.c.object_id == relation.id) & table.c.is_sink)
    stored = read(storage, tables.queries.c.id.in_(ids))
    # A draft has queries that are in no table.
    queries = storage.state.queries.values()
    drafted = [query for query in queries if relation.id in query.uses and relation.name in query.sinks]
    by_id = {query.id: query for query in (*stored, *drafted)}
    return sorted(by_id.values(), key=lambda query: query.created_at)


def create(storage: Storage, query: Query) -> None:
    """Store a query with its first event. It uses the objects that have the names in it now; raises UserError with the SQLSTATE of a
    missing one."""
    with storage.transaction():
        used = _used(storage, query)
        storage.execute(insert(tables.queries).values(_row(query)))
        for identifier, is_sink in used.items():
            _add_use(storage, query.id, identifier, is_sink=is_sink)
        events.add(storage, query.id, query.actual_state, query.message)
        _put(storage, replace(query, uses=frozenset(used)))
        future_grants.apply(storage, QUERY.kind, (query.id,), query.id)


def start(storage: Storage, query: Query, message: str, *, queues: bool = False) -> None:
    """Request a start as a new generation, without the earlier error and restarts. A query that does not run enters the queue of its
    compute pool if it `queues`. Its savepoints are no longer final. Raises UserError 3D019."""
    ended = query.actual_state in (QueryState.ERRORED, QueryState.TERMINATED)
    is_queued = query.actual_state is QueryState.QUEUED or (queues and ended)
    state = QueryState.QUEUED if is_queued else QueryState.STARTING
    change(
        storage,
        query.id,
        desired_state=DesiredState.RUNNING,
        generation=query.generation + 1,
        actual_state=state,
        message=None,
        sqlstate=None,
        restarts=0,
    )
    events.add(storage, query.id, state, message)
    savepoints = Repository(storage, SAVEPOINT)
    for savepoint in savepoints.all():
        if savepoint.query_id == query.id and savepoint.is_final:
            savepoints.update(replace(savepoint, is_final=False))


def change_uses(storage: Storage, query: Query) -> None:
    """Record what a query uses after its plan was changed. It uses the objects that have the names in it now; raises UserError with the
    SQLSTATE of a missing one."""
    used = _used(storage, query)
    storage.execute(delete(tables.query_uses).where(tables.query_uses.c.query_id == query.id))
    for identifier, is_sink in used.items():
        _add_use(storage, query.id, identifier, is_sink=is_sink)
    _put(storage, replace(required(storage, query.id), uses=frozenset(used)))


def enter_pool(storage: Storage, query: Query) -> None:
    """Record that a query which starts again uses its compute pool: the pool that it ended in may have been dropped, and another one may
    have its name now, which runs the query as well. Raises UserError 3D023 without one."""
    pool = storage.state.required(COMPUTE_POOL, (query.compute_pool,), f"the query {query.id}")
    if pool not in query.uses:
        with storage.transaction():
            _add_use(storage, query.id, pool, is_sink=False)
            _put(storage, replace(query, uses=query.uses | {pool}))


def dropped_uses(state: CatalogState, query: Query) -> list[Use]:
    """Return kind and path of what a query used and was dropped since, even if another object has its name now.

    Such a query cannot be restarted: its checkpoint knows nothing of another object. Compute pools are not among them (`enter_pool`).
    """
    dropped = []
    for spec, path in references(query):
        value = state.get(spec, path)
        if spec is not COMPUTE_POOL and (value is None or value.id not in query.uses):
            dropped.append((spec, path))
    return dropped


def references(query: Query) -> Iterator[Use]:
    """Yield kind and path of everything that a query names, relations first."""
    yield from ((RELATION, name.path) for name in dict.fromkeys((*query.sinks, *query.sources)))
    yield COMPUTE_POOL, (query.compute_pool,)
    yield from ((BY_NAME[kind], path) for kind, path in sorted(plan_names.references(query.plan)))


def _used(storage: Storage, query: Query) -> dict[str, bool]:
    """Return the ids of what a query names, each with whether the query writes it."""
    state, sinks = storage.state, {sink.path for sink in query.sinks}
    return {
        state.required(spec, path, f"the query {query.id}"): path in sinks for spec, path in references(query)
    }


def _add_use(storage: Storage, query: str, identifier: str, *, is_sink: bool) -> None:
    values = {"query_id": query, "object_id": identifier, "is_sink": is_sink}
    storage.execute(insert(tables.query_uses).values(values))


def change(storage: Storage, identifier: str, **values: Any) -> None:
    """Raises UserError 3D019."""
    with storage.transaction():
        known = required(storage, identifier)
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
        "is_settled": query.is_settled,
        "lineage": lineage_text(query.lineage),
        "incarnation": query.incarnation,
        "created_at": micros(query.created_at),
        "updated_at": micros(query.updated_at),
    }


def lineage_text(lineage: Iterable[ColumnLineage]) -> str:
    """Return the stored form of a lineage."""
    rows = [(each.sink, each.column, each.relation, each.source, each.kind.value) for each in lineage]
    return json.dumps(rows)


def lineage_of(text: str) -> tuple[ColumnLineage, ...]:
    """Return the lineage of a stored form."""
    return tuple(
        ColumnLineage(sink, column, relation, source, LineageKind(kind))
        for sink, column, relation, source, kind in json.loads(text)
    )


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
        is_settled=row["is_settled"],
        lineage=lineage_of(row["lineage"]),
        incarnation=row["incarnation"],
        uses=uses,
    )
