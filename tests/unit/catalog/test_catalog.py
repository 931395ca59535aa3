"""The catalog keeps what it is given, refuses what it must, and hides what is secret."""

from __future__ import annotations

import dataclasses
import datetime
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from headrace.catalog import tables
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import (
    DescriptorSource,
    DesiredState,
    EntityFormat,
    Query,
    QueryKind,
    QueryState,
    Relation,
    RelationKind,
    SchemaRegistry,
    Store,
)
from headrace.core.errors import HeadraceError, InternalError, UserError
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR, Struct
from headrace.formats.csv import Csv
from headrace.formats.json import Json

NOW = datetime.datetime(2026, 11, 21, 12, 30, 0, 123456, tzinfo=datetime.UTC)
NAME = RelationName("d", "public", "Orders-東")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    yield opened
    opened.close()


def store() -> Store:
    secret = {"uris": "b:1", "kafka.sasl.password": "hunter2"}
    return Store("k", "kafka", "sysadmin", NOW, NOW, secret, id="10000000-0000-4000-8000-00000000000a")


def relation() -> Relation:
    columns = (Column("id", BIGINT, nullable=False), Column("who", Struct((("Name", VARCHAR),))))
    layout = EntityFormat(
        value=Csv(delimiter=";"),
        key=Json(timestamps="iso8601"),
        key_type=Struct((("id", BIGINT),)),
        key_columns=("id",),
        timestamp="id",
    )
    return Relation(
        NAME,
        RelationKind.CHANGELOG,
        Schema(columns, ("id",)),
        "sysadmin",
        NOW,
        NOW,
        store="k",
        entity=("orders",),
        format=layout,
        properties={"value.format": "JSON"},
        id=str(uuid.uuid4()),
    )


def query() -> Query:
    return Query(
        str(uuid.uuid4()),
        "copy",
        1,
        QueryKind.INSERT_INTO,
        "INSERT …",
        "{}",
        NAME,
        (RelationName("d", "public", "source"),),
        "default_pool",
        "sysadmin",
        NOW,
        NOW,
    )


def filled(catalog: Catalog) -> Relation:
    catalog.create_database("d", "sysadmin")
    catalog.create_store(store())
    given = relation()
    catalog.create_relation(given)
    return given


def test_what_is_stored_is_read_again_after_a_restart(catalog: Catalog, tmp_path: Path) -> None:
    given, running = filled(catalog), query()
    catalog.create_query(running)
    catalog.close()
    again = Catalog.open(tmp_path)
    assert again.relation(NAME) == given
    assert again.store("k") == store()
    assert again.query(running.id) == again.query_by_name("copy")
    assert again.query(running.id).sources == running.sources  # type: ignore[union-attr]
    assert [schema.name for schema in again.schemas("d")] == ["public"]
    again.close()


def test_a_registry_and_the_store_that_has_it_change_and_stay_sealed(
    catalog: Catalog, tmp_path: Path
) -> None:
    made = SchemaRegistry("r", "confluent", "sysadmin", NOW, NOW, {"confluent.password": "hunter2"})
    catalog.create_schema_registry(made)
    catalog.create_store(dataclasses.replace(store(), schema_registry="r"))
    later = NOW + datetime.timedelta(hours=1)
    changed = dataclasses.replace(made, properties={"confluent.password": "hunter3"}, updated_at=later)
    catalog.update_schema_registry(changed)
    with pytest.raises(UserError) as failure:
        catalog.drop_schema_registry("r")
    assert failure.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    without = dataclasses.replace(store(), properties={"uris": "c:1"}, updated_at=later)
    assert catalog.store("k") == dataclasses.replace(store(), schema_registry="r")
    catalog.update_store(without)
    catalog.close()
    assert all(b"hunter" not in path.read_bytes() for path in tmp_path.iterdir())
    again = Catalog.open(tmp_path)
    assert again.schema_registries() == [changed] == [again.schema_registry("r")]
    assert again.store("k") == without
    again.drop_schema_registry("r")
    assert again.schema_registry("r") is None
    again.close()


