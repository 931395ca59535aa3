"""Schemas of a query's output: generated from its columns, checked against the registry before any object is created, registered
after all objects, and pinned in the plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.analyzer import properties as dialect
from headrace.connectors.schema_registry.client import RegisteredSchema, RegistryClient, SchemaType
from headrace.core.errors import UserError
from headrace.core.names import path_text
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType, Struct
from headrace.formats.avro import Avro, generated_schema
from headrace.formats.avro_base import based_on
from headrace.formats.avro_references import self_contained
from headrace.formats.avro_schema import columns_of, type_of
from headrace.formats.protobuf import Protobuf
from headrace.formats.protobuf_schema import decoded, message_name, of_text, proto_text
from headrace.planner.physical import EncodeRows, SparkPlan, Step, inputs_of
from headrace.planner.sink_properties import Subject
from headrace.planner.sinks import EntitySink


@dataclass(frozen=True)
class SinkSchema:
    """The schema of a query's keys or values. Without an `id` it is not registered yet. `pinned` is the part that its format receives."""

    part: str
    subject: str
    type: SchemaType
    text: str
    pinned: Mapping[str, str] = field(default_factory=dict)
    id: int | None = None


def sink_schemas(
    sink: EntitySink, client: RegistryClient | None, base: RegistryClient | None = None
) -> tuple[SinkSchema, ...]:
    """Return the schemas that the sink's formats need; the newest version of a subject is used if it has the same columns. `base` names
    the subjects that are bases.

    Registers nothing. Raises UserError 42P16 for columns that are not compatible with a subject's versions, or that lack a required
    field, 3D010 or 42804 for a base subject that is not there or no schema of Avro's, and ExternalError 57015.
    """
    kinds: dict[str, DataType | None] = {
        "value": Struct(tuple((column.name, column.type) for column in sink.schema.columns)),
        "key": None if sink.carried_key else sink.format.key_type,
    }
    required = frozenset(column.name for column in sink.schema.columns if not column.nullable)
    entity = path_text(sink.entity)
    schemas = []
    for part, layout in (("value", sink.format.value), ("key", sink.format.key)):
        kind = kinds[part]
        if kind is None:
            continue
        subject = sink.subjects.value if part == "value" else sink.subjects.key
        if isinstance(layout, Protobuf) and isinstance(kind, Struct):
            _check_required(layout, kind)
            if layout.registry is not None and client is not None:
                columns = [Column(name, item, name not in required) for name, item in kind.fields]
                schemas.append(_protobuf(client, part, subject, layout.message, columns, entity))
        elif isinstance(layout, Avro) and client is not None:
            more = _base(base, subject.base) if subject.base is not None else None
            schemas.append(_avro(client, part, subject, kind, required, entity, more))
    return tuple(schemas)


def _check_required(layout: Protobuf, columns: Struct) -> None:
    if layout.registry is not None or layout.message is None or layout.descriptors is None:
        return
    lacking = decoded(layout.descriptors).without(layout.message, columns)
    if lacking:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"no column matches the required fields of the message {layout.message}: {', '.join(lacking)}",
            hint="Select a column of that name.",
        )


def _base(client: RegistryClient | None, subject: str) -> str:
    """Return the text of the base subject, which describes its fields in more detail."""
    latest = client.latest(subject) if client is not None else None
    if client is None or latest is None:
        raise UserError(
            SqlState.DESCRIPTOR_NOT_FOUND,
            f"the subject {subject!r} to base the schema on does not exist",
            hint=(
                f"Check the subject's name, and the registry of the store, which '{dialect.BASE_STORE.name}' "
                "can specify."
            ),
        )
    if latest.type != "AVRO":
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the schema of the subject {subject!r} is {latest.type}, not AVRO",
            hint="Name a subject of AVRO.",
        )
    return self_contained(latest.text, client.resolved(latest))


