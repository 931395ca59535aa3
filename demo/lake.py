"""`make demo LAKE=1`: the flights from Kafka into tables of Iceberg and ClickHouse, and read back from them by SELECT.

The lake is Iceberg's own REST catalog over a stand-in for S3, and ClickHouse its engine in a process of ours; both on loopback.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from demo import check, data, expected
from demo.loading import load
from demo.server import TOKEN, Server
from harness.clickhouse import PASSWORD, USER, ClickHouseServer
from harness.iceberg import Lake
from harness.kinesis import ACCESS_KEY, REGION, SECRET_KEY

CHECK_TIMEOUT_S = 900
LOOK_EVERY_S = 3
_TOTALS = "SELECT carrier, COUNT(*), SUM(distance), AVG(arr_delay) FROM {} GROUP BY carrier;"
_TABLES = {
    ("flights_lake", "Iceberg"): _TOTALS.format("flights_lake"),
    ("flights_facts", "ClickHouse"): _TOTALS.format("flights_facts"),
    (
        "carrier_totals",
        "ClickHouse",
    ): "SELECT carrier, departures, miles, mean_arrival_delay FROM carrier_totals;",
}


def run(server: Server, console: Console, *, once: bool, rows: int | None) -> int:
    """Returns the exit code: 1 when a table differs from the topic. With `once` it ends when all are right, and else it stays."""
    with (
        TemporaryDirectory(prefix="headrace-demo-") as folder,
        Lake() as lake,
        ClickHouseServer(Path(folder)) as facts,
    ):
        with console.status("Starting the server and a Kafka broker …"):
            server.start()
        console.print(f"Server ready at [bold]{server.url}[/]; broker at {server.bootstrap}")
        console.print(
            f"Iceberg's catalog at {lake.catalog}, its files at {lake.aws.uri}; ClickHouse at {facts.uri}"
        )
        addresses = {"iceberg": lake.catalog, "s3": lake.aws.uri, "clickhouse": facts.uri}
        keys = {"region": REGION, "key": ACCESS_KEY, "secret": SECRET_KEY, "user": USER, "password": PASSWORD}
        for summary in server.run("lake.sql", **addresses, **keys):
            console.print(f"  {summary}")
        flights = data.flights(rows)
        load(server.bootstrap, {"flights": flights}, console)
        failures = _check(server, console, flights)
        if not once:
            console.print(
                f"Sign in at [bold]{server.url}[/] with the token [bold]{TOKEN}[/] (USE DATABASE nyc; first). Ctrl-C ends it."
            )
            while True:
                time.sleep(3600)
        return 1 if failures else 0


def _check(server: Server, console: Console, flights: list[data.Record]) -> int:
    """Read each table until it contains all sent flights, print their number, and return the number of tables that differ."""
    expected_totals = expected.carrier_totals(flights)
    began = time.monotonic()
    in_topic = len(check.records(server.bootstrap, "flights"))
    table = Table(
        "table", "store", "flights", "topic", "as recomputed", "seconds", title="Read back, by SELECT"
    )
    failures = 0
    for (name, store), sql in _TABLES.items():
        with console.status(f"Reading {name} …"):
            while True:
                actual = {str(row[0]): check.totals(row) for row in server.select(sql)}
                departures = sum(total[0] for total in actual.values())
                difference = check.compared(expected_totals, actual)
                right = difference is None and departures == in_topic
                if right or time.monotonic() > began + CHECK_TIMEOUT_S:
                    break
                time.sleep(LOOK_EVERY_S)
        failures += not right
        seconds = f"{time.monotonic() - began:.1f}"
        table.add_row(
            name,
            store,
            str(departures),
            str(in_topic),
            "yes" if right else f"[red]no: {difference}",
            seconds,
        )
    console.print(table)
    return failures
