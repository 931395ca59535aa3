"""Missing facets of store types, which are refused in statements that need them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.analyzer import BindingContext, LogicalPlan, bind
from headrace.catalog.objects import RelationKind
from headrace.connectors.base import EntityDescription, RowSink, RowSource, StoreDescriptor
from headrace.connectors.registry import connector
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.properties import Scope
from headrace.core.types import BIGINT, Struct
from headrace.planner.sink_properties import creation_options, guarantee, record_sink, sink_reader
from headrace.planner.sinks import table_sink
from headrace.sql import parse
from headrace.sql.ast import Properties, Statement
from headrace.sql.statements.query import SelectStatement
from headrace.sql.statements.relation import CreateRelationAs
from headrace.statements.base import facet
from tests.plans.world import BINDING, STORE

NAME = RelationName("d", "s", "t")
KAFKA = connector("kafka")
SOURCELESS = replace(KAFKA, record_source=None)
SINKLESS = replace(KAFKA, record_sink=None)
APPENDING = replace(KAFKA, record_sink=replace(KAFKA.record_sink, upserts=False, exactly_once=False))
STREAMS_OF_ROWS = replace(SOURCELESS, row_source=RowSource(metadata=Struct((("lsn", BIGINT),))))


def statement(text: str) -> Statement:
    (parsed,) = parse(text)
    return parsed


def query(text: str) -> LogicalPlan:
    parsed = statement(text)
    assert isinstance(parsed, SelectStatement)
    return bind(parsed.select, BINDING)


def properties(with_: str) -> Properties:
    parsed = statement(f"CREATE STREAM s {with_} AS SELECT carrier FROM flights")
    assert isinstance(parsed, CreateRelationAs)
    return parsed.properties


def bound(text: str, kind: StoreDescriptor) -> None:
    parsed = statement(text)
    assert isinstance(parsed, SelectStatement)
    bind(parsed.select, BindingContext(BINDING.catalog, BINDING.session, lambda _type: kind))


@pytest.mark.parametrize(
    ("kind", "relation", "message"),
    [(SOURCELESS, "flights", "queries cannot read"), (STREAMS_OF_ROWS, "planes", "not as a changelog")],
)
def test_a_type_is_read_as_it_can_be(kind: StoreDescriptor, relation: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        bound(f"SELECT * FROM {relation}", kind)
    assert (caught.value.state.value, caught.value.span is not None) == ("0A000", True)
    bound("SELECT * FROM flights", STREAMS_OF_ROWS)


def test_a_type_is_written_as_it_can_be() -> None:
    for kind, relation in ((SINKLESS, RelationKind.STREAM), (APPENDING, RelationKind.CHANGELOG)):
        with pytest.raises(
            UserError, match=r"stores of type Kafka cannot (?:be written by queries|hold a CHANGELOG)"
        ):
            record_sink(kind, relation, None)
    assert record_sink(APPENDING, RelationKind.STREAM, None) is APPENDING.record_sink
    reader = sink_reader(
        properties("WITH ('delivery.guarantee' = exactly_once)").entries, Scope.SINK, APPENDING
    )
    with pytest.raises(UserError, match="do not support exactly-once writes") as caught:
        guarantee(reader, APPENDING.record_sink, APPENDING)
    assert caught.value.span is not None


def test_a_table_of_new_rows_only_takes_rows_that_stay() -> None:
    kind = replace(KAFKA, row_sink=RowSink(create=lambda *_: None, check=lambda *_: None))
    windows = "window_start, window_end, carrier"
    appended = (
        "SELECT carrier FROM flights",
        f"SELECT {windows}, count(*) AS n FROM TUMBLE(flights, SIZE 1 MINUTE) GROUP BY {windows}",
    )
    for text in appended:
        sink = table_sink(
            query(text), name=NAME, properties=Properties(), store=STORE, connector=kind, exists=True
        )
        assert sink.key_columns == ()
    updated = query("SELECT carrier, count(*) AS n FROM flights GROUP BY carrier")
    with pytest.raises(UserError, match="support inserts only") as caught:
        table_sink(updated, name=NAME, properties=Properties(), store=STORE, connector=kind, exists=True)
    assert "MATERIALIZED VIEW" in (caught.value.hint or "")


def test_a_layout_that_the_source_has_not_must_be_given() -> None:
    shards = EntityDescription(("s",), {"shards": 2})
    given = "WITH ('topic.partitions' = 4, 'topic.replicas' = 1)"
    reader = sink_reader(properties(given).entries, Scope.SINK, KAFKA)
    assert creation_options(reader, KAFKA, ("s",), existing=None, source=shards) == {
        "topic.partitions": "4",
        "topic.replicas": "1",
    }
    reader = sink_reader((), Scope.SINK, KAFKA)
    with pytest.raises(UserError, match=r"needs the property 'topic\.partitions'") as caught:
        creation_options(reader, KAFKA, ("s",), existing=None, source=shards)
    assert "another store type" in (caught.value.hint or "")


def test_a_statement_needs_its_facet() -> None:
    with pytest.raises(UserError, match="stores of type Kafka do not support PRINT ENTITY") as caught:
        facet(None, KAFKA, "PRINT ENTITY", None)
    assert "another type" in (caught.value.hint or "")
