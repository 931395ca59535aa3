"""A plan's steps as DataFrames: one function a step kind."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from headrace.connectors.checkpoint_store import CheckpointStore, store_at
from headrace.connectors.registry import connector, spark_module
from headrace.connectors.streaming import (
    LookupRequest,
    RowRequest,
    SinkRequest,
    SourceRequest,
    TableRequest,
)
from headrace.core.atomic_file import write_atomically
from headrace.core.errors import InternalError
from headrace.core.internal_columns import PREFIX, is_internal
from headrace.core.names import path_text
from headrace.core.schema import Column
from headrace.core.types import parse_type
from headrace.engine.driver import lookups, python_worker
from headrace.engine.driver.jvm import jvm
from headrace.engine.driver.spool import spooled
from headrace.engine.protocol import StartQuery
from headrace.formats.base import DecodeSpec, EncodeSpec
from headrace.formats.spark import decode, encode, measured
from headrace.formats.types import name_sql, spark_type
from headrace.planner import physical
from headrace.planner.repeats import Touched, repeating

_DELAY = "spark.watermarkDelayMs"
_FUNCTIONS = "headrace.functions"
_QUERY_SETTING = "headrace.functions.query"
"""Setting of a query's session, by which `UserFunctions` knows which query's functions a text calls."""
_PREFIX_SETTING = "headrace.internal.prefix"
"""Setting of a query's session, from which the operators know the names of internal columns: see InternalColumns.scala."""


def connector_module(name: str) -> Any:
    """Return the driver half of a store type; see `connectors.streaming`. Raises InternalError when there is none."""
    try:
        return spark_module(name)
    except (KeyError, ModuleNotFoundError) as error:
        raise InternalError(f"the connector {name} has no part for Spark ({error})") from error


@dataclass
class Build:
    """Build of a query: a DataFrame for each step so far, and shared resources.

    `poll_ms` is the least time between two batches that its sources ask for, in milliseconds.
    """

    session: SparkSession
    start: StartQuery
    records_per_batch: int | None
    resources: ExitStack
    frames: dict[str, DataFrame] = field(default_factory=dict)
    poll_ms: int = 0

    @cached_property
    def repeating(self) -> frozenset[str]:
        """Ids of the steps that repeat the rows of touched keys."""
        return repeating(self.start.plan.steps)

    def properties(self, store: str) -> Mapping[str, str]:
        """Return the properties of a store that the plan names."""
        if store not in self.start.stores:
            raise InternalError(f"the plan did not include the properties of the store {store!r}")
        return self.start.stores[store]

    def internal(self, name: str) -> str:
        """Return the plan's name of an internal column, which `name` names without a prefix."""
        return f"{self.start.plan.internal_prefix}{name}"

    def reads(self, step_id: str) -> physical.ReadEntity | physical.ReadRows:
        """Return the one entity that a step's rows come from."""
        step = next(step for step in self.start.plan.steps if step.id == step_id)
        if isinstance(step, physical.ReadEntity | physical.ReadRows):
            return step
        inputs = step.inputs if isinstance(step, physical.SqlTransform) else [getattr(step, "input", None)]
        if len(inputs) != 1 or inputs[0] is None:
            raise InternalError(f"expected one source under the step {step_id}, found {len(inputs)}")
        return self.reads(inputs[0])

    def source_request(self, step: physical.ReadEntity) -> SourceRequest:
        """Return the request to read an entity."""
        return SourceRequest(
            entity=step.entity,
            properties=self.properties(step.store),
            starting_position=step.starting_position,
            starting_timestamp_ms=step.starting_timestamp_ms,
            options=step.options,
            records_per_batch=self.records_per_batch,
            headers=any(
                isinstance(other, physical.DecodeRows)
                and other.input == step.id
                and (
                    other.upsert
                    or other.carries_record
                    or other.headers
                    or other.on_error in self.start.plan.outputs
                    or other.on_function_error in self.start.plan.outputs
                )
                for other in self.start.plan.steps
            ),
        )

    def checkpoint(self) -> CheckpointStore:
        """Return the place of the query's progress and state."""
        return store_at(self.start.checkpoint)

    def row_request(self, step: physical.ReadRows) -> RowRequest:
        """Return the request to read an entity's rows."""
        checkpoint = self.checkpoint() if self.start.checkpoint else None
        return RowRequest(
            entity=step.entity,
            columns=schema_columns(step.columns),
            key=tuple(step.key_columns),
            upsert=step.upsert,
            properties=self.properties(step.store),
            starting_position=step.starting_position,
            starting_timestamp_ms=step.starting_timestamp_ms,
            options=step.options,
            records_per_batch=self.records_per_batch,
            kept=checkpoint and checkpoint.at("rows", step.id),
            checkpoint=checkpoint,
            on_error=step.on_error,
        )