def test_a_descriptor_source_is_kept_with_its_bytes(catalog: Catalog, tmp_path: Path) -> None:
    made = DescriptorSource("p", "sysadmin", NOW, NOW, b"\0\xff", "what is sold")
    catalog.create_descriptor_source(made)
    with pytest.raises(UserError) as failure:
        catalog.create_descriptor_source(made)
    assert failure.value.state is SqlState.DUPLICATE_DESCRIPTOR
    catalog.close()
    again = Catalog.open(tmp_path)
    assert again.descriptor_sources() == [made] == [again.descriptor_source("p")]
    again.drop_descriptor_source("p")
    assert again.descriptor_source("p") is None
    again.close()


def test_secrets_are_neither_in_the_file_nor_in_a_repr(catalog: Catalog, tmp_path: Path) -> None:
    filled(catalog)
    catalog.close()
    assert all(b"hunter2" not in path.read_bytes() for path in tmp_path.iterdir())
    assert "hunter2" not in repr(store())
    assert stat.S_IMODE((tmp_path / "catalog.key").stat().st_mode) == 0o600


def test_another_key_opens_nothing(catalog: Catalog, tmp_path: Path) -> None:
    filled(catalog)
    catalog.close()
    (tmp_path / "catalog.key").write_bytes(bytes(32))
    with pytest.raises(InternalError):
        Catalog.open(tmp_path).stores()


def test_a_cut_off_key_is_said_so(catalog: Catalog, tmp_path: Path) -> None:
    catalog.close()
    (tmp_path / "catalog.key").write_bytes(b"")
    with pytest.raises(InternalError, match="32 bytes"):
        Catalog.open(tmp_path)


def test_a_duplicate_has_the_code_of_its_kind(catalog: Catalog) -> None:
    filled(catalog)
    duplicates = {
        SqlState.DUPLICATE_DATABASE: lambda: catalog.create_database("d", "sysadmin"),
        SqlState.DUPLICATE_SCHEMA: lambda: catalog.create_schema("d", "public", "sysadmin"),
        SqlState.DUPLICATE_STORE: lambda: catalog.create_store(store()),
        SqlState.DUPLICATE_RELATION: lambda: catalog.create_relation(relation()),
    }
    for state, create in duplicates.items():
        with pytest.raises(UserError) as failure:
            create()
        assert failure.value.state is state


def test_what_is_missing_has_the_code_of_its_kind(catalog: Catalog) -> None:
    missing = {
        SqlState.DATABASE_NOT_FOUND: lambda: catalog.drop_database("x"),
        SqlState.SCHEMA_NOT_FOUND: lambda: catalog.drop_schema("x", "y"),
        SqlState.STORE_NOT_FOUND: lambda: catalog.drop_store("x"),
        SqlState.SCHEMA_REGISTRY_NOT_FOUND: lambda: catalog.drop_schema_registry("x"),
        SqlState.DESCRIPTOR_SOURCE_NOT_FOUND: lambda: catalog.drop_descriptor_source("x"),
        SqlState.RELATION_NOT_FOUND: lambda: catalog.drop_relation(NAME),
        SqlState.QUERY_NOT_FOUND: lambda: catalog.request_restart("x"),
    }
    for state, change in missing.items():
        with pytest.raises(HeadraceError) as failure:
            change()
        assert failure.value.state is state


def test_what_belongs_to_nothing_is_refused_as_such(catalog: Catalog) -> None:
    orphans = {
        SqlState.DATABASE_NOT_FOUND: lambda: catalog.create_schema("x", "y", "sysadmin"),
        SqlState.SCHEMA_NOT_FOUND: lambda: catalog.create_relation(relation()),
        SqlState.SCHEMA_REGISTRY_NOT_FOUND: lambda: catalog.create_store(
            dataclasses.replace(store(), schema_registry="x")
        ),
    }
    for state, create in orphans.items():
        with pytest.raises(UserError) as failure:
            create()
        assert failure.value.state is state


