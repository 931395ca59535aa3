"""Features that a target does not support: a row for each rule, and plans that run on a cluster."""

from __future__ import annotations

import pytest

from headrace.connectors.registry import STORE_TYPES, connector
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.formats.avro import Avro
from headrace.formats.protobuf import Protobuf
from headrace.planner import plan_query
from headrace.planner.physical import (
    AssignWatermark,
    DecodeRows,
    LookupJoin,
    OptimizeEntity,
    ReadEntity,
    ReadRows,
    ReadTable,
    SparkPlan,
    UserFunction,
    WriteEntity,
    WriteRows,
)
from headrace.planner.placement import CLUSTER_RULES, REMOTE_RULES, placed_on, unsupported
from headrace.planner.target import LOCAL, Target
from tests.plans.world import planned, sink_of

CLUSTER = Target(master="standalone", slots=4)
REMOTE = Target(slots=4, checkpoints="s3")
REMOTE_CLUSTER = Target(master="standalone", slots=4, python=True, checkpoints="s3")
WITH_PYTHON = CLUSTER.model_copy(update={"python": True})
WINDOWS = (
    "CREATE CHANGELOG c AS SELECT window_start, window_end, carrier, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 HOUR) "
    "GROUP BY window_start, window_end, carrier"
)
PLAN = planned(WINDOWS)


def with_steps(*steps: object, **changes: object) -> SparkPlan:
    """Return the plan with further steps; only their kinds and fields count for the rules."""
    return PLAN.model_copy(update={"steps": [*PLAN.steps, *steps], **changes})


def changed(kind: type, **changes: object) -> SparkPlan:
    """Return the plan with other fields in its step of a kind."""
    steps = [step.model_copy(update=changes) if isinstance(step, kind) else step for step in PLAN.steps]
    assert steps != PLAN.steps
    return PLAN.model_copy(update={"steps": steps})


def elsewhere(kind: type, connector: str = "postgresql", **fields: object) -> SparkPlan:
    """Return the plan with a step of a kind on a table of a store type."""
    return with_steps(
        kind(id="other", store="shop", connector=connector, entity=("public", "t"), columns=[], **fields)
    )


def appended(connector: str) -> SparkPlan:
    """Return the plan with a table of a store type as its sink."""
    plan = elsewhere(WriteRows, connector, input="rows", guarantee="exactly_once")
    return plan.model_copy(update={"outputs": ["other", *plan.outputs[1:]]})


FUNCTION = UserFunction(
    id="f",
    signature="f()",
    digest="0",
    language="python",
    class_name="f",
    kind="scalar",
    parameters=[],
    arguments=[],
    result="BIGINT",
)


LOOKUP = {"input": "rows", "keys": ["k"], "key_columns": ["k"], "name": "t"}


