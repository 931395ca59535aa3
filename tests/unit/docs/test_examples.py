"""The examples of tutorial pages, planned one after the other as a server does, without stores."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from harness.session import open_session
from headrace.analyzer import BindingContext, LogicalPlan, bind
from headrace.analyzer import properties as dialect
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import EntityFormat, Relation, RelationKind, Store, ViewDefinition
from headrace.connectors.base import EntityDescription
from headrace.connectors.registry import connector
from headrace.core.context import SessionContext
from headrace.core.names import RelationName
from headrace.core.properties import PropertyReader, Scope, of_scope
from headrace.core.schema import Column, Schema
from headrace.planner import plan_query
from headrace.planner.physical import SparkPlan
from headrace.planner.sinks import EntitySink, ResultSink, entity_sink, insert_sink, view_sink
from headrace.planner.snapshot import compile_snapshot
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.sql.statements.query import Explain, InsertInto, SelectStatement
from headrace.sql.statements.relation import CreateRelation, CreateRelationAs
from headrace.statements.relation_properties import entity_format

ROOT = Path(__file__).resolve().parents[3]
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
STORE = Store(
    "broker", "kafka", "sysadmin", MOMENT, MOMENT, {"uris": "localhost:9092", "tls.disabled": "TRUE"}
)
LEFTMOST = EntityDescription(("leftmost",), {"partitions": 3, "replicas": 1})
KAFKA = connector("kafka")
_BLOCK = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Run the statements of a page with a real catalog; assume the answers of stores."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._session = SessionContext(catalog.organization().id, "sysadmin", "shop", "public", "broker")
        catalog.create_database("shop", "sysadmin")
        catalog.create_store(STORE)

    def plan(self, statement: Statement) -> SparkPlan | None:
        """The plan of what has one; relations are kept for what follows. Raises HeadraceError."""
        match statement:
            case CreateRelation():
                self._define(statement)
            case CreateRelationAs():
                return self._create(statement)
            case InsertInto():
                relation = self._catalog.relation(self._name(statement.name.last.name))
                assert relation is not None
                logical, sink = insert_sink(
                    self._bound(statement),
                    relation=relation,
                    properties=statement.properties,
                    store=STORE,
                    connector=KAFKA,
                )
                return plan_query(logical, sink)
            case SelectStatement():
                logical = self._bound(statement)
                if not logical.snapshot:
                    return plan_query(logical, ResultSink())
                compile_snapshot(logical)
            case Explain():
                return self.plan(statement.statement)
        return None

    def _bound(self, statement: CreateRelationAs | InsertInto | SelectStatement) -> LogicalPlan:
        context = BindingContext(self._catalog.snapshot(), self._session, connector)
        return bind(statement.select, context, continuous=not isinstance(statement, SelectStatement))

    def _create(self, statement: CreateRelationAs) -> SparkPlan:
        logical, name = self._bound(statement), self._name(statement.name.last.name)
        if statement.kind == "MATERIALIZED VIEW":
            view = view_sink(logical, name=name, properties=statement.properties, view_id=name.name)
            definition = ViewDefinition(statement.text, self._session.database, self._session.schema)
            self._keep(name, RelationKind.MATERIALIZED_VIEW, view.schema, definition=definition)
            return plan_query(logical, view)
        sink = entity_sink(
            logical,
            kind=RelationKind[statement.kind],
            name=name,
            properties=statement.properties,
            store=STORE,
            connector=KAFKA,
            existing=None,
            leftmost=LEFTMOST,
        )
        self._keep(name, sink.kind, sink.schema, sink)
        return plan_query(logical, sink)

    def _define(self, statement: CreateRelation) -> None:
        kind = RelationKind[statement.kind]
        key = tuple(part.name for part in statement.primary_key)
        columns = tuple(
            Column(column.name.name, column.type, column.nullable) for column in statement.columns
        )
        schema = Schema(columns, key)
        specs = of_scope((*dialect.DIALECT, *connector("kafka").properties), Scope.RELATION)
        reader = PropertyReader(statement.properties.entries, specs, what="a relation")
        self._keep(
            self._name(statement.name.last.name),
            kind,
            schema,
            entity_format(reader, schema),
        )

    def _keep(
        self,
        name: RelationName,
        kind: RelationKind,
        schema: Schema,
        layout: EntitySink | EntityFormat | None = None,
        definition: ViewDefinition | None = None,
    ) -> None:
        stored = kind is not RelationKind.MATERIALIZED_VIEW
        self._catalog.create_relation(
            Relation(
                name=name,
                kind=kind,
                schema=schema,
                owner="sysadmin",
                created_at=MOMENT,
                updated_at=MOMENT,
                store=STORE.name if stored else None,
                entity=(name.name,) if stored else None,
                format=layout.format if isinstance(layout, EntitySink) else layout or EntityFormat(),
                id=name.name,
                definition=definition,
            )
        )

    def _name(self, name: str) -> RelationName:
        return RelationName("shop", "public", name)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(Catalog.open(tmp_path))


@pytest.mark.parametrize(
    "page", ["README.md", "docs/reference/queries.md", "docs/reference/properties.md", "demo/flights.sql"]
)
def test_every_example_of_the_page_can_be_planned(reader: Reader, page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in [text] if page.endswith(".sql") else _BLOCK.findall(text):
        for statement in parse(block):
            reader.plan(statement)


def test_the_example_of_the_real_time_mode_runs_in_it(reader: Reader) -> None:
    text = (ROOT / "docs/reference/queries.md").read_text(encoding="utf-8")
    statements = [statement for block in _BLOCK.findall(text) for statement in parse(block)]
    plans = {type(statement).__name__: reader.plan(statement) for statement in statements}
    explained = plans["Explain"]
    assert explained is not None
    assert explained.mode == "real_time"


async def test_the_guide_to_security_runs_as_it_is_written(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        session.catalog.ensure_administrator("token")
        for block in _BLOCK.findall((ROOT / "docs/guides/security.md").read_text(encoding="utf-8")):
            for statement in parse(block):
                principal = session.catalog.authenticate("token")
                assert principal is not None
                session.principal = principal
                await session.run(statement.text)
        [(denied,)] = await session.rows(
            "SELECT COUNT(*) FROM deltastream.sys.audit WHERE outcome = 'denied'"
        )
        assert denied == "0"
