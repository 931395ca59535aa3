"""The schemas of what a query writes: generated of its columns, checked against the registry before anything is made, registered
when all else is, and pinned in the plan. Subjects are called after the entity: `<entity>-key` and `<entity>-value`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.connectors.schema_registry.client import RegisteredSchema, RegistryClient, SchemaType
from headrace.core.errors import UserError
from headrace.core.names import path_text
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType, Struct
from headrace.formats.avro import Avro, generated_schema
from headrace.formats.avro_schema import columns_of, type_of
from headrace.formats.protobuf import Protobuf
from headrace.formats.protobuf_schema import decoded, message_name, of_text, proto_text
from headrace.planner.physical import EncodeRows, SparkPlan
from headrace.planner.sinks import EntitySink


@dataclass(frozen=True)
class SinkSchema:
    """The schema of a query's keys or values. Without an `id` the registry does not have it yet. `pinned` is what its format gets of it."""

    part: str
    subject: str
    type: SchemaType
    text: str
    pinned: Mapping[str, str] = field(default_factory=dict)
    id: int | None = None


def sink_schemas(sink: EntitySink, client: RegistryClient | None) -> tuple[SinkSchema, ...]:
    """What the sink's formats need; the newest of a subject is taken where it is of the same columns.

    Registers nothing. Raises UserError 42P16 for columns that are not compatible with a subject's versions, or that lack a required
    field, and ExternalError 57015.
    """
    kinds: dict[str, DataType | None] = {
        "value": Struct(tuple((column.name, column.type) for column in sink.schema.columns)),
        "key": None if sink.carried_key else sink.format.key_type,
    }
    required = frozenset(column.name for column in sink.schema.columns if not column.nullable)
    entity = path_text(sink.entity)
    found = []
    for part, layout in (("value", sink.format.value), ("key", sink.format.key)):
        kind, subject = kinds[part], f"{entity}-{part}"
        if kind is None:
            continue
        if isinstance(layout, Protobuf) and isinstance(kind, Struct):
            _check_required(layout, kind)
            if layout.registry is not None and client is not None:
                columns = [Column(name, item, name not in required) for name, item in kind.fields]
                found.append(_protobuf(client, part, subject, layout.message, columns, entity))
        elif isinstance(layout, Avro) and client is not None:
            found.append(_avro(client, part, subject, kind, required, entity))
    return tuple(found)


def _check_required(layout: Protobuf, columns: Struct) -> None:
    if layout.registry is not None or layout.message is None or layout.descriptors is None:
        return
    lacking = decoded(layout.descriptors).without(layout.message, columns)
    if lacking:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"there is no column for what the message {layout.message} requires: {', '.join(lacking)}",
            hint="Select it, with that name.",
        )


def _avro(
    client: RegistryClient, part: str, subject: str, kind: DataType, required: frozenset[str], entity: str
) -> SinkSchema:
    text = generated_schema(kind, f"{entity}_{part}", required=required)
    newest = client.latest(subject)
    if newest is not None and newest.type == "AVRO" and not newest.references:
        if _holds_the_same(newest.text, text):
            return SinkSchema(part, subject, "AVRO", newest.text, {"schema_text": newest.text}, newest.id)
        text = _called_as(newest.text, text)
    _check_compatible(client, newest, subject, text, "AVRO")
    return SinkSchema(part, subject, "AVRO", text, {"schema_text": text})


def _protobuf(
    client: RegistryClient,
    part: str,
    subject: str,
    wanted: str | None,
    columns: Sequence[Column],
    entity: str,
) -> SinkSchema:
    newest, before = client.latest(subject), None
    name = wanted or message_name(f"{entity}_{part}")
    if newest is not None and newest.type == "PROTOBUF":
        before = of_text(newest.text, client.referenced(newest))
        if wanted is None or any(item == wanted or item.endswith(f".{wanted}") for item in before.messages):
            name = before.named(wanted)
            if {column.name: str(column.type) for column in before.columns(name)} == {
                column.name: str(column.type) for column in _as_read(columns)
            }:
                pinned = {"descriptors": before.encoded(name), "message": name}
                return SinkSchema(part, subject, "PROTOBUF", newest.text, pinned, newest.id)
        else:
            before = None
    text = proto_text(columns, name, before=before)
    _check_compatible(client, newest, subject, text, "PROTOBUF")
    pinned = {"descriptors": of_text(text).encoded(name), "message": name}
    return SinkSchema(part, subject, "PROTOBUF", text, pinned)


def _as_read(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns as they come back from a message that is made of them: a SMALLINT as INTEGER, for one."""
    return of_text(proto_text(columns, "t")).columns("t")


def _check_compatible(
    client: RegistryClient, newest: RegisteredSchema | None, subject: str, text: str, kind: SchemaType
) -> None:
    refusals = client.compatibility(subject, text, kind) if newest is not None else []
    if refusals:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the columns are not compatible with the subject {subject!r}: {'; '.join(refusals)}",
            hint="Give the columns types that its versions can be read as, or write to another topic, whose subject is new.",
        )


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
        else replace(schema, id=client.register(schema.subject, schema.text, schema.type))
        for schema in schemas
    )


def pinned(plan: SparkPlan, schemas: tuple[SinkSchema, ...]) -> SparkPlan:
    """The plan, writing with these schemas."""
    by_part: Mapping[str, SinkSchema] = {schema.part: schema for schema in schemas}

    def step(found: EncodeRows) -> EncodeRows:
        changed = {
            part: getattr(found, part).model_copy(update={**schema.pinned, "schema_id": schema.id})
            for part, schema in by_part.items()
        }
        return found.model_copy(update=changed)

    steps = [step(found) if isinstance(found, EncodeRows) else found for found in plan.steps]
    return plan.model_copy(update={"steps": steps})
