"""INSERT INTO over the real catalog and an engine whose drivers are not started: what may feed what, and what is answered."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Principal, Query, Relation, RelationKind, Store
from headrace.core.context import SessionContext
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.resultset import ResultSet
from headrace.core.schema import Column, Schema
from headrace.core.settings import Settings
from headrace.core.types import BIGINT
from headrace.engine.engine import Engine
from headrace.session import StatementService
from headrace.statements import continuous_query
from headrace.statements.base import Services

ADMINISTRATOR = Principal("admin", ("sysadmin",), "sysadmin")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Shop:
    """Streams a to d of (x, y, z), and `again` over the entity of b."""

    def __init__(self, folder: Path) -> None:
        self.catalog = Catalog.open(folder)
        self.catalog.create_database("shop", "sysadmin")
        self.catalog.create_store(Store("k", "kafka", "sysadmin", NOW, NOW, {"uris": "localhost:1"}))
        settings = Settings(data_dir=folder)
        self.engine = Engine(self.catalog, settings)
        self.service = StatementService(Services(self.catalog, self.engine, settings))
        for name, entity in (("a", "a"), ("b", "b"), ("c", "c"), ("d", "d"), ("again", "b")):
            self.catalog.create_relation(self.relation(name, (entity,)))

    @staticmethod
    def relation(name: str, entity: tuple[str, ...]) -> Relation:
        return Relation(
            name=RelationName("shop", "public", name),
            kind=RelationKind.STREAM,
            schema=Schema(tuple(Column(column, BIGINT) for column in "xyz")),
            owner="sysadmin",
            created_at=NOW,
            updated_at=NOW,
            store="k",
            entity=entity,
            id=name,
        )

    async def execute(self, text: str) -> list[tuple[object, ...]]:
        context = SessionContext("", database="shop", schema="public")
        executed = await self.service.execute(text, principal=ADMINISTRATOR, context=context)
        assert isinstance(executed.outcome, ResultSet)
        return list(executed.outcome.rows)

    async def refused(self, text: str, place: str) -> str:
        """The message of a refused cycle."""
        with pytest.raises(UserError) as caught:
            await self.execute(text)
        error = caught.value
        assert error.state.value == "42P16"
        assert error.span is not None
        assert text[error.span.start : error.span.end] == place
        return error.message

    def query(self, name: str) -> Query:
        stored = self.catalog.query_by_name(name)
        assert stored is not None
        return stored


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    await shop.engine.stop()
    shop.catalog.close()


async def test_a_query_may_not_read_what_it_writes(shop: Shop) -> None:
    message = await shop.refused("INSERT INTO a SELECT x FROM a", "a")
    assert message == "the query would read its own output: shop.public.a → shop.public.a"
    message = await shop.refused("INSERT INTO again SELECT x FROM b", "again")
    assert message.endswith("shop.public.b → shop.public.again (the same entity as shop.public.b)")
    await shop.refused("EXPLAIN INSERT INTO a SELECT l.x FROM b l JOIN a r WITHIN 1 MINUTE ON l.x = r.x", "a")
    assert shop.catalog.queries() == []


async def test_nor_through_others_while_they_are_not_terminated(shop: Shop) -> None:
    await shop.execute("INSERT INTO b SELECT x FROM a QUERY WITH ('query.name' = 'first')")
    await shop.execute("INSERT INTO c SELECT x FROM again QUERY WITH ('query.name' = 'second')")
    message = await shop.refused("INSERT INTO a SELECT x FROM c", "a")
    assert message == (
        "the query would read its own output, through queries first and second: shop.public.c → shop.public.a → "
        "shop.public.b (the same entity as shop.public.again) → shop.public.c"
    )
    await shop.execute("INSERT INTO d SELECT x FROM c")
    await shop.execute("TERMINATE QUERY second")
    await shop.execute("INSERT INTO a SELECT x FROM c QUERY WITH ('query.name' = 'third')")
    await shop.refused("RESTART QUERY second", "second")
    await shop.execute("TERMINATE QUERY third")
    await shop.execute("RESTART QUERY second")


async def test_a_cycle_that_is_meant_is_allowed_also_at_its_restart(shop: Shop) -> None:
    allowed = "INSERT INTO a WITH ('allow.cycle' = TRUE) SELECT x FROM a WHERE x < 3 QUERY WITH ('query.name' = 'q')"
    await shop.execute(allowed)
    await shop.execute("TERMINATE QUERY q")
    await shop.execute("RESTART QUERY q")
    with pytest.raises(UserError, match=r"'allow\.cycle' must be true or false"):
        await shop.execute(allowed.replace("TRUE", "perhaps"))


async def test_a_query_of_tables_closes_no_cycle_since_it_reads_them_before_it_writes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No PostgreSQL is there to look at the table.
    monkeypatch.setattr(continuous_query, "check_table", lambda *_: None)
    shop.catalog.create_store(
        Store("pg", "postgresql", "sysadmin", NOW, NOW, {"uris": "postgresql://localhost:1/shop"})
    )
    for name in ("kept", "copy"):
        relation = shop.relation(name, (name,))
        shop.catalog.create_relation(
            replace(relation, kind=RelationKind.TABLE, store="pg", entity=("public", name))
        )
    await shop.execute("INSERT INTO kept SELECT x + 1 AS x, y, z FROM kept")
    await shop.execute("INSERT INTO copy SELECT * FROM kept QUERY WITH ('query.name' = 'first')")
    await shop.execute("INSERT INTO kept SELECT * FROM copy QUERY WITH ('query.name' = 'second')")
    await shop.execute("INSERT INTO kept SELECT x, y, z FROM a")
    await shop.execute("INSERT INTO a SELECT x FROM kept")
    # Looking rows up has no end.
    await shop.refused("INSERT INTO a SELECT b.x FROM b JOIN kept ON kept.x = b.x", "a")
    await shop.execute("TERMINATE QUERY second")
    await shop.execute("RESTART QUERY second")


async def test_listed_columns_are_those_that_a_query_writes(shop: Shop) -> None:
    (row,) = await shop.execute("INSERT INTO a (z, x) SELECT x, z AS y FROM b")
    assert "y" in str(row[3])
    (query,) = shop.catalog.queries()
    assert query.sql == "INSERT INTO a (z, x) SELECT x, z AS y FROM b"
    assert "AS `z`" in str(query.plan)
    for columns, state, place in (
        ("z, x, w", "42703", "w"),
        ("z, z, x", "42601", "z"),
        ("z, x, y", "42P16", "z"),
    ):
        text = (
            f"INSERT INTO a ({columns}) SELECT x, z AS y{', y AS v' if columns != 'z, x, y' else ''} FROM b"
        )
        with pytest.raises(UserError) as caught:
            await shop.execute(text)
        assert caught.value.state.value == state
        assert caught.value.span is not None
        assert text[caught.value.span.start : caught.value.span.end] == place


async def test_the_answer_names_the_columns_that_are_left_out(shop: Shop) -> None:
    ((*_, summary, _path),) = await shop.execute("INSERT INTO b SELECT y FROM a")
    assert str(summary).endswith("writes shop.public.b; columns left NULL: x, z")
    ((*_, summary, _path),) = await shop.execute("INSERT INTO b SELECT z AS one, y AS two, x AS three FROM a")
    assert str(summary).endswith("writes shop.public.b")


async def test_a_query_without_a_name_is_known_by_the_relation_that_it_writes(shop: Shop) -> None:
    await shop.execute("INSERT INTO b SELECT x FROM a")
    [(query_id, *_, sink)] = await shop.execute("LIST QUERIES")
    assert sink == '"shop"."public"."b"'
    for name in ("b", "public.b", "shop.public.b"):
        facts = {row[0]: row[1] for row in await shop.execute(f"DESCRIBE QUERY {name}")}
        assert facts["id"] == query_id
    await shop.execute("INSERT INTO b SELECT y FROM a")
    with pytest.raises(UserError, match=f"2 queries write shop.public.b: {query_id}, "):
        await shop.execute("TERMINATE QUERY b")
    await shop.execute(f"TERMINATE QUERY {query_id}")
    [(*_, remaining)] = await shop.execute("TERMINATE QUERY b")
    assert remaining != query_id
    # All are terminated by now: the last one is meant.
    await shop.execute("RESTART QUERY b")
    for name in ("a", "missing", "nowhere.public.b"):
        with pytest.raises(UserError, match="does not exist or is not authorized"):
            await shop.execute(f"TERMINATE QUERY {name}")


async def test_a_query_that_does_not_exist_is_pointed_at(shop: Shop) -> None:
    await shop.execute("INSERT INTO b SELECT x FROM a QUERY WITH ('query.name' = 'first')")
    text = "TERMINATE QUERY frist"
    with pytest.raises(UserError) as caught:
        await shop.execute(text)
    assert caught.value.state.value == "3D019"
    assert caught.value.span is not None
    assert text[caught.value.span.start : caught.value.span.end] == "frist"
    assert caught.value.hint == "Did you mean first?"


@pytest.mark.parametrize(
    ("value", "place"),
    [('{"a": }', "}"), ("""{"it''s": 1,\n "b" 2}""", "2"), ("[NaN]", None), ("[" * 100_000, None)],
    ids=["a value is missing", "after a quote, in the second line", "a constant", "without end"],
)
async def test_a_record_that_is_not_json_is_pointed_into(shop: Shop, value: str, place: str | None) -> None:
    text = f"INSERT INTO ENTITY a IN STORE k VALUE('{value}')"
    with pytest.raises(UserError, match="not JSON") as caught:
        await shop.execute(text)
    span = caught.value.span
    assert caught.value.state.value == "22P02"
    assert span is not None
    if place is not None:
        assert text[span.start : span.end] == place
        assert text.splitlines()[span.line - 1][span.column - 1] == place


async def test_rows_for_a_store_that_cannot_be_written_are_refused_with_another_way(shop: Shop) -> None:
    await shop.execute("CREATE STORE g WITH ('type' = GENERATOR)")
    await shop.execute("CREATE STREAM made (x BIGINT) WITH ('store' = g)")
    for text in ("INSERT INTO made SELECT x FROM a", "CREATE STREAM copied AS SELECT x FROM made"):
        with pytest.raises(UserError) as refused:
            await shop.execute(text)
        assert refused.value.message == "stores of type Generator cannot be written by queries"
        assert refused.value.hint == (
            "Write into a relation of another store; CREATE … AS creates it there WITH ('store' = name)."
        )
