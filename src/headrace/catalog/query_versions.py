"""Versions of continuous queries: replacing the statement and the plan of a query, and going back.

The present version is the query itself; the table contains the earlier ones. A version is settled when it has finished a batch. The
first version is settled from its start, since there is nothing to go back to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

from sqlalchemy import ColumnElement, insert, select, true, update

from headrace.catalog import events, plan_names, queries, tables
from headrace.catalog.kinds import BY_NAME
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.kinds.spec import Path
from headrace.catalog.objects import Need, Query, QueryKind, QueryVersion, Relation, ViewDefinition
from headrace.catalog.repository import Repository
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage
from headrace.catalog.times import moment, present
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState

Used = tuple[str, Path, str]
"""Kind, path and id of an object that a query used."""


class QueryVersions:
    """The earlier versions of the queries of a catalog."""

    def __init__(self, storage: Storage, relations: Repository[Relation]) -> None:
        self._storage = storage
        self._relations = relations

    def of(self, query: Query) -> list[QueryVersion]:
        """Return the earlier versions of a query, oldest first. Read from the database."""
        return self._read(tables.query_versions.c.query_id == query.id).get(query.id, [])

    def all(self) -> Mapping[str, list[QueryVersion]]:
        """Return the earlier versions of all queries by their ids, oldest first. Read from the database."""
        return self._read(true())

    def _read(self, where: ColumnElement[bool]) -> dict[str, list[QueryVersion]]:
        table = tables.query_versions
        versions: dict[str, list[QueryVersion]] = {}
        for row in self._storage.rows(select(table).where(where).order_by(table.c.version)):
            uses = json.loads(row["uses"])
            version = QueryVersion(
                version=row["version"],
                sql=row["sql"],
                plan=row["plan"],
                sources=tuple(RelationName(*path) for path in json.loads(row["sources"])),
                needs=tuple(Need(*need) for need in json.loads(row["needs"])),
                uses=tuple((kind, tuple(path), object_id) for kind, path, object_id in uses),
                replaced_at=moment(row["replaced_at"]),
                reason=row["reason"],
                lineage=queries.lineage_of(row["lineage"]),
                definition=_definition(row["definition"]),
                incarnation=row["incarnation"],
            )
            versions.setdefault(row["query_id"], []).append(version)
        return versions

    def replace(
        self, successor: Query, definition: ViewDefinition | None = None, *, reason: str | None = None
    ) -> None:
        """Let a query continue with the statement, plan, sources and needs of `successor`; if it is to run, it is started again.

        `successor` is the query as the caller has read it, with the changes. `definition` is the new definition of the materialized view
        that it writes, if it writes one. `reason` is why the present version has to go, if it did not
        prove itself: then the new version counts as settled. Raises UserError 3D019 for a query that is missing, 3D008 for a query that
        was replaced meanwhile, and as `queries.create` does for an object that the new plan uses.
        """
        storage, version = self._storage, successor.version + 1
        with storage.transaction():
            current = queries.required(storage, successor.id)
            if current.version != successor.version:
                raise UserError(
                    SqlState.INVALID_PARAMETER,
                    f"the query {current.id} was replaced meanwhile: expected version {successor.version}, "
                    f"found version {current.version}",
                    hint="DESCRIBE QUERY shows its present statement. Run your statement again if it still applies.",
                )
            view = self._view(current)
            _keep(storage, current, view, reason)
            if view is not None:
                self._relations.update(replace(view, definition=definition))
            queries.change_uses(storage, successor)
            queries.change(
                storage,
                successor.id,
                version=version,
                sql=successor.sql,
                plan=successor.plan,
                sources=successor.sources,
                needs=successor.needs,
                lineage=successor.lineage,
                incarnation=successor.incarnation,
                is_settled=reason is not None,
            )
            failure = f", which failed: {reason}" if reason is not None else ""
            message = f"version {version} replaces version {successor.version}{failure}"
            if current.should_run:
                queries.start(storage, current, message)
            else:
                events.add(storage, current.id, current.actual_state, message)

    def redefine(self, changed: Callable[[ViewDefinition], ViewDefinition]) -> None:
        """Change the definitions of views that earlier versions wrote, such as after an object was renamed."""
        table = tables.query_versions
        for row in self._storage.rows(select(table).where(table.c.definition.is_not(None))):
            before = _definition(row["definition"])
            if before is not None and (after := changed(before)) != before:
                key = (table.c.query_id == row["query_id"]) & (table.c.version == row["version"])
                self._storage.execute(update(table).where(key).values(definition=json.dumps(asdict(after))))

    def _view(self, query: Query) -> Relation | None:
        """Return the materialized view that a query writes; None if it writes something else."""
        if query.kind is not QueryKind.CREATE_MATERIALIZED_VIEW_AS:
            return None
        return self._storage.state.get(RELATION, query.sink.path)

    def settle(self, query: Query) -> None:
        """Record that the present version of a query has finished a batch. Raises UserError 3D019."""
        queries.change(self._storage, query.id, is_settled=True)

    def go_back(self, query: Query, reason: str, has_checkpoint: Callable[[Query], bool]) -> bool:
        """Return a query, whose present version failed for that reason, to the version before. Return False if that is not possible:
        the version is settled, what the version before used was dropped, or its checkpoint is no longer there, as in a restored backup."""
        with self._storage.transaction():
            current, earlier = queries.required(self._storage, query.id), self.of(query)
            if current.generation != query.generation or current.is_settled or not earlier:
                return False
            try:
                successor = self.successor(current, earlier[-1])
            except UserError:
                return False
            if successor.incarnation != current.incarnation and not has_checkpoint(successor):
                return False
            self.replace(successor, earlier[-1].definition, reason=reason)
            return True

    def successor(self, query: Query, version: QueryVersion) -> Query:
        """Return the query with the content of an earlier version, for `replace`.

        Objects that were renamed since have their new names in it. Raises UserError with the SQLSTATE of an object that was dropped since,
        even if another object has its name now.
        """
        paths = {}
        for kind, path, object_id in version.uses:
            spec, value = BY_NAME[kind], self._storage.state.by_id.get(object_id)
            if value is None:
                raise UserError(
                    spec.missing,
                    f"version {version.version} of the query {query.id} used {spec.described(path)}, which was dropped",
                    hint="ALTER QUERY … AS SELECT … replaces the query.",
                )
            paths[kind, path] = spec.path(value)
        sources = tuple(
            RelationName(*paths.get((RELATION.kind, source.path), source.path)) for source in version.sources
        )
        plan = with_present_names(version.plan, paths)
        return replace(
            query,
            sql=version.sql,
            plan=plan,
            sources=sources,
            needs=version.needs,
            lineage=version.lineage,
            incarnation=version.incarnation,
        )


def with_present_names(plan: str, paths: Mapping[tuple[str, Path], Path]) -> str:
    """Return a plan with the present paths of what it names, by kind and earlier path."""
    for (kind, earlier), present_path in paths.items():
        if kind != RELATION.kind and present_path != earlier:
            plan = plan_names.renamed(plan, kind, earlier[-1], present_path[-1])
    return plan


def used(state: CatalogState, query: Query) -> tuple[Used, ...]:
    """Return kind, path and id of what a query uses, without its compute pool; an empty id for an object that was dropped."""
    uses: list[Used] = []
    for spec, path in queries.references(query):
        value = state.get(spec, path)
        if spec is not COMPUTE_POOL:
            uses.append((spec.kind, path, value.id if value is not None and value.id in query.uses else ""))
    return tuple(uses)


def _definition(text: str | None) -> ViewDefinition | None:
    stored = json.loads(text) if text else None
    return ViewDefinition(stored["sql"], stored["database"], stored["schema"]) if stored else None


def _keep(storage: Storage, query: Query, view: Relation | None, reason: str | None) -> None:
    definition = view.definition if view is not None else None
    values = {
        "query_id": query.id,
        "version": query.version,
        "sql": query.sql,
        "plan": query.plan,
        "sources": json.dumps([source.path for source in query.sources]),
        "needs": json.dumps(query.needs),
        "uses": json.dumps(used(storage.state, query)),
        "lineage": queries.lineage_text(query.lineage),
        "definition": json.dumps(asdict(definition)) if definition is not None else None,
        "replaced_at": present(),
        "reason": reason,
        "incarnation": query.incarnation,
    }
    storage.execute(insert(tables.query_versions).values(values))
