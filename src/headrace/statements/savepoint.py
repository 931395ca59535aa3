"""SAVEPOINT: create, drop, describe; LIST is in `listing`. ADRs 54 and 102."""

from __future__ import annotations

import asyncio
import datetime
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, Query, Savepoint
from headrace.catalog.policy import Requirement
from headrace.catalog.query_versions import used
from headrace.core.errors import HeadraceError, Span, UserError
from headrace.core.names import Identifier, RelationName, printed
from headrace.core.properties import PropertyReader, PropertySpec, Scope, number
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.engine.checkpoint_copy import too_slow
from headrace.engine.protocol import HOLD_S
from headrace.engine.savepoints import Manifest
from headrace.planner.explain import explain_running
from headrace.planner.physical import SparkPlan
from headrace.planner.upgrades import UnreadablePlanError
from headrace.sql.statements.savepoint import (
    CreateSavepoint,
    DescribeSavepoint,
    DropSavepoint,
    ImportSavepoint,
)
from headrace.statements.base import Execution, Outcome, ddl, handles, moment_text, now, on_organization
from headrace.statements.dropping import drop, ownership
from headrace.statements.exclusive import exclusive_readings

DAYS_MAX = 3650
RETENTION = PropertySpec(
    "retention.days",
    number(1, DAYS_MAX, f"a number of days from 1 to {DAYS_MAX}"),
    Scope.SAVEPOINT,
    "the number of days after which it is dropped",
    default="never",
)
PROPERTIES = (RETENTION,)
_STOPPED_S = 20.0


def _of_create(statement: CreateSavepoint, run: Execution) -> Iterator[Requirement]:
    """Yield OWNERSHIP of the query: a savepoint contains its state."""
    yield Requirement(Privilege.OWNERSHIP, run.query(statement.reference))


@handles(CreateSavepoint, requires=_of_create)
async def create_savepoint(statement: CreateSavepoint, run: Execution) -> Outcome:
    """Copy the checkpoint of a query between two batches; the query runs on. If it fails, nothing is left."""
    if (existing := _existing(statement, run)) is not None:
        return _answer(existing, "CREATE", f"the savepoint {printed(existing.name)} already exists")
    reader = PropertyReader(statement.properties.entries, PROPERTIES, what="a savepoint")
    days = reader.take(RETENTION)
    reader.finish()
    query = await asyncio.to_thread(run.query, statement.reference)
    savepoint = await save(statement.name, query, statement.reference.span, run, days=days)
    return _answer(savepoint, "CREATE", described(savepoint))


@handles(ImportSavepoint, requires=on_organization(Privilege.OWNERSHIP))
async def import_savepoint(statement: ImportSavepoint, run: Execution) -> Outcome:
    """Add a savepoint of another server that is in this server's folder of savepoints."""
    if (existing := _existing(statement, run)) is not None:
        return _answer(existing, "CREATE", f"the savepoint {printed(existing.name)} already exists")
    try:
        identifier = str(uuid.UUID(statement.identifier))
    except ValueError:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{statement.identifier!r} is not the id of a savepoint, which is a UUID",
            hint="DESCRIBE SAVEPOINT shows the id on the server that created it; it is the name of its folder.",
            span=statement.span,
        ) from None
    if (
        same := next((item for item in run.catalog.savepoints.all() if item.id == identifier), None)
    ) is not None:
        raise UserError(
            SqlState.DUPLICATE_SAVEPOINT,
            f"the savepoint {identifier} is in the catalog already",
            hint=f"Its name is {printed(same.name)}." if run.knows(same) else None,
            span=statement.span,
        )
    try:
        manifest = await run.services.engine.savepoint_manifest(identifier)
    except HeadraceError as error:
        error.span = error.span or statement.span
        raise
    savepoint = _savepoint(statement.name.name, identifier, manifest, (), run)
    await asyncio.to_thread(run.catalog.savepoints.create, savepoint)
    return _answer(savepoint, "CREATE", described(savepoint))


