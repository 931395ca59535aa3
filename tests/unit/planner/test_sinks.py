"""Sinks of CREATE … AS and INSERT INTO, and DESCRIBE of a statement."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headrace.analyzer import bind
from headrace.catalog.objects import Relation, RelationKind
from headrace.connectors.base import EntityDescription
from headrace.connectors.registry import connector
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.formats.csv import Csv
from headrace.formats.primitive import Primitive
from headrace.planner import physical, plan_columns, plan_query
from headrace.planner.column_matching import matched, unmatched
from headrace.planner.explain import RelationFact, describe
from headrace.planner.sinks import EntitySink, ResultSink, ViewSink, sink_path, sink_store_name
from headrace.sql import parse
from headrace.sql.ast import Properties
from headrace.sql.statements.query import SelectStatement
from tests.plans.world import BINDING, World, bound, planned, schema, sink_of


def entity(text: str, **existing: int) -> EntitySink:
    """The sink of a statement; with `partitions` and `replicas` its entity exists."""
    described = EntityDescription(("s",), existing) if existing else None
    sink = sink_of(text, existing=described)[1]
    assert isinstance(sink, EntitySink)
    return sink


@pytest.mark.parametrize(
    ("column", "state"),
    [("carrier", "42804"), ("flight_time", None), ("departed", None), ("nothing", "42703")],
)
def test_the_event_time_of_a_new_relation_is_a_time(column: str, state: str | None) -> None:
    text = f"CREATE STREAM s WITH ('timestamp' = '{column}') AS SELECT carrier, flight_time, departed FROM flights"
    if state is None:
        assert entity(text).format.timestamp == column
        return
    with pytest.raises(UserError) as caught:
        entity(text)
    error = caught.value
    assert error.state.value == state
    assert error.span is not None
    assert text[error.span.start : error.span.end] == f"'timestamp' = '{column}'"


def test_a_stream_inherits_layout_and_key_of_the_leftmost_source() -> None:
    sink = entity("CREATE STREAM s AS SELECT carrier FROM flights")
    assert sink.creation == {"topic.partitions": "3", "topic.replicas": "1"}
    assert (sink.format.key, str(sink.format.key_type), sink.carried_key) == (
        Primitive(),
        "VARCHAR",
        True,
    )
    assert (sink.kind, sink.store, sink.entity) == (RelationKind.STREAM, "broker", ("s",))


def test_the_layout_may_be_given() -> None:
    layout = "'topic.partitions' = 6, 'kafka.topic.retention.ms' = '1000', 'topic' = 'T'"
    sink = entity(f"CREATE STREAM s WITH ({layout}) AS SELECT carrier FROM flights")
    assert sink.creation == {
        "topic.partitions": "6",
        "topic.replicas": "1",
        "kafka.topic.retention.ms": "1000",
    }
    assert sink.entity == ("T",)


def test_an_existing_entity_is_kept_if_its_layout_is_not_contradicted() -> None:
    text = "CREATE STREAM s WITH ('topic.partitions' = 6) AS SELECT carrier FROM flights"
    assert entity(text, partitions=6, replicas=1).creation is None
    with pytest.raises(UserError) as caught:
        entity(text, partitions=4, replicas=1)
    assert caught.value.state.value == "3D008"
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("text", "key_format", "key_type"),
    [
        ("SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier", "primitive", "VARCHAR"),
        (
            "SELECT carrier, dest, COUNT(*) AS n FROM flights GROUP BY carrier, dest",
            "json",
            "STRUCT<carrier VARCHAR, dest VARCHAR>",
        ),
        (
            "SELECT cancelled, COUNT(*) AS n FROM flights GROUP BY cancelled",
            "json",
            "STRUCT<cancelled BOOLEAN>",
        ),
        ("SELECT code, city FROM airports", "primitive", "VARCHAR"),
        ("SELECT origin, dest, miles FROM routes", "json", "STRUCT<origin VARCHAR, dest VARCHAR>"),
    ],
)
def test_a_changelog_is_keyed_by_its_primary_key(text: str, key_format: str, key_type: str) -> None:
    sink = entity(f"CREATE CHANGELOG s AS {text}")
    assert sink.format.key is not None
    assert (sink.format.key.format, str(sink.format.key_type)) == (key_format, key_type)
    assert sink.format.key_columns == sink.schema.primary_key
    assert sink.format.upsert
    assert all(
        not column.nullable for column in sink.schema.columns if column.name in sink.schema.primary_key
    )


def test_a_stream_without_a_source_key_has_none() -> None:
    assert entity("CREATE STREAM s AS SELECT carrier FROM arrivals").format.key is None


def test_the_hint_for_what_json_cannot_hold_names_no_json() -> None:
    with pytest.raises(UserError, match="JSON does not support a MAP<DOUBLE, DOUBLE>") as caught:
        entity("CREATE STREAM s AS SELECT MAP[1e0, 2e0] AS m FROM arrivals")
    assert caught.value.hint == "CAST the column, or leave it out."


def test_a_format_of_keys_has_no_effect_on_a_stream_without_a_key() -> None:
    """Public dbt projects set it for their first models."""
    sink = entity("CREATE STREAM s WITH ('key.format' = 'json') AS SELECT carrier FROM arrivals")
    assert (sink.format.key, sink.format.key_type, sink.keyless) == (None, None, True)
    grouped = entity(
        "CREATE STREAM s WITH ('key.format' = 'json') AS SELECT carrier FROM arrivals PARTITION BY carrier"
    )
    assert (str(grouped.format.key_type), grouped.keyless) == ("STRUCT<carrier VARCHAR>", False)
    assert not entity("CREATE STREAM s AS SELECT carrier FROM arrivals").keyless
    described = "'key.format' = 'protobuf', 'key.descriptor.name' = 'Key'"
    assert entity(f"CREATE STREAM s WITH ({described}) AS SELECT carrier FROM arrivals").keyless
    with pytest.raises(
        UserError, match=r"'key.descriptor.name' must be left out of keys that are not PROTOBUF"
    ):
        entity("CREATE STREAM s WITH ('key.descriptor.name' = 'Key') AS SELECT carrier FROM arrivals")


def test_what_is_inserted_into_a_stream_of_records_with_keys_has_one() -> None:
    with pytest.raises(UserError, match="the records of the sink have keys") as caught:
        sink_of("INSERT INTO flights SELECT carrier FROM arrivals")
    assert caught.value.span is not None
    assert caught.value.hint == "Specify the key's columns with 'key.columns' or PARTITION BY."


def test_a_view_holds_rows_that_nothing_tells_apart_as_often_as_they_are_there() -> None:
    apart = "CREATE MATERIALIZED VIEW v AS SELECT f.carrier, a.note FROM flights f FULL JOIN arrivals a ON f.carrier = a.carrier"
    logical, sink = sink_of(apart)
    assert isinstance(sink, ViewSink)
    assert (sink.key_columns, sink.signed) == ((), True)
    written = plan_query(logical, sink).sink
    assert isinstance(written, physical.WriteView)
    assert (written.key_columns, written.deleted, written.sign) == ([], None, "__headrace_op")
    with pytest.raises(UserError, match="must be selected unchanged"):
        sink_of("CREATE MATERIALIZED VIEW v AS SELECT maker FROM planes")


def test_only_the_key_columns_that_are_not_selected_are_hinted() -> None:
    with pytest.raises(UserError, match=r"the primary key \(origin, dest\) must be selected") as caught:
        sink_of("CREATE CHANGELOG c AS SELECT origin, miles FROM routes")
    assert str(caught.value.hint).startswith("Add dest to the SELECT list.")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier, dest", "Add dest to the SELECT list."),
        (
            "SELECT f.carrier, COUNT(*) AS n FROM flights f JOIN planes p ON f.tailnum = p.tailnum GROUP BY f.carrier, p.maker",
            "Add p.maker to the SELECT list.",
        ),
        (
            "SELECT UPPER(dest) AS d, COUNT(*) AS n FROM flights GROUP BY carrier, UPPER(dest)",
            "Add carrier to the SELECT list.",
        ),
        (
            "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier, UPPER(dest)",
            "Add every GROUP BY column to the SELECT list.",
        ),
    ],
)
def test_only_the_groups_that_are_not_selected_are_hinted(text: str, hint: str) -> None:
    with pytest.raises(UserError, match="not all of them are selected") as caught:
        sink_of(f"CREATE CHANGELOG c AS {text}")
    assert str(caught.value.hint).startswith(hint)


def test_a_view_is_upserted_by_its_key_or_appended() -> None:
    _, sink = sink_of(
        "CREATE MATERIALIZED VIEW v AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"
    )
    assert isinstance(sink, ViewSink)
    assert sink.key_columns == ("carrier",)
    _, sink = sink_of("CREATE MATERIALIZED VIEW v AS SELECT carrier FROM flights")
    assert isinstance(sink, ViewSink)
    assert sink.key_columns == ()


def test_the_store_is_the_property_or_the_sessions_or_the_sources() -> None:
    logical = bound("SELECT carrier FROM flights")
    assert sink_store_name(logical, Properties(), session_store="mine") == "mine"
    assert sink_store_name(logical, Properties(), session_store=None) == "broker"
    assert sink_path(
        RelationKind.STREAM, RelationName("d", "s", "Mixed"), Properties(), connector("kafka")
    ) == ("mixed",)


def test_a_relation_is_read_in_its_own_format_and_no_other() -> None:
    class Later(World):
        def relation(self, name: RelationName, /) -> Relation | None:
            stored = super().relation(name)
            return stored and replace(stored, format=replace(stored.format, value=Csv(delimiter=";")))

    (statement,) = parse("SELECT carrier FROM flights WITH ('timestamp.format' = iso8601)")
    assert isinstance(statement, SelectStatement)
    logical = bind(statement.select, replace(BINDING, catalog=Later()))
    (step,) = (step for step in plan_query(logical, ResultSink()).steps if step.step == "decode_rows")
    assert step.value == Csv(delimiter=";", timestamps="iso8601")


def test_real_time_is_for_stateless_at_least_once_queries_from_kafka_to_kafka() -> None:
    assert planned("CREATE STREAM s AS SELECT carrier FROM flights").mode == "real_time"
    text = "CREATE STREAM s WITH ('delivery.guarantee' = exactly_once) AS SELECT carrier FROM flights"
    assert planned(text).mode == "micro_batch"
    assert planned("SELECT carrier FROM flights").mode == "micro_batch"
    grouped = planned("CREATE CHANGELOG s AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier")
    assert grouped.reasons == ["micro-batch: the query keeps state (GROUP BY)"]


def test_an_interactive_plan_knows_its_columns() -> None:
    columns = plan_columns(planned("SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"))
    assert [(column.name, str(column.type)) for column in columns] == [
        ("carrier", "VARCHAR"),
        ("n", "BIGINT"),
    ]


def test_describe_names_sink_and_sources_with_the_organization() -> None:
    fact = RelationFact("stream", "airline", "public", "flights", "broker")
    kind, text = describe("INSERT_INTO", sink=fact, sources=(fact,), organization_id="org")
    plan = json.loads(text)
    assert kind == "INSERT_INTO"
    assert plan["sink"]["fqn"] == '"org"."airline"."public"."flights"'
    assert plan["sources"][0] == {
        "fqn": '"org"."airline"."public"."flights"',
        "type": "STREAM",
        "db_name": "airline",
        "schema_name": "public",
        "name": "flights",
        "store_name": "broker",
    }
    assert "ddl" not in plan
    assert json.loads(describe("CREATE_STREAM", ddl=fact)[1])["ddl"]["fqn"] == '"airline"."public"."flights"'


def test_the_columns_of_a_union_are_assigned_in_a_subquery_that_can_be_left_out_again() -> None:
    union = bound("SELECT carrier FROM flights UNION ALL SELECT carrier FROM arrivals")
    assert unmatched(matched(union, union.schema)) == union
    changed = matched(union, schema("carrier VARCHAR; gate INTEGER"))
    assert changed != union
    assert unmatched(changed) == changed
