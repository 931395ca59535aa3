"""The console's own operations of GraphQL: the server accepts each of them within its limits."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from graphql import DocumentNode, FragmentDefinitionNode, OperationDefinitionNode, parse, print_ast, validate

from headrace.core.settings import Settings
from headrace.server.graphql.schema import schema_of
from tests.unit.server.graphql_world import World, open_world

WEB = Path(__file__).parents[3] / "web" / "src"
DOCUMENT = parse((WEB / "api" / "operations.graphql").read_text(encoding="utf-8"))
NAMES = {"database": "shop", "schema": "public", "relation": "orders"}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


def operations(kind: str) -> dict[str, str]:
    """Return the texts of the operations of a kind by their names, each with the fragments that it uses."""
    fragments = [each for each in DOCUMENT.definitions if isinstance(each, FragmentDefinitionNode)]
    return {
        each.name.value: print_ast(DocumentNode(definitions=(each, *used)))
        for each in DOCUMENT.definitions
        if isinstance(each, OperationDefinitionNode) and each.operation.value == kind and each.name
        for used in ([one for one in fragments if f"...{one.name.value}" in print_ast(each)],)
    }


def page_rows() -> int:
    """Return the number of rows that the console requests in a page."""
    match = re.search(r"PAGE_ROWS = (\d+)", (WEB / "data" / "use-list.ts").read_text(encoding="utf-8"))
    assert match is not None
    return int(match[1])


async def test_each_list_of_the_console_is_read_within_the_default_limits(world: World) -> None:
    await world.session.run("USE DATABASE shop; CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
    seen = {}
    for name, text in operations("query").items():
        variables = {"first": page_rows(), "after": None} | (NAMES if "$database" in text else {})
        (page,) = (await world.data(text, variables)).values()
        assert page["pageInfo"]["hasNextPage"] is False or name == "Functions", name
        seen[name] = len(page["nodes"])
    assert seen["Queries"] == 1
    assert seen["Relations"] == len(world.session.catalog.relations())
    assert min(seen[name] for name in ("Databases", "Schemas", "Stores", "RelationColumns", "Lineage")) > 0


async def test_a_list_continues_where_its_page_ends(world: World) -> None:
    text = operations("query")["Stores"]
    first = (await world.data(text, {"first": 1}))["stores"]
    assert first["pageInfo"]["hasNextPage"]
    second = (await world.data(text, {"first": 1, "after": first["pageInfo"]["endCursor"]}))["stores"]
    assert [page["nodes"][0]["name"] for page in (first, second)] == ["k", "unused"]


def test_the_subscriptions_of_the_console_fit_the_schema() -> None:
    schema = schema_of(Settings())._schema
    subscriptions = operations("subscription")
    assert subscriptions
    for name, text in subscriptions.items():
        assert validate(schema, parse(text)) == [], name
