"""The relations of the cases: their rows, and their DDL for both engines.

`s` and `r` are streams out of order by less than the latency that their watermarks allow, so that nothing is late. `c` and `e` are
versions in event time, likewise out of order; `x` are versions of which some end. `a` and `o` are changelogs with updates and tombstones
in the order of their topic. End rows move every watermark past everything; `a` and `o` have none, since nothing there waits for time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.kafka import KafkaClient
from headrace.testing.topics import Pair

PARTITIONS = 2
START_MS = 1_700_000_000_000
SPAN_MS = 120_000
LATENCY_MS = 5_000
END = "end"
_END_MS = START_MS + SPAN_MS + 100 * LATENCY_MS
_KEYS, _OWNERS = 12, 7

KeyedRow = tuple[str, dict[str, object] | None]
Rows = Callable[[random.Random], Iterator[KeyedRow]]


@dataclass(frozen=True)
class Relation:
    """A relation with columns that both dialects name equally; `key` makes it a changelog, `time` adds a watermark by the column `t`."""

    name: str
    columns: dict[str, str]
    rows: Rows
    key: str = ""
    time: bool = True

    def headrace(self, topic: str) -> str:
        """CREATE STREAM or CREATE CHANGELOG."""
        declared = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        properties = {
            "topic": topic,
            "value.format": "JSON",
            "timestamp": "t",
            "starting.position": "earliest",
        }
        if self.time:
            properties["source.allow.latency.millis"] = str(LATENCY_MS)
        if self.key:
            declared += f", PRIMARY KEY ({self.key})"
            properties |= {"key.format": "PRIMITIVE", "key.type": "VARCHAR", "enable.upsert.mode": "TRUE"}
        written = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        return f"CREATE {'CHANGELOG' if self.key else 'STREAM'} {self.name} ({declared}) WITH ({written});"

    def flink(self, topic: str, bootstrap: str, *, bounded: bool = True) -> str:
        """CREATE TABLE; the event time is the column `ts`. A bounded table ends where the topic ends now."""
        declared = [f"`{name}` {kind}" for name, kind in self.columns.items()]
        declared.append("ts AS TO_TIMESTAMP_LTZ(t, 3)")
        if self.time:
            declared.append(f"WATERMARK FOR ts AS ts - INTERVAL '{LATENCY_MS // 1000}' SECOND")
        properties = {"topic": topic, "properties.bootstrap.servers": bootstrap}
        if bounded:
            properties["scan.bounded.mode"] = "latest-offset"
        if self.key:
            declared.append(f"PRIMARY KEY ({self.key}) NOT ENFORCED")
            properties |= {"connector": "upsert-kafka", "key.format": "raw", "value.format": "json"}
        else:
            properties |= {"connector": "kafka", "format": "json", "scan.startup.mode": "earliest-offset"}
        written = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        return f"CREATE TABLE {self.name} ({', '.join(declared)}) WITH ({written})"

    def produce(self, kafka: KafkaClient, topic: str, seed: str) -> int:
        """Create and fill the topic; return the number of rows. The rows of a key are in one partition, in order."""
        draw = random.Random(f"{seed} {self.name}")
        kafka.create(topic, partitions=PARTITIONS)
        pieces: list[list[Pair]] = [[] for _ in range(PARTITIONS)]
        for key, row in self.rows(draw):
            place = sum(key.encode()) % PARTITIONS if self.key else draw.randrange(PARTITIONS)
            pieces[place].append((key if self.key else None, None if row is None else json.dumps(row)))
        for number, records in enumerate(pieces):
            if self.time:
                key = f"{END}{number}" if self.key else None
                last = {
                    **dict.fromkeys(self.columns),
                    **({self.key: key} if self.key else {"k": END}),
                    "t": _END_MS,
                }
                records.append((key, json.dumps(last)))
            kafka.produce(topic, records, partition=number)
        return sum(map(len, pieces))


def _times(draw: random.Random, count: int) -> Iterator[int]:
    """Distinct times that move on, out of order by less than the latency."""
    seen = set()
    for number in range(count):
        while (at := START_MS + number * SPAN_MS // count + draw.randrange(LATENCY_MS - 1)) in seen:
            pass
        seen.add(at)
        yield at


def _stream(count: int) -> Rows:
    def rows(draw: random.Random) -> Iterator[KeyedRow]:
        for number, at in enumerate(_times(draw, count)):
            key = f"k{draw.randrange(_KEYS)}"
            yield (
                key,
                {
                    "n": number,
                    "k": key,
                    "g": f"g{draw.randrange(4)}",
                    "v": None if draw.random() < 0.05 else draw.randrange(100),
                    "d": draw.randrange(1000) / 8,
                    "tags": [f"t{draw.randrange(5)}" for _ in range(draw.randrange(4))],
                    "t": at,
                },
            )

    return rows


def _versions(key: str, keys: int, count: int, *, deleted: float = 0) -> Rows:
    def rows(draw: random.Random) -> Iterator[KeyedRow]:
        for number, at in enumerate(_times(draw, count)):
            name = f"{key}{draw.randrange(keys)}"
            yield name, None if draw.random() < deleted else {key: name, "w": number, "t": at}

    return rows


def _accounts(draw: random.Random) -> Iterator[KeyedRow]:
    live: set[str] = set()
    for number in range(400):
        key = f"a{draw.randrange(60)}"
        if key in live and draw.random() < 0.2:
            live.discard(key)
            yield key, None
            continue
        live.add(key)
        amount = None if draw.random() < 0.05 else draw.randrange(100)
        yield (
            key,
            {"id": key, "owner": f"o{draw.randrange(_OWNERS)}", "amount": amount, "t": START_MS + number},
        )


def _owners(draw: random.Random) -> Iterator[KeyedRow]:
    for number in range(60):
        # One more than accounts name, and one that is named but never there.
        key = f"o{draw.randrange(1, _OWNERS + 1)}"
        if number > 20 and draw.random() < 0.25:
            yield key, None
        else:
            yield key, {"owner": key, "region": f"r{draw.randrange(3)}", "t": START_MS + number}


_STREAM = {
    "n": "BIGINT",
    "k": "VARCHAR",
    "g": "VARCHAR",
    "v": "BIGINT",
    "d": "DOUBLE",
    "tags": "ARRAY<VARCHAR>",
    "t": "BIGINT",
}

_VERSIONS = {"k": "VARCHAR", "w": "BIGINT", "t": "BIGINT"}
_ACCOUNTS = {"id": "VARCHAR", "owner": "VARCHAR", "amount": "BIGINT", "t": "BIGINT"}

RELATIONS = (
    Relation("s", _STREAM, _stream(900)),
    Relation("r", _STREAM, _stream(400)),
    Relation("c", _VERSIONS, _versions("k", _KEYS + 2, 200), key="k"),
    Relation("e", {"g": "VARCHAR", "w": "BIGINT", "t": "BIGINT"}, _versions("g", 3, 60), key="g"),
    Relation("x", _VERSIONS, _versions("k", _KEYS, 200, deleted=0.3), key="k"),
    Relation("a", _ACCOUNTS, _accounts, key="id", time=False),
    Relation("o", {"owner": "VARCHAR", "region": "VARCHAR", "t": "BIGINT"}, _owners, key="owner", time=False),
)
