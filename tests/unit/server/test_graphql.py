"""GraphQL over the real catalog: objects and their links, statements, errors, and the rights of a role."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.catalog.access import Grant, Privilege
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError
from headrace.core.resultset import ResultSet
from headrace.server.graphql import reading
from headrace.server.graphql.objects import SYSTEM_RELATIONS
from headrace.session import StatementService
from headrace.statements.system import SystemRelation
from tests.unit.server.graphql_world import World, open_world

RELATIONS = """query ($first: Int! = 50, $after: String, $where: RelationWhere) {
  relations(first: $first, after: $after, where: $where) {
    totalCount pageInfo { hasNextPage endCursor } edges { cursor node { fqn } }
  } }"""
LINKED = """{ databases(first: 5) { nodes {
  name schemas(first: 3) { nodes { name } } ownerRole { name isCurrent }
  relations(first: 5) { nodes { name relationType
    store { name entities(first: 5) { nodes { name relationsOver { totalCount } } } }
    columns(first: 5) { nodes { name type position } } schema { name } } } } } }"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


async def test_objects_are_linked_and_rows_of_a_level_are_one_read(world: World) -> None:
    reads: list[str] = []
    read = StatementService.read

    async def counted(service: StatementService, text: Any, *arguments: Any, **named: Any) -> Any:
        reads.append(text.sql())
        return await read(service, text, *arguments, **named)

    with patch.object(StatementService, "read", counted):
        databases = (await world.data(LINKED))["databases"]["nodes"]
    lab, shop = databases
    assert [lab["name"], shop["name"]] == ["lab", "shop"]
    assert shop["ownerRole"] == {"name": "sysadmin", "isCurrent": True}
    (orders,) = lab["relations"]["nodes"]
    assert orders["columns"]["nodes"] == [{"name": "n", "type": "BIGINT", "position": 1}]
    assert orders["schema"] == {"name": "tests"}
    entities = [each["name"] for each in orders["store"]["entities"]["nodes"]]
    assert entities == ["lab_orders", "shop_orders"]
    view = next(each for each in shop["relations"]["nodes"] if each["relationType"] == "materialized_view")
    assert view["store"] is None
    # One for each link, however many rows have it.
    assert len(reads) == 9, reads
    assert ("graphql", 'SELECT * FROM deltastream.sys."databases"', "allowed") in world.audited


async def test_pages_and_conditions(world: World) -> None:
    after, names = None, []
    for _ in range(3):
        page = (await world.data(RELATIONS, {"first": 1, "after": after}))["relations"]
        assert page["totalCount"] == 3
        names += [edge["node"]["fqn"] for edge in page["edges"]]
        after = page["pageInfo"]["endCursor"]
        assert after == page["edges"][-1]["cursor"]
    assert not page["pageInfo"]["hasNextPage"]
    assert names == ['"lab"."tests"."orders"', '"shop"."public"."Best"', '"shop"."public"."orders"']
    for where, expected in (
        ({"storeName": {"isNull": True}}, names[1:2]),
        ({"databaseName": {"eq": "shop"}, "name": {"ne": "Best"}}, names[2:]),
        ({"fqn": {"startsWith": '"lab"'}, "createdAt": {"lt": "2027-01-01T00:00:00"}}, names[:1]),
        ({"name": {"in": ["Best", "\0"]}}, names[1:2]),
    ):
        page = (await world.data(RELATIONS, {"where": where}))["relations"]
        assert [edge["node"]["fqn"] for edge in page["edges"]] == expected, where
    queries = '{ queryEvents(where: {queryId: {in: ["\\u0000", "x"]}}) { totalCount } }'
    assert (await world.data(queries))["queryEvents"] == {"totalCount": 0}


async def test_a_wrong_page_is_refused(world: World) -> None:
    for variables, message in (
        ({"after": "x"}, "`after` is not a cursor of relations"),
        ({"after": "WzFd"}, "`after` is not a cursor of relations"),
        ({"first": -1}, "expected `first` from 0 to 1000, found -1"),
        ({"first": 1001}, "expected `first` from 0 to 1000, found 1001"),
    ):
        error = await world.error(RELATIONS, variables)
        assert error["message"] == message
        assert error["extensions"]["sqlState"] in ("3D008", "53000")


