"""Secrets: their descriptions, and objects that use a secret's text and show its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.session import Session
from headrace.catalog.objects import Principal
from headrace.connectors.registry import STORE_TYPES, connector
from headrace.core.errors import HeadraceError, UserError
from headrace.core.properties import Scope, of_scope
from headrace.core.sqlstate import SqlState

PASSWORD = "kafka.sasl.password"
MADE = """CREATE SECRET s WITH ( 'type' = generic_string, 'description' = 'of the broker',

  'user' = 'hunter1', 'secret_string' = 'hunter2' )"""


async def has_store(session: Session) -> None:
    """The store k names the secret s; nothing listens where it is, so that it cannot be created by a statement."""
    await session.run(MADE)
    store = session.catalog.store("k")
    assert store
    session.catalog.update_store(replace(store, secrets={PASSWORD: "s"}))


async def test_a_secret_is_listed_described_changed_and_dropped(session: Session) -> None:
    assert await session.rows(MADE, "Type", "Name", "Path") == [("secret", "s", '["s"]')]
    assert (
        await session.rows("CREATE SECRET IF NOT EXISTS s WITH ('type' = generic_string)", "Summary")
    ) == [("secret s already exists",)]
    assert await session.rows("LIST SECRETS", "Name", "Type", "Description", "State") == [
        ("s", "generic_string", "of the broker", "ready")
    ]
    await session.run(
        "UPDATE SECRET s WITH ('secret_string' = 'hunter3', 'user' = NULL, 'description' = NULL)"
    )
    kept = session.catalog.secret("s")
    assert kept
    assert kept.properties == {"secret_string": "hunter3"}
    described = dict(await session.rows("DESCRIBE SECRET s"))
    assert (described["secret_string"], described["description"], described["status"]) == (
        "****",
        None,
        "ready",
    )
    selected = 'SELECT name, type, "description", "status", "owner" FROM deltastream.sys."secrets" WHERE name = \'s\''
    assert await session.rows(selected) == [("s", "generic_string", None, "ready", "sysadmin")]
    await session.run("DROP SECRET s; DROP SECRET IF EXISTS s")
    assert await session.rows("LIST SECRETS") == []


async def test_a_store_has_what_its_secret_holds_now_and_shows_its_name(session: Session) -> None:
    await has_store(session)
    store = session.catalog.store("k")
    assert store
    assert store.properties == {"uris": "127.0.0.1:9092", PASSWORD: "hunter2"}
    ((details,),) = await session.rows("DESCRIBE STORE k", "Details")
    assert details == '{"uris": "127.0.0.1:9092", "kafka.sasl.password": "SECRET s"}'
    await session.run("UPDATE SECRET s WITH ('secret_string' = 'hunter3'); ALTER SECRET s RENAME TO t")
    store = session.catalog.store("k")
    assert store
    assert (store.properties[PASSWORD], store.secrets) == ("hunter3", {PASSWORD: "t"})


async def test_a_secret_that_is_named_cannot_go_without_what_names_it(session: Session) -> None:
    await has_store(session)
    with pytest.raises(UserError) as refused:
        await session.run("DROP SECRET s")
    assert refused.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert "the store k" in refused.value.message
    await session.run("DROP SECRET s CASCADE")
    assert session.catalog.store("k") is None


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        (MADE, SqlState.DUPLICATE_SECRET, "already exists"),
        ("UPDATE SECRET t WITH ('secret_string' = 'x')", SqlState.SECRET_NOT_FOUND, "does not exist"),
        ("UPDATE SECRET s WITH ('secret_string' = NULL)", SqlState.INVALID_PARAMETER, "cannot be removed"),
        ("CREATE SECRET t WITH ('secret_string' = 'x')", SqlState.MISSING_PARAMETER, "'type'"),
        ("CREATE SECRET t WITH ('type' = rsa)", SqlState.INVALID_PARAMETER, "generic_string"),
        (
            "CREATE SECRET t WITH ('type' = generic_string, 'a' = SECRET s)",
            SqlState.INVALID_PARAMETER,
            "does not accept a secret",
        ),
        (
            "CREATE STREAM x (n INT) WITH ('store' = 'k', 'topic' = SECRET s)",
            SqlState.INVALID_PARAMETER,
            "does not accept a secret",
        ),
        ("UPDATE STORE k WITH ('uris' = SECRET s)", SqlState.INVALID_PARAMETER, "does not accept a secret"),
        (
            "UPDATE STORE k WITH ('kafka.sasl.password' = SECRET t)",
            SqlState.SECRET_NOT_FOUND,
            "'t' does not exist",
        ),
        (
            "UPDATE STORE k WITH ('kafka.sasl.password' = SECRET empty)",
            SqlState.INVALID_PARAMETER,
            "secret_string",
        ),
    ],
)
async def test_what_is_refused(session: Session, text: str, state: SqlState, message: str) -> None:
    await session.run(MADE)
    await session.run("USE DATABASE shop; CREATE SECRET empty WITH ('type' = generic_string)")
    with pytest.raises(UserError) as refused:
        await session.run(text)
    assert (refused.value.state, refused.value.span is not None) == (state, True)
    assert message in refused.value.message
    assert "hunter" not in refused.value.text()


async def test_a_secret_needs_usage(session: Session) -> None:
    await session.run(MADE)
    await session.run("ALTER STORE k OWNER TO public; USE ROLE public")
    for text, state in (
        ("UPDATE STORE k WITH ('kafka.sasl.password' = SECRET s)", SqlState.SECRET_NOT_FOUND),
        ("DESCRIBE SECRET s", SqlState.SECRET_NOT_FOUND),
        ("DROP SECRET s", SqlState.SECRET_NOT_FOUND),
        ("ROTATE KEY", SqlState.INSUFFICIENT_PRIVILEGE),
        (MADE, SqlState.INSUFFICIENT_PRIVILEGE),
    ):
        with pytest.raises(UserError) as refused:
            await session.run(text)
        assert refused.value.state is state
    assert await session.rows("LIST SECRETS") == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind.type, spec.name)
        for kind in map(connector, STORE_TYPES)
        for spec in of_scope(kind.properties, Scope.STORE)
        if spec.secret
    ],
)
async def test_no_error_of_a_store_reveals_a_secret_property(session: Session, kind: str, name: str) -> None:
    """Planted in every property that can hold one, as a text and by name; whatever is wrong with the rest of the statement."""
    await session.run("CREATE SECRET s WITH ('type' = generic_string, 'secret_string' = 'hunter2')")
    for value in ("'hunter2'", "SECRET s", "'hunter2\n'"):
        with pytest.raises(HeadraceError) as refused:
            await session.run(
                f"CREATE STORE x WITH ('type' = {kind}, 'uris' = '127.0.0.1:1', '{name}' = {value})"
            )
        assert "hunter2" not in refused.value.text()


async def test_the_key_is_replaced_and_everything_opens(session: Session) -> None:
    await has_store(session)
    before = dict(session.catalog.snapshot().sealed)
    with pytest.raises(UserError, match="'sysadmin' lacks the privilege OWNERSHIP on the organization"):
        await session.run("ROTATE KEY")
    root = Principal("admin", ("orgadmin",), "orgadmin")
    assert [row[2] for row in await session.answer("ROTATE KEY", root)] == ["ROTATE"]
    after = session.catalog.snapshot().sealed
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    registry, store = session.catalog.schema_registry("r"), session.catalog.store("k")
    assert registry
    assert store
    assert (registry.properties["confluent.password"], store.properties[PASSWORD]) == ("hunter2", "hunter2")