@pytest.mark.parametrize(
    ("plan", "feature"),
    [
        (elsewhere(LookupJoin, **LOOKUP), "a table that is looked up"),
        (elsewhere(ReadRows), "a source whose tasks run Python"),
        (elsewhere(ReadTable), "a source whose tasks run Python"),
        (elsewhere(WriteRows, input="rows"), "a sink whose tasks run Python"),
        (elsewhere(OptimizeEntity), "a sink whose tasks run Python"),
        (elsewhere(ReadRows, "generator"), "a source whose tasks run Python"),
        (with_steps(functions=[FUNCTION]), "a function of a user"),
        (elsewhere(ReadRows, "s3"), "a source whose tasks run Python"),
        (elsewhere(WriteRows, "s3", input="rows"), "a sink whose tasks run Python"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tasks_in_python_require_the_workers_python(plan: SparkPlan, feature: str) -> None:
    assert [rule.feature for rule in unsupported(plan, CLUSTER)] == [feature]
    with pytest.raises(UserError, match=feature) as refused:
        placed_on(plan, CLUSTER)
    assert "HEADRACE_WORKER_PYTHON" in (refused.value.hint or "")
    assert placed_on(plan, WITH_PYTHON).target == WITH_PYTHON


@pytest.mark.parametrize(
    ("plan", "feature"),
    [
        (elsewhere(ReadTable, "oracle"), "a store of a type that was never tested there"),
        (
            elsewhere(WriteRows, "oracle", input="rows"),
            "a store of a type that was never tested there",
        ),
        (with_steps(mode="real_time"), "real-time mode"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_feature_that_a_cluster_lacks_is_refused_by_name(plan: SparkPlan, feature: str) -> None:
    assert feature in [rule.feature for rule in unsupported(plan, CLUSTER)]
    assert [rule.feature for rule in unsupported(plan, WITH_PYTHON)] == [feature]
    with pytest.raises(UserError, match=feature) as refused:
        placed_on(plan, CLUSTER)
    assert refused.value.state is SqlState.FEATURE_NOT_SUPPORTED
    assert "on the server's machine" in (refused.value.hint or "")
    assert placed_on(plan, Target(slots=2)).target == Target(slots=2)


def test_a_store_type_that_was_never_tested_on_a_cluster_is_named() -> None:
    assert [name for name in STORE_TYPES if connector(name).on_clusters is None] == ["oracle"]
    with pytest.raises(UserError, match=r"uses a store of a type that was never tested there \(Oracle\)$"):
        placed_on(elsewhere(ReadTable, "oracle"), WITH_PYTHON)


@pytest.mark.parametrize(
    "plan",
    [
        changed(WriteEntity, guarantee="exactly_once"),
        changed(DecodeRows, on_error=PLAN.outputs[0]),
        changed(AssignWatermark, late=PLAN.outputs[0]),
        changed(DecodeRows, value=Avro(registry="r", schema_text="", schema_id=1)),
        changed(DecodeRows, value=Protobuf(registry="r")),
        changed(ReadEntity, entity=("flights*",)),
    ],
    ids=[
        "exactly once",
        "dead letters",
        "late rows",
        "Avro by a registry",
        "Protobuf by a registry",
        "topics",
    ],
)
def test_outputs_registries_and_several_topics_are_supported(plan: SparkPlan) -> None:
    assert placed_on(plan, CLUSTER).target == CLUSTER


@pytest.mark.parametrize(
    "text",
    [
        WINDOWS,
        "CREATE CHANGELOG c AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier",
        "CREATE STREAM s AS SELECT f.carrier, b.seat FROM flights f JOIN bookings b WITHIN 1 HOUR ON f.tailnum = b.tailnum",
        "CREATE MATERIALIZED VIEW v AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier",
        "SELECT carrier FROM flights",
    ],
)
def test_what_a_cluster_supports_keeps_its_steps(text: str) -> None:
    logical, sink = sink_of(text)
    plan, local = plan_query(logical, sink, CLUSTER), plan_query(logical, sink)
    assert (plan.steps, plan.target, local.target) == (local.steps, CLUSTER, LOCAL)
    assert SparkPlan.from_json(plan.to_json()) == plan


def test_a_stateless_query_runs_in_batches_on_a_cluster_and_real_time_mode_is_refused() -> None:
    text = "CREATE STREAM s AS SELECT carrier FROM flights"
    assert planned(text).mode == "real_time"
    logical, sink = sink_of(text)
    plan = plan_query(logical, sink, CLUSTER)
    assert plan.mode == "micro_batch"
    assert any("slots" in reason for reason in plan.reasons)
    logical, sink = sink_of(f"{text} QUERY WITH ('execution.mode' = 'real_time')")
    with pytest.raises(UserError, match="on a cluster"):
        plan_query(logical, sink, CLUSTER)


def test_a_stored_plan_without_a_target_is_one_of_the_servers_machine() -> None:
    stored = PLAN.model_dump(exclude={"target"})
    assert SparkPlan.model_validate(stored).target == LOCAL
    assert len({rule.feature for rule in CLUSTER_RULES}) == len(CLUSTER_RULES)


VIEW = planned("CREATE MATERIALIZED VIEW v AS SELECT carrier FROM flights")


@pytest.mark.parametrize(
    ("plan", "feature"),
    [
        (with_steps(mode="real_time"), "real-time mode"),
        (VIEW, "a materialized view, whose rows are in the server's data directory"),
    ],
    ids=["real time", "view"],
)
def test_a_feature_that_does_not_run_with_checkpoints_in_s3_is_refused(plan: SparkPlan, feature: str) -> None:
    with pytest.raises(UserError, match=f"with its checkpoint in S3 yet, since it uses {feature}") as refused:
        placed_on(plan, REMOTE)
    assert refused.value.state is SqlState.FEATURE_NOT_SUPPORTED
    assert "whose checkpoints are not in S3" in (refused.value.hint or "")
    with pytest.raises(UserError, match=feature):
        placed_on(plan, REMOTE_CLUSTER)


@pytest.mark.parametrize("kind", [kind for kind in STORE_TYPES if connector(kind).row_sink is not None])
def test_tables_are_written_with_checkpoints_in_s3(kind: str) -> None:
    plan = appended(kind)
    assert placed_on(plan, REMOTE).target == REMOTE
    if connector(kind).on_clusters is not None:
        assert placed_on(plan, REMOTE_CLUSTER).target == REMOTE_CLUSTER


@pytest.mark.parametrize("kind", [kind for kind in STORE_TYPES if connector(kind).source is not None])
def test_streams_of_all_types_are_read_with_checkpoints_in_s3(kind: str) -> None:
    assert placed_on(elsewhere(ReadRows, kind), REMOTE).target == REMOTE


def test_tables_are_looked_up_with_checkpoints_in_s3() -> None:
    for plan in (elsewhere(LookupJoin, **LOOKUP), elsewhere(LookupJoin, **LOOKUP, refresh_ms=1000)):
        assert [placed_on(plan, target).target for target in (REMOTE, REMOTE_CLUSTER)] == [
            REMOTE,
            REMOTE_CLUSTER,
        ]


def test_a_view_whose_rows_are_in_clickhouse_runs_with_its_checkpoint_in_s3() -> None:
    for target in (REMOTE, REMOTE_CLUSTER):
        apart = target.model_copy(update={"outside_views": True})
        assert placed_on(VIEW, apart).target == apart


def test_topics_and_interactive_queries_run_in_a_pool_with_its_checkpoints_in_s3() -> None:
    assert placed_on(PLAN, REMOTE).target == REMOTE
    assert str(REMOTE) == "the server's machine, 4 slots, checkpoints in S3 (Spark 4.1)"
    interactive = planned("SELECT carrier FROM flights")
    assert placed_on(interactive, REMOTE).target == REMOTE
    assert len({rule.feature for rule in REMOTE_RULES}) == len(REMOTE_RULES)
