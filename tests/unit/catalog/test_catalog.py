"""The catalog stores objects, refuses invalid changes, and encrypts secrets."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import stat
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine

from headrace.catalog import tables
from headrace.catalog.catalog import Catalog
from headrace.catalog.keys import CommandKeys, FileKeys, GivenKeys
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.kinds.store import STORE
from headrace.catalog.objects import (
    ComputePool,
    Database,
    DescriptorSource,
    DesiredState,
    EntityFormat,
    FunctionSource,
    Query,
    QueryKind,
    QueryState,
    Relation,
    RelationKind,
    SchemaObject,
    SchemaRegistry,
    Store,
    UserFunction,
)
from headrace.core.errors import ExternalError, HeadraceError, InternalError, UserError
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR, Struct
from headrace.formats.avro import Avro
from headrace.formats.csv import Csv
from headrace.formats.json import Json
from tests.unit.catalog.conftest import Place

NOW = datetime.datetime(2026, 11, 21, 12, 30, 0, 123456, tzinfo=datetime.UTC)
NAME = RelationName("d", "public", "Orders-東")


def store() -> Store:
    secret = {"uris": "b:1", "kafka.sasl.password": "hunter2"}
    return Store("k", "kafka", "sysadmin", NOW, NOW, secret, id="10000000-0000-4000-8000-00000000000a")


def registry() -> SchemaRegistry:
    return SchemaRegistry("r", "confluent", "sysadmin", NOW, NOW, {"confluent.password": "hunter2"})


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
        (NAME,),
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


def test_what_is_stored_is_read_again_after_a_restart(catalog: Catalog, place: Place) -> None:
    given, running = filled(catalog), query()
    catalog.create_query(running)
    catalog.close()
    again = place.open()
    assert again.relation(NAME) == given
    assert again.store("k") == store()
    assert again.query(running.id) == again.query_by_name("copy")
    assert again.query(running.id).sources == running.sources  # type: ignore[union-attr]
    assert [schema.name for schema in again.schemas("d")] == ["public"]
    again.close()


def test_a_registry_and_the_store_that_has_it_change_and_stay_sealed(catalog: Catalog, place: Place) -> None:
    made = registry()
    catalog.create_schema_registry(made)
    catalog.create_store(dataclasses.replace(store(), schema_registry="r"))
    later = NOW + datetime.timedelta(hours=1)
    changed = dataclasses.replace(made, properties={"confluent.password": "hunter3"}, updated_at=later)
    catalog.update_schema_registry(changed)
    with pytest.raises(UserError) as failure:
        catalog.drop(made)
    assert failure.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    without = dataclasses.replace(store(), properties={"uris": "c:1"}, updated_at=later)
    assert catalog.store("k") == dataclasses.replace(store(), schema_registry="r")
    catalog.update_store(without)
    catalog.close()
    assert all(b"hunter" not in path.read_bytes() for path in place.folder.iterdir())
    again = place.open()
    assert again.schema_registries() == [changed] == [again.schema_registry("r")]
    assert again.store("k") == without
    again.drop(changed)
    assert again.schema_registry("r") is None
    again.close()


def test_a_descriptor_source_is_kept_with_its_bytes(catalog: Catalog, place: Place) -> None:
    made = DescriptorSource("p", "sysadmin", NOW, NOW, b"\0\xff", "what is sold")
    catalog.create_descriptor_source(made)
    with pytest.raises(UserError) as failure:
        catalog.create_descriptor_source(made)
    assert failure.value.state is SqlState.DUPLICATE_DESCRIPTOR
    catalog.close()
    again = place.open()
    assert again.descriptor_sources() == [made] == [again.descriptor_source("p")]
    again.drop(made)
    assert again.descriptor_source("p") is None
    again.close()


def test_a_function_source_is_kept_with_its_file_and_functions_with_their_signatures(
    catalog: Catalog, place: Place
) -> None:
    content = b"\0\xff" * 1000
    source = FunctionSource("F s", "sysadmin", NOW, NOW, "ab" * 32, len(content), 3, "texts", "cd" * 32)
    catalog.create_function_source(source, content, b"library")
    functions = [
        UserFunction(name, taken, BIGINT, "F s", "com.x.A", "sysadmin", NOW, NOW, ("x:443",))
        for name, taken in (('"f(', (("a", VARCHAR), ("B", Struct((("x y", BIGINT),))))), ("f", ()))
    ]
    for function in functions:
        catalog.create_function(function)
        with pytest.raises(UserError) as failure:
            catalog.create_function(dataclasses.replace(function, id="x"))
        assert failure.value.state is SqlState.DUPLICATE_FUNCTION
    with pytest.raises(UserError) as failure:
        catalog.drop(source)
    assert failure.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    renamed = catalog.rename(source, "texts")
    catalog.close()
    again = place.open()
    assert again.functions() == [dataclasses.replace(item, source="texts") for item in functions]
    assert (again.function_source("texts"), again.file_of(renamed)) == (renamed, content)
    files = [again.function_file(digest * 32) for digest in ("ab", "cd", "ef")]
    assert files == [content, b"library", None]
    assert again.snapshot().digest_of(again.functions()[0]) == f"{'ab' * 32}+{'cd' * 32}"
    again.drop(renamed, cascade=True)
    assert (again.functions(), again.function_sources()) == ([], [])
    with pytest.raises(UserError) as failure:
        again.file_of(renamed)
    assert failure.value.state is SqlState.FUNCTION_SOURCE_NOT_FOUND
    again.close()


def test_secrets_are_neither_in_the_file_nor_in_a_repr(catalog: Catalog, place: Place) -> None:
    filled(catalog)
    catalog.close()
    assert all(b"hunter2" not in path.read_bytes() for path in place.folder.iterdir())
    assert "hunter2" not in repr(store())
    assert stat.S_IMODE((place.folder / "catalog.key").stat().st_mode) == 0o600


def test_a_catalog_with_secrets_is_refused_without_the_key_that_opens_them(
    catalog: Catalog, place: Place
) -> None:
    filled(catalog)
    catalog.close()
    key = place.folder / "catalog.key"
    right = key.read_bytes()
    for wrong in (bytes(32), None):
        key.unlink()
        if wrong is not None:
            key.write_bytes(wrong)
        with pytest.raises(UserError, match=r"decrypts none of its secrets") as refusal:
            place.open()
        assert "Restore catalog.key" in (refusal.value.hint or "")
    assert not key.exists(), "no new key takes the place of one that was lost"
    key.write_bytes(right)
    place.open().close()


def test_a_truncated_or_unreadable_key_is_reported(catalog: Catalog, place: Place) -> None:
    catalog.close()
    key = place.folder / "catalog.key"
    key.write_bytes(b"")
    with pytest.raises(InternalError, match="32 bytes"):
        place.open()
    key.unlink()
    key.mkdir()
    with pytest.raises(InternalError, match=r"cannot read .*catalog\.key: Is a directory"):
        place.open()


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
        SqlState.DATABASE_NOT_FOUND: lambda: catalog.drop(Database("x", "sysadmin", NOW)),
        SqlState.SCHEMA_NOT_FOUND: lambda: catalog.drop(SchemaObject("x", "y", "sysadmin", NOW)),
        SqlState.STORE_NOT_FOUND: lambda: catalog.update_store(store()),
        SqlState.SCHEMA_REGISTRY_NOT_FOUND: lambda: catalog.update_schema_registry(registry()),
        SqlState.DESCRIPTOR_SOURCE_NOT_FOUND: lambda: catalog.drop(
            DescriptorSource("x", "sysadmin", NOW, NOW, b"")
        ),
        SqlState.RELATION_NOT_FOUND: lambda: catalog.drop(relation()),
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


def test_what_others_refer_to_is_not_dropped_and_they_are_named(catalog: Catalog) -> None:
    given = filled(catalog)
    catalog.create_schema_registry(registry())
    layout = dataclasses.replace(given.format, value=Avro(registry="r"))
    for number in range(4):
        name = RelationName("d", "public", f"r{number}")
        catalog.create_relation(dataclasses.replace(given, name=name, id=str(uuid.uuid4()), format=layout))
    last = "d.public.r1, the relation d.public.r2 and 1 more"
    others = "d.public.r0, the relation d.public.r1 and 2 more"
    drops = [
        (catalog.store("k"), f'the relation d.public."Orders-東", the relation {others}'),
        (catalog.schema("d", "public"), f'the relation d.public."Orders-東", the relation {others}'),
        (catalog.database("d"), f'the relation d.public."Orders-東", the relation {others}'),
        (catalog.schema_registry("r"), f"the relation d.public.r0, the relation {last}"),
    ]
    for target, named in drops:
        with pytest.raises(UserError) as failure:
            catalog.drop(target)
        assert failure.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
        assert failure.value.message.endswith(f"is referenced by {named}")
    assert len(catalog.relations()) == 5


def test_cascade_drops_what_depends_and_nothing_else(catalog: Catalog, place: Place) -> None:
    given = filled(catalog)
    catalog.create_store(dataclasses.replace(store(), name="other", id="s"))
    kept = dataclasses.replace(given, name=RelationName("d", "public", "kept"), store="other", id="kept")
    catalog.create_relation(kept)
    target = catalog.store("k")
    assert target is not None
    went = catalog.drop(target, cascade=True)
    assert [item.id for item in went.objects] == [given.id, target.id]
    assert (catalog.relations(), [item.name for item in catalog.stores()]) == ([kept], ["other"])
    catalog.close()
    again = place.open()
    assert (again.relations(), [item.name for item in again.stores()]) == ([kept], ["other"])
    again.close()


def test_a_query_that_runs_keeps_its_relations_also_from_cascade(catalog: Catalog) -> None:
    filled(catalog)
    running = query()
    catalog.create_query(running)
    for target in (catalog.relation(NAME), catalog.database("d")):
        with pytest.raises(UserError, match=f"is referenced by .*the running query {running.id}"):
            catalog.drop(target)
        with pytest.raises(UserError, match=f"is referenced by the running query {running.id}"):
            catalog.drop(target, cascade=True)
    catalog.set_desired_state(running.id, DesiredState.TERMINATED)
    catalog.record_query_state(running.id, QueryState.TERMINATED)
    catalog.drop(catalog.database("d"), cascade=True)
    after = catalog.query(running.id)
    assert after is not None
    assert catalog.dropped_uses(after) == [(RELATION, NAME.path)], "whatever gets its name"


def test_a_query_uses_what_its_plan_names_and_its_compute_pool(catalog: Catalog) -> None:
    filled(catalog)
    catalog.create_store(dataclasses.replace(store(), name="dead", id="dead-letters"))
    catalog.create_schema_registry(registry())
    catalog.create_compute_pool(ComputePool("p", "small", "sysadmin", NOW, NOW))
    plan = {
        "steps": [{"store": "dead", "entity": ["left", "out"]}, {"key": {"registry": "r"}, "value": None}]
    }
    running = dataclasses.replace(query(), plan=json.dumps(plan), compute_pool="p")
    catalog.create_query(running)
    for target in (catalog.store("dead"), catalog.schema_registry("r"), catalog.compute_pool("p")):
        with pytest.raises(UserError, match=f"is referenced by the running query {running.id}"):
            catalog.drop(target)
    catalog.set_desired_state(running.id, DesiredState.TERMINATED)
    catalog.record_query_state(running.id, QueryState.TERMINATED)
    for target in (catalog.store("dead"), catalog.compute_pool("p")):
        catalog.drop(target)
    catalog.create_store(dataclasses.replace(store(), name="dead", id="another"))
    ended = catalog.query(running.id)
    assert ended is not None
    assert catalog.dropped_uses(ended) == [(STORE, ("dead",))], "another store has its name now"
    with pytest.raises(UserError, match="requires the compute pool p, which does not exist"):
        catalog.request_restart(running.id)
    catalog.create_compute_pool(pool := ComputePool("p", "small", "sysadmin", NOW, NOW))
    catalog.request_restart(running.id)
    assert catalog.snapshot().queries_using([pool]), "a query that starts again uses the pool of that name"


def test_a_query_of_a_store_that_was_dropped_meanwhile_is_not_created(catalog: Catalog) -> None:
    filled(catalog)
    late = dataclasses.replace(query(), plan=json.dumps({"steps": [{"store": "gone"}]}))
    with pytest.raises(UserError, match="requires the store gone, which does not exist") as failure:
        catalog.create_query(late)
    assert failure.value.state is SqlState.STORE_NOT_FOUND
    assert catalog.queries() == []


def test_a_name_that_was_dropped_is_another_object_when_it_is_made_again(catalog: Catalog) -> None:
    given, running = filled(catalog), query()
    catalog.create_query(running)
    catalog.set_desired_state(running.id, DesiredState.TERMINATED)
    catalog.record_query_state(running.id, QueryState.TERMINATED)
    assert [writer.id for writer in catalog.writers(given)] == [running.id]
    catalog.drop(given)
    again = dataclasses.replace(given, id=str(uuid.uuid4()))
    catalog.create_relation(again)
    after = catalog.query(running.id)
    assert after is not None
    assert again.id not in after.uses
    assert catalog.writers(again) == []


def test_a_transaction_is_seen_by_others_when_it_is_over(catalog: Catalog) -> None:
    before = catalog.snapshot()
    seen: list[list[str]] = []

    def look() -> None:
        seen.append([database.name for database in catalog.databases()])

    with catalog.transaction():
        catalog.create_database("d", "sysadmin")
        assert catalog.database("d") is not None
        other = threading.Thread(target=look)
        other.start()
        other.join()
    look()
    assert seen == [[], ["d"]]
    assert before.objects["database"] == {}


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


def test_queries_that_have_ended_as_wanted_are_not_read_again(catalog: Catalog, place: Place) -> None:
    filled(catalog)

    def made(desired: DesiredState, actual: QueryState) -> str:
        created = dataclasses.replace(query(), id=str(uuid.uuid4()))
        catalog.create_query(created)
        catalog.set_desired_state(created.id, desired)
        catalog.record_query_state(created.id, actual)
        return created.id

    made(DesiredState.TERMINATED, QueryState.TERMINATED)
    made(DesiredState.STOPPED, QueryState.TERMINATED)
    unfinished = {
        made(DesiredState.TERMINATED, QueryState.TERMINATE_REQUESTED),
        made(DesiredState.RUNNING, QueryState.TERMINATED),
        made(DesiredState.RUNNING, QueryState.ERRORED),
    }
    assert {pending.id for pending in catalog.unfinished_queries()} == unfinished
    catalog.close()
    again = place.open()
    assert {pending.id for pending in again.unfinished_queries()} == unfinished
    assert len(again.queries()) == 5
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


def test_what_was_seen_of_an_earlier_run_does_not_undo_a_restart(catalog: Catalog) -> None:
    filled(catalog)
    running = query()
    catalog.create_query(running)
    catalog.request_restart(running.id)
    catalog.record_query_state(running.id, QueryState.ERRORED, message="late", generation=1)
    after = catalog.query(running.id)
    assert after is not None
    assert (after.actual_state, after.message) == (QueryState.STARTING, None)
    catalog.record_query_state(running.id, QueryState.RUNNING, generation=2)
    assert [state.value for _, state, _ in catalog.query_events(running.id)] == [
        "starting",
        "starting",
        "running",
    ]


def test_tokens_are_known_by_their_digest_only(catalog: Catalog, place: Place) -> None:
    made = catalog.ensure_administrator(None)
    assert made is not None
    assert catalog.ensure_administrator(None) is None
    principal = catalog.authenticate(made)
    assert principal is not None
    assert (principal.user, principal.default_role) == ("admin", "sysadmin")
    assert catalog.authenticate(made + "x") is None
    catalog.ensure_administrator("given")
    again = catalog.authenticate("given")
    assert again is not None
    assert (again.user, again.roles) == (principal.user, principal.roles)
    assert catalog.authenticate(made) is None, "a token that leaked is replaced by giving another"
    catalog.close()
    assert all(made.encode() not in path.read_bytes() for path in place.folder.iterdir())


@pytest.mark.usefixtures("catalog")
def test_the_migrations_make_exactly_the_tables_that_the_code_uses(place: Place) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with create_engine(place.engine_url, poolclass=NullPool).connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), tables.metadata)
    assert [
        difference
        for difference in differences
        if difference[0] in ("add_table", "add_column", "remove_column")
    ] == []


def test_a_rename_in_a_draft_reaches_its_queries(catalog: Catalog) -> None:
    filled(catalog)
    stored, drafted = query(), query()
    catalog.create_query(stored)
    draft = catalog.draft()
    draft.create_query(drafted)
    draft.set_desired_state(stored.id, DesiredState.TERMINATED)
    draft.rename(draft.relation(NAME), "orders")
    following = draft.snapshot().queries
    assert {following[key].sink.name for key in (stored.id, drafted.id)} == {"orders"}
    assert following[stored.id].desired_state is DesiredState.TERMINATED, "the draft's own change stays"
    assert catalog.snapshot().queries[stored.id].sink == NAME


def test_what_has_another_name_keeps_its_id_and_all_that_knows_it(catalog: Catalog, place: Place) -> None:
    given = filled(catalog)
    catalog.create_schema_registry(registry())
    plan = {"version": 3, "steps": [{"step": "read_entity", "store": "k"}, {"value": {"registry": "r"}}]}
    running = dataclasses.replace(query(), plan=json.dumps(plan))
    catalog.create_query(running)
    dropped = dataclasses.replace(given, name=RelationName("d", "public", "dropped"), id=str(uuid.uuid4()))
    catalog.create_relation(dropped)
    other = dataclasses.replace(query(), sink=dropped.name, desired_state=DesiredState.TERMINATED)
    catalog.create_query(dataclasses.replace(other, actual_state=QueryState.TERMINATED))
    catalog.drop(dropped)
    sealed = catalog.store("k")
    catalog.rename(catalog.database("d"), "D")
    catalog.rename(sealed, "kafka")
    catalog.rename(catalog.relation(RelationName("D", "public", given.name.name)), "orders")
    catalog.rename(catalog.schema("D", "public"), "Public")
    catalog.rename(catalog.schema("D", "Public"), "public")
    catalog.rename(catalog.compute_pools()[0], "pool")
    following = catalog.snapshot()
    catalog.close()
    again = place.open()
    assert again.snapshot() == following
    renamed, store = again.relation(RelationName("D", "public", "orders")), again.store("kafka")
    assert renamed
    assert store
    assert sealed
    assert (renamed.id, renamed.store, renamed.schema) == (given.id, "kafka", given.schema)
    assert (store.id, store.properties) == (sealed.id, sealed.properties)
    (kept, ended) = (again.query(running.id), again.query(other.id))
    assert kept
    assert (renamed.id in kept.uses, kept.sink) == (True, renamed.name)
    assert json.loads(kept.plan)["steps"][0]["store"] == "kafka"
    assert ended
    assert ended.sink == dropped.name
    with pytest.raises(UserError) as failure:
        again.drop(again.store("kafka"))
    assert failure.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    again.close()


def test_a_key_is_replaced_while_the_catalog_is_open(catalog: Catalog, place: Place) -> None:
    filled(catalog)
    first = (place.folder / "catalog.key").read_bytes()
    catalog.rotate_key()
    second = (place.folder / "catalog.key").read_bytes()
    assert (len(second), second != first) == (32, True)
    assert catalog.store("k") == store()
    catalog.close()
    again = place.open()
    assert again.store("k") == store()
    again.close()


def test_a_server_that_dies_while_it_replaces_a_key_opens_everything(catalog: Catalog, place: Place) -> None:
    filled(catalog)
    FileKeys(place.folder).next()
    catalog.close()
    again = place.open()
    assert (len((place.folder / "catalog.key").read_bytes()), again.store("k")) == (32, store())
    again.close()


def test_keys_are_from_the_environment_or_a_command(catalog: Catalog, place: Place, tmp_path: Path) -> None:
    filled(catalog)
    catalog.close()
    old = base64.b64encode((place.folder / "catalog.key").read_bytes()).decode()
    new = base64.b64encode(bytes(range(32))).decode()
    given = Catalog.open(place.folder, place.url, GivenKeys(f"{new},{old}"))
    with pytest.raises(UserError, match="HEADRACE_CATALOG_KEY"):
        given.rotate_key()
    given.close()
    printed = tmp_path / "printed"
    printed.write_text(new)
    by_command = Catalog.open(place.folder, place.url, CommandKeys(f"cat '{printed}'"))
    assert by_command.store("k") == store()
    newest = base64.b64encode(bytes(reversed(range(32)))).decode()
    printed.write_text(f"{newest}\n{new}\n")
    by_command.rotate_key()
    printed.write_text(newest)
    by_command.close()
    last = Catalog.open(place.folder, place.url, CommandKeys(f"cat '{printed}'"))
    assert last.store("k") == store()
    last.close()


@pytest.mark.parametrize("keys", [GivenKeys, lambda text: CommandKeys(f"echo {text}").read()])
def test_what_is_no_key_is_refused_and_not_told(keys: Callable[[str], object]) -> None:
    with pytest.raises(InternalError, match="base64") as refused:
        keys("c2hvcnQ=")
    assert "c2hvcnQ" not in refused.value.text()


def test_a_command_that_fails_is_not_quoted() -> None:
    with pytest.raises(ExternalError, match="CalledProcessError") as refused:
        CommandKeys("sh -c 'echo hunter2; exit 1'").read()
    assert "hunter2" not in refused.value.text()