async def test_statements_run_and_answer_with_the_parts_of_their_errors(world: World) -> None:
    document = """mutation ($statement: String!, $context: ContextInput) {
      execute(statement: $statement, context: $context) {
        statementId isFinished columns { name type } rows message context { role database } } }"""
    created = {"statement": "CREATE DATABASE d; USE DATABASE d;", "context": {"role": "sysadmin"}}
    answer = (await world.data(document, created))["execute"]
    assert answer["isFinished"]
    assert answer["context"] == {"role": "sysadmin", "database": "d"}
    listed = (await world.data(document, {"statement": "LIST SCHEMAS"}, at="?database=d"))["execute"]
    assert [row[0] for row in listed["rows"]] == ["public"]
    assert listed["columns"][0] == {"name": "Name", "type": "VARCHAR"}
    again = "query ($id: ID!) { statement(id: $id) { isFinished rowCount pages } }"
    identified = {"id": listed["statementId"]}
    identified = {"id": listed["statementId"]}
    assert (await world.data(again, identified))["statement"] == {
        "isFinished": True,
        "rowCount": 1,
        "pages": 1,
    }
    assert (await world.error(again, identified, token="other-token"))["extensions"]["sqlState"] == "3D008"
    error = await world.error(document, {"statement": "SELECT n FROM shop.public.ordesr"})
    assert error["extensions"]["sqlState"] == "3D020"
    assert error["extensions"]["position"]["line"] == 1
    assert "orders" in error["extensions"]["hint"]
    assert error["path"] == ["execute"]
    assert ("graphql", "CREATE DATABASE d", "allowed") in [
        (door, (text or "").rstrip(";"), outcome) for door, text, outcome in world.audited
    ]
    refused = await world.error(document, {"statement": "LIST STORES", "context": {"role": "orgadmin"}})
    assert refused["extensions"]["sqlState"] == "42501"


async def test_a_slow_statement_is_asked_for_again(tmp_path: Path) -> None:
    async with open_world(tmp_path, statement_timeout_ms=1) as world:
        over = asyncio.Event()
        execute = world.live.execute

        async def slow(*arguments: Any, **named: Any) -> Any:
            await over.wait()
            return await execute(*arguments, **named)

        with patch.object(world.live, "execute", slow):
            answer = (
                await world.data(
                    'mutation { execute(statement: "LIST STORES") { statementId isFinished rows } }'
                )
            )["execute"]
            assert (answer["isFinished"], answer["rows"]) == (False, [])
            over.set()
            document = "query ($id: ID!) { statement(id: $id) { isFinished rowCount } }"
            finished = await world.data(document, {"id": answer["statementId"]})
            assert finished["statement"] == {"isFinished": True, "rowCount": 2}


async def test_our_defects_show_no_text_of_theirs(world: World) -> None:
    def broken(*_arguments: Any) -> Any:
        raise ZeroDivisionError("hunter2")

    with patch.object(reading, "page_of", broken):
        error = await world.error("{ stores { totalCount } }")
    assert error["message"].startswith("internal server error; the server's log contains the details under ")
    assert error["extensions"] == {"severity": "error", "sqlState": "XX000"}
    assert "hunter2" not in str(error)


async def test_requests_that_cannot_be_read_are_refused(world: World) -> None:
    async with world.http() as http:
        for content, kind in (
            (b"{}", "application/json"),
            (b"5", "application/json"),
            (b'{"query": "{ stores { totalCount } }"', "application/json"),
            (b'{"query": "{ stores { totalCount } }", "variables": []}', "application/json"),
            (b'[{"query": "{ stores { totalCount } }"}]', "application/json"),
            (b'{"query": "{ stores { totalCount } }", "operationName": "x"}', "application/json"),
            (b'{"query": "subscription { changes { kind } }"}', "application/json"),
            (b'{"query": "{ stores { totalCount } }"}', "text/plain"),
        ):
            answer = await http.post("/graphql", content=content, headers={"Content-Type": kind})
            assert answer.status_code == 400, content
            assert set(answer.json()) == {"message"}
        assert (await http.get("/graphql")).status_code == 405
    async with world.http("wrong") as http:
        body = {"query": "{ stores { totalCount } }"}
        assert (await http.post("/graphql", json=body)).status_code == 403
        foreign = await http.post("/graphql", json=body, headers={"Origin": "http://evil.example"})
        assert foreign.status_code == 403
    assert ("graphql", None, "denied") in world.audited


