"""A server that stands by, over the catalog of another one: what it answers, and what it must share."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import column, insert, table, update
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs

from harness.patience import PATIENCE_S
from headrace.catalog import identity, tables, upgrade
from headrace.catalog.catalog import Catalog
from headrace.catalog.keys import GivenKeys
from headrace.catalog.lease import Lease
from headrace.catalog.objects import (
    SECRET_STRING,
    ComputePool,
    Language,
    Query,
    QueryKind,
    QueryState,
    Relation,
    RelationKind,
    Secret,
    Store,
    UserFunction,
)
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.settings import Settings
from headrace.core.types import BIGINT, VARCHAR
from headrace.planner.physical import SparkPlan
from headrace.server import sharing, standby
from tests.unit.server.mcp_world import call, connected, running

KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
NOW = datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC)
OTHER_KEY = "MTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@dataclass
class Pair:
    """The catalog of a server that leads, and the lease and the settings of one that stands by."""

    catalog: Catalog
    lease: Lease
    settings: Settings

    def with_settings(self, **changed: object) -> Settings:
        """The settings of the server that stands by, with others."""
        return self.settings.model_copy(update=changed)


def _waiting_query(catalog: Catalog) -> str:
    """Create a query that waits for the store k, as the leader records it."""
    name = RelationName("shop", "public", "orders")
    if catalog.database("shop") is None:
        catalog.create_database("shop", "sysadmin")
    catalog.create_relation(
        Relation(name, RelationKind.STREAM, Schema((Column("n", BIGINT),)), "sysadmin", NOW, NOW, store="k")
    )
    query = Query(
        id=str(uuid.uuid4()),
        name="copy",
        version=1,
        kind=QueryKind.INSERT_INTO,
        sql="INSERT …",
        plan=SparkPlan(steps=[], outputs=[]).to_json(),
        sink=name,
        sources=(),
        compute_pool=catalog.default_compute_pool,
        owner="sysadmin",
        created_at=NOW,
        updated_at=NOW,
    )
    catalog.create_query(query)
    message = "the store 'k' has not answered"
    catalog.record_query_state(query.id, QueryState.RESTARTING, message=message, sqlstate="57015")
    return query.id


@asynccontextmanager
async def _standby(pair: Pair) -> AsyncIterator[Callable[..., Awaitable[dict[str, Any]]]]:
    """Yield a function that runs a statement on the server that stands by."""
    async with (
        standby.standing_by(pair.settings, pair.lease) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8080") as http,
    ):

        async def run(text: str, role: str | None = None) -> dict[str, Any]:
            body = {"statement": f"{text};", **({"role": role} if role else {})}
            headers = {"Authorization": "Bearer good-token"}
            answer: dict[str, Any] = (await http.post("/v2/statements", json=body, headers=headers)).json()
            return answer

        yield run


@pytest.fixture
def pair(schema_of: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(standby, "REFRESH_S", 0.01)
    monkeypatch.setattr(standby, "REFRESH_SHARE", 0)
    url, shared = schema_of(), tmp_path / "shared"
    shared.mkdir()
    first, second = Lease(url, address="http://leader:8080"), Lease(url, address="http://other:8080")
    assert first.try_claim()
    catalog = Catalog.open(tmp_path / "a", url, GivenKeys(KEY), first)
    catalog.ensure_administrator("good-token")
    identity.bind(catalog, shared, adopt=False)
    assert not second.try_claim()
    settings = Settings(
        data_dir=tmp_path / "b",
        shared_dir=shared,
        catalog_url=SecretStr(url),
        catalog_key=SecretStr(KEY),
    )
    yield Pair(catalog, second, settings)
    second.release()
    catalog.close()


async def test_it_answers_probes_and_refuses_writes_with_the_address_of_the_leader(pair: Pair) -> None:
    async with (
        standby.standing_by(pair.settings, pair.lease) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8080") as http,
    ):
        assert (await http.get("/healthz")).status_code == 200
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "standby\n")
        statement = {"statement": "CREATE DATABASE d;"}
        assert (await http.post("/v2/statements", json=statement)).status_code == 403
        headers = {"Authorization": "Bearer good-token"}
        answer = (await http.post("/v2/statements", json=statement, headers=headers)).json()
        assert answer["sqlState"] == "57P03"
        assert "Connect to the leader: http://leader:8080" in answer["message"]
        assert "headrace_leader 0.0" in (await http.get("/metrics", headers=headers)).text
        assert (await http.get("/metrics")).status_code == 403


async def test_it_reads_the_catalog_that_the_leader_writes(pair: Pair) -> None:
    pair.catalog.create_database("shop", "sysadmin")
    pair.catalog.create_store(Store("k", "kafka", "sysadmin", NOW, NOW, {"uris": "127.0.0.1:1"}))
    query = _waiting_query(pair.catalog)
    async with _standby(pair) as run:
        assert [row[0] for row in (await run("LIST DATABASES"))["data"]] == ["shop"]
        assert [row[0] for row in (await run("/* all */ SHOW/**/DATABASES"))["data"]] == ["shop"]
        assert (await run("LIST DATABASES WHERE name = 'other'"))["data"] == []
        for text in (
            "SELECT name FROM deltastream.sys.stores",
            "(SELECT name FROM deltastream.sys.stores)",
            "WITH s AS (SELECT name FROM deltastream.sys.stores) SELECT name FROM s",
        ):
            assert (await run(text))["data"] == [["k"]], text
        answer = await run("SELECT name, current_state, message FROM deltastream.sys.queries")
        assert answer["data"] == [["copy", "restarting", "the store 'k' has not answered"]]
        assert (await run("SELECT status FROM deltastream.sys.stores"))["data"] == [["errored"]]
        assert (await run("DESCRIBE QUERY EVENTS copy"))["data"][0][1] == "starting"
        assert (await run("CAN I CREATE_DATABASE"))["sqlState"] == "00000"
        assert (await run("USE DATABASE shop"))["sqlState"] == "00000"
        assert "Plan" in str((await run("EXPLAIN SELECT name FROM deltastream.sys.stores"))["metadata"])
        pair.catalog.create_database("later", "sysadmin")
        async with asyncio.timeout(PATIENCE_S):
            while len(answer := (await run("LIST DATABASES"))["data"]) != 2:
                await asyncio.sleep(0.01)
        assert [row[0] for row in answer] == ["later", "shop"]
    assert pair.catalog.query(query) is not None


async def test_what_only_the_leader_does_or_knows_is_refused_with_its_address(pair: Pair) -> None:
    pair.catalog.create_store(Store("k", "kafka", "sysadmin", NOW, NOW, {"uris": "127.0.0.1:1"}))
    _waiting_query(pair.catalog)
    pair.catalog.create_function(
        UserFunction(
            "posted",
            (("text", VARCHAR),),
            VARCHAR,
            None,
            "posted",
            "sysadmin",
            NOW,
            NOW,
            egress=("127.0.0.1:1",),
            language=Language.PYTHON,
            code="def posted(text):\n    return text\n",
        )
    )
    copying = "CREATE STREAM shop.public.copied AS SELECT n FROM shop.public.orders"
    texts = (
        "CREATE DATABASE d",
        "DROP STORE k",
        "SET DEFAULT DATABASE d",
        "TERMINATE QUERY copy",
        "LIST COMPUTE_POOLS",
        "DESCRIBE QUERY METRICS copy",
        "EXPLAIN WHY copy",
        "SELECT code FROM deltastream.sys.query_findings",
        "SELECT batch_id FROM deltastream.sys.query_metrics",
        "SELECT time FROM deltastream.sys.query_metrics_history",
        "INSERT INTO d.public.s VALUES (1)",
        # These need what the store answers.
        "LIST ENTITIES IN STORE k",
        "LIST ENTITIES IN STORE k LIMIT 1",
        "DESCRIBE ENTITY orders IN STORE k",
        "LIST PARTITIONS IN orders IN STORE k",
        "TEST STORE k",
        "PRINT ENTITY orders IN STORE k",
        f"EXPLAIN {copying}",
        f"DESCRIBE {copying}",
        "SELECT n FROM shop.public.orders",
        "SELECT posted(name) FROM deltastream.sys.stores",
    )
    async with _standby(pair) as run:
        for text in texts:
            answer = await run(text)
            assert answer["sqlState"] == "57P03", text
            assert "Connect to the leader: http://leader:8080" in answer["message"], text
        audit = await run("SELECT id FROM deltastream.sys.audit", role="orgadmin")
        assert audit["sqlState"] == "57P03"
        # These need only the catalog.
        assert (await run("DESCRIBE QUERY VERSIONS copy"))["sqlState"] == "00000"
        assert (await run("SELECT name FROM deltastream.sys.roles"))["sqlState"] == "00000"


async def test_privileges_are_those_of_the_leader_and_reads_are_in_the_log(pair: Pair) -> None:
    pair.catalog.create_database("shop", "sysadmin")
    pair.catalog.create_role("reader", "sysadmin")
    with capture_logs() as logged:
        async with _standby(pair) as run:
            assert (await run("LIST DATABASES", role="reader"))["sqlState"] == "42501"
            await run("LIST DATABASES")
    events = [entry for entry in logged if entry["event"] == "audit_event"]
    assert [(event["user"], event["outcome"], event["sqlstate"]) for event in events] == [
        ("admin", "denied", "42501"),
        ("admin", "allowed", "00000"),
    ]
    assert pair.catalog.audit.read(10) == []


async def test_the_log_of_reads_contains_no_statement_and_no_secret(pair: Pair) -> None:
    properties = {"uris": "127.0.0.1:1", "kafka.sasl.password": "store-password"}
    pair.catalog.create_store(Store("k", "kafka", "sysadmin", NOW, NOW, properties))
    with capture_logs() as logged:
        async with _standby(pair) as run:
            assert (await run("LIST DATABASES WHERE name = 'marked-text'"))["sqlState"] == "00000"
            assert (await run("LIST DATABASES WHERE naem = 'marked-text'"))["sqlState"] == "42703"
            assert (await run("LIST marked-text"))["sqlState"] == "42601"
            described = str((await run("DESCRIBE STORE k"))["data"])
    assert "kafka.sasl.password" in described
    assert "store-password" not in described
    assert len([entry for entry in logged if entry["event"] == "audit_event"]) == 4
    assert not [entry for entry in logged if "marked-text" in str(entry) or "store-password" in str(entry)]


async def test_a_follower_cannot_write(pair: Pair) -> None:
    """The catalog refuses writes of a server that stands by, and so does PostgreSQL."""
    url, keys = pair.settings.catalog_url, GivenKeys(KEY)
    assert url is not None
    followed, _ = Catalog.follow(url.get_secret_value(), keys, pair.lease)
    try:
        with pytest.raises(ExternalError, match="does not lead"):
            followed.create_database("d", "sysadmin")
        assert followed.database("d") is None
        storage = followed._storage
        with pytest.raises(DBAPIError, match="read-only transaction"), storage.transaction():
            storage.rows(insert(tables.audit).values(id=1).returning(tables.audit.c.id))  # type: ignore[arg-type]
    finally:
        followed.close()


async def test_editors_complete_but_do_not_check_there(pair: Pair) -> None:
    pair.catalog.create_database("shop", "sysadmin")
    headers = {"Authorization": "Bearer good-token"}
    async with (
        standby.standing_by(pair.settings, pair.lease) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8080") as http,
    ):
        completion = await http.post("/v2/complete", json={"statement": "USE DATABASE "}, headers=headers)
        assert "shop" in completion.text
        for path in ("/v2/validate", "/v2/plan"):
            answer = await http.post(path, json={"statement": "CREATE DATABASE d;"}, headers=headers)
            assert "57P03" in answer.text, path
        assert (
            await http.post("/graphql", json={"query": "{ __typename }"}, headers=headers)
        ).status_code == 404


async def test_tools_of_assistants_read_the_catalog(pair: Pair) -> None:
    pair.catalog.create_store(Store("k", "kafka", "sysadmin", NOW, NOW, {"uris": "127.0.0.1:1"}))
    _waiting_query(pair.catalog)
    async with (
        standby.standing_by(pair.settings, pair.lease) as app,
        running(app),
        connected(app, "good-token") as client,
    ):
        assert "shop" in str((await call(client, "list_objects", kind="databases"))["rows"])
        for tool, arguments in (
            ("query_findings", {}),
            ("validate", {"statements": "CREATE DATABASE d"}),
            ("select", {"statement": "SELECT batch_id FROM deltastream.sys.query_metrics"}),
        ):
            assert "57P03" in str(await client.call_tool(tool, arguments)), tool


async def test_reads_are_refused_if_the_state_is_too_old(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "OUTAGE_S", -60.0)
    async with _standby(pair) as run:
        assert (await run("LIST DATABASES"))["sqlState"] == "57015"


@pytest.mark.parametrize(("read_s", "pause_s"), [(0.01, 1), (0.3, 3), (3, 10)])
def test_a_slow_read_delays_the_next_one_for_ten_seconds_at_most(read_s: float, pause_s: float) -> None:
    assert standby.pause_after(read_s) == pytest.approx(pause_s)


async def test_a_catalog_that_another_release_has_upgraded_is_not_read(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "OUTAGE_S", 0.5)
    revision = upgrade.HEAD

    def change(version: str) -> None:
        with pair.catalog._storage.transaction():
            pair.catalog._storage.execute(
                update(table("alembic_version", column("version_num"))).values(version_num=version)
            )

    async with _standby(pair) as run:
        # The state is read again when the catalog has its revision again.
        for version, state in (("later", "57015"), (revision, "00000")):
            change(version)
            async with asyncio.timeout(PATIENCE_S):
                while (await run("LIST DATABASES"))["sqlState"] != state:
                    await asyncio.sleep(0.01)


async def test_its_users_are_those_of_the_leader(pair: Pair) -> None:
    async with (
        standby.standing_by(pair.settings, pair.lease) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8080") as http,
    ):
        pair.catalog.ensure_administrator("later-token")
        for token, expected in (("later-token", 200), ("good-token", 403)):
            headers = {"Authorization": f"Bearer {token}"}
            async with asyncio.timeout(PATIENCE_S):
                while (await http.get("/v2/version", headers=headers)).status_code != expected:
                    await asyncio.sleep(0.01)


async def _refusal(settings: Settings, lease: Lease) -> HeadraceError:
    with pytest.raises(HeadraceError) as failure:
        async with standby.standing_by(settings, lease):
            pass
    return failure.value


async def test_it_refuses_what_it_does_not_share(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    refusal = await _refusal(pair.with_settings(shared_dir=tmp_path / "elsewhere"), pair.lease)
    assert "is not the folder of the server that leads" in refusal.message
    folder = tmp_path / "missing"
    pair.catalog.create_compute_pool(
        ComputePool(
            "p",
            "small",
            "sysadmin",
            NOW,
            NOW,
            properties={
                "compute_pool.master": "spark://127.0.0.1:7077",
                "compute_pool.checkpoints": f"file:{folder}",
            },
        )
    )
    refusal = await _refusal(pair.settings, pair.lease)
    assert f"the compute pool p keeps its checkpoints in {folder}" in refusal.message
    folder.mkdir()
    async with standby.standing_by(pair.settings, pair.lease):
        pass


async def test_rows_of_views_on_one_disk_are_refused(pair: Pair) -> None:
    pair.catalog.create_database("d", "sysadmin")
    pair.catalog.create_relation(
        Relation(
            name=RelationName("d", "public", "v"),
            kind=RelationKind.MATERIALIZED_VIEW,
            schema=Schema((Column("n", BIGINT),)),
            owner="sysadmin",
            created_at=NOW,
            updated_at=NOW,
        )
    )
    refusal = await _refusal(pair.settings, pair.lease)
    assert refusal.message.startswith("materialized views in DuckDB")
    assert "HEADRACE_VIEWS" in (refusal.hint or "")


async def test_another_key_is_refused(pair: Pair) -> None:
    pair.catalog.create_secret(
        Secret("s", "generic", "sysadmin", NOW, NOW, properties={SECRET_STRING: "text"})
    )
    settings = pair.with_settings(catalog_key=SecretStr(OTHER_KEY))
    assert "the catalog's key decrypts none" in (await _refusal(settings, pair.lease)).message


@pytest.mark.parametrize(
    ("changed", "kafka_port", "reason"),
    [
        ({"catalog_url": None}, None, "the catalog is a file"),
        ({"catalog_key": None}, None, "the key of the catalog is a file"),
        ({}, 0, "--with-kafka"),
        ({"shared_dir": Path("/nonexistent/shared")}, None, "/nonexistent/shared does not exist"),
    ],
)
def test_settings_that_leave_something_on_one_machine_are_refused(
    changed: dict[str, object], kafka_port: int | None, reason: str, tmp_path: Path
) -> None:
    settings = Settings(
        data_dir=tmp_path,
        shared_dir=tmp_path,
        catalog_url=SecretStr("postgresql://h/d"),
        catalog_key=SecretStr(KEY),
    )
    sharing.check_settings(settings, kafka_port=None)
    with pytest.raises(UserError, match=reason):
        sharing.check_settings(settings.model_copy(update=changed), kafka_port=kafka_port)


async def test_a_leader_that_is_starting_is_waited_for(schema_of: Callable[[], str], tmp_path: Path) -> None:
    url = schema_of()
    first, second = Lease(url), Lease(url)
    assert first.try_claim()
    settings = Settings(
        data_dir=tmp_path, shared_dir=tmp_path, catalog_url=SecretStr(url), catalog_key=SecretStr(KEY)
    )
    assert isinstance(await _refusal(settings, second), ExternalError)
    first.release()
    second.release()
