"""The logical plan as steps of a driver.

    ReadEntity → DecodeRows → [AssignWatermark] → SqlTransform and TemporalJoin → EncodeRows → WriteEntity
                                                                                 | WriteView | WriteResults

Event time is assigned only where something needs it: time windows, WITHIN joins, temporal joins. An upsert edge carries
`__deleted`; a key that is carried through travels as `__key`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from headrace.analyzer.expressions import KEY_BYTES, ROW_TIME
from headrace.analyzer.logical import (
    Aggregate,
    ChangeKind,
    Filter,
    IntervalJoin,
    Limit,
    LogicalNode,
    LogicalPlan,
    Project,
    QueryProperties,
    Scan,
    TemporalJoin,
    TimeWindow,
    Union,
    Unnest,
    walk,
)
from headrace.catalog.objects import RelationKind
from headrace.connectors.registry import connector
from headrace.core.errors import InternalError, UserError
from headrace.core.resultset import ResultColumn
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type
from headrace.planner import physical
from headrace.planner.islands import Islands, Source
from headrace.planner.keys import carrying_scan
from headrace.planner.rules import rewritten
from headrace.planner.sinks import EntitySink, ResultSink, Sink, ViewSink, physical_columns
from headrace.planner.spark_sql import identifier

DELETED = "__deleted"
UNSELECTED_KEY = "__unselected_key"


def plan_query(logical: LogicalPlan, sink: Sink) -> physical.SparkPlan:
    """The plan that a driver runs.

    Raises UserError 0A000 for a snapshot query (see `snapshot.compile_snapshot`), 42601 for PARTITION BY without records.
    """
    if logical.snapshot:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a query of materialized views is answered at once; it cannot run continuously",
            span=logical.span,
        )
    if logical.partition_by and not isinstance(sink, EntitySink):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            "PARTITION BY is for CREATE STREAM … AS and INSERT INTO: it sets the key of the records",
            span=logical.partition_by[0].span,
        )
    return _Planner(rewritten(logical), sink).plan()


def plan_columns(plan: physical.SparkPlan) -> tuple[ResultColumn, ...]:
    """The result columns of an interactive plan."""
    sink = plan.sink
    if not isinstance(sink, physical.WriteResults):
        raise InternalError("the plan has no result columns")
    return tuple(
        ResultColumn(column.name, parse_type(column.type), column.nullable) for column in sink.columns
    )


@dataclass(frozen=True)
class Mode:
    """How a plan runs, and the sentences that say why."""

    name: Literal["micro_batch", "real_time"]
    reasons: tuple[str, ...]


def choose_mode(root: LogicalNode, sink: Sink, *, connectors: set[str], wanted: QueryProperties) -> Mode:
    """Real-time when it is stateless, at-least-once, between stores that can, and not asked otherwise.

    Raises UserError 0A000 when real-time mode was asked for and is not possible.
    """
    reasons = [f"the query keeps state ({what})" for what in state_of(root)]
    if isinstance(sink, ViewSink):
        reasons.append("a materialized view is written in transactions")
    elif isinstance(sink, ResultSink):
        reasons.append("results of an interactive query are sent in batches")
    elif sink.guarantee == "exactly_once":
        reasons.append("exactly-once delivery commits in batches")
    else:
        unable = sorted(
            name for name in connectors | {sink.connector} if not connector(name).capabilities.real_time
        )
        reasons += [f"stores of type {name} cannot (real_time)" for name in unable]
    if reasons and wanted.execution_mode == "real_time":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query cannot run in real-time mode: {'; '.join(reasons)}",
            hint="Leave 'execution.mode' out.",
            span=wanted.execution_mode_span,
        )
    if wanted.execution_mode == "micro_batch":
        reasons.append("'execution.mode' asks for it")
    if reasons:
        return Mode("micro_batch", tuple(f"micro-batch: {reason}" for reason in reasons))
    return Mode(
        "real_time", ("real-time: the query keeps no state, delivers at least once, and its stores can",)
    )


def state_of(root: LogicalNode) -> list[str]:
    """What in the plan keeps state, in the dialect's words."""
    found: list[str] = []
    for node in walk(root):
        match node:
            case Aggregate(windowed=True):
                window = next(part for part in walk(node) if isinstance(part, TimeWindow))
                found.append(window.kind.value)
            case Aggregate():
                found.append("GROUP BY" if node.group_by else "an aggregate")
            case IntervalJoin():
                found.append("WITHIN join")
            case TemporalJoin():
                found.append("temporal join")
    return list(dict.fromkeys(found))


