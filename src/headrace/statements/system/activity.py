"""Queries, their events and metrics, and compute pools as system relations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.catalog.objects import ComputePool, Query, QueryVersion
from headrace.core.names import path_text
from headrace.core.schema import Column
from headrace.core.types import BIGINT, BOOLEAN, INTEGER, TIMESTAMP, VARCHAR
from headrace.engine.sizes import pool_resources
from headrace.planner.explain import step_text
from headrace.planner.physical import SparkPlan, SqlTransform, inputs_of
from headrace.planner.upgrades import UnreadablePlanError
from headrace.planner.view_reads import Condition
from headrace.statements.base import Execution
from headrace.statements.system.relation import (
    Reference,
    Rows,
    always,
    ids_allowed,
    owned,
    system_relation,
    visible_queries,
)


def _queries(run: Execution, conditions: Sequence[Condition]) -> Rows:
    chosen = ids_allowed(conditions, "id")
    return [
        (
            item.id,
            item.name,
            item.version,
            item.desired_state.value,
            item.actual_state.value,
            item.owner,
            item.created_at,
            item.updated_at,
            item.kind.value,
            item.sql,
            ", ".join(sink.fqn for sink in item.sinks),
            item.compute_pool,
            item.message or run.services.engine.notice(item.id),
            item.sqlstate,
            item.restarts,
        )
        for item in visible_queries(run, chosen)
    ]


@system_relation(
    "queries",
    always("id"),
    Column("name", VARCHAR),
    Column("version", INTEGER),
    always("intended_state"),
    always("current_state"),
    always("owner"),
    always("created_at", TIMESTAMP),
    always("updated_at", TIMESTAMP),
    always("kind"),
    always("query"),
    always("sink_fqn"),
    always("compute_pool_name"),
    Column("message", VARCHAR),
    Column("sqlstate", VARCHAR),
    always("restarts", INTEGER),
    key=("id",),
    references=(
        owned("queries"),
        Reference("compute_pool", "compute_pools", ("compute_pool_name",), "queries"),
        Reference("sink", "relations", ("sink_fqn",), "writers", targets=("fqn",)),
    ),
    matching=_queries,
    doc=(
        "The continuous queries, including terminated ones. `intended_state` is `running`, `stopped` (with "
        "its relation, until START of the relation) or `terminated`; `current_state` is `queued`, `starting`, "
        "`running`, `restarting`, `stopped` (with its compute pool), `errored`, `terminate_requested` or "
        "`terminated`, and `message` is the reason."
    ),
)
def queries(run: Execution) -> Rows:
    return _queries(run, ())


def _events(run: Execution, conditions: Sequence[Condition]) -> Rows:
    # One read for all queries: there may be thousands, since terminated queries stay.
    chosen = ids_allowed(conditions, "query_id")
    events = run.catalog.events_of_queries(chosen)
    return (
        (query.id, time, state.value, message)
        for query in visible_queries(run, chosen)
        for time, state, message in events.get(query.id, ())
    )


@system_relation(
    "query_events",
    always("query_id"),
    always("time", TIMESTAMP),
    always("state"),
    Column("message", VARCHAR),
    key=("query_id", "time", "state"),
    references=(Reference("query", "queries", ("query_id",), "events"),),
    doc="The states of each query with their reasons; the last 200 of each query.",
    matching=_events,
)
def query_events(run: Execution) -> Rows:
    return _events(run, ())


@system_relation(
    "query_findings",
    always("query_id"),
    always("code"),
    Column("step", VARCHAR),
    Column("since", TIMESTAMP),
    always("finding"),
    always("remedy"),
    key=("query_id", "code", "step"),
    references=(Reference("query", "queries", ("query_id",), "findings"),),
    doc=(
        "Why queries that are to run have no output, or will have a problem: the rows of EXPLAIN WHY. `step` is the step of the plan, and "
        "`since` the first batch that had the finding."
    ),
)
def query_findings(run: Execution) -> Rows:
    for query in run.visible(run.catalog.unfinished_queries()):
        for row in findings_of(query, run):
            yield (query.id, *row)


def findings_of(query: Query, run: Execution) -> list[tuple[object, ...]]:
    """Return code, step, since, sentence and remedy of the findings about a query."""
    engine = run.services.engine
    return [
        (each.code, each.step, engine.finding_since(query.id, each.code), each.sentence, each.remedy)
        for each in engine.findings(query)
    ]


def _plan_steps(run: Execution, conditions: Sequence[Condition]) -> Iterator[tuple[object, ...]]:
    """Yield the steps of the queries that an equality on `query_id` names, or of all: reading a stored plan takes milliseconds."""
    chosen = ids_allowed(conditions, "query_id")
    for query in run.visible(run.catalog.unfinished_queries()):
        if chosen is not None and query.id not in chosen:
            continue
        try:
            plan = SparkPlan.from_json(query.plan)
        except UnreadablePlanError:
            continue
        for number, step in enumerate(plan.steps, 1):
            entity = getattr(step, "entity", None)
            yield (
                query.id,
                number,
                step.id,
                step.step,
                ", ".join(inputs_of(step)),
                step_text(step),
                None if entity is None else path_text(entity),
                step.sql if isinstance(step, SqlTransform) else None,
            )


@system_relation(
    "query_plan_steps",
    always("query_id"),
    always("position", INTEGER),
    always("step"),
    always("kind"),
    always("inputs"),
    always("description"),
    Column("entity", VARCHAR),
    Column("sql", VARCHAR),
    key=("query_id", "position"),
    references=(Reference("query", "queries", ("query_id",), "plan_steps"),),
    doc=(
        "The steps of the plan of each query that has not ended, as EXPLAIN shows them. `inputs` are the steps whose rows a step reads, "
        "separated by commas; `position` counts from 1; `entity` is what it reads, looks up or writes, and `sql` the Spark SQL of a "
        "`sql_transform`."
    ),
    matching=_plan_steps,
)
def query_plan_steps(run: Execution) -> Rows:
    return _plan_steps(run, ())


@system_relation(
    "query_versions",
    always("query_id"),
    always("version", INTEGER),
    always("state"),
    always("since", TIMESTAMP),
    Column("until", TIMESTAMP),
    always("query"),
    Column("message", VARCHAR),
    key=("query_id", "version"),
    references=(Reference("of_query", "queries", ("query_id",), "versions"),),
    doc=(
        "The statements of each query, which ALTER QUERY replaces. `state` is `current`, `on trial` (current, but no batch with rows "
        "has ended: if it fails, the version before takes its place), `replaced` or `failed`, and `message` is the reason of a failure."
    ),
)
def query_versions(run: Execution) -> Rows:
    earlier = run.catalog.versions.all()
    for query in run.visible(run.catalog.queries()):
        for row in versions_of(query, earlier.get(query.id, ())):
            yield (query.id, *row)


def versions_of(query: Query, earlier: Sequence[QueryVersion]) -> Iterator[tuple[object, ...]]:
    """Yield version, state, since, until, statement and message of the versions of a query, oldest first."""
    since = query.created_at
    for version in earlier:
        state = "replaced" if version.reason is None else "failed"
        yield (version.version, state, since, version.replaced_at, version.sql, version.reason)
        since = version.replaced_at
    yield (query.version, "current" if query.is_settled else "on trial", since, None, query.sql, None)


@system_relation(
    "compute_pools",
    always("name"),
    always("size"),
    always("intended_state"),
    always("actual_state"),
    Column("error_messages", VARCHAR),
    always("owner"),
    always("created_at", TIMESTAMP),
    always("updated_at", TIMESTAMP),
    always("timeout", BIGINT),
    always("master"),
    Column("executors", INTEGER),
    Column("slots", INTEGER),
    Column("slots_used", INTEGER),
    Column("slots_free", INTEGER),
    Column("executors_min", INTEGER),
    Column("executors_max", INTEGER),
    key=("name",),
    references=(owned("compute_pools"),),
    doc="The compute pools. `intended_state` is `running` or `stopped`, `actual_state` `starting`, `running`, `stopping`, `stopped`, "
    "`suspended` (without a process until a statement needs it) or `errored`; `timeout` is in minutes, 0 for none. "
    "`master` is the Spark master, `slots` the number of tasks that run at the same time. "
    "On a cluster they are the slots of the pool's present `executors`, with `slots_used` and `slots_free`, and NULL while its process "
    "does not run. `executors_min` and `executors_max` are the bounds of their number, which are equal if it does not follow the load.",
)
def compute_pools(run: Execution) -> Rows:
    return [
        (
            item.name,
            item.size,
            item.desired_state.value,
            *run.services.engine.pool_state(item.name),
            item.owner,
            item.created_at,
            item.updated_at,
            item.timeout_min,
            *_place(item, run),
        )
        for item in run.visible(run.catalog.compute_pools())
    ]


def _place(pool: ComputePool, run: Execution) -> tuple[object, ...]:
    """Return master, executors, slots, used and free slots, and the bounds of the executors of a pool."""
    resources, slots = pool_resources(pool, run.services.settings), run.services.engine.pool_slots(pool.name)
    cluster = resources.place.cluster
    bounds = (cluster.executors, cluster.most) if cluster is not None else (None, None)
    if slots is None:
        fixed = None if resources.target.is_cluster else resources.target.slots
        return (resources.place.master, None, fixed, None, None, *bounds)
    return (
        resources.place.master,
        slots.executors,
        slots.slots,
        slots.used,
        max(0, slots.slots - slots.used),
        *bounds,
    )


@system_relation(
    "savepoints",
    always("name"),
    always("id"),
    always("query_id"),
    Column("query_name", VARCHAR),
    always("query_version", INTEGER),
    always("query"),
    always("sink_fqn"),
    always("batch", BIGINT),
    always("is_interrupted", BOOLEAN),
    always("size_bytes", BIGINT),
    Column("expires_at", TIMESTAMP),
    always("owner"),
    always("created_at", TIMESTAMP),
    always("updated_at", TIMESTAMP),
    key=("name",),
    references=(
        owned("savepoints"),
        Reference("of_query", "queries", ("query_id",), "savepoints"),
    ),
    doc=(
        "The savepoints: copies of the positions and the state of queries after `batch`. The facts are of the query at that moment. "
        "`is_interrupted` is true if the query had been stopped during another batch. It is dropped after `expires_at`."
    ),
)
def savepoints(run: Execution) -> Rows:
    return [
        (
            item.name,
            item.id,
            item.query_id,
            item.query_name,
            item.query_version,
            item.sql,
            str(item.sink),
            item.batch,
            item.is_interrupted,
            item.size,
            item.expires_at,
            item.owner,
            item.created_at,
            item.updated_at,
        )
        for item in run.visible(run.catalog.savepoints.all())
    ]
