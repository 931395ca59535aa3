"""Comparison of the sinks with results that plain Python computes. Each `Sink` reads one sink and returns the differences."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from demo import expected
from demo.data import Record

Rows = list[list[str | None]]
RELATIVE_ERROR_MAX = 1e-9


@dataclass(frozen=True)
class Sink:
    """Result of a continuous query: `size` answers are expected; `difference` reads it and returns the first one, or None."""

    name: str
    size: int
    difference: Callable[[], str | None]


def sinks(
    bootstrap: str, records: Mapping[str, list[Record]], select: Callable[[str], Rows], *, killed: bool
) -> list[Sink]:
    """The five sinks of `flights.sql`. After a kill an at-least-once sink may hold a record twice, no other may."""
    flights = records["flights"]
    watermark = expected.watermark_ms(flights)
    late = expected.late_departures(flights)
    hours = expected.departures_by_hour(flights, watermark)
    carriers = expected.carrier_totals(flights)
    enriched = expected.flights_enriched(flights, records["planes"], records["airlines"], watermark)
    routes = expected.route_delays(flights)
    return [
        Sink("late_departures", late.total(), lambda: _late(bootstrap, late, repeats=killed)),
        Sink("departures_by_hour", len(hours), lambda: _hours(bootstrap, hours)),
        Sink("carrier_totals", len(carriers), lambda: _carriers(bootstrap, carriers)),
        Sink("flights_enriched", enriched.total(), lambda: _enriched(bootstrap, enriched)),
        Sink("route_delays", len(routes), lambda: _routes(select, routes)),
    ]


def _late(bootstrap: str, expected_rows: Counter[tuple[Any, ...]], *, repeats: bool) -> str | None:
    received = Counter(expected.identity(value) for _, value in records(bootstrap, "late_departures"))
    if repeats:
        missing, foreign = expected_rows - received, received.keys() - expected_rows.keys()
        return f"missing {len(missing)}, foreign {len(foreign)}" if missing or foreign else None
    return _bags(expected_rows, received)


def _hours(bootstrap: str, expected_hours: Mapping[Any, tuple[int, float | None]]) -> str | None:
    received = records(bootstrap, "departures_by_hour")
    if len(received) != len(expected_hours):
        return f"expected {len(expected_hours)} records, found {len(received)}"
    rows = {
        (_millis(row["window_start"]), row["origin"]): (row["departures"], row["mean_delay"])
        for _, row in received
    }
    return compared(expected_hours, rows)


def _carriers(bootstrap: str, expected_carriers: Mapping[Any, tuple[int, int, float | None]]) -> str | None:
    latest = dict(records(bootstrap, "carrier_totals"))
    rows = {
        row["carrier"]: (row["departures"], row["miles"], row["mean_arrival_delay"])
        for row in latest.values()
    }
    return compared(expected_carriers, rows)


def _enriched(bootstrap: str, expected_rows: Counter[tuple[Any, ...]]) -> str | None:
    names = ("carrier", "flight", "scheduled", "tailnum", "manufacturer", "seats", "airline")
    received = records(bootstrap, "flights_enriched")
    return _bags(expected_rows, Counter(tuple(row[name] for name in names) for _, row in received))


def totals(row: list[str | None]) -> tuple[int, int, float | None]:
    """Return departures, miles and mean arrival delay of a row whose first column is a carrier."""
    return int(row[1] or 0), int(row[2] or 0), _number(row[3])


def _routes(select: Callable[[str], Rows], expected_routes: Mapping[Any, tuple[Any, ...]]) -> str | None:
    rows = select(
        "SELECT origin, dest, departures, mean_arrival_delay, worst_arrival_delay FROM route_delays;"
    )
    actual = {(row[0], row[1]): (int(row[2] or 0), _number(row[3]), _number(row[4])) for row in rows}
    return compared(expected_routes, actual)


def _bags(expected_rows: Counter[tuple[Any, ...]], received: Counter[tuple[Any, ...]]) -> str | None:
    missing, surplus = expected_rows - received, received - expected_rows
    if not missing and not surplus:
        return None
    example = next(iter(missing or surplus))
    return f"missing {missing.total()}, surplus {surplus.total()}, for example {example}"


def compared(
    expected_totals: Mapping[Any, tuple[Any, ...]], actual: Mapping[Any, tuple[Any, ...]]
) -> str | None:
    """The first difference between two tables, by key; None for none. Floats may differ in their last digits."""
    for key, values in expected_totals.items():
        if key not in actual:
            return f"{key} is missing ({len(actual)} of {len(expected_totals)} are there)"
        if not all(_equal(left, right) for left, right in zip(values, actual[key], strict=True)):
            return f"{key}: expected {values}, found {actual[key]}"
    foreign = actual.keys() - expected_totals.keys()
    return f"{next(iter(foreign))} should not be there" if foreign else None


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, int | float):
        return abs(left - right) <= RELATIVE_ERROR_MAX * max(1.0, abs(left))
    return bool(left == right)


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _millis(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp() * 1000)


def records(bootstrap: str, topic: str) -> list[tuple[bytes | None, dict[str, Any]]]:
    """The committed (key, value) pairs of a topic, from its beginning to its present end, in the order of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "headrace-demo-check",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        unread = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in unread])
        messages: list[tuple[bytes | None, dict[str, Any]]] = []
        while unread:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is not None:
                    unread.discard(message.partition())
                elif message.value() is not None:
                    messages.append((message.key(), json.loads(message.value())))
        return messages
    finally:
        consumer.close()
