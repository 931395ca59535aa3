"""Keys, references and pages of system relations: what generated interfaces stand on."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest

from harness.session import NOW, Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import Principal
from headrace.catalog.storage import Storage
from headrace.core.errors import UserError
from headrace.core.names import SYSTEM_SCHEMA
from headrace.statements.base import Execution
from headrace.statements.system import RELATIONS
from headrace.statements.system.paging import (
    Key,
    PageRequest,
    RowCondition,
    grouped_rows,
    key_of,
    page_of,
    pages_by_reference,
    referred,
)

QUERIES = 3


@pytest.fixture
async def run(session: Session) -> Execution:
    session.grant("sysadmin", Privilege.READ_AUDIT)
    session.grant("sysadmin", Privilege.MANAGE_MEMBERS)
    await session.run(
        "USE DATABASE shop; CREATE ROLE reader; CREATE ROLE writer; GRANT ROLE reader TO ROLE writer"
    )
    await session.run(
        "GRANT SELECT ON RELATION orders TO ROLE reader; CREATE API_TOKEN t WITH ('token.role_name' = sysadmin)"
    )
    await session.run("CREATE SECRET s WITH ('type' = generic_string, 'secret_string' = 'x')")
    for number in range(QUERIES):
        await session.run(f"CREATE MATERIALIZED VIEW v{number} AS SELECT n FROM orders")
    for query in session.catalog.queries():
        session.save(f"save_{query.id[:8]}", query)
    return Execution(session.service._services, session.principal, session.context)


def test_keys_identify_rows_and_references_lead_to_at_most_one(run: Execution) -> None:
    followed = 0
    for relation in RELATIONS.values():
        rows = list(relation.read(run))
        repeated = [key for key, count in Counter(key_of(relation, row) for row in rows).items() if count > 1]
        assert not repeated, relation.name
        for reference in relation.references:
            target, columns = referred(relation, reference)
            for mine, theirs in zip(reference.columns, columns, strict=True):
                one, other = relation.places[mine], target.places[theirs]
                assert relation.columns[one].type == target.columns[other].type, (relation.name, reference)
            values = {tuple(row[relation.places[column]] for column in reference.columns) for row in rows}
            groups = grouped_rows(target, run, columns, values)
            assert all(len(group) == 1 for group in groups.values()), (relation.name, reference)
            followed += len(groups)
    assert followed > 50


def test_names_of_links_are_no_columns_and_differ() -> None:
    names: dict[str, list[str]] = {
        name: [column.name for column in relation.columns]
        for (schema, name), relation in RELATIONS.items()
        if schema == SYSTEM_SCHEMA
    }
    for relation in RELATIONS.values():
        for reference in relation.references:
            names[relation.name].append(reference.name)
            if reference.reverse:
                names[reference.relation].append(reference.reverse)
    repeated = {
        name: [each for each, count in Counter(known).items() if count > 1] for name, known in names.items()
    }
    assert {name: each for name, each in repeated.items() if each} == {}


def test_pages_continue_after_a_key_whatever_was_dropped(run: Execution) -> None:
    columns = RELATIONS[SYSTEM_SCHEMA, "functions"]
    rows = sorted((key_of(columns, row) for row in columns.read(run)), key=str)
    keys: list[Key] = []
    after: Key | None = None
    while True:
        page = page_of(columns, run, (), PageRequest(7, after))
        assert page.count == len(rows)
        keys += [key_of(columns, row) for row in page.rows]
        if not page.has_next:
            break
        after = keys[-1]
    assert sorted(keys, key=str) == rows
    gone = page_of(columns, run, (), PageRequest(1, ("abs0", None)))
    assert key_of(columns, gone.rows[0]) > ("abs0",)


def test_rows_meet_conditions(run: Execution) -> None:
    databases = RELATIONS[SYSTEM_SCHEMA, "databases"]
    for condition, expected in (
        (RowCondition("name", "=", "shop"), ["shop"]),
        (RowCondition("name", "<>", "shop"), ["lab"]),
        (RowCondition("name", "IN", frozenset({"lab", "x"})), ["lab"]),
        (RowCondition("name", "<", "m"), ["lab"]),
        (RowCondition("name", "CONTAINS", "ho"), ["shop"]),
        (RowCondition("name", "STARTS WITH", "la"), ["lab"]),
        (RowCondition("name", "IS NULL"), []),
        (RowCondition("name", "IS NOT NULL"), ["lab", "shop"]),
        (RowCondition("created_at", ">", datetime.datetime.max.replace(tzinfo=datetime.UTC)), []),
        (RowCondition("is_default", "=", value=True), ["shop"]),
    ):
        page = page_of(databases, run, (condition,), PageRequest(10))
        assert [row[databases.places["name"]] for row in page.rows] == expected, condition


def test_null_meets_is_null_only(run: Execution) -> None:
    relations = RELATIONS[SYSTEM_SCHEMA, "relations"]
    count = len(page_of(relations, run, (RowCondition("store_name", "IS NULL"),), PageRequest(10)).rows)
    others = page_of(relations, run, (RowCondition("store_name", "<>", "k"),), PageRequest(10))
    assert (count, list(others.rows)) == (QUERIES + 1, [])


def test_the_events_of_all_queries_are_one_read(run: Execution) -> None:
    events = RELATIONS[SYSTEM_SCHEMA, "query_events"]
    reads: list[str] = []
    read = Storage.rows

    def counted(storage: Storage, query: object) -> object:
        reads.append(str(query))
        return read(storage, query)  # type: ignore[arg-type]

    with patch.object(Storage, "rows", counted):
        assert len(list(events.read(run))) >= QUERIES
    assert len([text for text in reads if "query_events" in text]) == 1
    [first, *_] = run.catalog.queries()
    (reference,) = events.references
    pages = pages_by_reference(events, run, reference, [(first.id,), ("none",)], (), PageRequest(5))
    assert {row[0] for row in pages[first.id,].rows} == {first.id}
    assert not pages["none",].rows


def test_a_relation_that_needs_a_privilege_is_refused(run: Execution) -> None:
    audit = RELATIONS[SYSTEM_SCHEMA, "audit"]
    stranger = replace(
        run, principal=Principal("x", ("public",), "public"), context=run.with_context(role="public")
    )
    with pytest.raises(UserError, match="READ_AUDIT"):
        page_of(audit, stranger, (), PageRequest(1))
    tests = (
        RowCondition("time", ">=", NOW),
        RowCondition("user_name", "=", "admin"),
        RowCondition("statement", "CONTAINS", "ROLE"),
    )
    assert page_of(audit, run, tests, PageRequest(1)) is not None