def _avro(
    client: RegistryClient,
    part: str,
    named: Subject,
    kind: DataType,
    required: frozenset[str],
    entity: str,
    base: str | None,
) -> SinkSchema:
    text = generated_schema(kind, f"{entity}_{part}", required=required)
    if named.record is not None:
        text = _renamed(text, named.record)
    subject = named.named(entity, part, named.record or "")
    is_named = base is not None or named.record is not None
    if base is not None:
        text = based_on(text, base)
    newest = client.latest(subject)
    if newest is not None and newest.type == "AVRO":
        known = self_contained(newest.text, client.resolved(newest))
        next_text = text if named.record is not None else _called_as(known, text)
        # The user's own properties of the schema count, too.
        same = json.loads(next_text) == json.loads(known) if is_named else _holds_the_same(known, text)
        if same:
            return SinkSchema(part, subject, "AVRO", newest.text, {"schema_text": known}, newest.id)
        text = next_text
    _check_compatible(client, newest, subject, text, "AVRO")
    return SinkSchema(part, subject, "AVRO", text, {"schema_text": text})


def _protobuf(
    client: RegistryClient,
    part: str,
    named: Subject,
    message: str | None,
    columns: Sequence[Column],
    entity: str,
) -> SinkSchema:
    name, before = message or message_name(f"{entity}_{part}"), None
    subject = named.named(entity, part, name)
    newest = client.latest(subject)
    if newest is not None and newest.type == "PROTOBUF":
        before = of_text(newest.text, client.referenced(newest))
        if message is None or any(
            item == message or item.endswith(f".{message}") for item in before.messages
        ):
            name = before.named(message)
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
    """Return the columns as they are read back from a message: a SMALLINT as INTEGER, for example."""
    return of_text(proto_text(columns, "t")).columns("t")


def _check_compatible(
    client: RegistryClient, newest: RegisteredSchema | None, subject: str, text: str, kind: SchemaType
) -> None:
    refusals = client.compatibility(subject, text, kind) if newest is not None else []
    if refusals:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the columns are not compatible with the subject {subject!r}: {'; '.join(refusals)}",
            hint=(
                "Change the columns to types that are compatible with the subject's versions, or write to "
                "another topic with a new subject."
            ),
        )


def _holds_the_same(registered: str, generated: str) -> bool:
    """True if records of both schemas have the same columns, in any order. A schema that cannot be read as columns differs."""
    try:
        if '"record"' not in generated:
            return type_of(registered) == type_of(generated)
        return set(columns_of(registered)) == set(columns_of(generated))
    except UserError:
        return False


def _renamed(text: str, name: str) -> str:
    """Return a record's schema with the full name that the user gives it; a single value has none."""
    schema = json.loads(text)
    if isinstance(schema, dict) and schema.get("type") == "record":
        schema["namespace"], _, schema["name"] = name.rpartition(".")
        if not schema["namespace"]:
            del schema["namespace"]
    return _dumped(schema)


def _called_as(registered: str, generated: str) -> str:
    """Return the next version of a record under its earlier name."""
    before, now = json.loads(registered), json.loads(generated)
    if isinstance(before, dict) and isinstance(now, dict) and "name" in before and "name" in now:
        now["name"] = before["name"]
        if "namespace" in before:
            now["namespace"] = before["namespace"]
    return _dumped(now)


def _dumped(schema: object) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def registered(schemas: tuple[SinkSchema, ...], client: RegistryClient | None) -> tuple[SinkSchema, ...]:
    """Register the schemas that are new to the registry, and return them with their ids. Raises UserError 42P16, ExternalError 57015."""
    if client is None:
        return schemas
    return tuple(
        schema
        if schema.id is not None
        else replace(schema, id=client.register(schema.subject, schema.text, schema.type))
        for schema in schemas
    )


def pinned(plan: SparkPlan, schemas: tuple[SinkSchema, ...], sink: Step) -> SparkPlan:
    """Return the plan with the schemas in its sink."""
    by_part: Mapping[str, SinkSchema] = {schema.part: schema for schema in schemas}

    def step(item: EncodeRows) -> EncodeRows:
        changed = {
            part: getattr(item, part).model_copy(update={**schema.pinned, "schema_id": schema.id})
            for part, schema in by_part.items()
        }
        return item.model_copy(update=changed)

    written = inputs_of(sink)
    steps = [
        step(item) if isinstance(item, EncodeRows) and item.id in written else item for item in plan.steps
    ]
    return plan.model_copy(update={"steps": steps})
