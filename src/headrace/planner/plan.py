"""The logical plan as steps of a driver.

    ReadEntity → DecodeRows → [AssignWatermark] → SqlTransform and stateful operators → EncodeRows → WriteEntity
                                                                                      | WriteRows | WriteView | WriteResults

`modes` says what the rows of each edge mean, `lowering` makes the steps; here are the ends: what the sink takes, how the plan runs,
and how its rows are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.analyzer.logical import (
    Aggregate,
    Filter,
    Limit,
    LogicalNode,
    LookupJoin,
    Project,
    QueryProperties,
    ToChangelog,
    Union,
    WindowExtremes,
    walk,
)
from headrace.analyzer.plan import LogicalPlan
from headrace.analyzer.traits import row_windows, traits, window_groups
from headrace.catalog.objects import RelationKind
from headrace.connectors.registry import connector
from headrace.core.errors import InternalError, UserError
from headrace.core.internal_columns import DELETED, OP, ROW_TIME
from headrace.core.resultset import ResultColumn
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type
from headrace.planner import physical
from headrace.planner.keys import carrying_scan
from headrace.planner.lowering import FRAGMENTS, SELECTS
from headrace.planner.lowering.context import Lowering, Wants
from headrace.planner.lowering.fragments import Rows
from headrace.planner.lowering.selects import UNSELECTED_KEY
from headrace.planner.modes import Mode, Operator, operators, place
from headrace.planner.placement import placed_on
from headrace.planner.rules import rewritten
from headrace.planner.sink_steps import sink_steps
from headrace.planner.sinks import EntitySink, ResultSink, Sink, TableSink, ViewSink, physical_columns
from headrace.planner.state import needs_event_time, reads_watermark, states, warning
from headrace.planner.state_partitions import with_state_partitions, without_state
from headrace.planner.table_queries import plan_bounded_query
from headrace.planner.target import LOCAL, Target
from headrace.planner.user_functions import user_functions


def plan_query(logical: LogicalPlan, sink: Sink, target: Target = LOCAL) -> physical.SparkPlan:
    """Return the plan that a driver of `target` runs.

    Raises UserError 0A000 for a snapshot query (see `snapshot.compile_snapshot`), for what cannot be right, and for what the target does
    not support (see `placement`); 42601 for PARTITION BY without records.
    """
    if logical.partition_by and not isinstance(sink, EntitySink):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "PARTITION BY is supported in CREATE STREAM … AS and INSERT INTO only: it sets the key of the "
            "records",
            span=logical.partition_by[0].span,
        )
    if logical.has_end and not isinstance(sink, ResultSink):
        if logical.properties.state_partitions is not None:
            raise without_state(logical.properties)
        return plan_bounded_query(logical, sink, target)
    if logical.snapshot:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a query of materialized views or tables returns at once; it cannot run continuously",
            hint="SELECT it, or read a stream or a changelog.",
            span=logical.span,
        )
    plan = Planner(rewritten(logical), sink, target).plan()
    return placed_on(with_state_partitions(plan, logical.properties), target, logical.span)


def placed(logical: LogicalPlan, sink: Sink) -> Operator:
    """Return the operators of a query, with the change mode of every edge; raises UserError as `plan_query`."""
    root, _ = _without_limit(rewritten(logical).root)
    return _placed(root, sink)


def state_warning(logical: LogicalPlan, sink: Sink) -> str | None:
    """Return the operators with unbounded state, and what would bound it; None if all state is bounded."""
    if logical.snapshot:
        return None
    return warning(states(placed(logical, sink), logical.properties.state_ttl_ms))


def plan_columns(plan: physical.SparkPlan) -> tuple[ResultColumn, ...]:
    """Return the result columns of an interactive plan."""
    sink = plan.sink
    if not isinstance(sink, physical.WriteResults | physical.OptimizeEntity):
        raise InternalError("the plan has no result columns")
    return tuple(
        ResultColumn(column.name, parse_type(column.type), column.nullable) for column in sink.columns
    )


def _placed(root: LogicalNode, sink: Sink) -> Operator:
    match sink:
        case EntitySink(kind=RelationKind.STREAM):
            return place(root, Mode.INSERT)
        case TableSink(key_columns=()):
            return place(root, Mode.INSERT)
        case ViewSink(signed=True):
            return place(root, Mode.SIGNED)
        case EntitySink() | TableSink() | ViewSink():
            return place(root, Mode.UPSERT)
        case ResultSink():
            if isinstance(root, Project):
                below = place(root.input, Mode.UPSERT, Mode.SIGNED)
                if below.mode is Mode.UPSERT:
                    # A reader gets the kind of each row's change to its key, even if the query does not select the key.
                    return Operator(root, below.mode, traits(root), (below,))
            return place(root, Mode.UPSERT, Mode.SIGNED)


@dataclass(frozen=True)
class ExecutionMode:
    """Mode in which a plan runs, and the sentences that say why."""

    name: Literal["micro_batch", "real_time"]
    reasons: tuple[str, ...]


def choose_mode(
    operator: Operator,
    sink: Sink,
    *,
    connectors: set[str],
    properties: QueryProperties,
    calls_users: bool = False,
    target: Target = LOCAL,
) -> ExecutionMode:
    """Choose real-time if the plan is stateless, at-least-once, between stores that support it, on the server's machine, and not refused
    by a property.

    Raises UserError 0A000 when real-time mode was asked for and is not possible.
    """
    reasons = [
        f"the query keeps state ({what})"
        for what in dict.fromkeys(state.word for state in states(operator, 0))
    ]
    if any(isinstance(item.node, LookupJoin) for item in operators(operator)):
        reasons.append("a table's rows are looked up in batches")
    if reads_watermark(operator):
        reasons.append("CURRENT_WATERMARK is the watermark of a batch")
    if calls_users:
        reasons.append("functions of users are called in batches")
    if isinstance(sink, ViewSink):
        reasons.append("a materialized view is written in transactions")
    elif isinstance(sink, TableSink):
        reasons.append("a table is written in batches")
    elif isinstance(sink, ResultSink):
        reasons.append("results of an interactive query are sent in batches")
    elif sink.guarantee == "exactly_once":
        reasons.append("exactly-once delivery commits in batches")
    else:
        sources = [connector(name) for name in connectors]
        writes = connector(sink.connector)
        unable = {kind.label for kind in sources if kind.source is None or not kind.source.real_time}
        if writes.record_sink is None or not writes.record_sink.real_time:
            unable.add(writes.label)
        reasons += [f"stores of type {label} do not support it" for label in sorted(unable)]
    if target.is_cluster:
        reasons.append("on a cluster its tasks would keep slots that other queries of the pool need")
    if target.checkpoints == "s3":
        reasons.append("with a checkpoint in S3 it was not tried")
    if reasons and properties.execution_mode == "real_time":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query cannot run in real-time mode: {'; '.join(reasons)}",
            hint="Leave 'execution.mode' out.",
            span=properties.execution_mode_span,
        )
    if properties.execution_mode == "micro_batch":
        reasons.append("'execution.mode' asks for it")
    if reasons:
        return ExecutionMode("micro_batch", tuple(f"micro-batch: {reason}" for reason in reasons))
    return ExecutionMode(
        "real_time",
        ("real-time: the query keeps no state, delivers at least once, and its stores support it",),
    )


@dataclass(frozen=True)
class Within:
    """Position of a query in an application: its name, the ids that all queries of the application use, and the reader of a shared
    source."""

    name: str
    names: set[str]
    shared: str | None = None


class Planner:
    """Planner of one query, by itself or `within` an application."""

    def __init__(
        self, logical: LogicalPlan, sink: Sink, target: Target = LOCAL, within: Within | None = None
    ) -> None:
        self._logical = logical
        self._sink = sink
        self._target = target
        self._root, self._limit = _without_limit(logical.root)
        self._operator = _placed(self._root, sink)
        ttl = logical.properties.state_ttl_ms
        watermarked = needs_event_time(self._operator, ttl)
        all_operators = operators(self._operator)
        self._low = Lowering(
            fragments=FRAGMENTS,
            selects=SELECTS,
            time=watermarked or (isinstance(sink, EntitySink) and sink.kind is RelationKind.CHANGELOG),
            watermarked=watermarked,
            # Spark emits either updates or final rows for a whole query. An application's queries share final rows.
            append_only=within is not None or any(_needs_final_rows(item.node) for item in all_operators),
            interactive=isinstance(sink, ResultSink),
            calls_users=bool(logical.functions),
            state_ttl_ms=ttl,
            carrying=carrying_scan(self._root) if isinstance(sink, EntitySink) and sink.carried_key else None,
            windows=dict(row_windows(self._root)),
            names=within.names if within is not None else set(),
            path=(within.name,) if within is not None else (),
            shared=within.shared if within is not None else None,
        )

    def plan(self) -> physical.SparkPlan:
        """Raises UserError as `plan_query`."""
        rows = self._low.rows(self._operator, self._wants())
        output = self._low.transform(self._low.name("result"), rows.text, rows.inputs)
        sink = self._low.name("sink")
        self._write(sink, output, rows)
        steps = self._low.steps
        mode = choose_mode(
            self._operator,
            self._sink,
            connectors={
                step.connector for step in steps if isinstance(step, physical.ReadEntity | physical.ReadRows)
            },
            properties=self._logical.properties,
            calls_users=bool(self._logical.functions),
            target=self._target,
        )
        return physical.SparkPlan(
            mode=mode.name,
            reasons=list(mode.reasons),
            output_mode="update" if self._low.updates or mode.name == "real_time" else "append",
            steps=[*steps, *self._low.outputs],
            outputs=[sink, *(output.id for output in self._low.outputs)],
            groupings=self._low.groupings,
            functions=user_functions(self._logical),
        )

    def _wants(self) -> Wants:
        retracts = self._operator.mode is Mode.UPSERT and isinstance(self._sink, EntitySink)
        return Wants(
            time=retracts,
            carried_key=self._low.carrying is not None,
            unselected_key=self._has_unselected_key(),
        )

    def _has_unselected_key(self) -> bool:
        """True if a reader gets the kind of each row's change to a key that the query does not select."""
        if not isinstance(self._sink, ResultSink) or self._operator.mode is not Mode.UPSERT:
            return False
        if isinstance(self._root, Aggregate) and not self._root.group_by:
            return False
        # Spark has no STRUCT without a field; there is one row at most.
        if isinstance(self._root, Project) and not self._operator.inputs[0].traits.key:
            return False
        return not self._logical.schema.primary_key

    # --- the sink

    def _changes(self, rows: Rows) -> physical.Changes | None:
        if self._logical.kind is RelationKind.STREAM:
            return None
        selected = list(self._logical.schema.primary_key)
        signed = rows.mode is Mode.SIGNED
        return physical.Changes(
            primary_key=selected,
            key_columns=[UNSELECTED_KEY] if self._has_unselected_key() else selected,
            deleted=DELETED if rows.deleted else None,
            filtered=any(
                isinstance(node, Filter) or (isinstance(node, Aggregate) and node.having is not None)
                for node in walk(self._root)
            ),
            final=rows.mode is Mode.INSERT,
            sign=OP if signed else None,
        )

    def _write(self, identifier: str, output: str, rows: Rows) -> None:
        if isinstance(self._sink, ResultSink):
            self._low.add(
                physical.WriteResults(
                    id=identifier,
                    input=output,
                    columns=physical_columns(self._logical.schema),
                    limit=self._limit,
                    changes=self._changes(rows),
                )
            )
            return
        for step in sink_steps(
            self._sink,
            identifier,
            output,
            self._low.name,
            deleted=DELETED if rows.deleted else None,
            event_time=ROW_TIME if rows.deleted and rows.timed else None,
            sign=OP if rows.mode is Mode.SIGNED else None,
        ):
            self._low.add(step)


def _needs_final_rows(node: LogicalNode) -> bool:
    """True of windows, and of an operator of ours that would read the updated groups of Spark's."""
    return isinstance(node, ToChangelog | WindowExtremes) or (
        isinstance(node, Aggregate) and bool(window_groups(node))
    )


def _without_limit(root: LogicalNode) -> tuple[LogicalNode, int | None]:
    limit = None
    if isinstance(root, Limit):
        limit = root.count
        root = root.input
    if not isinstance(root, Project | Aggregate | Union):
        raise InternalError(f"no plan for {type(root).__name__}")
    return root, limit