@handles(
    DropSavepoint, requires=lambda statement, run: ownership(run.savepoint(statement.name), run), checked=True
)
async def drop_savepoint(statement: DropSavepoint, run: Execution) -> Outcome:
    """Drop a savepoint with its files. Queries that continued from it have their own."""
    savepoint = run.savepoint(statement.name)
    await drop(savepoint, run, cascade=False, span=statement.name.span)
    if not run.checking:
        await run.services.engine.drop_savepoint(savepoint.id)
    return _answer(savepoint, "DROP", f"savepoint {printed(savepoint.name)} was dropped")


@handles(
    DescribeSavepoint,
    requires=lambda statement, run: [Requirement(Privilege.USAGE, run.savepoint(statement.name))],
)
async def describe_savepoint(statement: DescribeSavepoint, run: Execution) -> Outcome:
    """Return property and value rows."""
    savepoint = run.savepoint(statement.name)
    facts = {
        "name": savepoint.name,
        "id": savepoint.id,
        "query_id": savepoint.query_id,
        "query_name": savepoint.query_name,
        "query_version": str(savepoint.query_version),
        "sink": ", ".join(map(str, savepoint.sinks)),
        "batch": str(savepoint.batch),
        "interrupted": str(savepoint.is_interrupted).lower(),
        "final": str(savepoint.is_final).lower(),
        "size_bytes": str(savepoint.size),
        "expires_at": moment_text(savepoint.expires_at) if savepoint.expires_at is not None else None,
        "query": savepoint.sql,
        "plan": await asyncio.to_thread(_plan, savepoint),
        "owner": savepoint.owner,
        "created_at": moment_text(savepoint.created_at),
        "updated_at": moment_text(savepoint.updated_at),
    }
    return Outcome(result([("Property", VARCHAR), ("Value", VARCHAR)], list(facts.items())))


async def save(
    name: Identifier,
    query: Query,
    span: Span | None,
    run: Execution,
    *,
    end: bool = False,
    days: int | None = None,
) -> Savepoint:
    """Create a savepoint of a query, which expires after `days`, and return it. With `end` the query is terminated with it: it begins no
    batch afterwards.

    Raises UserError 42P020 for a name in use, 0A000 for a kind of query that has none, and as `Engine.take_savepoint` and `_stored` do.
    """
    refuse_taken(name, run)
    refuse_unsaved(query, span, run)
    async with run.services.engine.saving(query.id):
        # It may have been terminated while another savepoint was taken.
        current = await asyncio.to_thread(run.catalog.query, query.id)
        return await _saved(name, current or query, run, end=end, days=days)


async def _saved(name: Identifier, query: Query, run: Execution, *, end: bool, days: int | None) -> Savepoint:
    """Take a savepoint and store it. A query that is to be stopped, but still runs, is held as one that ends."""
    identifier, state = str(uuid.uuid4()), run.catalog.snapshot()
    facts = {
        "query_id": query.id,
        "query_name": query.name,
        "query_version": query.version,
        "sink": query.sink.path,
        "more_sinks": [sink.path for sink in query.more_sinks],
        "sql": query.sql,
        "plan": query.plan,
    }
    engine = run.services.engine
    # The hold begins later. The driver stops the query within the time that is subtracted.
    held_until = time.monotonic() + HOLD_S - _STOPPED_S
    manifest = await engine.take_savepoint(identifier, query, facts, hold=end or not query.should_run)
    savepoint = _savepoint(name.name, identifier, manifest, used(state, query), run)
    if days is not None:
        expires_at = savepoint.created_at + datetime.timedelta(days=days)
        savepoint = replace(savepoint, expires_at=expires_at)
    try:
        return await asyncio.to_thread(_stored, savepoint, query, held_until if end else None, run)
    except HeadraceError:
        if end and query.should_run:
            engine.release(query)
        await engine.drop_savepoint(identifier)
        raise


