"""Memory of the server with many live results: `python -m benchmarks.sockets` prints JSON.

The application runs in a process of its own over live results that this benchmark feeds instead of queries: 1,000 that are silent, and 200
with 50 rows of about 100 bytes a second each. `memory_mb` is that process's resident memory before the first socket, with all sockets,
and after a minute of rows; `rows_per_s` is what the readers received, and `processor_share` what the process took of a core meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psutil
import structlog
from websockets.asyncio.client import ClientConnection, connect

from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from headrace.server.process import allow_files
from tests.unit.server.scripted import TOKENS, ScriptedStatements, ScriptedStream, serving

IDLE, BUSY, ROWS_PER_S, SECONDS = 1000, 200, 50, 60.0
TOKEN = "good-token"  # noqa: S105
VALUE = "x" * 90


def main() -> None:
    """Measure in two processes: the server, and its readers."""
    allow_files()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        print(json.dumps(asyncio.run(_read(ours.recv(), ours, psutil.Process(server.pid))), indent=1))
    finally:
        server.kill()


def _serve(control: Connection) -> None:
    # Standard output is for the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    allow_files()
    with TemporaryDirectory(prefix="headrace-bench-") as folder:
        asyncio.run(_served(control, Path(folder)))


async def _served(control: Connection, folder: Path) -> None:
    statements = ScriptedStatements()
    streams = [ScriptedStream() for _ in range(IDLE + BUSY)]
    for number, stream in enumerate(streams):
        stream.running.set()
        statements.answer(f"SELECT {number}", stream)
    app = create_app(ServerParts(Settings(data_dir=folder), statements, TOKENS.get))
    async with serving(app, 0) as server:
        control.send(server.servers[0].sockets[0].getsockname()[1])
        await asyncio.to_thread(control.recv)
        await asyncio.gather(*(_feed(stream) for stream in streams[IDLE:]))


async def _feed(stream: ScriptedStream) -> None:
    """Put rows ten times a second, as a query's batches come, at the rate of the wall clock."""
    start, count = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - start) * ROWS_PER_S)
        await stream.put(*([str(number), VALUE] for number in range(count, due)))
        count = due
        await asyncio.sleep(0.1)


async def _read(port: int, control: Connection, server: psutil.Process) -> dict[str, object]:
    memory = {"before": _memory_mb(server)}
    async with AsyncExitStack() as opened, httpx.AsyncClient(timeout=60) as http:
        sockets = [
            await opened.enter_async_context(_socket(http, port, number)) for number in range(IDLE + BUSY)
        ]
        memory["connected"] = _memory_mb(server)
        control.send("feed")
        counts = [0] * BUSY
        cpu, start = sum(server.cpu_times()[:2]), time.monotonic()
        readers = [asyncio.create_task(_count(sockets[IDLE + index], counts, index)) for index in range(BUSY)]
        await asyncio.sleep(SECONDS)
        seconds = time.monotonic() - start
        memory["after_a_minute"] = _memory_mb(server)
        figures = {
            "memory_mb": memory,
            "rows_per_s": round(sum(counts) / seconds),
            "processor_share": round((sum(server.cpu_times()[:2]) - cpu) / seconds, 2),
        }
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        return figures


@asynccontextmanager
async def _socket(http: httpx.AsyncClient, port: int, number: int) -> AsyncIterator[ClientConnection]:
    """Open a live result, and wait until its columns came."""
    answer = await http.post(
        f"http://127.0.0.1:{port}/v2/statements",
        json={"statement": f"SELECT {number}"},
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    request = answer.json()["metadata"]["dataplaneRequest"]
    async with connect(request["uri"].replace("http:", "ws:"), proxy=None, max_size=None) as socket:
        await socket.send(json.dumps({"type": "auth", "accessToken": request["token"], "sessionId": ""}))
        await socket.recv()
        yield socket


def _memory_mb(process: psutil.Process) -> int:
    return round(process.memory_info().rss / 1e6)


async def _count(socket: ClientConnection, counts: list[int], index: int) -> None:
    async for frame in socket:
        counts[index] += json.loads(frame)["type"] == "data"


if __name__ == "__main__":
    main()
