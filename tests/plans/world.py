"""The relations that the analyzer's and the planner's tests are about, and short ways to bind and plan a query over them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

from headrace.analyzer import BindingContext, LogicalPlan, bind
from headrace.catalog.objects import (
    EntityFormat,
    FunctionKind,
    Relation,
    RelationKind,
    Store,
    UserFunction,
    ViewDefinition,
)
from headrace.connectors.base import EntityDescription
from headrace.connectors.registry import connector
from headrace.core.context import SessionContext
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.types import BIGINT, DOUBLE, INTEGER, VARCHAR, DataType, Struct, parse_type
from headrace.formats.json import Json
from headrace.formats.primitive import Primitive
from headrace.planner import plan_query
from headrace.planner.physical import SparkPlan
from headrace.planner.sinks import ResultSink, Sink, entity_sink, insert_sink, view_sink
from headrace.sql import parse
from headrace.sql.ast import Select
from headrace.sql.statements.query import InsertInto, SelectStatement
from headrace.sql.statements.relation import CreateRelationAs

DATABASE = "airline"
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SESSION = SessionContext("00000000-0000-0000-0000-000000000000", "sysadmin", DATABASE, "public", "broker")
STORE = Store("broker", "kafka", "sysadmin", MOMENT, MOMENT, {"uris": "localhost:9092"})
SHOP = Store("shop", "postgresql", "sysadmin", MOMENT, MOMENT, {"uris": "postgresql://localhost/shop"})
LEFTMOST = EntityDescription(("flights",), {"partitions": 3, "replicas": 1})
VIEW_ID = "view_1"


def schema(text: str, *key: str) -> Schema:
    """A schema from `name TYPE; …` and the names of its primary key."""
    columns = []
    for part in text.split(";"):
        name, _, kind = part.strip().partition(" ")
        columns.append(Column(name, parse_type(kind), nullable=name not in key))
    return Schema(tuple(columns), key)


def relation(
    name: str, kind: RelationKind, columns: Schema, layout: EntityFormat | None = None, **properties: str
) -> Relation:
    """A relation of the database `airline`, over the entity of its own name."""
    view = kind is RelationKind.MATERIALIZED_VIEW
    return Relation(
        name=RelationName(DATABASE, "public", name),
        kind=kind,
        schema=columns,
        owner="sysadmin",
        created_at=MOMENT,
        updated_at=MOMENT,
        store=None if view else "broker",
        entity=None if view else (name,),
        format=layout or EntityFormat(),
        properties={key.replace("_", "."): value for key, value in properties.items()},
        id=f"id_of_{name}",
    )


STREAM, CHANGELOG, VIEW = RelationKind.STREAM, RelationKind.CHANGELOG, RelationKind.MATERIALIZED_VIEW
TABLE = RelationKind.TABLE
RELATIONS = (
    relation(
        "flights",
        STREAM,
        schema(
            "flight_time BIGINT; carrier VARCHAR; tailnum VARCHAR; origin VARCHAR; dest VARCHAR; distance INTEGER; "
            "delay DOUBLE; fare DECIMAL(8, 2); cancelled BOOLEAN; departed TIMESTAMP(3); stops ARRAY<VARCHAR>; "
            "crew STRUCT<captain VARCHAR, count INTEGER>; tags MAP<VARCHAR, VARCHAR>; note VARCHAR"
        ),
        EntityFormat(key=Primitive(), key_type=parse_type("VARCHAR"), timestamp="flight_time"),
    ),
    relation(
        "bookings",
        STREAM,
        schema("booked TIMESTAMP; tailnum VARCHAR; seat INTEGER"),
        EntityFormat(timestamp="booked"),
    ),
    relation(
        "planes",
        CHANGELOG,
        schema("tailnum VARCHAR; maker VARCHAR; seats INTEGER; built BIGINT", "tailnum"),
        EntityFormat(
            key=Primitive(),
            key_type=parse_type("VARCHAR"),
            key_columns=("tailnum",),
            timestamp="built",
            upsert=True,
        ),
    ),
    relation("airports", CHANGELOG, schema("code VARCHAR; city VARCHAR", "code")),
    relation("routes", CHANGELOG, schema("origin VARCHAR; dest VARCHAR; miles INTEGER", "origin", "dest")),
    relation(
        "delays", VIEW, schema("carrier VARCHAR; day DATE; minutes DOUBLE; flights BIGINT", "carrier", "day")
    ),
    relation("carriers", VIEW, schema("carrier VARCHAR; name VARCHAR", "carrier")),
    relation("arrivals", STREAM, schema("carrier VARCHAR; distance BIGINT; note VARCHAR")),
    relation(
        "totals",
        CHANGELOG,
        schema("carrier VARCHAR; flights BIGINT", "carrier"),
        EntityFormat(key=Primitive(), key_type=parse_type("VARCHAR"), key_columns=("carrier",), upsert=True),
    ),
    relation(
        "readings",
        CHANGELOG,
        schema("sensor VARCHAR; at BIGINT; level DOUBLE; checked TIMESTAMP", "sensor", "at"),
        EntityFormat(
            key=Json(),
            key_type=parse_type("STRUCT<sensor VARCHAR, at BIGINT>"),
            key_columns=("sensor", "at"),
            timestamp="at",
            upsert=True,
        ),
    ),
    relation(
        "unwrapped",
        CHANGELOG,
        schema(
            "id BIGINT; __op VARCHAR; __deleted VARCHAR; __rowtime VARCHAR; __rowkey VARCHAR; __rowheaders VARCHAR; __entity VARCHAR; "
            "__split VARCHAR; __sequence VARCHAR; __metadata VARCHAR; __key VARCHAR; __record VARCHAR; __window VARCHAR; __found VARCHAR; "
            "__row VARCHAR; __value VARCHAR; __position VARCHAR; __closes VARCHAR; __key_1 VARCHAR; __order_1 VARCHAR; "
            "__partition_1 VARCHAR; __argument_1 VARCHAR; __result_1 VARCHAR; __source_ts_ms BIGINT",
            "id",
        ),
        EntityFormat(
            key=Primitive(),
            key_type=parse_type("BIGINT"),
            key_columns=("id",),
            timestamp="__source_ts_ms",
            upsert=True,
        ),
    ),
    replace(
        relation(
            "passengers",
            CHANGELOG,
            schema("id BIGINT; name VARCHAR; changed TIMESTAMP", "id"),
            EntityFormat(timestamp="changed", upsert=True),
        ),
        store="shop",
        entity=("public", "passengers"),
    ),
    replace(
        relation(
            "cities",
            TABLE,
            schema("code VARCHAR; city VARCHAR; country VARCHAR; people INTEGER; tax DOUBLE", "code"),
        ),
        store="shop",
        entity=("public", "cities"),
    ),
)


DIGEST = "ab" * 32


def _function(
    name: str, returns: DataType, kind: FunctionKind = FunctionKind.SCALAR, **parameters: DataType
) -> UserFunction:
    class_name = f"com.example.{name.title()}"
    return UserFunction(
        name, tuple(parameters.items()), returns, "texts", class_name, "sysadmin", MOMENT, MOMENT, kind=kind
    )


FUNCTIONS = (
    _function("shorten", VARCHAR, text=VARCHAR, length=INTEGER),
    _function("shorten", VARCHAR, text=VARCHAR),
    _function("plus", BIGINT, left=BIGINT, right=BIGINT),
    _function("plus", DOUBLE, left=DOUBLE, right=BIGINT),
    _function("words", Struct((("word", VARCHAR), ("length", INTEGER))), FunctionKind.TABLE, text=VARCHAR),
    _function("weighted", DOUBLE, FunctionKind.AGGREGATE, value=DOUBLE, weight=BIGINT),
    _function("dice", INTEGER),
)


class World:
    """Catalog of these tests, as binding sees it. `views` are the views that a continuous query can follow."""

    def __init__(self) -> None:
        self.views: list[Relation] = []

    def relation(self, name: RelationName, /) -> Relation | None:
        return next((item for item in (*RELATIONS, *self.views) if item.name == name), None)

    def relations(self, database: str | None = None, schema: str | None = None) -> Sequence[Relation]:
        return [
            item
            for item in (*RELATIONS, *self.views)
            if database in (None, item.name.database) and schema in (None, item.name.schema)
        ]

    def functions(self, name: str, /) -> Sequence[tuple[UserFunction, str]]:
        return [(function, DIGEST) for function in FUNCTIONS if function.name == name]

    def named_store(self, name: str, /) -> Store | None:
        return self.store(name)

    def store(self, name: str, /) -> Store | None:
        return {STORE.name: STORE, SHOP.name: SHOP}.get(name)


WORLD = World()
BINDING = BindingContext(WORLD, SESSION, connector)


def select_of(text: str) -> Select:
    """The query of a SELECT statement's text."""
    (statement,) = parse(text)
    assert isinstance(statement, SelectStatement | CreateRelationAs | InsertInto)
    return statement.select


