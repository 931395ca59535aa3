"""A data directory of the previous release opens with all of its content."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Inspector, NullPool, create_engine, inspect, make_url

from headrace.catalog import upgrade
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import (
    EntityFormat,
    Need,
    QueryState,
    Relation,
    RelationKind,
    SchemaRegistry,
    Store,
    ViewDefinition,
)
from headrace.catalog.secrets import SecretBox
from headrace.core.errors import InternalError, UserError
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.types import BIGINT, VARCHAR, Struct
from headrace.formats.avro import Avro
from headrace.formats.csv import Csv
from headrace.formats.json import Json

RELEASE = Path(__file__).parent / "releases" / "0004.sql"
NOW = datetime.datetime(2026, 11, 21, 12, 30, 0, 123456, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(minutes=5)
ORDERS = RelationName("shop", "public", "Orders-東")
EVENTS = RelationName("lab", "Tests", "events")
TOTALS = RelationName("shop", "public", "totals")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "catalog.key").write_bytes(bytes(range(32)))
    _run(tmp_path, RELEASE.read_text(encoding="utf-8"))
    return tmp_path


@pytest.fixture
def catalog(folder: Path) -> Iterator[Catalog]:
    opened = Catalog.open(folder)
    yield opened
    opened.close()


def _run(folder: Path, script: str) -> None:
    with sqlite3.connect(folder / "catalog.db") as stored:
        stored.executescript(script)
    stored.close()


def _orders() -> Relation:
    columns = (Column("id", BIGINT, nullable=False), Column("who", Struct((("Name", VARCHAR),))))
    layout = EntityFormat(
        value=Csv(delimiter=";"),
        key=Json(timestamps="iso8601"),
        key_type=Struct((("id", BIGINT),)),
        key_columns=("id",),
        timestamp="id",
        upsert=True,
    )
    return Relation(
        ORDERS,
        RelationKind.CHANGELOG,
        Schema(columns, ("id",)),
        "sysadmin",
        NOW,
        NOW,
        store="k",
        entity=("orders",),
        format=layout,
        properties={"value.format": "CSV"},
        description="what was ordered",
        id="10000000-0000-4000-8000-000000000001",
    )


def test_relations_are_as_they_were(catalog: Catalog) -> None:
    assert catalog.relation(ORDERS) == _orders()
    events = catalog.relation(EVENTS)
    assert events is not None
    assert (events.format.value, events.owner, events.updated_at) == (
        Avro(registry="r"),
        "securityadmin",
        LATER,
    )
    view = catalog.relation(TOTALS)
    assert view is not None
    assert (view.kind, view.store, view.entity) == (RelationKind.MATERIALIZED_VIEW, None, None)
    text = "CREATE MATERIALIZED VIEW totals AS SELECT COUNT(*) AS n FROM orders"
    assert view.definition == ViewDefinition(text, "shop", "public")


def test_connections_are_as_they_were_with_their_secrets_sealed_anew(catalog: Catalog, folder: Path) -> None:
    (registry,), (kafka, postgresql) = catalog.schema_registries(), catalog.stores()
    secret = {"uris": "http://r:8081", "confluent.username": "u", "confluent.password": "hunter2"}
    assert registry == SchemaRegistry("r", "confluent", "sysadmin", NOW, LATER, secret, id=registry.id)
    secret = {"uris": "b:9092", "kafka.sasl.password": "hunter3"}
    assert kafka == Store("k", "kafka", "sysadmin", NOW, LATER, secret, schema_registry="r", id=kafka.id)
    secret = {"uris": "postgresql://h/d", "postgres.password": "hunter4"}
    assert postgresql == Store("pg", "postgresql", "sysadmin", NOW, NOW, secret, id=postgresql.id)
    catalog.close()
    assert all(b"hunter" not in path.read_bytes() for path in folder.iterdir())
    swapped = f"""UPDATE objects SET sealed = (SELECT sealed FROM objects WHERE id = '{postgresql.id}')
        WHERE id = '{kafka.id}'"""
    _run(folder, swapped)
    with pytest.raises(InternalError, match="cannot be decrypted"):
        Catalog.open(folder).store("k")


def test_namespaces_pools_and_people_are_as_they_were(catalog: Catalog) -> None:
    assert catalog.organization().id == "30000000-0000-4000-8000-000000000000"
    names = [(schema.database, schema.name, schema.owner) for schema in catalog.schemas()]
    assert names == [
        ("lab", "Tests", "securityadmin"),
        ("lab", "public", "sysadmin"),
        ("shop", "public", "sysadmin"),
    ]
    assert [database.created_at.year for database in catalog.databases()] == [2026, 2026]
    assert [(pool.name, pool.size) for pool in catalog.compute_pools()] == [("default_pool", "small")]
    principal = catalog.authenticate("token-of-the-release-before")
    assert principal is not None
    assert (principal.user, len(principal.roles)) == ("admin", 5)
    (token,), (user,) = catalog.api_tokens(), catalog.users()
    assert (token.name, token.role, token.expires_at) == ("administrator", None, None)
    assert user.created_at.year == 2026


def test_queries_know_the_very_relations_that_they_were_made_with(catalog: Catalog) -> None:
    running, terminated, errored = sorted(catalog.queries(), key=lambda query: query.id)
    view, orders = catalog.relation(TOTALS), catalog.relation(ORDERS)
    assert running.actual_state is QueryState.RUNNING
    assert (view.id in running.uses, orders.id in running.uses) == (True, True)
    assert [state.value for _, state, _ in catalog.query_events(terminated.id)] == ["starting", "terminated"]
    assert (errored.message, errored.restarts) == ("bad record", 2)
    assert (view.id in errored.uses, orders.id in errored.uses) == (False, True), "a view made later"
    assert [query.id for query in catalog.writers(view)] == [running.id, terminated.id]  # type: ignore[arg-type]
    assert [query.id for query in catalog.unfinished_queries()] == [errored.id, running.id]


@pytest.fixture
def before(tmp_path: Path) -> Callable[[str], Path]:
    """A data directory as revision 0016 has it, with what a script adds to it."""

    def made(script: str) -> Path:
        (tmp_path / "catalog.key").write_bytes(bytes(range(32)))
        _run(tmp_path, RELEASE.read_text(encoding="utf-8"))
        engine = create_engine(f"sqlite:///{tmp_path / 'catalog.db'}", poolclass=NullPool)
        with engine.begin() as connection:
            upgrade.by_revisions(connection, SecretBox((bytes(range(32)),)), "0016")
        _run(tmp_path, script)
        return tmp_path

    return made


def test_queries_use_the_stores_registries_and_pools_that_are_not_younger(
    before: Callable[[str], Path],
) -> None:
    plan = {
        "steps": [
            {"store": "k", "value": {"registry": "r"}},
            {"store": "pg", "value": "json"},
            {"store": "no"},
        ]
    }
    running, ended = (f"20000000-0000-4000-8000-00000000000{number}" for number in (1, 2))
    younger = "UPDATE objects SET created_at = 9000000000000000 WHERE kind = 'store' AND name = 'pg'"
    catalog = Catalog.open(before(f"UPDATE queries SET plan = '{json.dumps(plan)}'; {younger}"))
    queries = {query.id: query for query in catalog.queries()}
    for query in (queries[running], queries[ended]):
        named = (catalog.store("k"), catalog.schema_registry("r"), catalog.compute_pool("default_pool"))
        assert {value.id for value in named if value is not None} <= query.uses
        assert None not in named
        assert catalog.store("pg").id not in query.uses  # type: ignore[union-attr]
    assert catalog.writers(catalog.relation(TOTALS))[0].id == running  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"the running query {running}"):
        catalog.drop(catalog.schema_registry("r"), cascade=True)
    catalog.close()


def test_queries_over_views_need_what_the_owners_of_the_views_need(before: Callable[[str], Path]) -> None:
    totals, orders = (f"10000000-0000-4000-8000-00000000000{number}" for number in (3, 1))
    of_view, reading = (f"20000000-0000-4000-8000-00000000000{number}" for number in (1, 3))
    catalog = Catalog.open(
        before(f"INSERT INTO query_relations VALUES ('{reading}', '{totals}', 0) ON CONFLICT DO NOTHING")
    )
    queries = {query.id: query for query in catalog.queries()}
    assert queries[of_view].needs == (Need("SELECT", orders),)
    assert Need("SELECT", orders, view=totals) in queries[reading].needs
    catalog.close()


def test_what_was_of_an_earlier_role_of_the_same_name_is_not_the_later_ones(
    before: Callable[[str], Path],
) -> None:
    made = """INSERT INTO objects (id, kind, parent, name, owner, created_at, updated_at, definition)
            SELECT 'the-role', 'role', id, 'r', 'orgadmin', 100, 100, '{"version": 1}' FROM objects WHERE kind = 'organization';
        INSERT INTO user_roles VALUES ('admin', 'r'), ('admin', 'gone');
        INSERT INTO tokens (id, name, digest, user_name, role, created_at, updated_at)
            VALUES ('1', 'old', 'd1', 'admin', 'r', 99, 200), ('2', 'new', 'd2', 'admin', 'r', 101, 101),
                ('3', 'lost', 'd3', 'admin', 'gone', 101, 101);
        INSERT INTO invitations VALUES ('4', 'd4', 'anna', '["r", "gone"]', 'gone', 'admin', 101, 9999999999999999),
            ('5', 'd5', 'ben', '["r"]', 'r', 'admin', 99, 9999999999999999);"""
    catalog = Catalog.open(before(made))
    assert [(token.name, token.role) for token in catalog.api_tokens()] == [
        ("administrator", None),
        ("new", "r"),
    ]
    (user,) = catalog.users()
    assert "r" in user.roles
    assert "gone" not in user.roles
    invited = [(item.user, item.roles, item.default_role) for item in catalog.invitations()]
    assert invited == [("anna", ("r",), "public"), ("ben", ("public",), "public")]
    assert catalog.authenticate("token-of-the-release-before")
    catalog.close()


def test_an_upgraded_catalog_opens_again_and_takes_writes(catalog: Catalog, folder: Path) -> None:
    changed = dataclasses.replace(_orders(), name=RelationName("shop", "public", "more"), id="x")
    catalog.create_relation(changed)
    catalog.close()
    again = Catalog.open(folder)
    assert again.relation(changed.name) == changed
    assert again.relation(ORDERS) == _orders()
    again.close()


def test_what_a_later_release_wrote_is_refused(catalog: Catalog, folder: Path) -> None:
    catalog.close()
    definition = json.dumps({"version": 4})
    _run(folder, f"UPDATE objects SET definition = '{definition}' WHERE kind = 'relation'")
    with pytest.raises(
        InternalError, match="a relation of version 4, but this release supports versions up to 3"
    ):
        Catalog.open(folder)


def test_a_new_catalog_is_as_the_revisions_would_make_it(schema_of: Callable[[], str]) -> None:
    """Both ways that there are to today's tables end alike, but for the length of texts."""
    box = SecretBox((bytes(32),))
    postgresql = [
        make_url(schema_of()).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
        for _ in range(2)
    ]
    for new, old in (("sqlite://", "sqlite://"), tuple(postgresql)):
        shapes = []
        for url, make in ((new, upgrade.to_head), (old, upgrade.by_revisions)):
            engine = create_engine(url, poolclass=NullPool)
            with engine.begin() as connection:
                make(connection, box)
                shapes.append(_shape(inspect(connection)))
        assert shapes[0] == shapes[1]
        assert "objects" in shapes[0]


def _shape(known: Inspector) -> dict[str, object]:
    return {
        table: (
            sorted(
                (column["name"], str(column["type"]).partition("(")[0], column["nullable"])
                for column in known.get_columns(table)
            ),
            known.get_pk_constraint(table)["constrained_columns"],
            sorted(
                (
                    key["constrained_columns"],
                    key["referred_table"],
                    key["referred_columns"],
                    str(key["options"]),
                )
                for key in known.get_foreign_keys(table)
            ),
            sorted((index["column_names"], index["unique"]) for index in known.get_indexes(table)),
            sorted(unique["column_names"] for unique in known.get_unique_constraints(table)),
        )
        for table in known.get_table_names()
    }