def build(
    session: SparkSession, start: StartQuery, *, records_per_batch: int | None, resources: ExitStack
) -> Build:
    """Builds every step but the outputs. `session` is the query's own: it gets a temporary view for each input of SQL.

    `records_per_batch` limits what a micro-batch reads from one source. `resources` are to be closed when the query has ended.
    """
    work = Build(session, start, records_per_batch, resources)
    session.conf.set(_PREFIX_SETTING, start.plan.internal_prefix)
    for name, properties in start.registries.items():
        settings = jvm(session).java.util.HashMap()
        for key, text in properties.items():
            settings.put(key, text)
        jvm(session).io.headrace.spark.SchemaRegistry.open(name, settings)
    if start.functions:
        _announce_functions(work)
    return add_steps(work, (step for step in start.plan.steps if step.id not in start.plan.outputs))


def _announce_functions(work: Build) -> None:
    """Let the texts of the plan call functions of users by their ids."""
    start, java = work.start, jvm(work.session)
    # A query that is started again may be built before the one that it replaces has closed its resources.
    query = f"{start.query_id} {start.generation}"
    work.session.conf.set(_QUERY_SETTING, query)
    _send_files(work)
    for function in start.functions:
        java.io.headrace.spark.UserFunctions.announce(
            query,
            function.id,
            function.signature,
            function.source,
            _listed(
                work, [python_worker.NAME, *function.command] if function.on_executors else function.command
            ),
            function.declaration,
            spark_type(parse_type(function.result)),
            function.timeout_ms,
            function.on_executors,
        )
    work.resources.callback(java.io.headrace.spark.UserFunctions.forget, query)


def _send_files(work: Build) -> None:
    """Let executors fetch the files of functions, each once, from a folder of the driver's own, until the driver ends."""
    folder = Path("functions").absolute()
    for name, content in work.start.files.items():
        folder.mkdir(exist_ok=True)
        if not (folder / name).exists():
            write_atomically(folder / name, base64.b64decode(content), mode=0o600)
        # A second time, it does nothing.
        work.session.sparkContext.addFile(str(folder / name))


def add_steps(work: Build, steps: Iterable[physical.Step]) -> Build:
    """Return `work` with a DataFrame for each step. Each step comes after the steps that it reads."""
    for step in steps:
        work.frames[step.id] = BUILDERS[step.step](work, step)
    return work


def _read_entity(work: Build, step: physical.ReadEntity) -> DataFrame:
    frame: DataFrame = connector_module(step.connector).source(work.session, work.source_request(step))
    return frame


def _read_rows(work: Build, step: physical.ReadRows) -> DataFrame:
    module, request = connector_module(step.connector), work.row_request(step)
    frame = _marked(work, _named(work, module.rows(work.session, request)), step)
    if hasattr(module, "poll_ms"):
        work.poll_ms = max(work.poll_ms, module.poll_ms(request))
    if step.arrival:
        return frame.withColumns({work.internal("rowtime"): functions.current_timestamp()})
    if step.timestamp is None:
        return frame
    column = name_sql(step.timestamp)
    named = next(column for column in step.columns if column.name == step.timestamp)
    value = f"timestamp_millis({column})" if named.type == "BIGINT" else column
    time, deleted = work.internal("rowtime"), work.internal("deleted")
    # The end of a key has no values.
    return frame.withColumns({time: functions.expr(f"CASE WHEN {deleted} THEN {time} ELSE {value} END")})


