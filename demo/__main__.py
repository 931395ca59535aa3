"""`make demo`: see the package."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from platformdirs import user_cache_path
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo import check, data, lake, tutorial
from demo.loading import load
from demo.server import SESSION, TOKEN, Server
from headrace.client import Client, ClientError

CHECK_TIMEOUT_S = 900
DAYS_PER_SECOND = 2.0

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Returns the exit code: 1 when a sink differs from the recomputation."""
    options = _options()
    # Otherwise the server would outlive the demonstration. An interrupted demonstration with checks must not report success.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    shutil.rmtree(options.folder, ignore_errors=True)
    server = Server(options.folder, port=options.port)
    try:
        if options.tutorial:
            return tutorial.run(server, console, once=options.once)
        if options.lake:
            return lake.run(server, console, once=options.once, rows=options.rows)
        return _run(server, options)
    except KeyboardInterrupt:
        return 0
    except (ClientError, RuntimeError) as error:
        console.print(f"[red]The demonstration stopped:[/] {escape(str(error))}")
        console.print(f"The server's log is {server.log}.")
        return 1
    finally:
        console.print("Stopping.")
        server.stop()


def _run(server: Server, options: argparse.Namespace) -> int:
    started = time.monotonic()
    with console.status("Starting the server and a Kafka broker …"):
        server.start()
    console.print(
        f"Server ready at [bold]{server.url}[/] after {time.monotonic() - started:.1f} s; broker at {server.bootstrap}"
    )
    for summary in server.run("flights.sql"):
        console.print(f"  {summary}")
    with console.status("Reading the flights …"):
        records = {
            "planes": data.planes(),
            "airlines": data.airlines(),
            "airports": data.airports(),
            "weather": data.weather(),
            "flights": data.flights(options.rows),
        }
    replay = None if options.once else options.days_per_second * 86_400
    began = time.monotonic()
    loading = threading.Thread(target=load, args=(server.bootstrap, records, console, replay), daemon=True)
    loading.start()
    console.print("\nFlights that leave late, as they happen ([bold]SELECT … FROM late_departures[/]):")
    asyncio.run(_watch(server, count=8))
    if options.kill:
        _kill(server, options.kill)
    loading.join()
    if not options.once:
        return _stay(server)
    failures = _check(server, records, began, killed=bool(options.kill))
    _worst_routes(server)
    console.print(f"All in {time.monotonic() - started:.0f} s.")
    return 1 if failures else 0


async def _watch(server: Server, *, count: int) -> None:
    """Print the first rows of an interactive SELECT."""
    async with Client(server.url, TOKEN, context=SESSION) as client:
        answer = await client.execute(
            "SELECT carrier, flight, origin, dest, dep_delay FROM late_departures WITH ('starting.position' = 'earliest');"
        )
        rows = answer.stream()
        for _ in range(count):
            carrier, flight, origin, dest, delay = (await anext(rows)).cells
            console.print(f"  {carrier}{flight:<6} {origin} → {dest}  {float(delay or 0):5.0f} minutes late")
        await rows.aclose()


def _kill(server: Server, what: str) -> None:
    console.print(f"\n[bold red]kill -9[/] of the {what}")
    if what == "driver":
        server.kill_driver()
    else:
        server.kill()
        server.start()


def _check(server: Server, records: dict[str, list[data.Record]], began: float, *, killed: bool) -> int:
    """Wait for every sink to hold the recomputed answers, print a table, return how many do not."""
    waiting = check.sinks(server.bootstrap, records, server.select, killed=killed)
    table = Table("sink", "answers", "as recomputed", "seconds", title="Every sink against plain Python")
    deadline = time.monotonic() + CHECK_TIMEOUT_S
    differences: dict[str, str] = {}
    columns = (TextColumn("  {task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("sinks complete", total=len(waiting))
        while waiting and time.monotonic() < deadline:
            for sink in list(waiting):
                difference = sink.difference()
                if difference is None:
                    table.add_row(sink.name, str(sink.size), "yes", f"{time.monotonic() - began:.1f}")
                    waiting.remove(sink)
                    progress.advance(task)
                else:
                    differences[sink.name] = difference
            time.sleep(1)
    for sink in waiting:
        table.add_row(sink.name, str(sink.size), f"[red]no: {differences[sink.name]}", "")
    console.print(table)
    return len(waiting)


def _worst_routes(server: Server) -> None:
    rows = server.select(
        "SELECT origin, dest, departures, mean_arrival_delay FROM route_delays "
        "WHERE departures >= 100 ORDER BY mean_arrival_delay DESC LIMIT 5;",
    )
    table = Table(
        "origin",
        "dest",
        "departures",
        "mean delay (min)",
        title="The worst routes, now (a snapshot SELECT of a view)",
    )
    for origin, dest, departures, delay in rows:
        table.add_row(origin, dest, departures, f"{float(delay or 0):.1f}")
    console.print(table)


def _stay(server: Server) -> int:
    _worst_routes(server)
    console.print(
        f"\nOpen [bold]{server.url}[/] and sign in with the token [bold]{TOKEN}[/] (USE DATABASE nyc; first)."
    )
    console.print(f"Or: HEADRACE_TOKEN={TOKEN} .venv/bin/headrace sql --url {server.url}")
    console.print("Ctrl-C ends the demonstration.")
    while True:
        time.sleep(3600)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Replay a year of flights through Headrace.")
    parser.add_argument(
        "--once", action="store_true", help="check every sink against a recomputation and exit"
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--tutorial", action="store_true", help="docs/tutorials/multi-store.md instead")
    other.add_argument(
        "--lake", action="store_true", help="the flights into tables of Iceberg and ClickHouse instead"
    )
    parser.add_argument("--rows", type=int, default=None, help="the first so many flights only")
    parser.add_argument("--days-per-second", type=float, default=DAYS_PER_SECOND, help="speed of the replay")
    folder = user_cache_path("headrace") / "demo"
    parser.add_argument("--folder", type=Path, default=folder, help="the server's data; emptied at the start")
    parser.add_argument("--port", type=int, default=0, help="the server's port")
    parser.add_argument("--kill", choices=("driver", "server"), help="kill -9 in the middle")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
