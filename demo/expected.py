"""The answers of `flights.sql`, computed again in plain Python from the same records.

Each function returns a dictionary from a row's identity to its values. `watermark_ms` is where the flights' watermark ends: the smallest of
the partitions' last event times, as no delay is allowed for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from demo.data import Record

HOUR_MS = 3_600_000
Flight = tuple[str, int, int]
Row = dict[str, Any]


def watermark_ms(flights: list[Record]) -> int:
    """Milliseconds since the epoch."""
    last: dict[int, int] = {}
    for record in flights:
        last[record.partition] = max(record.time_ms, last.get(record.partition, 0))
    return min(last.values())


def late_departures(flights: list[Record]) -> Counter[tuple[Any, ...]]:
    """Count how often each (carrier, flight, scheduled) left more than an hour late."""
    return Counter(identity(record.value) for record in flights if (record.value["dep_delay"] or 0) > 60)


def departures_by_hour(
    flights: list[Record], watermark: int
) -> dict[tuple[int, str], tuple[int, float | None]]:
    """(window start in ms, origin) to (departures, mean delay), for the windows that the watermark has closed."""
    delays: dict[tuple[int, str], list[float | None]] = defaultdict(list)
    for record in flights:
        start = record.time_ms - record.time_ms % HOUR_MS
        if start + HOUR_MS <= watermark:
            delays[start, record.value["origin"]].append(record.value["dep_delay"])
    return {key: (len(values), _mean(values)) for key, values in delays.items()}


def carrier_totals(flights: list[Record]) -> dict[str, tuple[int, int, float | None]]:
    """Carrier to (departures, miles, mean arrival delay)."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for record in flights:
        groups[record.value["carrier"]].append(record.value)
    return {
        carrier: (len(rows), sum(row["distance"] for row in rows), _mean(row["arr_delay"] for row in rows))
        for carrier, rows in groups.items()
    }


def flights_enriched(
    flights: list[Record], planes: list[Record], airlines: list[Record], watermark: int
) -> Counter[tuple[Any, ...]]:
    """(carrier, flight, scheduled, tail number, manufacturer, seats, airline) to how often it occurs, before the watermark."""
    made = {record.key: record for record in planes}
    names = {record.key: record for record in airlines}
    rows: Counter[tuple[Any, ...]] = Counter()
    for record in flights:
        if record.time_ms >= watermark:
            continue
        plane = _valid(made.get(record.value["tailnum"] or ""), record.time_ms)
        airline = _valid(names.get(record.value["carrier"]), record.time_ms)
        facts = (record.value["tailnum"], plane.get("manufacturer"), plane.get("seats"), airline.get("name"))
        rows[(*identity(record.value), *facts)] += 1
    return rows


def route_delays(flights: list[Record]) -> dict[tuple[str, str], tuple[int, float | None, float | None]]:
    """(origin, destination) to (departures, mean arrival delay, worst arrival delay)."""
    groups: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for record in flights:
        groups[record.value["origin"], record.value["dest"]].append(record.value["arr_delay"])
    return {
        route: (
            len(values),
            _mean(values),
            max((value for value in values if value is not None), default=None),
        )
        for route, values in groups.items()
    }


def identity(value: Row) -> tuple[Any, ...]:
    """Return an almost unique key of a flight: carrier, number, scheduled departure."""
    return (value["carrier"], value["flight"], value["scheduled"])


def _valid(record: Record | None, time_ms: int) -> Row:
    return record.value if record is not None and record.time_ms <= time_ms else {}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
