"""The real service over a catalog with a few objects. Its engine is not started: statements in these tests need no driver."""

from __future__ import annotations

import datetime
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.jar import jar_of
from harness.patience import PATIENCE_S
from headrace.catalog.access import Grant, Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.objects import (
    DescriptorSource,
    FunctionSource,
    Principal,
    Query,
    Relation,
    RelationKind,
    Savepoint,
    SchemaRegistry,
    Store,
    UserFunction,
)
from headrace.core.context import SessionContext
from headrace.core.names import RelationName
from headrace.core.resultset import ResultSet
from headrace.core.schema import Column, Schema
from headrace.core.settings import Settings
from headrace.core.types import BIGINT, VARCHAR
from headrace.engine.engine import Engine
from headrace.session import StatementService
from headrace.statements.base import Services

ADMINISTRATOR = Principal("admin", ("sysadmin",), "sysadmin")
SHOP_DESCRIPTORS = (Path(__file__).parent / "protobuf" / "shop.desc").read_bytes()
UDFS = jar_of("com/x/Again.class", "com/x/Reverse.class")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Session:
    """Runs statements and keeps the context as Go's client does: each answer's replaces it."""

    def __init__(self, catalog: Catalog, engine: Engine, service: StatementService) -> None:
        self.catalog = catalog
        self.engine = engine
        self.service = service
        self.context = SessionContext("")
        self.principal = ADMINISTRATOR

    async def run(self, text: str) -> ResultSet:
        executed = await self.service.execute(text, principal=self.principal, context=self.context)
        self.context = executed.context
        assert isinstance(executed.outcome, ResultSet)
        return executed.outcome

    async def answer(self, text: str, principal: Principal) -> list[tuple[str | None, ...]]:
        """Return the rows that another user gets, in that user's default role; the session's context stays."""
        executed = await self.service.execute(text, principal=principal, context=SessionContext(""))
        assert isinstance(executed.outcome, ResultSet)
        return list(executed.outcome.rows)

    def grant(self, role: str, privilege: Privilege, *path: str) -> None:
        """A privilege on the database, schema or relation of that path, or on the organization."""
        state = self.catalog.snapshot()
        kinds = {1: DATABASE, 2: SCHEMA, 3: RELATION}
        target = state.get(kinds[len(path)], path) if path else state.organization
        assert target is not None
        self.catalog.grant([Grant(target.id, privilege, role, "sysadmin")])

    def save(self, name: str, query: Query) -> None:
        """Add a savepoint of a query to the catalog, without files."""
        savepoint = Savepoint(
            name=name,
            query_id=query.id,
            query_name=query.name,
            query_version=query.version,
            sink=query.sink,
            sql=query.sql,
            plan=query.plan,
            uses=(),
            batch=3,
            size=0,
            is_interrupted=False,
            owner="sysadmin",
            created_at=NOW,
            updated_at=NOW,
        )
        self.catalog.savepoints.create(savepoint)

    async def rows(self, text: str, *titles: str) -> list[tuple[str | None, ...]]:
        """Return the rows, or the named columns of the rows."""
        result = await self.run(text)
        places = [[column.name for column in result.columns].index(title) for title in titles]
        return [tuple(row[place] for place in places) if titles else row for row in result.rows]


def _stock(catalog: Catalog) -> None:
    with catalog.transaction():
        for store in ("k", "unused"):
            catalog.create_store(Store(store, "kafka", "sysadmin", NOW, NOW, {"uris": "127.0.0.1:9092"}))
        properties = {
            "uris": "http://127.0.0.1:1",
            "confluent.username": "u",
            "confluent.password": "hunter2",
        }
        catalog.create_schema_registry(SchemaRegistry("r", "confluent", "sysadmin", NOW, NOW, properties))
        catalog.create_descriptor_source(DescriptorSource("p", "sysadmin", NOW, NOW, SHOP_DESCRIPTORS))
        source = FunctionSource("u", "sysadmin", NOW, NOW, sha256(UDFS).hexdigest(), len(UDFS), 2, "texts")
        catalog.create_function_source(source, UDFS)
        takes = (("text", VARCHAR), ("times", BIGINT))
        catalog.create_function(
            UserFunction("again", takes, VARCHAR, "u", "com.x.Again", "sysadmin", NOW, NOW)
        )
        catalog.create_database("shop", "sysadmin")
        catalog.create_database("lab", "sysadmin")
        catalog.create_schema("lab", "tests", "sysadmin")
        for name, kind in (
            (RelationName("shop", "public", "orders"), RelationKind.STREAM),
            (RelationName("shop", "public", "Best"), RelationKind.MATERIALIZED_VIEW),
            (RelationName("lab", "tests", "orders"), RelationKind.STREAM),
        ):
            stored = kind is RelationKind.STREAM
            catalog.create_relation(
                Relation(
                    name=name,
                    kind=kind,
                    schema=Schema((Column("n", BIGINT),)),
                    owner="sysadmin",
                    created_at=NOW,
                    updated_at=NOW,
                    store="k" if stored else None,
                    entity=(f"{name.database}_{name.name}",) if stored else None,
                    id=str(uuid.uuid4()),
                )
            )


@cache
def _stocked_files() -> dict[str, bytes]:
    """Return the files of a stocked catalog. To open them takes a third of the time that it takes to write them."""
    with tempfile.TemporaryDirectory(prefix="headrace-session-") as folder:
        catalog = Catalog.open(Path(folder))
        _stock(catalog)
        catalog.close()
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@asynccontextmanager
async def open_session(folder: Path, **settings: Any) -> AsyncIterator[Session]:
    """Databases shop (a stream, a view) and lab (a stream in its schema tests), the Kafka stores k and unused, and
    the schema registry r, where nothing listens, the descriptor source p, which is of protobuf/shop.proto, and the function source u
    with the function again(VARCHAR, BIGINT)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _stocked_files().items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(content)
    given = Settings(data_dir=folder, **{"snapshot_timeout_ms": int(PATIENCE_S * 1000), **settings})
    catalog = Catalog.open(folder, scram=given.postgres_scram)
    engine = Engine(catalog, given)
    yield Session(catalog, engine, StatementService(Services(catalog, engine, given)))
    await engine.stop()
    catalog.close()
