"""Subscriptions by a client library (gql) over a real websocket, and hostile messages on one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gql import GraphQLRequest
from gql.transport.exceptions import TransportQueryError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from harness.patience import PATIENCE_S
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.engine.findings import Finding
from headrace.server.graphql import subscriptions
from headrace.server.graphql.objects import SYSTEM_RELATIONS
from tests.unit.server.graphql_world import ADMINISTRATOR, World, open_world, socket_client
from tests.unit.server.scripted import ScriptedStream, serving

ROWS = 'subscription { rows(statement: "SELECT") { columns { name type } rows changes changelogKey } }'
CHANGES = "subscription ($kinds: [ChangeKind!]) { changes(kinds: $kinds) { kind action key } }"


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(subscriptions, "PAUSE_S", 0.01)
    monkeypatch.setattr(subscriptions, "SIGNED_IN_CHECK_S", 0.05)
    async with open_world(tmp_path) as opened:
        yield opened


@pytest.fixture
async def address(world: World, unused_tcp_port: int) -> AsyncIterator[str]:
    async with serving(world.app, unused_tcp_port):
        yield f"127.0.0.1:{unused_tcp_port}"


@asynccontextmanager
async def subscribed(
    address: str, document: str, variables: dict[str, Any] | None = None, **named: str
) -> AsyncIterator[Any]:
    """Subscribe, and yield a function that waits for the next event."""
    async with socket_client(address, **named) as session:
        events = session.subscribe(GraphQLRequest(document, variable_values=variables))

        async def event() -> Any:
            async with asyncio.timeout(PATIENCE_S):
                return await anext(events)

        yield event
        await events.aclose()


async def test_live_rows_come_with_their_changes_and_closing_ends_the_query(
    world: World, address: str
) -> None:
    stream = world.live.streams["SELECT"] = ScriptedStream()
    stream.changelog_key = ("id",)
    async with subscribed(address, ROWS) as event:
        stream.running.set()
        first = (await event())["rows"]
        assert first["columns"] == [{"name": "id", "type": "BIGINT"}, {"name": "name", "type": "VARCHAR"}]
        assert (first["rows"], first["changelogKey"]) == ([], ["id"])
        await stream.put(["1", None], ["2", "\ud800"], kinds=["+I", "-D"])
        second = (await event())["rows"]
        assert (second["rows"], second["changes"]) == ([["1", None], ["2", "?"]], ["+I", "-D"])
        assert not stream.closed.is_set()
    async with asyncio.timeout(PATIENCE_S):
        await stream.closed.wait()


async def test_a_slow_reader_holds_the_query(world: World, address: str) -> None:
    stream = world.live.streams["SELECT"] = ScriptedStream()
    stream.running.set()
    wide = "x" * 200_000
    async with raw(address) as socket:
        await socket.send(json.dumps({"type": "subscribe", "id": "1", "payload": {"query": ROWS}}))
        async with asyncio.timeout(PATIENCE_S):
            await socket.recv()
        puts = 0
        try:
            async with asyncio.timeout(1):
                while True:
                    await stream.put(["1", wide])
                    puts += 1
        except TimeoutError:
            pass
        assert puts < 400
    async with asyncio.timeout(PATIENCE_S):
        await stream.closed.wait()


async def test_a_result_ends_with_its_error_or_its_reader_s_rights(world: World, address: str) -> None:
    for stop, words in (
        (
            lambda stream: stream.finish(ExternalError(SqlState.STORE_NOT_READY, "the broker is away")),
            "the broker is away",
        ),
        (lambda stream: _lose(stream), "the subscription was ended: SELECT is missing"),
    ):
        stream = world.live.streams["SELECT"] = ScriptedStream()
        stream.running.set()
        async with subscribed(address, ROWS) as event:
            await event()
            await stop(stream)
            with pytest.raises(TransportQueryError, match=words):
                await event()
        assert stream.closed.is_set()
    assert ("graphql", None, "denied") in world.audited


async def _lose(stream: ScriptedStream) -> None:
    stream.lacking = "SELECT is missing"


async def test_a_bounded_result_is_one_event(world: World, address: str) -> None:
    document = 'subscription { rows(statement: "LIST STORES") { columns { name } rows } }'
    async with subscribed(address, document) as event:
        assert [row[0] for row in (await event())["rows"]["rows"]] == ["k", "unused"]
        with pytest.raises(StopAsyncIteration):
            await event()
    with pytest.raises(TransportQueryError, match="expected"):
        async with subscribed(address, 'subscription { rows(statement: "SELEC") { rows } }') as event:
            await event()
    assert world.session.principal


async def test_changes_are_pushed_to_roles_that_see_them(world: World, address: str) -> None:
    run = world.session.run
    async with (
        subscribed(address, CHANGES, {"kinds": ["DATABASES", "QUERIES"]}) as event,
        subscribed(address, CHANGES, {"kinds": ["DATABASES"]}, token="other-token") as other,
    ):
        assert (await event(), await other()) == ({"changes": []}, {"changes": []})
        await run("CREATE DATABASE fresh; USE DATABASE shop")
        assert await event() == {"changes": [{"kind": "DATABASES", "action": "CREATED", "key": ["fresh"]}]}
        await run("CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
        (change,) = (await event())["changes"]
        (query,) = world.session.catalog.queries()
        assert change == {"kind": "QUERIES", "action": "CREATED", "key": [query.id]}
        await run(f"TERMINATE QUERY {query.id}")
        assert (await event())["changes"][0]["action"] == "CHANGED"
        # The first database of which it hears is the one that it may use.
        await run("DROP DATABASE fresh; GRANT USAGE ON DATABASE lab TO ROLE public")
        assert await other() == {"changes": [{"kind": "DATABASES", "action": "CREATED", "key": ["lab"]}]}


async def test_changes_that_are_not_in_the_catalog_are_pushed_too(world: World, address: str) -> None:
    engine = world.session.engine
    async with (
        subscribed(address, CHANGES, {"kinds": ["LIVE_QUERIES", "STORES"]}) as event,
        subscribed(address, CHANGES, {"kinds": ["STORES"]}) as of_stores,
    ):
        assert (await event(), await of_stores()) == ({"changes": []}, {"changes": []})
        engine.live_queries.changed.notify()
        assert await event() == {"changes": [{"kind": "LIVE_QUERIES", "action": "CHANGED", "key": []}]}
        engine.store_health.changed.notify()
        change = {"kind": "STORES", "action": "CHANGED", "key": []}
        assert await event() == {"changes": [change]}
        assert await of_stores() == {"changes": [change]}


async def test_rows_about_queries_are_pushed_when_they_change(world: World, address: str) -> None:
    run = world.session.run
    await run("USE DATABASE shop; CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
    (query,) = world.session.catalog.queries()
    document = """subscription ($ids: [String!]) {
      queries(queryIds: $ids) { nodes { id intendedState sink { name } findings { totalCount } } removed } }"""
    async with subscribed(address, document, {"ids": [query.id]}) as event:
        (node,) = (await event())["queries"]["nodes"]
        assert (node["id"], node["intendedState"], node["sink"]) == (query.id, "running", {"name": "v"})
        await run("CREATE DATABASE fresh")
        await run(f"TERMINATE QUERY {query.id}")
        assert (await event())["queries"]["nodes"][0]["intendedState"] == "terminated"
    reads = [text for door, text, _ in world.audited if door == "graphql" and "queries" in (text or "")]
    assert len(reads) == 1
    for name in ("queryMetrics { nodes { queryId } removed }", "queryFindings { nodes { code } removed }"):
        async with subscribed(address, f"subscription {{ {name} }}") as event:
            assert await event() is not None


def test_a_row_in_which_only_an_age_differs_is_sent_less_often() -> None:
    seen = {("a",): ("a", 1, 10), ("b",): ("b", 1, 10)}
    rows = {("a",): ("a", 1, 11), ("b",): ("b", 2, 11), ("c",): ("c", 1, 11)}
    assert subscriptions.other_rows(rows.items(), seen, frozenset({2})) == [rows["b",], rows["c",]]
    assert subscriptions.other_rows(rows.items(), seen) == list(rows.values())
    columns = SYSTEM_RELATIONS["query_metrics"].places
    assert columns.keys() >= subscriptions.CLOCKS


async def test_removed_rows_are_named_by_their_keys_also_if_a_part_is_null(
    world: World, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.session.run("USE DATABASE shop; CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
    (query,) = world.session.catalog.queries()
    findings = [Finding("NO_INPUT", "no input", "wait")]
    monkeypatch.setattr(world.session.service._services.engine, "findings", lambda _query: tuple(findings))
    async with subscribed(address, "subscription { queryFindings { nodes { code step } removed } }") as event:
        assert (await event())["queryFindings"]["nodes"] == [{"code": "NO_INPUT", "step": None}]
        findings.clear()
        await world.session.run("CREATE DATABASE fresh")
        assert (await event())["queryFindings"]["removed"] == [[query.id, "NO_INPUT", None]]


async def test_a_token_that_ends_ends_its_subscriptions(world: World, address: str) -> None:
    async with subscribed(address, CHANGES) as event:
        await event()
        world.endings[world.session.principal] = "the token was dropped"
        with pytest.raises(TransportQueryError, match="the token was dropped"):
            await event()
    del world.endings[world.session.principal]
    async with socket_client(address) as session:
        query = GraphQLRequest("{ stores { totalCount } }")
        assert await session.execute(query) == {"stores": {"totalCount": 2}}
        world.endings[world.session.principal] = "the token was dropped"
        with pytest.raises(TransportQueryError, match="the token was dropped"):
            await session.execute(query)


async def test_a_socket_without_a_token_is_closed(world: World, address: str) -> None:
    for payload in ({"Authorization": "Bearer wrong"}, {"Authorization": 5}, {}):
        async with opened(address) as socket:
            await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), PATIENCE_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4403
    async with opened(address) as socket:
        await socket.send(json.dumps({"type": "subscribe", "id": "1", "payload": {"query": "{ a }"}}))
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
    assert ("graphql", None, "denied") in world.audited


def opened(address: str) -> connect:
    """Open a websocket without a library of GraphQL."""
    return connect(
        f"ws://{address}/graphql",
        subprotocols=[Subprotocol("graphql-transport-ws")],
        proxy=None,
        open_timeout=PATIENCE_S,
        close_timeout=1,
    )


@asynccontextmanager
async def raw(address: str) -> AsyncIterator[ClientConnection]:
    """Connect without a library, and present the token."""
    async with opened(address) as socket:
        await socket.send(
            json.dumps({"type": "connection_init", "payload": {"authorization": f"Bearer {ADMINISTRATOR}"}})
        )
        assert json.loads(await socket.recv())["type"] == "connection_ack"
        yield socket


async def test_hostile_messages_close_the_socket_with_a_code(world: World, address: str) -> None:
    for message in (
        "5",
        "[]",
        "x",
        '{"type": "y"}',
        json.dumps({"type": "z" * 500}),
        '{"type": "subscribe", "id": "1", "payload": 5}',
        '{"type": "subscribe", "id": 5, "payload": {"query": ""}}',
        '{"type": "subscribe", "id": "1", "payload": {"query": "{a}", "variables": 5}}',
        '{"type": "complete"}',
    ):
        async with raw(address) as socket:
            await socket.send(message)
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), PATIENCE_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4400, message
    for document, name in (
        ("{" * 40, None),
        ("{ a }", None),
        ("query q { stores { totalCount } }", "x" * 500),
        ("", None),
    ):
        async with raw(address) as socket:
            payload = {"query": document, "operationName": name}
            await socket.send(json.dumps({"type": "subscribe", "id": "1", "payload": payload}))
            answer = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))
            assert answer["type"] == "error", document
            assert answer["payload"][0]["extensions"]["sqlState"] == "42601"
    assert world.app
