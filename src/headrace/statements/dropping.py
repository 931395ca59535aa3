"""The common part of every DROP of a catalog object: RESTRICT and CASCADE."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, Query, QueryState, Relation, RelationKind
from headrace.catalog.policy import Requirement, named
from headrace.catalog.removal import Removal
from headrace.core.errors import ExternalError, Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.statements.base import Execution

POLL_S = 0.05
PATIENCE_MS = 30_000
"""How long after a driver is killed a query that ran in it may go on being told of."""


def ownership(target: Any, run: Execution, *, cascade: bool = False) -> Iterator[Requirement]:
    """Yield what a DROP requires: OWNERSHIP of the object, and with `cascade` of all dropped dependents and of the queries that end."""
    yield Requirement(Privilege.OWNERSHIP, target)
    if cascade:
        removal = run.catalog.removal(target)
        removed = (*removal.objects, *removal.queries)
        unknown = sum(not run.knows(item) for item in removed)
        if unknown:
            raise UserError(
                SqlState.INSUFFICIENT_PRIVILEGE,
                f"cannot drop {named(target)} with CASCADE: {counted(unknown, 'dependent object is', 'dependent objects are')} "
                f"not owned by role {run.role!r}",
                hint="USE ROLE a role that owns all of them, or ask their owner to drop them first.",
            )
        yield from (Requirement(Privilege.OWNERSHIP, item) for item in removed)


async def drop(target: Any, run: Execution, *, cascade: bool, span: Span | None) -> str:
    """Drop an object, and with `cascade` its dependents; `ownership` is the required privilege. Return the other dropped objects.

    All affected queries end before the first object is dropped, including queries that were already being terminated. Entities stay.
    Raises UserError 2BP01, or ExternalError 57014 for a query that does not end.
    """
    removal = run.catalog.removal(target)
    if run.checking:
        if cascade:
            for query in removal.queries:
                run.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
                run.catalog.record_query_state(query.id, QueryState.TERMINATED)
        _checked(target, run, cascade=cascade, span=span)
        return ""
    try:
        if cascade:
            for query in removal.queries:
                await asyncio.to_thread(run.catalog.set_desired_state, query.id, DesiredState.TERMINATED)
            run.services.engine.wake()
        if cascade or not any(query.should_run for query in removal.queries):
            await _ended(removal.queries, run)
        dropped, writers = await asyncio.to_thread(_dropped, target, run, cascade=cascade)
    except UserError as error:
        error.span = error.span or span
        raise
    for item in dropped.objects:
        if isinstance(item, Relation) and item.kind is RelationKind.MATERIALIZED_VIEW:
            await asyncio.to_thread(run.services.engine.views.drop, item.id)
    await run.services.engine.forget(writers)
    return _removed_note(len(dropped.objects) - 1, len(removal.queries)) if cascade else ""


def _checked(target: Any, run: Execution, *, cascade: bool, span: Span | None) -> None:
    try:
        run.catalog.drop(target, cascade=cascade, known=run.knows)
    except UserError as error:
        error.span = error.span or span
        raise


def _dropped(target: Any, run: Execution, *, cascade: bool) -> tuple[Removal, list[str]]:
    """Drop the object, and return what was dropped and the queries that wrote it, which can never run again."""
    with run.catalog.transaction():
        relations = [item for item in run.catalog.removal(target).objects if isinstance(item, Relation)]
        writers = [query.id for relation in relations for query in run.catalog.writers(relation)]
        return run.catalog.drop(target, cascade=cascade, known=run.knows), writers


async def _ended(queries: Sequence[Query], run: Execution) -> None:
    until = time.monotonic() + (run.services.settings.stop_timeout_ms + PATIENCE_MS) / 1000
    for query in queries:
        while query.id in run.catalog.snapshot().queries:
            if time.monotonic() > until:
                message = f"the query {query.id} was asked to stop, and is still running; nothing was dropped"
                raise ExternalError(SqlState.TIMEOUT, message, hint="LIST QUERIES shows its state.")
            await asyncio.sleep(POLL_S)


def _removed_note(objects: int, queries: int) -> str:
    counts = [(objects, "object", "objects"), (queries, "query", "queries")]
    parts = [counted(*each) for each in counts if each[0]]
    return f" with {' and '.join(parts)}" if parts else ""
