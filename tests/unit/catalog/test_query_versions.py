"""Queries that are replaced: their versions, and what an earlier version still needs."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import DesiredState, Query, QueryState
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from tests.unit.catalog.test_catalog import filled, query, store


def never(_: Query) -> bool:
    return False


PLAN = json.dumps({"steps": [{"id": "read", "store": "other", "entity": ["a"]}]})


@pytest.fixture
def running(catalog: Catalog) -> Query:
    """A query that was replaced once, by a plan over the store `other`, and has not finished a batch since."""
    filled(catalog)
    catalog.create_store(replace(store(), name="other", id=str(uuid.uuid4())))
    made = query()
    catalog.create_query(made)
    catalog.versions.replace(replace(current(catalog, made), sql="INSERT … 2", plan=PLAN))
    return current(catalog, made)


def current(catalog: Catalog, known: Query) -> Query:
    stored = catalog.query(known.id)
    assert stored is not None
    return stored


def test_a_replaced_query_is_started_with_its_new_statement_and_uses(
    catalog: Catalog, running: Query
) -> None:
    assert (running.version, running.sql, running.generation) == (2, "INSERT … 2", 2)
    assert (running.actual_state, running.is_settled) == (QueryState.STARTING, False)
    other = catalog.store("other")
    assert other is not None
    assert other.id in running.uses
    (first,) = catalog.versions.of(running)
    assert (first.version, first.sql, first.reason) == (1, "INSERT …", None)
    assert catalog.query_events(running.id)[-1][2] == "version 2 replaces version 1"
    with pytest.raises(UserError) as refused:
        catalog.drop(other)
    assert refused.value.state is SqlState.DEPENDENT_OBJECTS_EXIST


def test_of_two_replacements_of_one_version_the_second_is_refused(catalog: Catalog, running: Query) -> None:
    catalog.versions.replace(replace(running, sql="INSERT … 3"))
    with pytest.raises(UserError, match="expected version 2, found version 3") as refused:
        catalog.versions.replace(replace(running, sql="INSERT … 4"))
    assert refused.value.state is SqlState.INVALID_PARAMETER
    assert current(catalog, running).sql == "INSERT … 3"


def test_a_query_that_does_not_run_keeps_its_state(catalog: Catalog, running: Query) -> None:
    catalog.set_desired_state(running.id, DesiredState.TERMINATED)
    catalog.record_query_state(running.id, QueryState.TERMINATED)
    ended = current(catalog, running)
    catalog.versions.replace(replace(ended, sql="INSERT … 3"))
    replaced = current(catalog, running)
    assert (replaced.version, replaced.sql, replaced.generation) == (3, "INSERT … 3", ended.generation)
    assert (replaced.desired_state, replaced.actual_state) == (ended.desired_state, ended.actual_state)


def test_a_version_that_fails_gives_its_place_back_once(catalog: Catalog, running: Query) -> None:
    assert catalog.versions.go_back(running, "no such column", never)
    back = current(catalog, running)
    assert (back.version, back.sql, back.plan, back.generation) == (3, "INSERT …", "{}", 3)
    assert back.is_settled
    assert [(each.version, each.reason) for each in catalog.versions.of(back)] == [
        (1, None),
        (2, "no such column"),
    ]
    assert (
        catalog.query_events(back.id)[-1][2] == "version 3 replaces version 2, which failed: no such column"
    )
    assert not catalog.versions.go_back(back, "another reason", never)
    assert not catalog.versions.go_back(running, "the report of an earlier run", never)


def test_a_version_that_has_finished_a_batch_stays(catalog: Catalog, running: Query) -> None:
    catalog.versions.settle(running)
    assert not catalog.versions.go_back(current(catalog, running), "bad data", never)
    assert current(catalog, running).version == 2


def test_an_earlier_version_follows_the_names_of_its_objects(catalog: Catalog, running: Query) -> None:
    catalog.versions.replace(replace(running, sql="INSERT … 3", plan="{}"))
    other, relation = catalog.store("other"), catalog.relation(running.sources[0])
    assert other is not None
    assert relation is not None
    catalog.rename(other, "renamed")
    catalog.rename(relation, "orders2")
    third = current(catalog, running)
    successor = catalog.versions.successor(third, catalog.versions.of(third)[-1])
    assert successor.sql == "INSERT … 2"
    assert json.loads(successor.plan)["steps"][0]["store"] == "renamed"
    assert [source.name for source in successor.sources] == ["orders2"]
    catalog.versions.replace(successor)
    assert current(catalog, running).version == 4


def test_an_earlier_version_whose_store_was_dropped_does_not_return(catalog: Catalog, running: Query) -> None:
    catalog.versions.replace(replace(running, sql="INSERT … 3", plan="{}"))
    other = catalog.store("other")
    assert other is not None
    catalog.drop(other)
    catalog.create_store(replace(store(), name="other", id=str(uuid.uuid4())))
    third = current(catalog, running)
    with pytest.raises(
        UserError, match=r"version 2 of the query .* used the store other, which was dropped"
    ) as refused:
        catalog.versions.successor(third, catalog.versions.of(third)[-1])
    assert refused.value.state is SqlState.STORE_NOT_FOUND
    # It cannot be gone back to either: the third version stays, with its error.
    assert not catalog.versions.go_back(third, "bad data", never)
