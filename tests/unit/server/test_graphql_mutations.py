"""Mutations of GraphQL for single statements: names of any characters, rights and errors are those of the statements."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import graphql
import pytest
from gql import Client, gql
from gql.transport.exceptions import TransportQueryError, TransportServerError
from gql.transport.httpx import HTTPXAsyncTransport
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harness.patience import PATIENCE_S
from headrace.catalog.access import BUILT_IN_ROLES, PUBLIC, Grant, Privilege
from headrace.catalog.objects import Principal
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.server.graphql.mutations import (
    ColumnInput,
    ParameterInput,
    PropertyInput,
    SignatureInput,
    TargetInput,
    arguments,
    statements,
    text_of,
)
from headrace.server.graphql.schema import schema_of
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.sql.statements.database import DropDatabase
from headrace.sql.statements.grant import GrantPrivileges
from headrace.sql.statements.query import TerminateQuery
from headrace.sql.statements.relation import CreateRelationAs, DropRelation
from headrace.sql.statements.role import CreateRole
from headrace.sql.statements.secret import CreateSecret
from tests.unit.server.graphql_world import ADMINISTRATOR, World, open_world
from tests.unit.server.scripted import serving
from tests.unit.sql.test_round_trip import NAMES, TEXT

HOSTILE = 'a"; DROP DATABASE shop; --'
WORDS = st.sampled_from(
    ["STREAM", "DATABASE", "MATERIALIZED VIEW", "JAVA", "STREAM x; DROP DATABASE shop; --", "'"]
)
SELECTS = st.sampled_from(
    ["SELECT 1", "WITH a AS (SELECT n FROM t) SELECT n FROM a", "SELECT 1; SELECT 2", "(SELECT 1)", ")"]
)
TYPES = st.sampled_from(["BIGINT", "ARRAY<STRUCT<a VARCHAR>>", "BIGINT) --", ""])
PROPERTIES = st.builds(
    PropertyInput, name=TEXT, value=st.none() | TEXT, secret=st.none() | NAMES, remove=st.booleans()
)
COLUMNS = st.builds(ColumnInput, name=NAMES, type=TYPES, nullable=st.booleans())
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: NAMES | WORDS | SELECTS | TYPES,
    int: st.integers(-1, 2**40),
    bool: st.booleans(),
    list[str]: st.lists(NAMES, max_size=4),
    list[PropertyInput]: st.lists(PROPERTIES, max_size=2),
    list[ColumnInput]: st.lists(COLUMNS, max_size=2),
    list[ParameterInput]: st.lists(st.builds(ParameterInput, name=NAMES, type=TYPES), max_size=2),
    TargetInput: st.builds(TargetInput, kind=st.none() | WORDS, name=st.none() | st.lists(NAMES, max_size=3)),
    SignatureInput: st.builds(SignatureInput, name=NAMES, types=st.none() | st.lists(TYPES, max_size=2)),
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


def read(kind: type[Statement], /, **given_arguments: Any) -> Any:
    [statement] = parse("".join(text_of(kind, given_arguments)))
    assert type(statement) is kind
    return statement


@given(st.lists(NAMES, min_size=3, max_size=3), TEXT)
@settings(max_examples=20)
def test_names_and_values_are_what_was_given(names: list[str], value: str) -> None:
    first, *others = names
    assert read(DropDatabase, name=first).name.name == first
    assert read(DropRelation, kind="STREAM", name=names).name.path == tuple(names)
    assert read(TerminateQuery, reference=names, savepoint=first).reference.path == tuple(names)
    assert [role.name for role in read(CreateRole, name=first, granted_roles=others).granted_roles] == others
    granted = read(
        GrantPrivileges, privileges=["usage"], target=TargetInput(kind="DATABASE", name=[first]), roles=others
    )
    assert ([role.name for role in granted.roles], granted.target.name.path) == (others, (first,))
    secret = read(CreateSecret, name=first, properties=[PropertyInput(name="secret_string", value=value)])
    assert secret.properties.get("secret_string") == value
    view = read(CreateRelationAs, kind="MATERIALIZED VIEW", name=names, select="SELECT n FROM t -- all")
    assert (view.name.path, view.select.sql()) == (tuple(names), "SELECT n FROM t")


@given(st.data())
def test_no_argument_adds_a_statement(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(statements()))
    drawn = {each.name: data.draw(VALUES[each.type]) for each in arguments(kind)}
    try:
        prefix, select = text_of(kind, drawn)
    except UserError:
        return
    [statement] = parse(prefix + select)
    assert type(statement) is kind


async def test_mutations_run_as_their_statements_do(world: World) -> None:
    world.tokens["owner"] = Principal("admin", ("sysadmin", "useradmin"), "sysadmin")
    answer = await world.data(
        "mutation ($name: String!) { createDatabase(name: $name) { isFinished rows context { database } } "
        'createSchema(name: ["s"], database: $name) { message } createRole(name: "r", context: {role: "useradmin"}) { message } '
        'grantPrivileges(privileges: ["USAGE"], target: {kind: "DATABASE", name: [$name]}, roles: ["r"]) { message } }',
        {"name": HOSTILE},
        token="owner",
    )
    assert answer["createDatabase"]["context"]["database"] == HOSTILE
    listed = await world.data("{ databases { nodes { name } } }")
    assert [each["name"] for each in listed["databases"]["nodes"]] == [HOSTILE, "lab", "shop"]
    assert ("graphql", 'CREATE DATABASE "a""; DROP DATABASE shop; --"', "allowed") in world.audited
    await world.data(
        "mutation ($name: String!) { dropDatabase(name: $name, cascade: true) { message } }",
        {"name": HOSTILE},
    )


async def test_a_client_library_runs_mutations_over_http(world: World, unused_tcp_port: int) -> None:
    create = gql(
        "mutation ($name: String!) { createDatabase(name: $name) { isFinished context { database } } }"
    )
    create.variable_values = {"name": HOSTILE}
    drop = gql("mutation ($name: String!) { dropDatabase(name: $name, cascade: true) { isFinished } }")
    drop.variable_values = {"name": HOSTILE}
    async with serving(world.app, unused_tcp_port):
        administrator, other, stranger = (
            Client(
                transport=HTTPXAsyncTransport(
                    f"http://127.0.0.1:{unused_tcp_port}/graphql",
                    headers={"Authorization": f"Bearer {token}"},
                    timeout=PATIENCE_S,
                ),
                fetch_schema_from_transport=token == ADMINISTRATOR,
                execute_timeout=PATIENCE_S,
            )
            for token in (ADMINISTRATOR, "other-token", "nobody's")
        )
        # The client checks each document against the schema that the server sends.
        async with administrator as session:
            created = await session.execute(create)
            assert created["createDatabase"] == {"isFinished": True, "context": {"database": HOSTILE}}
            async with other as refused_session:
                with pytest.raises(TransportQueryError) as refused:
                    await refused_session.execute(drop)
            [error] = refused.value.errors or []
            # The role does not know that the database exists.
            assert error["extensions"]["sqlState"] == "3D002", error
            async with stranger as unknown_session:
                with pytest.raises(TransportServerError) as unknown:
                    await unknown_session.execute(drop)
            assert unknown.value.code in (401, 403)
            assert [each.name for each in world.session.catalog.databases()] == [HOSTILE, "lab", "shop"]
            assert (await session.execute(drop))["dropDatabase"] == {"isFinished": True}
    assert [each.name for each in world.session.catalog.databases()] == ["lab", "shop"]
    changes = [
        (door, outcome) for door, statement, outcome in world.audited if statement and "DATABASE" in statement
    ]
    assert changes == [("graphql", "allowed"), ("graphql", "failed"), ("graphql", "allowed")]


async def test_a_role_is_refused_as_by_execute(world: World) -> None:
    by_field = await world.error('mutation { dropDatabase(name: "shop") { message } }', token="other-token")
    by_text = await world.error(
        'mutation { execute(statement: "DROP DATABASE shop") { message } }', token="other-token"
    )
    assert by_field["message"] == by_text["message"]
    assert by_field["extensions"]["sqlState"] == by_text["extensions"]["sqlState"]
    assert "position" not in by_field["extensions"]


async def test_positions_are_in_the_select(world: World) -> None:
    document = """mutation ($select: String!) {
      createRelationAs(kind: "MATERIALIZED VIEW", name: ["shop", "public", "v"], select: $select) { message } }"""
    for select, state, place in (
        ("SELECT n\nFROM orders LIMIT x", "42601", "x"),
        ("SELECT n,\n  m FROM shop.public.orders", "42703", "m"),
    ):
        extensions = (await world.error(document, {"select": select}))["extensions"]
        position = extensions["position"]
        assert (extensions["sqlState"], select[position["start"] : position["end"]]) == (state, place)
        assert (position["line"], position["column"]) == (2, select.rindex(place) - select.index("\n"))


async def test_the_first_error_stops_a_document(world: World) -> None:
    document = (
        'mutation { a: dropDatabase(name: "none") { message } b: createDatabase(name: "later") { message } }'
    )
    assert (await world.error(document))["extensions"]["sqlState"] == "3D002"
    assert [each.name for each in world.session.catalog.databases()] == ["lab", "shop"]


async def test_arguments_that_form_no_statement_are_refused(world: World) -> None:
    for arguments_text, message in (
        ('kind: "STREAM x; DROP DATABASE shop; --", name: ["s"]', "do not form the statement"),
        ('kind: "STREAM", name: []', "found an empty list"),
        ('kind: "STREAM", name: ["a", ""]', "found an empty identifier"),
    ):
        error = await world.error(f"mutation {{ dropRelation({arguments_text}) {{ message }} }}")
        assert (error["extensions"]["sqlState"], message in error["message"]) == ("42601", True), error
    assert world.audited == 3 * [("graphql", "DROP …", "failed")]


async def test_secrets_are_not_audited(world: World) -> None:
    document = """mutation ($properties: [PropertyInput!]!) {
      createSecret(name: "s", properties: $properties) { message } }"""
    secret = {"name": "secret_string", "value": "hunter2"}
    await world.data(document, {"properties": [{"name": "type", "value": "generic_string"}, secret]})
    error = await world.error(document, {"properties": [secret, {**secret, "remove": True}]})
    assert "more than one of value, secret and remove" in error["message"]
    assert sorted(outcome for _, _, outcome in world.audited) == ["allowed", "failed"]
    assert "hunter2" not in f"{world.audited} {error}"


async def test_limits_hold_for_mutations(tmp_path: Path) -> None:
    async with open_world(tmp_path, graphql_aliases_max=2) as world:
        fields = " ".join(f'{name}: createDatabase(name: "{name}") {{ message }}' for name in "abc")
        error = await world.error(f"mutation {{ {fields} }}")
        assert error["extensions"]["sqlState"] == "53000"
        assert [each.name for each in world.session.catalog.databases()] == ["lab", "shop"]


def test_the_operations_of_the_guide_are_valid() -> None:
    guide = Path("docs/guides/graphql.md").read_text()
    schema = graphql.build_schema(schema_of(Settings.model_construct()).as_str())
    operations = re.findall(r"```text\n((?:query|mutation|subscription|\{).*?)```", guide, re.DOTALL)
    assert len(operations) >= 4
    for operation in operations:
        assert graphql.validate(schema, graphql.parse(operation)) == [], operation


EXAMPLES = int(os.environ.get("HEADRACE_GRAPHQL_EXAMPLES", "4"))
STATEMENTS = {
    'createDatabase(name: "d")': "CREATE DATABASE d",
    'dropDatabase(name: "lab", cascade: true)': "DROP DATABASE lab CASCADE",
    'createSchema(name: ["shop", "extra"])': "CREATE SCHEMA shop.extra",
    'manageAccess(name: ["shop", "public"], managed: true)': "ALTER SCHEMA shop.public ENABLE MANAGED ACCESS",
    'createView(name: ["shop", "public", "v"], select: "SELECT n FROM shop.public.orders")': (
        "CREATE VIEW shop.public.v AS SELECT n FROM shop.public.orders"
    ),
    'dropRelation(kind: "VIEW", name: ["shop", "public", "v"])': "DROP VIEW shop.public.v",
    'dropRelation(kind: "STREAM", name: ["lab", "tests", "orders"])': "DROP STREAM lab.tests.orders",
    'rename(kind: "STORE", name: ["unused"], newName: "spare")': "ALTER STORE unused RENAME TO spare",
    'changeOwner(kind: "DATABASE", name: ["shop"], owner: "public")': "ALTER DATABASE shop OWNER TO public",
    'describeAs(kind: "STREAM", name: ["shop", "public", "orders"], description: "all")': (
        "ALTER STREAM shop.public.orders SET description = 'all'"
    ),
    'grantPrivileges(privileges: ["usage"], target: {kind: "STORE", name: ["k"]}, roles: ["public"])': (
        "GRANT USAGE ON STORE k TO ROLE public"
    ),
    'revokePrivileges(privileges: ["usage"], target: {kind: "STORE", name: ["k"]}, roles: ["public"])': (
        "REVOKE USAGE ON STORE k FROM ROLE public"
    ),
    'grantFuture(kind: "RELATION", place: {kind: "DATABASE", name: ["shop"]}, roles: ["public"])': (
        "GRANT ALL PRIVILEGES ON FUTURE RELATIONS IN DATABASE shop TO ROLE public"
    ),
    'createRole(name: "helper")': "CREATE ROLE helper",
    'dropRole(name: "helper")': "DROP ROLE helper",
    'createSecret(name: "s", properties: [{name: "type", value: "generic_string"}, {name: "secret_string", value: "x"}])': (
        "CREATE SECRET s WITH ('type' = 'generic_string', 'secret_string' = 'x')"
    ),
    'dropStore(name: "unused")': "DROP STORE unused",
    'dropFunction(name: {name: "again"})': "DROP FUNCTION again",
}
PRIVILEGES = [privilege for privilege in Privilege if privilege is not Privilege.OWNERSHIP]


def test_a_role_may_run_exactly_what_rest_allows(tmp_path: Path) -> None:
    number = itertools.count()

    async def compare(
        by_graphql: World, by_rest: World, parent: str, grants: list[tuple[Privilege, int]]
    ) -> None:
        role = f"r{next(number)}"
        for world in (by_graphql, by_rest):
            catalog = world.session.catalog
            catalog.create_role(role, "sysadmin", filter(None, [catalog.role(parent)]))
            state = catalog.snapshot()
            targets = [
                state.organization,
                *sorted(state.by_id.values(), key=lambda each: (type(each).__name__, str(each))),
            ]
            for privilege, place in grants:
                catalog.grant([Grant(targets[place % len(targets)].id, privilege, role, "sysadmin")])
            world.tokens["r-token"] = Principal("u", (role,), role)
        for mutation, statement in STATEMENTS.items():
            answer = await by_graphql.post(f"mutation {{ {mutation} {{ message }} }}", token="r-token")
            async with by_rest.http("r-token") as http:
                expected = (await http.post("/v2/statements", json={"statement": statement})).json()
            errors = [{"message": each["message"], **each["extensions"]} for each in answer.get("errors", ())]
            for error in (*errors, expected.get("error", {})):
                error.pop("position", None)
            assert errors == ([expected["error"]] if "error" in expected else []), statement

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        worlds = [
            runner.run(stack.enter_async_context(open_world(tmp_path / door))) for door in ("graphql", "rest")
        ]

        @given(
            st.sampled_from(["", *BUILT_IN_ROLES]).filter(lambda role: role != PUBLIC),
            st.lists(st.tuples(st.sampled_from(PRIVILEGES), st.integers(0, 40)), max_size=8),
        )
        @settings(max_examples=EXAMPLES, deadline=None, phases=(Phase.generate,))
        def same(parent: str, grants: list[tuple[Privilege, int]]) -> None:
            runner.run(compare(worlds[0], worlds[1], parent, grants))

        try:
            same()
            by_graphql, by_rest = (sorted(each[1:] for each in world.audited) for world in worlds)
            assert by_graphql == by_rest
        finally:
            runner.run(stack.aclose())
