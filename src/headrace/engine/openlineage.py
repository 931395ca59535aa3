"""Events of OpenLineage about the runs of queries, if the standard OPENLINEAGE_… variables name a receiver. Needs the extra `openlineage`.

A query is a job, and a run of it is what lasts from a start to its end; restarts by the server continue the run. Events have the lineage
of the query (ADR 56) by column. They contain names and types, never the text of a statement or the message of an error.
"""

from __future__ import annotations

import datetime
import os
import queue
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

from headrace import __version__
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Query, QueryState, Relation
from headrace.connectors.extras import client_module
from headrace.connectors.registry import connector
from headrace.core.errors import UserError
from headrace.core.names import RelationName, path_text
from headrace.core.sqlstate import SqlState

log = structlog.get_logger()

PRODUCER = "https://headrace.io/headrace"
QUEUE_MAX = 1_000
"""Events that wait for the receiver. Further ones are dropped, and logged."""
STOP_S = 5.0
"""Time for the events that wait when the server ends."""
_RECEIVERS = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
_SECRETS = ("OPENLINEAGE_API_KEY", "OPENLINEAGE__TRANSPORT")
"""Prefixes of variables that may contain a key or a password."""


def is_requested() -> bool:
    """True if the environment names a receiver and does not switch events off."""
    is_off = os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true"
    return not is_off and any(name.startswith(_RECEIVERS) for name in os.environ)


@dataclass(frozen=True)
class _Change:
    """A query at the time of a change, and the relations that its lineage names, by id and by name."""

    event: str
    at: datetime.datetime
    query: Query
    sqlstate: str | None
    by_id: dict[str, Relation]
    by_name: dict[RelationName, Relation]
    namespaces: dict[str, str]
    """By the name of a store, the namespace of its entities."""