def _marked(work: Build, frame: DataFrame, step: physical.ReadRows | physical.DecodeRows) -> DataFrame:
    """Return `frame` with a mark by which `FailedCalls.scala` knows the source of a row for which a function of a user fails."""
    if not work.start.functions:
        return frame
    name, read = work.internal("metadata"), work.reads(step.id)
    mark = {
        "column": name,
        "record": work.internal("record"),
        "store": read.store,
        "entity": path_text(read.entity),
        "on_failure": _side_topic(work, step.on_function_error)
        if step.on_function_error in work.start.plan.outputs
        else step.on_function_error,
    }
    column = functions.col(name) if name in frame.columns else functions.lit(None).cast("string")
    return frame.withColumns({name: column.alias(name, metadata={_FUNCTIONS: mark})})


def _named(work: Build, frame: DataFrame) -> DataFrame:
    """Return `frame` with its internal columns named as the plan names them."""
    return frame.withColumnsRenamed(
        {name: work.internal(name.removeprefix(PREFIX)) for name in frame.columns if is_internal(name)}
    )


def _read_table(work: Build, step: physical.ReadTable) -> DataFrame:
    request = TableRequest(
        entity=step.entity,
        columns=schema_columns(step.columns),
        properties=work.properties(step.store),
        options=step.options,
        resources=work.resources,
    )
    frame: DataFrame = connector_module(step.connector).table(work.session, request)
    return frame


def _lookup_join(work: Build, step: physical.LookupJoin) -> DataFrame:
    module, columns = connector_module(step.connector), schema_columns(step.columns)
    if step.refresh_ms is None:
        request = LookupRequest(
            entity=step.entity,
            columns=columns,
            key=tuple(step.key_columns),
            properties=work.properties(step.store),
            options=step.options,
        )
        find: lookups.Find = module.lookup(request)
    else:
        table = TableRequest(step.entity, columns, work.properties(step.store), step.options)
        find = lookups.cached(
            work.session,
            module,
            table,
            step.refresh_ms,
            work.resources,
            lambda: work.checkpoint().at("tables", step.id),
        )
    return lookups.with_matches(
        work.frames[step.input], step.keys, step.key_columns, columns, step.name, find
    )


def _decode_rows(work: Build, step: physical.DecodeRows) -> DataFrame:
    spec = DecodeSpec(
        columns=schema_columns(step.columns),
        value=step.value,
        key=step.key,
        key_type=parse_type(step.key_type) if step.key_type else None,
        key_columns=tuple(step.key_columns),
        timestamp=step.timestamp,
        upsert=step.upsert,
        on_error=_side_topic(work, step.on_error)
        if step.on_error in work.start.plan.outputs
        else step.on_error,
        ahead_ms=step.ahead_ms,
        carries_key=step.carries_key,
        carries_record=step.carries_record,
        arrival=step.arrival,
        flat_metadata=step.flat_metadata,
        headers=step.headers,
    )
    records = measured(work.frames[step.input], "input_bytes")
    return _marked(work, _named(work, decode(records, spec)), step)


def _side_topic(work: Build, output: str) -> str:
    step = next(step for step in work.start.plan.steps if step.id == output)
    if not isinstance(step, physical.WriteEntity):
        raise InternalError(f"expected an entity beside the sink, found {step.step}")
    request = SinkRequest(
        query_id=work.start.query_id,
        entity=step.entity,
        properties=work.properties(step.store),
        options=step.options,
        resources=work.resources,
    )
    name: str = connector_module(step.connector).side_topic(work.session, request)
    return name


def _assign_watermark(work: Build, step: physical.AssignWatermark) -> DataFrame:
    read = work.reads(step.input)
    request = work.row_request(read) if isinstance(read, physical.ReadRows) else work.source_request(read)
    splits: dict[str, list[int]] = connector_module(read.connector).splits(request)
    java = jvm(work.session)
    java_splits = java.java.util.HashMap()
    for entity, numbers in splits.items():
        java_splits.put(entity, _listed(work, numbers))
    assigned = java.io.headrace.spark.PartitionWatermark.assign(
        work.frames[step.input]._jdf,
        step.source,
        step.event_time,
        work.internal("entity"),
        work.internal("split"),
        java_splits,
        connector(read.connector).pattern(read.entity) is not None,
        step.delay_ms,
        step.idle_timeout_ms,
        "flush" if work.start.plan.bounded else step.all_idle,
        step.deleted,
        step.window_ms,
        step.advance_ms,
        step.offset_ms,
        None if step.late is None else _side_topic(work, step.late),
        step.clock_step_ms,
    )
    return DataFrame(assigned, work.session)