def test_what_others_refer_to_is_not_dropped(catalog: Catalog) -> None:
    filled(catalog)
    drops = [
        lambda: catalog.drop_store("k"),
        lambda: catalog.drop_schema("d", "public"),
        lambda: catalog.drop_database("d"),
    ]
    for drop in drops:
        with pytest.raises(UserError) as failure:
            drop()
        assert failure.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert catalog.relation(NAME) is not None


def test_a_failed_transaction_leaves_nothing(catalog: Catalog) -> None:
    catalog.create_database("d", "sysadmin")
    catalog.create_store(store())

    def both() -> None:
        with catalog.transaction():
            catalog.create_relation(relation())
            catalog.create_database("d", "sysadmin")

    with pytest.raises(UserError):
        both()
    assert catalog.relations() == []


def test_queries_that_are_terminated_as_wanted_are_not_read_again(catalog: Catalog, tmp_path: Path) -> None:
    def made(desired: DesiredState, actual: QueryState) -> str:
        created = dataclasses.replace(query(), id=str(uuid.uuid4()))
        catalog.create_query(created)
        catalog.set_desired_state(created.id, desired)
        catalog.record_query_state(created.id, actual)
        return created.id

    made(DesiredState.TERMINATED, QueryState.TERMINATED)
    unfinished = {
        made(DesiredState.TERMINATED, QueryState.TERMINATE_REQUESTED),
        made(DesiredState.RUNNING, QueryState.TERMINATED),
        made(DesiredState.RUNNING, QueryState.ERRORED),
    }
    assert {found.id for found in catalog.unfinished_queries()} == unfinished
    catalog.close()
    again = Catalog.open(tmp_path)
    assert {found.id for found in again.unfinished_queries()} == unfinished
    assert len(again.queries()) == 4
    again.close()


def test_a_query_remembers_its_states_and_a_restart_is_a_new_generation(catalog: Catalog) -> None:
    filled(catalog)
    running = query()
    catalog.create_query(running)
    catalog.record_query_state(
        running.id, QueryState.ERRORED, message="bad record", sqlstate="22P02", restarts=2
    )
    assert catalog.queries_of(NAME)[0].message == "bad record"
    catalog.request_restart(running.id)
    after = catalog.query(running.id)
    assert after is not None
    assert (after.generation, after.restarts, after.message) == (2, 0, None)
    catalog.set_desired_state(running.id, DesiredState.TERMINATED)
    catalog.record_query_state(running.id, QueryState.TERMINATED)
    assert catalog.queries_of(NAME) == []
    states = [state for _, state, _ in catalog.query_events(running.id)]
    assert states == [QueryState.STARTING, QueryState.ERRORED, QueryState.STARTING, QueryState.TERMINATED]


def test_tokens_are_known_by_their_digest_only(catalog: Catalog, tmp_path: Path) -> None:
    made = catalog.ensure_administrator(None)
    assert made is not None
    assert catalog.ensure_administrator(None) is None
    principal = catalog.authenticate(made)
    assert principal is not None
    assert (principal.user, principal.default_role) == ("admin", "sysadmin")
    assert catalog.authenticate(made + "x") is None
    catalog.ensure_administrator("given")
    assert catalog.authenticate("given") == principal
    assert catalog.authenticate(made) is None, "a token that leaked is replaced by giving another"
    catalog.close()
    assert all(made.encode() not in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.usefixtures("catalog")
def test_the_migrations_make_exactly_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with create_engine(f"sqlite:///{tmp_path / 'catalog.db'}").connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), tables.metadata)
    assert [
        difference
        for difference in differences
        if difference[0] in ("add_table", "add_column", "remove_column")
    ] == []


def test_a_catalog_says_whether_it_can_be_read(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    assert catalog.is_readable()
    catalog.close()
    assert not catalog.is_readable()
