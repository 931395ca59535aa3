"""Lag of a query behind its sources, from Spark's progress of a batch."""

from __future__ import annotations

from headrace.engine.driver.progress import lag


def test_lag_is_by_entity_and_split() -> None:
    sources = [
        {"endOffset": {"a": {"0": 7, "1": 5}}, "latestOffset": {"a": {"0": 10, "1": 5, "2": 4}}},
        # Another source of the same query that reads the same entity, further behind.
        {"endOffset": {"a": {"0": 2}}, "latestOffset": {"a": {"0": 10}}},
        # Made anew with fewer records: not less than nothing.
        {"endOffset": {"b": {"0": 9}}, "latestOffset": {"b": {"0": 0}}},
    ]
    assert lag(sources) == {"a": {"0": 8, "1": 0}, "b": {"0": 0}}


def test_stores_that_do_not_count_their_records_have_none() -> None:
    assert lag([{"endOffset": {"s": {"0": "495"}}, "latestOffset": {"s": {"0": "496"}}}]) == {}
    assert lag([{"endOffset": 3, "latestOffset": 4}, {"endOffset": None, "latestOffset": None}, {}]) == {}
