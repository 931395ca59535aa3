"""The audit log keeps all events in order, even if its database fails in the meantime."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import ProgrammingError

from headrace.catalog import audit
from headrace.catalog.audit import AuditCondition, AuditEntry, AuditOutcome, Event
from headrace.catalog.catalog import Catalog
from headrace.catalog.times import micros
from headrace.core.errors import ExternalError
from tests.unit.catalog.conftest import Place

FULL = AuditEntry(
    Event.STATEMENT,
    AuditOutcome.DENIED,
    "ann",
    "public",
    "token ci",
    "10.0.0.1",
    "api",
    "42501",
    "id",
    "SELECT 'ü'",
    12,
    "why",
)


def statement(sql: str) -> AuditEntry:
    return AuditEntry(Event.STATEMENT, AuditOutcome.ALLOWED, statement=sql)


def refusal(address: str) -> AuditEntry:
    return AuditEntry(Event.REQUEST, AuditOutcome.DENIED, address=address)


def texts(catalog: Catalog) -> list[str | None]:
    return [entry.statement for _, entry in catalog.audit.read(100)]


def test_it_is_read_at_once_and_kept_over_a_restart(place: Place) -> None:
    catalog = place.open()
    catalog.audit.record(FULL)
    [(number, stored)] = catalog.audit.read(10)
    assert stored == FULL
    catalog.audit.flush()
    catalog.audit.record(statement("b"))
    catalog.close()
    catalog = place.open()
    catalog.audit.record(statement("c"))
    assert texts(catalog) == ["SELECT 'ü'", "b", "c"]
    assert catalog.audit.read(10)[0] == (number, FULL)
    assert texts(catalog)[-2:] == [entry.statement for _, entry in catalog.audit.read(2)]
    catalog.close()


AT_NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
NOON = micros(AT_NOON)


@pytest.mark.parametrize(
    ("conditions", "statements"),
    [
        ([], "de"),
        ([AuditCondition("user_name", "=", ("ann",))], "bc"),
        ([AuditCondition("user_name", "<>", ("ann",))], "d"),
        ([AuditCondition("user_name", "IN", ("bob", "eve"))], "d"),
        ([AuditCondition("user_name", "IS NULL")], "ae"),
        ([AuditCondition("user_name", "IS NOT NULL"), AuditCondition("outcome", "=", ("denied",))], "b"),
        ([AuditCondition("time", "<", (NOON + 1,))], "a"),
        ([AuditCondition("time", "<=", (NOON + 1,))], "ab"),
        ([AuditCondition("time", ">", (NOON + 3,))], "e"),
        ([AuditCondition("time", "BETWEEN", (NOON, NOON + 2))], "bc"),
        ([AuditCondition("id", ">=", (1,)), AuditCondition("time", "=", (NOON + 3,))], "d"),
    ],
)
def test_the_newest_events_that_meet_the_conditions_are_read_written_or_not(
    catalog: Catalog, conditions: list[AuditCondition], statements: str
) -> None:
    users = {"b": "ann", "c": "ann", "d": "bob"}
    for number, name in enumerate("abcde"):
        outcome = AuditOutcome.DENIED if name == "b" else AuditOutcome.ALLOWED
        time = AT_NOON + datetime.timedelta(microseconds=number)
        entry = AuditEntry(Event.STATEMENT, outcome, users.get(name), statement=name, time=time)
        catalog.audit.record(entry)
    waiting = [entry.statement for _, entry in catalog.audit.read(2, conditions)]
    catalog.audit.flush()
    written = [entry.statement for _, entry in catalog.audit.read(2, conditions)]
    assert waiting == written == list(statements)


def test_what_repeats_itself_is_counted_and_statements_are_not(catalog: Catalog) -> None:
    for _ in range(3):
        catalog.audit.record(refusal("a"))
        catalog.audit.record(refusal("b"))
        catalog.audit.record(statement("x"))
    times = [(entry.address, entry.times) for _, entry in catalog.audit.read(100)]
    assert times == [("a", 3), ("b", 3), *[(None, 1)] * 3]
    catalog.audit.flush()
    catalog.audit.record(refusal("a"))
    assert catalog.audit.read(1)[0][1].times == 1


def test_a_full_queue_reports_the_number_of_lost_events_and_loses_no_statement(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "QUEUE_MAX", 2)
    catalog.audit.record(refusal("a"))
    assert not catalog.audit.is_full
    catalog.audit.record(refusal("b"))
    assert catalog.audit.is_full
    catalog.audit.record(refusal("c"))
    catalog.audit.record(refusal("d"))
    catalog.audit.record(statement("x"))
    catalog.audit.flush()
    assert not catalog.audit.is_full
    events = [(entry.event, entry.detail) for _, entry in catalog.audit.read(10)]
    assert [event for event, _ in events] == [Event.REQUEST, Event.REQUEST, Event.STATEMENT, Event.LOST]
    assert (
        events[-1][1] == "2 refusals could not be recorded, since they came faster than they could be written"
    )


def test_what_could_not_be_written_waits(place: Place, catalog: Catalog) -> None:
    catalog.audit.record(statement("a"))
    other = create_engine(place.engine_url, poolclass=NullPool)
    with other.begin() as connection:
        connection.execute(text("ALTER TABLE audit RENAME TO away"))
    with pytest.raises((ExternalError, ProgrammingError)):
        catalog.audit.flush()
    with other.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO audit"))
    catalog.audit.record(statement("b"))
    catalog.audit.flush()
    catalog.audit.flush()
    assert texts(catalog) == ["a", "b"]


def test_old_events_go(catalog: Catalog) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for days in (3, 2, 1):
        catalog.audit.record(
            AuditEntry(
                Event.STATEMENT,
                AuditOutcome.ALLOWED,
                statement=f"{days}",
                time=now - datetime.timedelta(days=days),
            )
        )
    catalog.audit.flush()
    assert catalog.audit.forget(now - datetime.timedelta(days=2, hours=-1)) == 2
    assert texts(catalog) == ["1"]


def test_what_strangers_and_open_pages_repeat_is_folded(catalog: Catalog) -> None:
    stranger = AuditEntry(Event.REQUEST, AuditOutcome.DENIED, address="10.0.0.1", detail="no bearer token")
    polling = AuditEntry(Event.STATEMENT, AuditOutcome.ALLOWED, "ann", door="page", statement="LIST QUERIES;")
    reading = replace(polling, statement="SELECT id FROM deltastream.sys.queries")
    others = replace(polling, statement="SELECT id FROM shop.public.orders")
    objects = replace(polling, door="graphql", statement="SELECT * FROM deltastream.sys.queries")
    own = AuditEntry(Event.STATEMENT, AuditOutcome.ALLOWED, "ann", door="api", statement="LIST QUERIES;")
    before = len(catalog.audit.read(1000))
    for number in range(50):
        catalog.audit.record(replace(stranger, time=now()))
        catalog.audit.record(replace(polling, statement_id=str(number), duration_ms=number, time=now()))
        catalog.audit.record(replace(reading, statement_id=str(number), duration_ms=number, time=now()))
        catalog.audit.record(replace(objects, statement_id=str(number), duration_ms=number, time=now()))
        catalog.audit.flush()
    for entry in (own, own, others, others):
        catalog.audit.record(entry)
    assert len(catalog.audit.read(1000)) - before == 8
    catalog.audit.flush(closing=True)
    rows = [entry for _, entry in catalog.audit.read(1000)][before:]
    assert sorted((row.event.value, row.times) for row in rows if row.door != "api") == [
        ("request", 1),
        ("request", 49),
        *[("statement", 1)] * 5,
        *[("statement", 49)] * 3,
    ]


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