def _sql_transform(work: Build, step: physical.SqlTransform) -> DataFrame:
    for name in step.inputs:
        work.frames[name].createOrReplaceTempView(name)
    frame = work.session.sql(step.sql)
    if step.event_time is None:
        return frame
    # Spark knows an event time by its column's metadata, which a computed column has lost.
    marked = functions.col(name_sql(step.event_time)).alias(step.event_time, metadata={_DELAY: 0})
    return frame.withColumns({step.event_time: marked})


def _temporal_join(work: Build, step: physical.TemporalJoin) -> DataFrame:
    joined = _operators(work).TemporalJoin.join(
        work.frames[step.left]._jdf,
        work.frames[step.right]._jdf,
        _listed(work, step.left_keys),
        _listed(work, step.right_keys),
        step.left_time,
        step.right_time,
        step.right_name,
        step.right_deleted,
        step.how,
        step.state_ttl_ms,
    )
    return DataFrame(joined, work.session)


def _interval_join(work: Build, step: physical.IntervalJoin) -> DataFrame:
    joined = _operators(work).IntervalJoin.join(
        work.frames[step.left]._jdf,
        work.frames[step.right]._jdf,
        _listed(work, step.left_keys),
        _listed(work, step.right_keys),
        step.lower_ms,
        step.upper_ms,
        step.condition,
        step.how,
    )
    return DataFrame(joined, work.session)


def _normalize(work: Build, step: physical.Normalize) -> DataFrame:
    signed = _operators(work).Normalize.rows(
        work.frames[step.input]._jdf,
        _listed(work, step.keys),
        step.deleted,
        step.sequence,
        step.kinds,
        _time_to_live(work, step),
    )
    return DataFrame(signed, work.session)


def _materialize(work: Build, step: physical.Materialize) -> DataFrame:
    upserts = _operators(work).Materialize.rows(
        work.frames[step.input]._jdf, _listed(work, step.keys), work.internal("op"), _time_to_live(work, step)
    )
    return DataFrame(upserts, work.session)


def _changelog_aggregate(work: Build, step: physical.ChangelogAggregate) -> DataFrame:
    operators = _operators(work)
    calls = [
        operators.AggregateCall(
            call.name,
            call.function,
            _listed(work, call.arguments),
            call.distinct,
            spark_type(parse_type(call.type)),
        )
        for call in step.calls
    ]
    grouped = operators.ChangelogAggregate.aggregate(
        work.frames[step.input]._jdf,
        _listed(work, step.keys),
        _listed(work, calls),
        work.internal("op") if step.signed else None,
        step.output,
        _time_to_live(work, step),
    )
    return DataFrame(grouped, work.session)


def _changelog_join(work: Build, step: physical.ChangelogJoin) -> DataFrame:
    # Both sides may be signed, and the operator wants columns of different names.
    sign = work.internal("op")
    left_sign, right_sign = f"{sign}_left", f"{sign}_right"
    joined = _operators(work).ChangelogJoin.join(
        work.frames[step.left].withColumnRenamed(sign, left_sign)._jdf,
        work.frames[step.right].withColumnRenamed(sign, right_sign)._jdf,
        _listed(work, step.left_keys),
        _listed(work, step.right_keys),
        left_sign if step.left_signed else None,
        right_sign if step.right_signed else None,
        step.condition,
        step.how,
        step.left_closes,
        step.right_closes,
        _time_to_live(work, step),
    )
    return DataFrame(joined, work.session)


def _top_n(work: Build, step: physical.TopN) -> DataFrame:
    ranked = _operators(work).TopN.rank(
        work.frames[step.input]._jdf,
        step.function,
        _listed(work, step.partition),
        *_ordered(work, step.order),
        step.limit,
        work.internal("op") if step.signed else None,
        step.output,
        step.rank,
        step.closes,
        _time_to_live(work, step),
        step.ties == "newest",
    )
    return DataFrame(ranked, work.session)


def _window_extremes(work: Build, step: physical.WindowExtremes) -> DataFrame:
    rows = _operators(work).WindowExtremes.rows(
        work.frames[step.input]._jdf, step.function, step.value, step.window
    )
    return DataFrame(rows, work.session)


