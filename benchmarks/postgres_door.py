"""Figures of the PostgreSQL door: `python -m benchmarks.postgres_door` prints JSON.

A real server answers `SELECT` of one row by psycopg: `p50_ms` and `p99_ms` of one connection, `per_s` of eight connections in as many
processes, and the processor time of the server's processes per statement. The clients run on the same machine.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import psutil
import psycopg

from harness.process import HeadraceProcess
from headrace.runtime.ports import free_port

ALONE, WARM_UP, CLIENTS, SECONDS = 1000, 100, 8, 10.0
QUERIES = {
    "constant": ("SELECT 1 AS one", ()),
    "system_relation": ('SELECT name, owner FROM deltastream.sys."databases" WHERE name = %s', ("bench",)),
    "catalog": ("SELECT oid, datname FROM pg_database WHERE datname = %s", ("bench",)),
}


def main() -> None:
    """Measure each query."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        server, port = HeadraceProcess(Path(folder)), free_port()
        server.start(HEADRACE_POSTGRES_PORT=str(port))
        address = f"host=127.0.0.1 port={port} user=admin password={server.token}"
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("CREATE DATABASE bench")
            figures = {name: _measured(server, address, *query) for name, query in QUERIES.items()}
        finally:
            server.stop()
    print(json.dumps(figures, indent=1))


def _measured(server: HeadraceProcess, address: str, text: str, values: tuple[str, ...]) -> dict[str, float]:
    times: list[float] = []
    with psycopg.connect(address, autocommit=True) as connection:
        for number in range(WARM_UP + ALONE):
            start = time.perf_counter()
            rows = connection.execute(text.encode(), values).fetchall()
            if number >= WARM_UP:
                times.append((time.perf_counter() - start) * 1000)
            if len(rows) != 1:
                raise RuntimeError(f"expected a row of {text}, found {rows}")
    before = _processor_s(server)
    with multiprocessing.Pool(CLIENTS) as pool:
        counts = pool.starmap(_count, [(address, text, values)] * CLIENTS)
    total = sum(counts)
    return {
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(statistics.quantiles(times, n=100)[98], 2),
        "per_s": round(total / SECONDS),
        "processor_ms": round((_processor_s(server) - before) / total * 1000, 2),
    }


def _count(address: str, text: str, values: tuple[str, ...]) -> int:
    count = 0
    with psycopg.connect(address, autocommit=True) as connection:
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            connection.execute(text.encode(), values).fetchall()
            count += 1
    return count


def _processor_s(server: HeadraceProcess) -> float:
    processes = [psutil.Process(server.pid), *server.descendants()]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


if __name__ == "__main__":
    main()
