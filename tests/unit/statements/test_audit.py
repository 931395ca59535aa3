"""Every statement is in the audit log, without its secrets, and only who may reads that."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from harness.session import ADMINISTRATOR, Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError, UserError
from headrace.core.sqlstate import SqlState

AUDITOR = Principal("eve", ("securityadmin",), "securityadmin", credential="token ci", address="10.0.0.1")
NEWEST = "SELECT outcome, sqlstate, user_name, role_name, statement FROM deltastream.sys.audit ORDER BY id DESC LIMIT 1"


async def newest(session: Session) -> tuple[str | None, ...]:
    [row] = await session.answer(NEWEST, AUDITOR)
    return row


async def fails(session: Session, text: str, principal: Principal = ADMINISTRATOR) -> SqlState:
    with pytest.raises(HeadraceError) as error:
        await session.service.execute(
            text, principal=principal, context=SessionContext("", role=session.context.role)
        )
    return error.value.state


async def test_what_was_done_is_there_in_the_next_statement(session: Session) -> None:
    await session.run("USE DATABASE shop; LIST STORES -- all of them")
    expected = ("allowed", "00000", "admin", "sysadmin", "LIST STORES")
    assert await newest(session) == expected
    asked = f"{NEWEST.rpartition(' LIMIT')[0]} LIMIT 2".replace("outcome, ", "credential, address, door, ")
    rows = await session.answer(asked, AUDITOR)
    assert rows[0][:4] == ("token ci", "10.0.0.1", "api", "00000")


async def test_what_was_refused_is_told_from_what_failed(session: Session) -> None:
    nobody = Principal("bob", ("public",), "public")
    assert await fails(session, "CREATE DATABASE x", nobody) is SqlState.INSUFFICIENT_PRIVILEGE
    assert await newest(session) == ("denied", "42501", "bob", "public", "CREATE DATABASE x")
    assert await fails(session, "CREATE DATABASE shop") is SqlState.DUPLICATE_DATABASE
    assert await newest(session) == ("failed", "42P04", "admin", "sysadmin", "CREATE DATABASE shop")
    session.context = SessionContext("", role="orgadmin")
    assert await fails(session, "LIST STORES", nobody) is SqlState.INSUFFICIENT_PRIVILEGE
    assert await newest(session) == ("denied", "42501", "bob", "orgadmin", "LIST STORES")


async def test_refusals_of_a_check_are_reported_without_secrets_and_counted(session: Session) -> None:
    nobody, context = Principal("bob", ("public",), "public"), SessionContext("")
    store = "CREATE STORE x WITH ('type' = KAFKA, 'uris' = 'h:1', 'kafka.sasl.password' = 'hunter2')"
    for _ in range(2):
        await session.service.check(
            f"{store}; CREATE DATABASE x; SELECT * FROM nowhere.public.x; CREATE",
            principal=nobody,
            context=context,
            files={},
        )
    taken = SessionContext("", role="orgadmin")
    with pytest.raises(UserError, match="does not hold the role"):
        await session.service.check("LIST STORES", principal=nobody, context=taken, files={})
    asked = "SELECT outcome, sqlstate, user_name, role_name, times, statement FROM deltastream.sys.audit WHERE event = 'check'"
    assert await session.answer(asked, AUDITOR) == [
        ("denied", "42501", "bob", "public", "2", store.replace("hunter2", "****")),
        ("denied", "42501", "bob", "public", "2", "CREATE DATABASE x"),
        ("denied", "42501", "bob", "orgadmin", "1", "LIST STORES"),
    ]


async def test_of_what_does_not_parse_the_first_words_are_kept(session: Session) -> None:
    assert await fails(session, "CREATE SECRET s WITH 'secret_string' = 'hunter2'") is SqlState.SYNTAX_ERROR
    assert await newest(session) == ("failed", "42601", "admin", "sysadmin", "CREATE SECRET …")


async def test_only_who_may_reads_it(session: Session) -> None:
    text = "SELECT COUNT(*) FROM deltastream.sys.audit"
    assert await fails(session, text) is SqlState.INSUFFICIENT_PRIVILEGE
    assert await session.rows("CAN I SELECT ON RELATION deltastream.sys.audit", "Allowed") == [("false",)]
    with pytest.raises(UserError, match="READ_AUDIT on the organization"):
        await session.run(f"EXPLAIN {text}")
    session.grant("sysadmin", Privilege.READ_AUDIT)
    assert await session.rows("CAN I SELECT ON RELATION deltastream.sys.audit", "Allowed") == [("true",)]
    await session.run(text)


MANY_EVENTS = """
INSERT INTO audit (id, time, event, outcome, user_name, sqlstate, times)
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100001)
SELECT n - 1000000, (1767225600 + n) * 1000000, iif(n = 0, 'sign_in', 'request'), iif(n = 0, 'failed', 'denied'),
    iif(n = 0, 'mallory', NULL), iif(n = 0, '28P01', '42501'), 1
FROM numbers
"""
"""The first of these 100,002 events differs from all others. The ids are lower than those that the session gives."""


async def test_an_event_older_than_the_newest_100_000_is_selected_by_a_condition(
    session: Session, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.execute(MANY_EVENTS)
    for condition in (
        "time < '2026-01-01 00:00:01'",
        "time BETWEEN '2025-12-31' AND '2026-01-01' AND statement IS NULL",
        "user_name = 'mallory'",
        "NOT user_name IS NULL AND event <> 'statement'",
        "event IN ('sign_in', 'sign_out')",
        "'failed' = outcome",
        "sqlstate = '28P01' AND user_name LIKE 'm%' AND user_name < 'n'",
        "role_name IS NULL AND id < -999999 AND user_name <> 'é\0'",
    ):
        asked = f"SELECT event, outcome, user_name FROM deltastream.sys.audit WHERE {condition}"
        assert await session.answer(asked, AUDITOR) == [("sign_in", "failed", "mallory")], condition


SECRET = "hunter2-planted"
HOLDERS = (
    "CREATE STORE x WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1', 'kafka.sasl.password' = '{}')",
    "CREATE STORE x WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://u:{}@127.0.0.1:1/d')",
    "UPDATE STORE k WITH ('kafka.sasl.pasword' = '{}')",
    "CREATE SCHEMA_REGISTRY x WITH ('type' = CONFLUENT, 'uris' = 'http://127.0.0.1:1', 'confluent.password' = '{}')",
    "CREATE SECRET x WITH ('type' = generic_string, 'secret_string' = '{}')",
    "CREATE SECRET x WITH ('type' = generic_string, 'uris' = '{}')",
    "ALTER USER admin SET PASSWORD '{}'",
    "LIST STORES /* {} */",
    "CREATE STORE x WITH ('type' = KAFKA 'password' = '{}')",
    "{}",
)


@pytest.mark.parametrize("text", HOLDERS)
async def test_no_secret_is_in_it(session: Session, tmp_path: Path, text: str) -> None:
    session.principal = Principal("admin", ("orgadmin",), "orgadmin")
    with suppress(HeadraceError):
        await session.run(text.format(SECRET))
    rows = await session.answer("SELECT * FROM deltastream.sys.audit", AUDITOR)
    assert rows
    assert SECRET not in str(rows)
    session.catalog.audit.flush()
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file.name for file in kept if SECRET.encode() in file.read_bytes()]
