"""Subscriptions: rows of a live SELECT, changes of the catalog, and rows of relations about queries whenever they change.

All read the current state when they are woken (`core.signals`), so that a slow client costs no memory. Each ends when its client loses its
credentials or the privileges that it needs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from enum import Enum
from typing import Any, TypeVar

import strawberry
from strawberry.types import Info

from headrace.catalog.changes import CHANGE_KINDS, Action
from headrace.core.signals import listening
from headrace.core.sqlstate import SqlState
from headrace.server.dataplane.sockets import SIGNED_IN_CHECK_S
from headrace.server.graphql.errors import RefusedError, refused, too_busy
from headrace.server.graphql.objects import SYSTEM_RELATIONS, Node, ObjectTypes
from headrace.server.graphql.statements import Column, ContextInput, cells_of, columns_of, submitted
from headrace.server.ports import LiveResult
from headrace.server.rest.answers import Failed, Streaming, Succeeded
from headrace.statements.system import SystemRelation
from headrace.statements.system.paging import Key, PageRequest, Row, RowCondition, key_of

T = TypeVar("T")
WATCHED = {"queries": "id", "query_metrics": "query_id", "query_findings": "query_id"}
"""The relations with a subscription, and their columns with the ids of queries."""
PAUSE_S = 0.5
"""The least time between two events of a subscription that reads the catalog."""
LOOK_S = 5.0
"""Findings and ages depend on the time too, so they are looked at without a signal."""
CLOCKS = frozenset({"batch_age_ms", "checkpoint_age_ms", "watermark_lag_ms", "slot_seconds_total"})
"""Columns that differ at each reading; the last one of queries whose tasks run on without rows. A row in which only these differ is sent
after `LOOK_S`: else each progress of a query would send the rows of all queries."""
QUERIES_MAX = 1000

_enum: Any = Enum
ChangeKind: Any = strawberry.enum(
    _enum("ChangeKind", {name.upper(): name for name in CHANGE_KINDS}),
    description="Kinds of changes, named as the system relations whose rows change.",
)
ChangeAction = strawberry.enum(Action, name="ChangeAction", description="What happened, as the role sees it.")


@strawberry.type
class LiveRows:
    """Rows of a live result. Those of a changelog have changes: +I inserts, +U updates, -D deletes the row of its key.

    The first event has no rows: the query runs from then on.
    """

    columns: list[Column]
    rows: list[list[str | None]]
    changes: list[str] | None
    changelog_key: list[str] | None
    message: str | None


@strawberry.type
class Change:
    """A change of an object; `key` is the key of its row in the system relation.

    It is empty for a change of privileges, and for changes that are not of objects: live queries, and the tests of stores.
    """

    kind: ChangeKind
    action: ChangeAction  # type: ignore[valid-type]
    key: list[str]


async def rows(
    info: Info, statement: str, context: ContextInput | None = None
) -> AsyncGenerator[LiveRows, None]:
    """Rows of a SELECT or PRINT as they come. A slow reader slows the query, and its end ends the query."""
    operation = info.context
    run = submitted(info, statement, context)
    # If the client leaves before the query runs, nobody redeems the ticket, which then expires and ends the query.
    answer = await asyncio.shield(run.task)
    if isinstance(answer, Failed):
        raise RefusedError(answer.error)
    most = operation.settings.graphql_page_rows_max
    if isinstance(answer, Succeeded):
        operation.runs.forget(run)
        result = answer.result
        for start in range(0, max(len(result.rows), 1), most):
            yield LiveRows(
                columns=columns_of(result.columns),
                rows=cells_of(result.rows[start : start + most]),
                changes=None,
                changelog_key=None,
                message=result.message,
            )
        return
    if not isinstance(answer, Streaming):
        raise too_busy()
    ticket = operation.tickets.redeem(answer.ticket.token, run.envelope.statement_id)
    operation.runs.forget(run)
    if ticket is None:
        raise refused(SqlState.CANCELLED, "the result has expired", "Subscribe again.")
    live = ticket.result
    try:
        with operation.metrics.stream():
            async with aclosing(guarded(info, _live(info, live, most), live.lost)) as events:
                async for event in events:
                    yield event
    finally:
        # Shielded: a cancelled socket (shutdown) must not leave its query running.
        await asyncio.shield(live.close())


async def _live(info: Info, live: LiveResult, most: int) -> AsyncGenerator[LiveRows, None]:
    await live.started()
    columns, key = columns_of(live.columns), live.changelog_key

    def event(cells: list[list[str | None]], kinds: list[str] | None) -> LiveRows:
        names = list(key) if key is not None else None
        return LiveRows(
            columns=columns, rows=cells_of(cells), changes=kinds, changelog_key=names, message=live.message
        )

    yield event([], [] if key is not None else None)
    async for batch in live:
        for start in range(0, len(batch.cells), most):
            part = batch.part(start, start + most)
            yield event(part.cells, part.kinds)
        info.context.metrics.streamed(len(batch.cells))


async def changes(
    info: Info,
    kinds: list[ChangeKind] | None = None,
) -> AsyncGenerator[list[Change], None]:
    """Changes of objects that the role may see, all or of these kinds. The first event is empty: read what you need after it."""
    names = frozenset(CHANGE_KINDS if kinds is None else (kind.value for kind in kinds))
    async with aclosing(guarded(info, _changes(info, names))) as events:
        async for event in events:
            yield event


async def _changes(info: Info, names: frozenset[str]) -> AsyncGenerator[list[Change], None]:
    operation, reader = info.context, info.context.reader
    pushed = {name: signal for name, signal in reader.pushed.items() if name in names}
    with listening(reader.committed, *pushed.values()) as woken:
        state, counts = reader.state(), {name: signal.count for name, signal in pushed.items()}
        # Raises for a role that the client may not use.
        state, _ = await _changes_since(operation, state, names)
        yield []
        while True:
            await woken.wait()
            woken.clear()
            state, differences = await _changes_since(operation, state, names)
            events = [
                Change(kind=ChangeKind(each.kind), action=each.action, key=list(each.path))
                for each in differences
            ]
            for name, signal in pushed.items():
                if signal.count != counts[name]:
                    counts[name] = signal.count
                    events.append(Change(kind=ChangeKind(name), action=Action.CHANGED, key=[]))
            if events:
                yield events
            await asyncio.sleep(PAUSE_S)


async def _changes_since(operation: Any, state: Any, names: frozenset[str]) -> Any:
    return await operation.reader.changes(
        state, names, principal=operation.principal, context=operation.session
    )


def watch_field(types: ObjectTypes, relation: SystemRelation) -> Any:
    """Return the subscription that pushes the rows of a relation about queries."""
    node = types.objects[relation.name]
    annotations = {"nodes": list[node], "removed": list[list[str | None]]}  # type: ignore[valid-type] # generated
    update = strawberry.type(
        type(f"{node.__name__}Update", (), {"__annotations__": annotations}),
        description="Rows that are new or have changed, and the keys of rows that no longer exist. The first event has all rows.",
    )

    async def watch(info: Info, query_ids: list[str] | None = None) -> AsyncGenerator[Any, None]:
        async with aclosing(guarded(info, _watched(info, relation, query_ids, update))) as events:
            async for event in events:
                yield event

    watch.__annotations__ = {
        "info": Info,
        "query_ids": list[str] | None,
        "return": AsyncGenerator[update, None],  # type: ignore[valid-type]
    }
    return strawberry.subscription(
        resolver=watch,
        description=f"The rows of {relation.name} whenever they change, all or of these queries.",
    )


async def _watched(
    info: Info, relation: SystemRelation, query_ids: list[str] | None, update: Any
) -> AsyncGenerator[Any, None]:
    operation = info.context
    conditions: tuple[RowCondition, ...] = ()
    if query_ids is not None:
        conditions = (RowCondition(WATCHED[relation.name], "IN", frozenset(query_ids[:QUERIES_MAX])),)
    request = PageRequest(operation.settings.graphql_page_rows_max)
    seen: dict[Key, Row] | None = None
    looked = time.monotonic()
    with listening(operation.reader.committed, operation.reader.progressed) as woken:
        while True:
            woken.clear()
            page = await operation.reads.page(relation, conditions, request, repeated=seen is not None)
            rows = {key_of(relation, row): row for row in page.rows}
            ignored: frozenset[int] = frozenset()
            if time.monotonic() - looked < LOOK_S:
                ignored = frozenset(place for name, place in relation.places.items() if name in CLOCKS)
            else:
                looked = time.monotonic()
            changed = other_rows(rows.items(), seen or {}, ignored)
            removed = [_key_texts(key) for key in seen or () if key not in rows]
            if seen is None or changed or removed:
                yield update(nodes=[Node(relation, row) for row in changed], removed=removed)
            seen = rows
            await asyncio.sleep(PAUSE_S)
            try:
                await asyncio.wait_for(woken.wait(), LOOK_S)
            except TimeoutError:
                continue


def other_rows(
    rows: Iterable[tuple[Key, Row]], seen: Mapping[Key, Row], ignored: frozenset[int] = frozenset()
) -> list[Row]:
    """Return the rows that are not among those seen, or differ from them in a place that is not ignored."""
    return [row for key, row in rows if _compared(seen.get(key, ()), ignored) != _compared(row, ignored)]


def _key_texts(key: Key) -> list[str | None]:
    return [None if value is None else str(value) for value in key]


def _compared(row: Row, ignored: frozenset[int]) -> Row:
    return tuple(value for place, value in enumerate(row) if place not in ignored) if ignored else row


async def guarded(
    info: Info, source: AsyncIterator[T], lost: Callable[[], str | None] = lambda: None
) -> AsyncGenerator[T, None]:
    """Yield the events of `source` while the client's credentials are valid and it lost no privilege. Raises RefusedError 42501."""
    pending: asyncio.Future[T] | None = None
    try:
        while True:
            pending = asyncio.ensure_future(anext(source))
            while not (await asyncio.wait({pending}, timeout=SIGNED_IN_CHECK_S))[0]:
                info.context.refuse_ended(lost)
            info.context.refuse_ended(lost)
            try:
                event = pending.result()
            except StopAsyncIteration:
                return
            yield event
    finally:
        if pending is not None and not pending.done():
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        if isinstance(source, AsyncGenerator):
            await source.aclose()


def watched_relations() -> list[SystemRelation]:
    """Return the relations with a subscription."""
    return [SYSTEM_RELATIONS[name] for name in WATCHED]