EXAMPLES = int(os.environ.get("HEADRACE_GRAPHQL_EXAMPLES", "2"))
KINDS = [
    relation
    for relation in SYSTEM_RELATIONS.values()
    if relation.name not in ("audit", "statements", "functions", "properties")
]
POWERS = (Privilege.READ_AUDIT, Privilege.MANAGE_GRANTS, Privilege.MANAGE_MEMBERS)
PRIVILEGES = (Privilege.USAGE, Privilege.SELECT, Privilege.INSERT)


def _scalars(relation: SystemRelation) -> dict[str, str]:
    """The columns of a relation by the names of their fields."""
    first_lower = [column.name.split("_") for column in relation.columns]
    names = [parts[0] + "".join(part.capitalize() for part in parts[1:]) for parts in first_lower]
    return dict(zip(names, [column.name for column in relation.columns], strict=True))


def _field(relation: SystemRelation) -> str:
    parts = relation.name.split("_")
    return parts[0] + "".join(part.capitalize() for part in parts[1:])


def test_a_role_sees_exactly_what_sql_shows_it(tmp_path: Path) -> None:
    number = itertools.count()

    async def compare(world: World, grants: list[tuple[Privilege, int]], powers: set[Privilege]) -> None:
        catalog, role = world.session.catalog, f"r{next(number)}"
        catalog.create_role(role, "sysadmin")
        targets = sorted(catalog.snapshot().by_id.values(), key=lambda each: (type(each).__name__, str(each)))
        for privilege, place in grants:
            catalog.grant([Grant(targets[place % len(targets)].id, privilege, role, "sysadmin")])
        for privilege in powers:
            world.session.grant(role, privilege)
        principal = world.tokens["r-token"] = Principal("u", (role,), role)
        for relation in (*KINDS, SYSTEM_RELATIONS["audit"]):
            await _compare(world, relation, principal)

    with asyncio.Runner() as runner:
        opening = open_world(tmp_path)
        world = runner.run(opening.__aenter__())

        @given(
            st.lists(st.tuples(st.sampled_from(PRIVILEGES), st.integers(0, 40)), max_size=6),
            st.sets(st.sampled_from(POWERS), max_size=2),
        )
        @settings(max_examples=EXAMPLES, deadline=None, phases=(Phase.generate,))
        def same(grants: list[tuple[Privilege, int]], powers: set[Privilege]) -> None:
            runner.run(compare(world, grants, powers))

        try:
            same()
        finally:
            runner.run(opening.__aexit__(None, None, None))


async def _compare(world: World, relation: SystemRelation, principal: Principal) -> None:
    names = _scalars(relation)
    document = f"{{ {_field(relation)}(first: 100) {{ totalCount nodes {{ {' '.join(names)} }} }} }}"
    answer = await world.post(document, token="r-token")
    refusal: HeadraceError | None = None
    refusal: HeadraceError | None = None
    try:
        executed = await world.session.service.execute(
            f'SELECT * FROM deltastream.sys."{relation.name}"',
            principal=principal,
            context=SessionContext(""),
        )
    except HeadraceError as error:
        refusal = error
    if refusal is not None:
        assert answer["data"] is None
        assert answer["errors"][0]["message"] == refusal.message, relation.name
        assert answer["errors"][0]["extensions"]["sqlState"] == refusal.state.value
        return
    assert isinstance(executed.outcome, ResultSet)
    shown = [tuple(_text(node[name]) for name in names) for node in answer["data"][_field(relation)]["nodes"]]
    if relation.name != "audit":
        assert sorted(shown) == sorted(tuple(_text(cell) for cell in row) for row in executed.outcome.rows)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    try:
        # SQL shows a time without its zone, and without digits that are zeros.
        return datetime.datetime.fromisoformat(str(value)).replace(tzinfo=None).isoformat()
    except ValueError:
        return str(value)
