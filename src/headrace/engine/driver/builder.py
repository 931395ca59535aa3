"""A plan's steps as DataFrames: one function a step kind."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.connectors.streaming import SinkRequest, SourceRequest
from headrace.core.errors import InternalError
from headrace.core.schema import Column
from headrace.core.types import parse_type
from headrace.engine.driver.jvm import jvm
from headrace.engine.protocol import StartQuery
from headrace.formats.base import DecodeSpec, EncodeSpec
from headrace.formats.spark import decode, encode
from headrace.planner import physical


def connector_module(name: str) -> Any:
    """The driver half of a store type; see `connectors.streaming`. Raises InternalError when there is none."""
    if not name.isidentifier():
        raise InternalError(f"expected the name of a connector, found {name!r}")
    try:
        return importlib.import_module(f"headrace.connectors.{name}.spark")
    except ModuleNotFoundError as error:
        raise InternalError(f"the connector {name} has no part for Spark ({error.name})") from error


@dataclass
class Build:
    """What has been built of one query: a DataFrame for each step so far, and what the steps need."""

    session: SparkSession
    start: StartQuery
    records_per_batch: int | None
    resources: ExitStack
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def properties(self, store: str) -> Mapping[str, str]:
        """The properties of a store that the plan names."""
        if store not in self.start.stores:
            raise InternalError(f"the properties of the store {store!r} did not come with the plan")
        return self.start.stores[store]

    def reads(self, step_id: str) -> physical.ReadEntity:
        """The one entity that a step's rows come from."""
        step = next(step for step in self.start.plan.steps if step.id == step_id)
        if isinstance(step, physical.ReadEntity):
            return step
        inputs = step.inputs if isinstance(step, physical.SqlTransform) else [getattr(step, "input", None)]
        if len(inputs) != 1 or inputs[0] is None:
            raise InternalError(f"expected one source under the step {step_id}, found {len(inputs)}")
        return self.reads(inputs[0])

    def source_request(self, step: physical.ReadEntity) -> SourceRequest:
        """How to read an entity."""
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
                and (other.upsert or other.on_error in self.start.plan.outputs)
                for other in self.start.plan.steps
            ),
        )


def build(
    session: SparkSession, start: StartQuery, *, records_per_batch: int | None, resources: ExitStack
) -> Build:
    """Builds every step but the outputs. `session` is the query's own: it gets a temporary view for each input of SQL.

    `records_per_batch` limits what a micro-batch reads from one source. `resources` are to be closed when the query has ended.
    """
    work = Build(session, start, records_per_batch, resources)
    for step in start.plan.steps:
        if step.id in start.plan.outputs:
            continue
        work.frames[step.id] = BUILDERS[step.step](work, step)
    return work


def _read_entity(work: Build, step: physical.ReadEntity) -> DataFrame:
    frame: DataFrame = connector_module(step.connector).source(work.session, work.source_request(step))
    return frame


def _decode_rows(work: Build, step: physical.DecodeRows) -> DataFrame:
    spec = DecodeSpec(
        columns=_columns(step.columns),
        value_format=step.value_format,
        key_format=step.key_format,
        key_type=parse_type(step.key_type) if step.key_type else None,
        key_columns=tuple(step.key_columns),
        timestamp=step.timestamp,
        upsert=step.upsert,
        on_error=_dead_letters(work, step.on_error)
        if step.on_error in work.start.plan.outputs
        else step.on_error,
        ahead_ms=step.ahead_ms,
        carries_key=step.carries_key,
    )
    return decode(work.frames[step.input], spec)


def _dead_letters(work: Build, output: str) -> str:
    step = next(step for step in work.start.plan.steps if step.id == output)
    if not isinstance(step, physical.WriteEntity):
        raise InternalError(f"expected an entity for the records that cannot be read, found {step.step}")
    request = SinkRequest(
        query_id=work.start.query_id,
        entity=step.entity,
        properties=work.properties(step.store),
        options=step.options,
        resources=work.resources,
    )
    name: str = connector_module(step.connector).dead_letters(work.session, request)
    return name


def _assign_watermark(work: Build, step: physical.AssignWatermark) -> DataFrame:
    read = work.reads(step.input)
    counts: dict[str, int] = connector_module(read.connector).partition_counts(work.source_request(read))
    java = jvm(work.session)
    java_counts = java.java.util.HashMap()
    for topic, count in counts.items():
        java_counts.put(topic, count)
    assigned = java.io.headrace.spark.PartitionWatermark.assign(
        work.frames[step.input]._jdf,
        step.source,
        step.event_time,
        "__topic",
        "__partition",
        java_counts,
        step.delay_ms,
        step.idle_timeout_ms,
        "flush" if work.start.plan.bounded else step.all_idle,
        step.deleted,
        step.window_ms,
        step.advance_ms,
    )
    return DataFrame(assigned, work.session)


def _sql_transform(work: Build, step: physical.SqlTransform) -> DataFrame:
    for name in step.inputs:
        work.frames[name].createOrReplaceTempView(name)
    return work.session.sql(step.sql)


def _temporal_join(work: Build, step: physical.TemporalJoin) -> DataFrame:
    java = jvm(work.session)

    def texts(names: list[str]) -> Any:
        java_list = java.java.util.ArrayList()
        for name in names:
            java_list.add(name)
        return java_list

    joined = java.io.headrace.spark.TemporalJoin.join(
        work.frames[step.left]._jdf,
        work.frames[step.right]._jdf,
        texts(step.left_keys),
        texts(step.right_keys),
        step.left_time,
        step.right_time,
        step.right_name,
        step.right_deleted,
        step.how,
        step.state_ttl_ms,
    )
    return DataFrame(joined, work.session)


def _encode_rows(work: Build, step: physical.EncodeRows) -> DataFrame:
    spec = EncodeSpec(
        columns=_columns(step.columns),
        value_format=step.value_format,
        key_format=step.key_format,
        key_columns=tuple(step.key_columns),
        key_expression=step.key_expression,
        timestamp_format=step.timestamp_format,
        deleted=step.deleted,
        timestamp=step.timestamp,
        event_time=step.event_time,
    )
    return encode(work.frames[step.input], spec)


def _columns(columns: list[physical.Column]) -> tuple[Column, ...]:
    return tuple(Column(column.name, parse_type(column.type), column.nullable) for column in columns)


BUILDERS: dict[str, Callable[[Build, Any], DataFrame]] = {
    "read_entity": _read_entity,
    "decode_rows": _decode_rows,
    "assign_watermark": _assign_watermark,
    "sql_transform": _sql_transform,
    "temporal_join": _temporal_join,
    "encode_rows": _encode_rows,
}
"""Step kind to its function; for the outputs of a plan see `sinks.SINKS`."""