def bound(text: str) -> LogicalPlan:
    """The logical plan of a statement's query."""
    return bind(select_of(text), BINDING)


def view(text: str) -> Relation:
    """Return the materialized view that a statement creates."""
    (statement,) = parse(text)
    assert isinstance(statement, CreateRelationAs)
    made = bind(statement.select, BINDING, continuous=True)
    kept = relation(statement.name.last.name, VIEW, made.schema)
    return replace(kept, definition=ViewDefinition(text, DATABASE, "public"))


_EARLIEST = "WITH ('starting.position' = 'earliest')"
for _text in (
    "CREATE MATERIALIZED VIEW busy AS SELECT carrier, COUNT(*) AS flights, SUM(delay) AS minutes "
    f"FROM flights {_EARLIEST} GROUP BY carrier",
    f"CREATE MATERIALIZED VIEW far AS SELECT flight_time, carrier, distance FROM flights {_EARLIEST} WHERE distance > 1000",
    f"CREATE MATERIALIZED VIEW fleet AS SELECT tailnum AS plane, UPPER(maker) AS maker FROM planes {_EARLIEST} WHERE seats > 50",
    "CREATE MATERIALIZED VIEW busiest AS SELECT b.carrier, b.flights FROM busy AS b WHERE b.flights > 100",
):
    WORLD.views.append(view(_text))