def _match_recognize(work: Build, step: physical.MatchRecognize) -> DataFrame:
    operators = _operators(work)
    pattern = [
        operators.PatternVariable(
            variable.name,
            variable.least,
            -1 if variable.most is None else variable.most,
            variable.greedy,
            variable.condition,
        )
        for variable in step.pattern
    ]
    parts = [
        operators.PatternPart(
            part.kind,
            part.variable,
            _listed(work, part.parts),
            part.least,
            -1 if part.most is None else part.most,
            part.greedy,
        )
        for part in step.parts
    ]
    subsets = [
        operators.PatternSubset(name, _listed(work, members)) for name, members in step.subsets.items()
    ]
    navigations = [
        operators.Navigation(item.name, item.kind, item.variable, item.column, item.offset)
        for item in step.navigations
    ]
    matches = operators.MatchRecognize.recognize(
        work.frames[step.input]._jdf,
        step.time,
        _listed(work, step.partition),
        *_ordered(work, step.order),
        _listed(work, pattern),
        _listed(work, parts),
        _listed(work, subsets),
        _listed(work, navigations),
        step.all_rows,
        step.skip,
        step.skip_to,
        step.within_ms,
        step.state_ttl_ms,
    )
    return DataFrame(matches, work.session)


def _over_aggregate(work: Build, step: physical.OverAggregate) -> DataFrame:
    operators = _operators(work)
    calls = [
        operators.OverCall(
            call.name,
            call.function,
            _listed(work, call.arguments),
            spark_type(parse_type(call.type)),
            call.unit,
            -1 if call.preceding is None else call.preceding,
        )
        for call in step.calls
    ]
    rows = operators.OverAggregate.over(
        work.frames[step.input]._jdf,
        step.time,
        _listed(work, step.partition),
        _listed(work, calls),
        step.state_ttl_ms,
    )
    return DataFrame(rows, work.session)


def _spool(work: Build, step: physical.Spool) -> DataFrame:
    return spooled(work.frames[step.input], work.checkpoint(), step.id, work.records_per_batch or 0)


def _ordered(work: Build, keys: list[physical.OrderKey]) -> tuple[Any, Any, Any]:
    """Return the columns of an order, and for each of them whether it descends and whether NULL comes first."""
    return (
        _listed(work, [key.column for key in keys]),
        _listed(work, [key.descending for key in keys]),
        _listed(work, [key.nulls_first for key in keys]),
    )


def _time_to_live(work: Build, step: Touched) -> Any:
    return _operators(work).TimeToLive(step.state_ttl_ms, step.id in work.repeating)


def _operators(work: Build) -> Any:
    return jvm(work.session).io.headrace.spark


def _listed(work: Build, values: Iterable[Any]) -> Any:
    """Return values as a Java list."""
    java_list = jvm(work.session).java.util.ArrayList()
    for value in values:
        java_list.add(value)
    return java_list


def _encode_rows(work: Build, step: physical.EncodeRows) -> DataFrame:
    spec = EncodeSpec(
        columns=schema_columns(step.columns),
        value=step.value,
        key=step.key,
        key_columns=tuple(step.key_columns),
        key_expression=step.key_expression,
        deleted=step.deleted,
        timestamp=step.timestamp,
        event_time=step.event_time,
    )
    return encode(work.frames[step.input], spec)


def schema_columns(columns: list[physical.Column]) -> tuple[Column, ...]:
    """Return a plan's columns as schema columns."""
    return tuple(Column(column.name, parse_type(column.type), column.nullable) for column in columns)


BUILDERS: dict[str, Callable[[Build, Any], DataFrame]] = {
    "read_entity": _read_entity,
    "read_rows": _read_rows,
    "read_table": _read_table,
    "decode_rows": _decode_rows,
    "assign_watermark": _assign_watermark,
    "sql_transform": _sql_transform,
    "temporal_join": _temporal_join,
    "lookup_join": _lookup_join,
    "interval_join": _interval_join,
    "normalize": _normalize,
    "materialize": _materialize,
    "changelog_aggregate": _changelog_aggregate,
    "changelog_join": _changelog_join,
    "top_n": _top_n,
    "window_extremes": _window_extremes,
    "match_recognize": _match_recognize,
    "over_aggregate": _over_aggregate,
    "spool": _spool,
    "encode_rows": _encode_rows,
}
"""Step kind to its function; for the outputs of a plan see `sinks.SINKS`."""
