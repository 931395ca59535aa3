"""A path for several topics."""

from __future__ import annotations

import pytest

from headrace.connectors.kafka.patterns import java_pattern, pattern

TOPICS = (
    "orders",
    "orders.eu",
    "orders-us",
    "ordersXeu",
    "a-orders",
    "__consumer_offsets",
    "__orders",
    "paid",
)


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("orders.*", {"orders.eu"}),
        ("orders-*; paid", {"orders-us", "paid"}),
        ("orders*", {"orders", "orders.eu", "orders-us", "ordersXeu"}),
        ("*orders", {"orders", "a-orders"}),
        ("*", set(TOPICS) - {"__consumer_offsets", "__orders"}),
        ("__o*;", {"__orders"}),
        ("; ;", set()),
    ],
)
def test_names_and_names_with_stars(text: str, matching: set[str]) -> None:
    several = pattern((text,))
    assert several is not None
    assert {topic for topic in TOPICS if several.matches((topic,))} == matching
    assert not several.matches(("db", "orders"))


def test_what_is_named_is_told_from_what_may_match() -> None:
    several = pattern(("paid; orders-*;due",))
    assert several is not None
    assert several.names == (("paid",), ("due",))


def test_a_topic_that_is_alone_is_no_pattern() -> None:
    assert pattern(("orders.eu-1_x",)) is None


def test_java_reads_what_is_no_pattern_as_itself() -> None:
    assert java_pattern("a.b; c-*d") == r"a\.b|c\-.*d"