def sink_of(text: str, *, existing: EntityDescription | None = None) -> tuple[LogicalPlan, Sink]:
    """The logical plan of a statement, and where it writes."""
    (statement,) = parse(text)
    assert isinstance(statement, SelectStatement | CreateRelationAs | InsertInto)
    logical = bind(statement.select, BINDING, continuous=not isinstance(statement, SelectStatement))
    if isinstance(statement, SelectStatement):
        return logical, ResultSink()
    name = RelationName(DATABASE, "public", statement.name.last.name)
    kafka = connector("kafka")
    if isinstance(statement, InsertInto):
        target = WORLD.relation(name)
        assert target is not None
        return insert_sink(
            logical, relation=target, properties=statement.properties, store=STORE, connector=kafka
        )
    if statement.kind == "MATERIALIZED VIEW":
        return logical, view_sink(
            logical, name=name, properties=statement.properties, view_id=VIEW_ID, connector=kafka
        )
    return logical, entity_sink(
        logical,
        kind=RelationKind[statement.kind],
        name=name,
        properties=statement.properties,
        store=STORE,
        connector=kafka,
        existing=existing,
        leftmost=LEFTMOST,
    )


def planned(text: str) -> SparkPlan:
    """The plan of a SELECT, CREATE … AS or INSERT INTO."""
    logical, sink = sink_of(text)
    return plan_query(logical, sink)
