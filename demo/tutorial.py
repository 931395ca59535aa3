"""`make demo TUTORIAL=1`: docs/tutorials/multi-store.md over Kafka and a stand-in for Kinesis, checked against plain Python."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from demo.check import records
from demo.server import TOKEN, Server
from harness.kinesis import KinesisClient, KinesisServer

USERS, VIEWS = 30, 600
BEGIN_MS = 1_700_000_000_000
WITHIN_MS = 5 * 60_000
CHECK_TIMEOUT_S = 600

Row = dict[str, Any]
Rows = Counter[str]


def run(server: Server, console: Console, *, once: bool) -> int:
    """Returns the exit code: 1 when a sink differs. With `once` it ends when both are right, and else it stays."""
    with KinesisServer() as stand_in:
        with console.status("Starting the server, a Kafka broker and a stand-in for Kinesis …"):
            server.start()
        console.print(
            f"Server ready at [bold]{server.url}[/]; broker at {server.bootstrap}, Kinesis at {stand_in.uri}"
        )
        for summary in server.run("tutorial.sql", kinesis=stand_in.uri):
            console.print(f"  {summary}")
        streams = KinesisClient(stand_in)
        users, views = _users(), _views()
        _produce(server.bootstrap, users)
        streams.put("pageviews", [(view["userid"], json.dumps(view)) for view in views])
        console.print(f"{VIEWS} page views are in Kinesis, {USERS} users in Kafka.")
        sinks: dict[str, tuple[Rows, Callable[[], Rows]]] = {
            "pageviews_copy (Kafka)": (
                _bag(views),
                lambda: _bag(value for _, value in records(server.bootstrap, "pageviews_copy")),
            ),
            "pageviews_enriched (Kinesis)": (
                _bag(_enriched(users, views)),
                lambda: _bag(json.loads(value) for _, value in streams.read("pageviews_enriched")),
            ),
        }
        failures = _check(sinks, console)
        if not once:
            console.print(
                f"Sign in at [bold]{server.url}[/] with the token [bold]{TOKEN}[/]. Ctrl-C ends the tutorial."
            )
            while True:
                time.sleep(3600)
        return 1 if failures else 0


def _users() -> list[Row]:
    return [
        {
            "registertime": BEGIN_MS + number * 10_000,
            "userid": f"User_{number}",
            "regionid": f"Region_{number % 5}",
            "interests": ["News", "Sport"] if number % 2 else ["Game"],
        }
        for number in range(USERS)
    ]


def _views() -> list[Row]:
    return [
        {
            "viewtime": BEGIN_MS + number * 2_000,
            "userid": f"User_{number % (USERS + 3)}",
            "pageid": f"Page_{number}",
        }
        for number in range(VIEWS)
    ]


def _enriched(users: list[Row], views: list[Row]) -> Iterable[Row]:
    by_id = {user["userid"]: user for user in users}
    for view in views:
        user = by_id.get(view["userid"])
        if user is not None and abs(user["registertime"] - view["viewtime"]) <= WITHIN_MS:
            yield {**view, "regionid": user["regionid"], "interest": user["interests"][0]}


def _produce(bootstrap: str, users: list[Row]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 3})
    for user in users:
        producer.produce("users", json.dumps(user).encode(), user["userid"].encode())
    producer.flush()


def _check(sinks: dict[str, tuple[Rows, Callable[[], Rows]]], console: Console) -> int:
    """Wait for both sinks, print a table, return how many are not as expected."""
    table = Table("sink", "records", "expected", "as recomputed")
    deadline = time.monotonic() + CHECK_TIMEOUT_S
    failures = 0
    for name, (expected_rows, read) in sinks.items():
        received = read()
        while received.total() < expected_rows.total() and time.monotonic() < deadline:
            time.sleep(1)
            received = read()
        same = received == expected_rows
        failures += not same
        table.add_row(name, str(received.total()), str(expected_rows.total()), "yes" if same else "[red]no")
    console.print(table)
    return failures


def _bag(rows: Iterable[Row]) -> Rows:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)