class LineageEvents:
    """Queue of events, and the thread that sends them: no query waits for the receiver.

    Raises UserError 0A000 without the extra, and 3D008 if the client does not accept its variables.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "headrace")
        module = client_module("openlineage.client", extra="openlineage", label="OpenLineage")
        try:
            self._client = module.OpenLineageClient()
        except Exception as error:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the client of OpenLineage does not accept its OPENLINEAGE_ variables: {type(error).__name__}",
                hint="Set OPENLINEAGE_URL to the address of the receiver, such as http://marquez:5000.",
            ) from error
        self._queue: queue.Queue[_Change | None] = queue.Queue(QUEUE_MAX)
        self._begun: dict[str, Query] = {}
        """By query, the run that has begun and not ended, as the query was then."""
        self._thread = threading.Thread(target=self._send_always, name="openlineage", daemon=True)

    def start(self) -> None:
        """Send events from now on."""
        # The client has read them; they are no business of the processes that we start.
        for name in [name for name in os.environ if name.startswith(_SECRETS)]:
            del os.environ[name]
        self._thread.start()

    def changed(self, query: Query, state: QueryState, sqlstate: str | None = None) -> None:
        """Queue the events of a change of a query's state; STARTING is the request to a driver. Never waits."""
        for event, of in self._events(query, state):
            try:
                self._queue.put_nowait(self._change(event, of, sqlstate))
            except queue.Full:
                log.warning("lineage_event_dropped", query_id=query.id, lineage_event=event)

    def stop(self) -> None:
        """Send what waits, for a few seconds at most. Blocks."""
        if not self._thread.is_alive():
            return
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            log.warning("lineage_events_lost", count=self._queue.qsize())
        else:
            self._thread.join(STOP_S)

    def _events(self, query: Query, state: QueryState) -> Iterator[tuple[str, Query]]:
        begun = self._begun.get(query.id)
        if state in (QueryState.STARTING, QueryState.RUNNING):
            if begun is not None and begun.generation != query.generation:
                # ALTER QUERY or RESTART has replaced the run.
                yield "COMPLETE", begun
            if begun is None or begun.generation != query.generation:
                self._begun[query.id] = query
                yield "START", query
        if state is QueryState.RUNNING:
            yield "RUNNING", query
        ends = {
            QueryState.ERRORED: "FAIL",
            QueryState.STOPPED: "ABORT",
            # A bounded query that has read everything was to run until now.
            QueryState.TERMINATED: "COMPLETE" if query.should_run else "ABORT",
        }
        if state in ends and self._begun.pop(query.id, None) is not None:
            yield ends[state], query

    def _change(self, event: str, query: Query, sqlstate: str | None) -> _Change:
        objects = self._catalog.snapshot().by_id
        used = (objects.get(identifier) for identifier in {use.relation for use in query.lineage})
        by_id = {value.id: value for value in used if isinstance(value, Relation)}
        named = (self._catalog.relation(name) for name in {*query.sources, *query.sinks})
        by_name = {relation.name: relation for relation in named if relation is not None}
        names = {each.store for each in (*by_id.values(), *by_name.values()) if each.store is not None}
        stores = (self._catalog.store(name) for name in names)
        namespaces = {
            store.name: namespace(store.properties)
            for store in stores
            if store is not None and (namespace := connector(store.type).dataset_namespace) is not None
        }
        return _Change(
            event, datetime.datetime.now(datetime.UTC), query, sqlstate, by_id, by_name, namespaces
        )

    def _send_always(self) -> None:
        while (change := self._queue.get()) is not None:
            try:
                self._client.emit(self._event(change))
            except Exception as error:  # noqa: BLE001 - of the client, its transport or the receiver
                log.warning(
                    "lineage_event_not_sent",
                    query_id=change.query.id,
                    lineage_event=change.event,
                    reason=type(error).__name__,
                )

    def _event(self, change: _Change) -> Any:
        from openlineage.client import event_v2 as events
        from openlineage.client.facet_v2 import error_message_run, job_type_job, processing_engine_run

        query = change.query
        facets: dict[str, Any] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=__version__, name="Headrace", producer=PRODUCER
            )
        }
        if change.event == "FAIL":
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=f"SQLSTATE {change.sqlstate or 'XX000'}", programmingLanguage="SQL", producer=PRODUCER
            )
        job_type = job_type_job.JobTypeJobFacet(
            processingType="STREAMING", integration="HEADRACE", jobType="QUERY", producer=PRODUCER
        )
        return events.RunEvent(
            eventType=events.RunState[change.event],
            eventTime=change.at.isoformat(timespec="milliseconds"),
            producer=PRODUCER,
            run=events.Run(_run_id(query), facets),
            job=events.Job(self._namespace, query.name or path_text(query.sink.path), {"jobType": job_type}),
            inputs=[
                events.InputDataset(*self._place(relation, change), facets=self._facets(relation))
                for relation in _known(query.sources, change)
            ],
            outputs=[
                events.OutputDataset(
                    *self._place(relation, change),
                    facets={**self._facets(relation), **self._columns(number, change)},
                )
                for number, relation in enumerate(_known(query.sinks, change))
            ],
        )

    def _place(self, relation: Relation, change: _Change) -> tuple[str, str]:
        """Return namespace and name of a relation's data: those of its entity, by OpenLineage's rules; of a view, those of the view."""
        if relation.store is None or not relation.entity:
            return self._namespace, path_text(relation.name.path)
        if (namespace := change.namespaces.get(relation.store)) is not None:
            return namespace, ".".join(relation.entity)
        return f"{self._namespace}/{relation.store}", path_text(relation.entity)

    def _facets(self, relation: Relation) -> dict[str, Any]:
        from openlineage.client.facet_v2 import schema_dataset, symlinks_dataset

        fields = [
            schema_dataset.SchemaDatasetFacetFields(name=column.name, type=str(column.type))
            for column in relation.schema.columns
        ]
        identifier = symlinks_dataset.Identifier(
            self._namespace, path_text(relation.name.path), relation.kind.name
        )
        return {
            "schema": schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER),
            "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[identifier], producer=PRODUCER),
        }

    def _columns(self, sink: int, change: _Change) -> dict[str, Any]:
        """Return the facet with the lineage of each column of a sink; none for queries of releases that did not record it."""
        from openlineage.client.facet_v2 import column_lineage_dataset as columns

        fields: dict[str | None, dict[tuple[str, str, str], Any]] = {}
        for use in change.query.lineage:
            relation = change.by_id.get(use.relation)
            if use.sink != sink or relation is None:
                continue
            place = (*self._place(relation, change), use.source)
            inputs = fields.setdefault(use.column, {})
            field = inputs.setdefault(place, columns.InputField(*place, transformations=[]))
            kind = "DIRECT" if use.kind.is_direct else "INDIRECT"
            field.transformations.append(columns.Transformation(kind, use.kind.name))
        if not fields:
            return {}
        rows = list(fields.pop(None, {}).values())
        by_column = {
            str(name): columns.Fields(inputFields=list(inputs.values())) for name, inputs in fields.items()
        }
        return {
            "columnLineage": columns.ColumnLineageDatasetFacet(by_column, dataset=rows, producer=PRODUCER)
        }


def _known(names: Iterable[RelationName], change: _Change) -> list[Relation]:
    return [change.by_name[name] for name in names if name in change.by_name]


def _run_id(query: Query) -> str:
    """Return the id of a run: the same after a restart of the server."""
    return str(uuid.uuid5(uuid.UUID(query.id), str(query.generation)))
