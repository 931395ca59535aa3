"""Limits of documents, and documents that nobody would write: each is refused with its reason, and nothing breaks."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.server.graphql_world import World, open_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


def nested(depth: int) -> str:
    """Return a document of so many levels."""
    return "{ roles { nodes { " + "ownerRole { " * (depth - 3) + "name" + " }" * (depth - 3) + " } } }"


async def test_documents_beyond_the_limits_are_refused(world: World) -> None:
    doubled = "".join(f"fragment f{n} on Role {{ ...f{n + 1} ...f{n + 1} }} " for n in range(100))
    bomb = "{ roles { nodes { ...f0 } } } " + doubled + "fragment f100 on Role { a: name }"
    columns = "{ relations(first: %s) { nodes { columns(first: 50) { nodes { name } } } } }"
    for document, variables, words in (
        (nested(11), None, "at most 10 levels, found 11"),
        ("{" + " ".join(f"a{n}: __typename" for n in range(51)) + "}", None, "at most 50 aliases, found 51"),
        (columns % 1000, None, "each requested row counted, found"),
        ("query ($n: Int!) " + columns % "$n", {"n": 1000}, "each requested row counted, found"),
        ("query ($n: Int! = 1000) " + columns % "$n", None, "each requested row counted, found"),
        ("query q { stores { totalCount } } query r " + columns % 1000, None, "each requested row counted"),
        (bomb, None, "aliases"),
        ("{ a " * 1300 + "}" * 1300, None, "nested too deeply"),
        ("{" + "a " * 5000 + "}", None, "4000 tokens"),
    ):
        # Of a processor, since the machine may be busy.
        start = time.process_time()
        error = await world.error(document, variables)
        assert words in error["message"], (document[:80], error)
        assert error["extensions"]["sqlState"] in ("53000", "42601")
        assert time.process_time() - start < 5, document[:80]
    assert "errors" not in await world.post(nested(10))
    assert "errors" not in await world.post("query ($n: Int!) " + columns % "$n", {"n": 10})


async def test_introspection_is_a_setting(world: World, tmp_path: Path) -> None:
    document = "{ __schema { types { fields { type { ofType { ofType { ofType { ofType { ofType { ofType { name } } } } } } } } } } }"
    assert "errors" not in await world.post(document)
    async with open_world(tmp_path / "other", graphql_introspection=False) as closed:
        assert "introspection has been disabled" in (await closed.post(document))["errors"][0]["message"]
        assert "errors" not in await closed.post("{ stores { totalCount } }")


EXAMPLES = int(os.environ.get("HEADRACE_GRAPHQL_EXAMPLES", "60"))
NAMES = st.sampled_from(
    (
        "stores",
        "queries",
        "relations",
        "nodes",
        "edges",
        "node",
        "name",
        "columns",
        "ownerRole",
        "pageInfo",
        "__typename",
        "x",
        "execute",
    )
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
SELECTIONS = st.recursive(
    NAMES,
    lambda inner: st.builds(
        lambda name, argument, parts: f"{name}{argument} {{ {' '.join(parts)} }}",
        NAMES,
        st.sampled_from(
            (
                "",
                "(first: 1)",
                "(first: $v)",
                "(after: $v)",
                "(where: {name: {eq: $v}})",
                "(where: $v)",
                "(statement: $v)",
            )
        ),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)
DOCUMENTS = st.one_of(
    st.text(alphabet="{}()[]:!$@.\"'#, \n\ud800aq1", max_size=40),
    SELECTIONS.map(lambda text: "{ " + text + " }"),
    st.builds(
        lambda kind, variable, text: f"{kind} q({variable}) {{ {text} }}",
        st.sampled_from(("query", "mutation", "subscription")),
        st.sampled_from(("$v: Int!", "$v: String", "$v: String = null", "$v: StoreWhere", "$v: [X]")),
        SELECTIONS,
    ),
)


def test_no_document_breaks_the_server(tmp_path: Path) -> None:
    async def send(world: World, document: str, value: object) -> None:
        async with world.http() as http:
            content = json.dumps({"query": document, "variables": {"v": value}}).encode()
            answer = await http.post(
                "/graphql", content=content, headers={"Content-Type": "application/json"}
            )
        assert answer.status_code in (200, 400), answer.text
        assert "internal server error" not in answer.text, (document, value, answer.text)
        for error in answer.json().get("errors", ()):
            assert error["extensions"]["sqlState"] != "XX000"

    with asyncio.Runner() as runner:
        opening = open_world(tmp_path)
        world = runner.run(opening.__aenter__())

        @given(DOCUMENTS, VALUES)
        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        def survives(document: str, value: object) -> None:
            runner.run(send(world, document, value))

        try:
            survives()
        finally:
            runner.run(opening.__aexit__(None, None, None))