def _stored(savepoint: Savepoint, query: Query, held_until: float | None, run: Execution) -> Savepoint:
    """Store a savepoint, and with `held_until`, a monotonic time, the end of its query. It is not final if the query was started again.

    Raises UserError 3E003 if a query that is to end was started again meanwhile, and 57014 after `held_until`: then it may have written
    more than the savepoint contains.
    """
    with run.catalog.transaction():
        current = run.catalog.query(query.id)
        # A copy that is not final is that of a query which did not run.
        is_started = not savepoint.is_final and run.services.engine.is_with_driver(query.id)
        if current is not None and (is_started or current.starts != query.starts):
            if held_until is not None:
                raise UserError(
                    SqlState.RELATION_NOT_READY,
                    f"the query {query.id} was started again meanwhile: it is not terminated, and has no savepoint",
                    hint="Repeat the statement.",
                )
            savepoint = replace(savepoint, is_final=False)
        if held_until is not None and time.monotonic() > held_until:
            raise too_slow(query.id)
        run.catalog.savepoints.create(savepoint)
        if held_until is not None and query.desired_state is not DesiredState.TERMINATED:
            run.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    return savepoint


def refuse_taken(name: Identifier, run: Execution) -> None:
    """Raise UserError 42P020 for a name in use."""
    if run.catalog.savepoints.get(name.name) is not None:
        raise UserError(
            SqlState.DUPLICATE_SAVEPOINT,
            f"the savepoint {name.name!r} already exists",
            hint="Choose another name, or drop it first.",
            span=name.span,
        )


def refuse_unsaved(query: Query, span: Span | None, run: Execution) -> None:
    """Raise UserError 0A000 for a query whose checkpoint does not suffice to continue from."""
    for reading in exclusive_readings(SparkPlan.from_json(query.plan), run):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"a query that reads {reading} cannot have a savepoint: its source keeps one position only",
            hint="TERMINATE QUERY keeps its checkpoint, and RESTART QUERY continues from it.",
            span=span,
        )


def described(savepoint: Savepoint) -> str:
    """Return the Summary of a new savepoint."""
    query = savepoint.query_name or savepoint.query_id
    until = f", until {moment_text(savepoint.expires_at)}" if savepoint.expires_at is not None else ""
    return f"savepoint {printed(savepoint.name)} contains the query {query} after batch {savepoint.batch}, in {savepoint.size} bytes{until}"


def _existing(statement: CreateSavepoint | ImportSavepoint, run: Execution) -> Savepoint | None:
    """Return the visible savepoint of that name after IF NOT EXISTS. Raises UserError 42P020 for a name in use otherwise."""
    existing = run.catalog.savepoints.get(statement.name.name)
    if existing is not None and statement.if_not_exists and run.knows(existing):
        return existing
    refuse_taken(statement.name, run)
    return None


def _savepoint(
    name: str,
    identifier: str,
    manifest: Manifest,
    uses: tuple[tuple[str, tuple[str, ...], str], ...],
    run: Execution,
) -> Savepoint:
    moment, facts = now(), manifest.facts
    # Those of earlier releases have no more sinks, and it is not known whether they are final.
    more_sinks = tuple(RelationName(*path) for path in facts.get("more_sinks", ()))
    return Savepoint(
        name=name,
        query_id=facts["query_id"],
        query_name=facts["query_name"],
        query_version=facts["query_version"],
        sink=RelationName(*facts["sink"]),
        sql=facts["sql"],
        plan=facts["plan"],
        uses=uses,
        batch=manifest.batch,
        size=manifest.size,
        is_interrupted=manifest.is_interrupted,
        more_sinks=more_sinks,
        is_final=facts.get("is_final", False),
        owner=run.role,
        created_at=moment,
        updated_at=moment,
        id=identifier,
    )


def _plan(savepoint: Savepoint) -> str:
    try:
        return explain_running(SparkPlan.from_json(savepoint.plan))
    except UnreadablePlanError:
        return "was created by another version of Headrace, which this version cannot read"


def _answer(savepoint: Savepoint, command: str, summary: str) -> Outcome:
    return Outcome(ddl("savepoint", savepoint.name, command, summary, [savepoint.name]))
