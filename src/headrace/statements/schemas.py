"""The schemas of what a query writes: generated of its columns, checked against the registry before anything is made, registered
when all else is, and pinned in the plan. Subjects are called after the entity: `<entity>-key` and `<entity>-value`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.connectors.schema_registry.client import RegistryClient
from headrace.core.errors import UserError
from headrace.core.names import path_text
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType, Struct
from headrace.formats.avro import Avro, generated_schema
from headrace.formats.avro_schema import columns_of, type_of
from headrace.planner.physical import EncodeRows, SparkPlan
from headrace.planner.sinks import EntitySink


@dataclass(frozen=True)
class SinkSchema:
    """The schema of a query's keys or values. Without an `id` the registry does not have it yet."""

    part: str
    subject: str
    text: str
    id: int | None = None


def sink_schemas(sink: EntitySink, client: RegistryClient | None) -> tuple[SinkSchema, ...]:
    """What the sink's Avro needs; the newest of a subject is taken where it is of the same columns.

    Registers nothing. Raises UserError 42P16 for columns that are not compatible with a subject's versions, ExternalError 57015.
    """
    columns = Struct(tuple((column.name, column.type) for column in sink.schema.columns))
    required = frozenset(column.name for column in sink.schema.columns if not column.nullable)
    parts: dict[str, DataType] = {}
    if isinstance(sink.format.value, Avro):
        parts["value"] = columns
    if isinstance(sink.format.key, Avro) and sink.format.key_type is not None and not sink.carried_key:
        parts["key"] = sink.format.key_type
    if not parts or client is None:
        return ()
    entity = path_text(sink.entity)
    return tuple(
        _schema(client, part, f"{entity}-{part}", kind, required, entity) for part, kind in parts.items()
    )


def _schema(
    client: RegistryClient, part: str, subject: str, kind: DataType, required: frozenset[str], entity: str
) -> SinkSchema:
    text = generated_schema(kind, f"{entity}_{part}", required=required)
    newest = client.latest(subject)
    if newest is not None and newest.type == "AVRO" and not newest.references:
        if _holds_the_same(newest.text, text):
            return SinkSchema(part, subject, newest.text, newest.id)
        text = _called_as(newest.text, text)
    refusals = client.compatibility(subject, text, "AVRO") if newest is not None else []
    if refusals:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the columns are not compatible with the subject {subject!r}: {'; '.join(refusals)}",
            hint="Give the columns types that its versions can be read as, or write to another topic, whose subject is new.",
        )
    return SinkSchema(part, subject, text)


def _holds_the_same(registered: str, generated: str) -> bool:
    """Whether records of both are of the same columns, in any order. One that cannot be read as columns is another one."""
    try:
        if '"record"' not in generated:
            return type_of(registered) == type_of(generated)
        return set(columns_of(registered)) == set(columns_of(generated))
    except UserError:
        return False


def _called_as(registered: str, generated: str) -> str:
    """The next version of a record has the name that it had."""
    before, now = json.loads(registered), json.loads(generated)
    if isinstance(before, dict) and isinstance(now, dict) and "name" in before and "name" in now:
        now["name"] = before["name"]
        if "namespace" in before:
            now["namespace"] = before["namespace"]
    return json.dumps(now, separators=(",", ":"), ensure_ascii=False)


def registered(schemas: tuple[SinkSchema, ...], client: RegistryClient | None) -> tuple[SinkSchema, ...]:
    """With the ids that the registry gives those that are new to it. Raises UserError 42P16, ExternalError 57015."""
    if client is None:
        return schemas
    return tuple(
        schema
        if schema.id is not None
        else replace(schema, id=client.register(schema.subject, schema.text, "AVRO"))
        for schema in schemas
    )


def pinned(plan: SparkPlan, schemas: tuple[SinkSchema, ...]) -> SparkPlan:
    """The plan, writing with these schemas."""
    by_part: Mapping[str, SinkSchema] = {schema.part: schema for schema in schemas}

    def step(found: EncodeRows) -> EncodeRows:
        changed = {
            part: getattr(found, part).model_copy(update={"schema_text": schema.text, "schema_id": schema.id})
            for part, schema in by_part.items()
        }
        return found.model_copy(update=changed)

    steps = [step(found) if isinstance(found, EncodeRows) else found for found in plan.steps]
    return plan.model_copy(update={"steps": steps})
