"""QUERY WITH ('resume.from.…'): a new query continues from a savepoint, or from the checkpoint of a query that has ended. ADRs 54, 102."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.analyzer import LogicalPlan
from headrace.analyzer.logical import ResumeFrom
from headrace.catalog.access import Privilege
from headrace.catalog.kinds import BY_NAME
from headrace.catalog.objects import Query, QueryState, Savepoint
from headrace.catalog.policy import Requirement
from headrace.catalog.query_versions import with_present_names
from headrace.core.errors import Span, UserError
from headrace.core.names import Identifier, path_text, printed
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import Continuation, plans_of_parts
from headrace.planner.physical import SparkPlan, Step, WriteEntity, WriteRows
from headrace.planner.resumption import read_of_its_own, resumed
from headrace.statements.base import Execution
from headrace.statements.exclusive import exclusive_readings


@dataclass(frozen=True)
class Origin:
    """Savepoint or query from which a new query continues, and what continues from what."""

    source: Savepoint | Query
    continuation: Continuation

    @property
    def described(self) -> str:
        """The source, as texts name it."""
        return _described(self.source)

    async def place(self, query_id: str, run: Execution) -> None:
        """Place the checkpoint of the new query, and fill its views. Raises as `Engine.continue_from_savepoint` and `continue_from_query`
        do."""
        engine, pool = run.services.engine, run.compute_pool().name
        if isinstance(self.source, Savepoint):
            await engine.continue_from_savepoint(self.source.id, query_id, pool, self.continuation)
        else:
            await engine.continue_from_query(self.source, query_id, pool, self.continuation)


def of_resume(resume: ResumeFrom | None, run: Execution) -> Iterator[Requirement]:
    """Yield the privilege on what a new query continues from. It is required once: a later start needs nothing of it."""
    if resume is not None:
        source = _source(resume, run)
        privilege = Privilege.USAGE if isinstance(source, Savepoint) else Privilege.OWNERSHIP
        yield Requirement(privilege, source)


def refuse_resume(resume: ResumeFrom | None, what: str) -> None:
    """Raise UserError 0A000 where no checkpoint can be continued: `what` is the subject of the text."""
    if resume is not None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{what} cannot continue from the checkpoint of another query",
            hint="Leave the property 'resume.from.…' out. CREATE … AS SELECT, INSERT INTO and BEGIN APPLICATION support it.",
            span=resume.span,
        )


def origin_of(logical: LogicalPlan, plan: SparkPlan, run: Execution) -> Origin | None:
    """Return what a planned query continues from; None for a query that starts anew.

    Raises UserError 0A000 if it cannot continue from that, and the SQLSTATE of an object that was dropped since.
    """
    resume = logical.properties.resume
    if resume is None:
        return None
    if logical.has_end:
        refuse_resume(resume, f"a query that reads only {'tables' if logical.of_tables else 'constants'}")
    return compared(*planned_source(resume, run), plan, resume.span, run)


def planned_source(resume: ResumeFrom, run: Execution) -> tuple[Savepoint | Query, SparkPlan]:
    """Return what a query is to continue from, and its plan with present names. Raises as `origin_of`."""
    source = _source(resume, run)
    _refuse_running(source, resume.span)
    return source, SparkPlan.from_json(_present_plan(source, run, resume.span))


def compared(
    source: Savepoint | Query,
    old: SparkPlan,
    plan: SparkPlan,
    span: Span | None,
    run: Execution,
    *,
    by_order: bool = False,
) -> Origin:
    """Return what a plan continues from, if all of its parts can. Raises as `origin_of`. With `by_order`, the parts have the names of the
    earlier parts in their order."""
    for reading in exclusive_readings(old, run):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{_described(source)} reads {reading}, whose position is that of one query",
            hint="ALTER QUERY … AS SELECT … changes the statement of that query.",
            span=span,
        )
    resumption = resumed(old, plan)
    if resumption.obstacles:
        note = (
            " (the queries were compared in their order, since they write other relations)"
            if by_order
            else ""
        )
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query cannot continue from {_described(source)}: {'; '.join(resumption.obstacles)}{note}",
            hint="Sources, joins, aggregations and their keys must be the same; filters and columns after them may differ, "
            "but not those of a materialized view.",
            span=span,
        )
    written_before = set(filter(None, map(_writes_once, old.sinks)))
    if any(_writes_once(sink) in written_before for sink in plan.sinks) and _is_interrupted(source, run):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{_described(source)} was stopped during a batch, and its sink may contain the rows of that batch: "
            "the new query would write them again",
            hint="RESTART the earlier query, and end it with TERMINATE QUERY … WITH SAVEPOINT. Or write into another relation.",
            span=span,
        )
    own = read_of_its_own(plan)
    if own and isinstance(source, Savepoint) and not source.is_final:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query reads what it writes ({path_text(own[0])}), and the query of {_described(source)} has run on since: "
            "rows that it wrote after the savepoint would be there twice",
            hint="RESTART the earlier query, and end it with TERMINATE QUERY … WITH SAVEPOINT.",
            span=span,
        )
    places = [{part.sink.id: folder for folder, part in plans_of_parts(each).items()} for each in (old, plan)]
    folders = {places[0][before.sink.id]: places[1][after.sink.id] for before, after in resumption.parts}
    return Origin(source, Continuation(folders, resumption.views))


def _source(resume: ResumeFrom, run: Execution) -> Savepoint | Query:
    if resume.savepoint is not None:
        return run.savepoint(Identifier(resume.savepoint, resume.span))
    if resume.query_id is not None:
        query = run.catalog.query(resume.query_id)
    else:
        query = run.catalog.query_by_name(resume.query_name or "", resume.query_version)
    if query is None or not run.knows(query):
        version = f" of version {resume.query_version}" if resume.query_version is not None else ""
        raise UserError(
            SqlState.QUERY_NOT_FOUND,
            f"the query {resume.query_id or resume.query_name!r}{version} does not exist or is not authorized",
            hint="LIST QUERIES shows the existing queries.",
            span=resume.span,
        )
    return query


def _described(source: Savepoint | Query) -> str:
    if isinstance(source, Savepoint):
        return f"the savepoint {printed(source.name)}"
    return f"the query {source.name or source.id}"


def _refuse_running(source: Savepoint | Query, span: Span | None) -> None:
    """Raise UserError for a query that has not ended."""
    if isinstance(source, Query) and source.actual_state is not QueryState.TERMINATED:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the query {source.name or source.id} is {source.actual_state.value}: another one can continue only after its end",
            hint=f"TERMINATE QUERY {source.id}; first. Or CREATE SAVEPOINT name ON QUERY {source.id}; and continue from that.",
            span=span,
        )


def _present_plan(source: Savepoint | Query, run: Execution, span: Span | None) -> str:
    """Return the plan with the present names of what it uses; raises the SQLSTATE of what was dropped."""
    dropped: tuple[str, tuple[str, ...]] | None = None
    plan = source.plan
    if isinstance(source, Savepoint):
        by_id = run.catalog.snapshot().by_id
        kept = {(kind, path): by_id.get(object_id) for kind, path, object_id in source.uses}
        sinks = {("relation", sink.path) for sink in source.sinks}
        sources = {place: value for place, value in kept.items() if place not in sinks}
        dropped = next((place for place, value in sources.items() if value is None), None)
        plan = with_present_names(
            plan, {place: BY_NAME[place[0]].path(value) for place, value in kept.items() if value is not None}
        )
    else:
        written = {sink.path for sink in source.sinks}
        dropped = next(
            ((kind.kind, path) for kind, path in run.catalog.dropped_uses(source) if path not in written),
            None,
        )
    if dropped is not None:
        kind = BY_NAME[dropped[0]]
        raise UserError(
            kind.missing,
            f"the checkpoint belongs to {kind.described(dropped[1])}, which was dropped",
            hint="Its positions mean nothing in another object. Create the query without 'resume.from.…'.",
            span=span,
        )
    return plan


def _is_interrupted(source: Savepoint | Query, run: Execution) -> bool:
    if isinstance(source, Savepoint):
        return source.is_interrupted
    return run.services.engine.is_interrupted(source)


def _writes_once(step: Step) -> tuple[str, tuple[str, ...]] | None:
    """Return store and entity that a sink writes exactly once; None for another sink."""
    if isinstance(step, WriteEntity | WriteRows) and step.guarantee == "exactly_once":
        return step.store, tuple(step.entity)
    return None