class _Planner:
    def __init__(self, logical: LogicalPlan, sink: Sink) -> None:
        self._logical = logical
        self._sink = sink
        self._steps: list[physical.Step] = []
        self._outputs: list[physical.Step] = []
        self._rows: dict[int, str] = {}
        self._joins = 0
        self._root, self._limit = _without_limit(logical.root)

    def plan(self) -> physical.SparkPlan:
        output = self._island()
        self._write(output)
        mode = choose_mode(
            self._root, self._sink, connectors=self._connectors(), wanted=self._logical.properties
        )
        unbounded = any(isinstance(node, Aggregate) and not node.windowed for node in walk(self._root))
        return physical.SparkPlan(
            mode=mode.name,
            reasons=list(mode.reasons),
            output_mode="update" if unbounded or mode.name == "real_time" else "append",
            steps=[*self._steps, *self._outputs],
            outputs=["sink", *(output.id for output in self._outputs)],
        )

    def _connectors(self) -> set[str]:
        return {step.connector for step in self._steps if isinstance(step, physical.ReadEntity)}

    # --- sources

    def _step_of(self, node: LogicalNode) -> str:
        if id(node) not in self._rows:
            made = self._joined(node) if isinstance(node, TemporalJoin) else self._scanned(cast(Scan, node))
            self._rows[id(node)] = made
        return self._rows[id(node)]

    def _scanned(self, scan: Scan) -> str:
        number = sum(isinstance(step, physical.ReadEntity) for step in self._steps) + 1
        read, rows = f"read_{number}", f"rows_{number}"
        properties, relation = scan.properties, scan.relation
        self._steps.append(
            physical.ReadEntity(
                id=read,
                store=relation.store or "",
                connector=scan.store_type,
                entity=relation.entity or "",
                starting_position=properties.starting_position,
                starting_timestamp_ms=properties.starting_timestamp_ms,
                options=dict(properties.options),
            )
        )
        self._steps.append(self._decoded(scan, read, rows, self._on_error(scan, read, number)))
        if not needs_event_time(self._root):
            return rows
        event_time = properties.event_time
        timed = f"timed_{number}"
        window = next(
            (node for node in walk(self._root) if isinstance(node, TimeWindow) and node.input is scan), None
        )
        self._steps.append(
            physical.AssignWatermark(
                id=timed,
                input=rows,
                source=str(relation.name),
                delay_ms=event_time.delay_ms,
                idle_timeout_ms=event_time.idle_timeout_ms,
                deleted=DELETED if relation.format.upsert else None,
                window_ms=window.size_ms if window else 0,
                advance_ms=window.advance_ms if window else 0,
            )
        )
        return timed

    def _on_error(self, scan: Scan, read: str, number: int) -> str:
        """What DecodeRows does with a record that cannot be read; a place for such records becomes an output of the plan."""
        letters = scan.properties.dead_letters
        if letters is None:
            return scan.properties.on_error
        if isinstance(self._sink, ResultSink):
            return "ignore"  # to look at a source is not to work it off
        output = f"dead_letters_{number}"
        self._outputs.append(
            physical.WriteEntity(
                id=output,
                input=read,
                store=letters.store,
                connector=letters.store_type,
                entity=letters.entity,
            )
        )
        return output

    def _decoded(self, scan: Scan, read: str, rows: str, on_error: str) -> physical.DecodeRows:
        relation, event_time = scan.relation, scan.properties.event_time
        layout = relation.format
        key_columns = layout.key_columns or (relation.schema.primary_key if layout.upsert else ())
        return physical.DecodeRows(
            id=rows,
            input=read,
            columns=physical_columns(relation.schema),
            key_format=layout.key_format,
            key_type=str(layout.key_type) if layout.key_type is not None else None,
            key_columns=list(key_columns),
            timestamp=event_time.column,
            timestamp_format=event_time.format,
            upsert=layout.upsert,
            on_error=on_error,
            ahead_ms=event_time.ahead_ms if needs_event_time(self._root) else 0,
            carries_key=self._carries_key() and carrying_scan(self._root) is scan,
        )

    def _joined(self, node: TemporalJoin) -> str:
        """One temporal join: the left side's sources become STRUCT columns named by their aliases, then the versions are added."""
        island = Islands(self._step_of)
        source = island.source(node.left)
        sql = source.sql()
        already = _structs_under(node.left)
        self._joins += 1
        number = self._joins
        columns = [
            identifier(item.alias)
            if item.alias in already
            else f"struct({identifier(item.alias)}.*) AS {identifier(item.alias)}"
            for item in node.left.sources
        ]
        time = identifier(ROW_TIME)
        columns.append(time if already else f"{identifier(node.left.sources[0].alias)}.{time} AS {time}")
        keys = [f"__key_{index}" for index in range(1, len(node.left_keys) + 1)]
        columns += [
            f"{sql.bare(key)} AS {identifier(name)}" for key, name in zip(node.left_keys, keys, strict=True)
        ]
        lines = ["SELECT " + ",\n       ".join(columns), f"FROM {source.text}"]
        if source.conditions:
            lines.append("WHERE " + " AND ".join(source.where()))
        keyed = f"keyed_{number}"
        self._steps.append(physical.SqlTransform(id=keyed, inputs=island.inputs, sql="\n".join(lines)))
        right = self._step_of(node.right)
        joined = f"joined_{number}"
        self._steps.append(
            physical.TemporalJoin(
                id=joined,
                left=keyed,
                right=right,
                left_keys=keys,
                right_keys=list(node.right_keys),
                right_name=node.right.alias,
                right_deleted=DELETED if node.right.relation.format.upsert else None,
                how="left" if node.kind.value == "left" else "inner",
                state_ttl_ms=self._logical.properties.state_ttl_ms,
            )
        )
        return joined

    # --- the last island

    def _island(self) -> str:
        island = Islands(self._step_of)
        retracts = self._retracts()
        upsert = self._logical.change is ChangeKind.UPSERT
        aggregate = isinstance(self._root, Aggregate)
        where = None
        if upsert and not aggregate:
            where = self._upsert_where
        text = island.select(
            self._root,
            hidden=self._hidden,
            where=where,
            having=not retracts,
            ended=self._ended if retracts else None,
        )
        self._steps.append(physical.SqlTransform(id="result", inputs=island.inputs, sql=text))
        return "result"

    def _retracts(self) -> bool:
        """True when the output says which keys are deleted."""
        if self._sink_kind() is not RelationKind.CHANGELOG:
            return False
        root = self._root
        if isinstance(root, Aggregate):
            return root.having is not None and not root.windowed
        if self._logical.change is not ChangeKind.UPSERT:
            return False
        return self._is_filtered() or any(scan.relation.format.upsert for scan in self._logical.scans)

    def _is_filtered(self) -> bool:
        """True when some rows of a changelog, or some groups, are left out."""
        root = self._root
        if isinstance(root, Aggregate):
            return root.having is not None
        return any(isinstance(node, Filter) for node in walk(root))

    def _sink_kind(self) -> RelationKind:
        if isinstance(self._sink, EntitySink):
            return self._sink.kind
        return self._logical.kind

    def _upsert_where(self, source: Source) -> list[str]:
        """Of a changelog: who keeps its keys also learns of those that end; a stream gets the rows that are and match."""
        sql = source.sql()
        if self._retracts():
            return []
        live = f"NOT {identifier(self._logical.scans[0].alias)}.{identifier(DELETED)}"
        deletes = any(scan.relation.format.upsert for scan in self._logical.scans)
        return [*([live] if deletes else []), *(sql.text(part) for part in source.conditions)]

    def _hidden(self, node: LogicalNode, source: Source) -> list[str]:
        columns = []
        if self._carries_key():
            scan = carrying_scan(node)
            if scan is not None:
                columns.append(f"{identifier(scan.alias)}.{identifier(KEY_BYTES)} AS {identifier(KEY_BYTES)}")
        if self._retracts():
            columns.append(f"{self._ended(node, source)} AS {identifier(DELETED)}")
            if isinstance(self._sink, EntitySink):
                columns.append(f"{_caused_at(node)} AS {identifier(ROW_TIME)}")
        if self._carries_unselected_key():
            key = ", ".join(self._key_of(node, source))
            columns.append(f"struct({key}) AS {identifier(UNSELECTED_KEY)}")
        return columns

    def _carries_key(self) -> bool:
        return isinstance(self._sink, EntitySink) and self._sink.carried_key

    def _ended(self, node: LogicalNode, source: Source) -> str:
        """The condition that a key ends with this row."""
        sql = source.sql()
        if isinstance(node, Aggregate) and node.having is not None:
            return f"NOT coalesce({sql.bare(node.having)}, false)"
        alias = identifier(self._logical.scans[0].alias)
        unmatched = [f"NOT coalesce({sql.bare(part)}, false)" for part in source.conditions]
        return " OR ".join([f"{alias}.{identifier(DELETED)}", *unmatched])

    def _carries_unselected_key(self) -> bool:
        """True when a reader is told what each row does to a key that the query does not select."""
        root = self._root
        if not isinstance(self._sink, ResultSink) or self._logical.change is not ChangeKind.UPSERT:
            return False
        if isinstance(root, Aggregate) and (root.windowed or not root.group_by):
            return False
        return not self._logical.schema.primary_key

    def _key_of(self, node: LogicalNode, source: Source) -> list[str]:
        sql = source.sql()
        if isinstance(node, Aggregate):
            return [sql.bare(key) for key in node.group_by]
        scan = self._logical.scans[0]
        return [f"{identifier(scan.alias)}.{identifier(name)}" for name in scan.relation.schema.primary_key]

    # --- the sink

    def _changes(self) -> physical.Changes | None:
        if self._logical.change is not ChangeKind.UPSERT:
            return None
        selected = list(self._logical.schema.primary_key)
        return physical.Changes(
            primary_key=selected,
            key_columns=[UNSELECTED_KEY] if self._carries_unselected_key() else selected,
            deleted=DELETED if self._retracts() else None,
            filtered=self._is_filtered(),
            final=isinstance(self._root, Aggregate) and self._root.windowed,
        )

    def _write(self, output: str) -> None:
        deleted = DELETED if self._retracts() else None
        match self._sink:
            case EntitySink() as sink:
                layout = sink.format
                self._steps.append(
                    physical.EncodeRows(
                        id="records",
                        input=output,
                        columns=physical_columns(sink.schema),
                        key_format=layout.key_format,
                        key_columns=list(layout.key_columns),
                        key_expression=KEY_BYTES if sink.carried_key else None,
                        timestamp_format=layout.timestamp_format,
                        deleted=deleted,
                        timestamp=layout.timestamp if deleted else None,
                        event_time=ROW_TIME if deleted else None,
                    )
                )
                self._steps.append(
                    physical.WriteEntity(
                        id="sink",
                        input="records",
                        store=sink.store,
                        connector=sink.connector,
                        entity=sink.entity,
                        guarantee=sink.guarantee,
                        options=dict(sink.options),
                    )
                )
            case ViewSink() as sink:
                self._steps.append(
                    physical.WriteView(
                        id="sink",
                        input=output,
                        view=sink.view,
                        columns=sink.columns,
                        key_columns=list(sink.key_columns),
                        deleted=deleted,
                    )
                )
            case ResultSink():
                columns = physical_columns(self._logical.schema)
                self._steps.append(
                    physical.WriteResults(
                        id="sink", input=output, columns=columns, limit=self._limit, changes=self._changes()
                    )
                )


def _caused_at(node: LogicalNode) -> str:
    """The event time of what ends a key: of the row, or of a group's newest row."""
    time = f"{identifier(node.inputs[0].sources[0].alias)}.{identifier(ROW_TIME)}"
    return f"max({time})" if isinstance(node, Aggregate) else time


def needs_event_time(root: LogicalNode) -> bool:
    """True when something in the plan waits for, or is bounded by, event time."""
    windowed = any(isinstance(node, Aggregate) and node.windowed for node in walk(root))
    return windowed or any(isinstance(node, IntervalJoin | TemporalJoin) for node in walk(root))


def _without_limit(root: LogicalNode) -> tuple[LogicalNode, int | None]:
    limit = None
    if isinstance(root, Limit):
        limit = root.count
        root = root.input
    if not isinstance(root, Project | Aggregate | Union):
        raise InternalError(f"no plan for {type(root).__name__}")
    return root, limit


def _structs_under(node: LogicalNode) -> set[str]:
    """The aliases that are STRUCT columns already: those below a temporal join."""
    while isinstance(node, Filter | Unnest):
        node = node.input
    return {source.alias for source in node.sources} if isinstance(node, TemporalJoin) else set()
