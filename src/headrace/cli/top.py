"""headrace top: the queries with their states, rates, lag and findings, as they are now."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli import exit_codes
from headrace.cli.choices import Order
from headrace.cli.output import Printer, plain
from headrace.cli.session import Server, run_client
from headrace.client import AnswerColumn, Client
from headrace.core.resultset import Cell
from headrace.core.wording import counted

_QUERIES = """
SELECT q.id, q.name, q.sink_fqn, q.current_state, q.compute_pool_name, q.message, m.input_rows_per_second,
  m.output_rows_total, m.watermark_lag_ms, m.backlog_bytes, m.batch_duration_ms, m.state_bytes
FROM deltastream.sys.queries AS q LEFT JOIN deltastream.sys.query_metrics AS m ON q.id = m.query_id
WHERE q.intended_state <> 'terminated'
"""
_FINDINGS = "SELECT query_id, code FROM deltastream.sys.query_findings"
COLUMNS = tuple(
    AnswerColumn(name, kind, True)
    for name, kind in (
        ("query", "VARCHAR"),
        ("state", "VARCHAR"),
        ("pool", "VARCHAR"),
        ("in_per_s", "DOUBLE"),
        ("out_per_s", "DOUBLE"),
        ("lag_ms", "BIGINT"),
        ("backlog_bytes", "BIGINT"),
        ("batch_ms", "BIGINT"),
        ("state_bytes", "BIGINT"),
        ("findings", "VARCHAR"),
        ("id", "VARCHAR"),
    )
)
_STYLES = {
    "running": "green",
    "errored": "bold red",
    "restarting": "yellow",
    "starting": "cyan",
    "queued": "cyan",
}


_PLACES = {Order.LAG: 5, Order.INPUT: 3, Order.OUTPUT: 4, Order.STATE: 8}


@dataclass
class _Rates:
    """Rates of output, from the sums of two moments."""

    before: tuple[float, dict[str, int]] | None = None

    def of(self, sums: dict[str, int]) -> dict[str, float]:
        """Return rows per second since the last call; a query that restarted since has none."""
        now, before = time.monotonic(), self.before
        self.before = (now, sums)
        if before is None or now <= before[0]:
            return {}
        seconds = now - before[0]
        return {
            key: (rows - before[1][key]) / seconds
            for key, rows in sums.items()
            if rows >= before[1].get(key, rows + 1)
        }


def top(
    server: Server, *, order: Order, interval_s: float, iterations: int | None, out: Printer | None
) -> int:
    """Show the queries again and again until q or Ctrl-C: on the terminal, or by `out` for scripts. Return the exit code."""

    async def go(client: Client) -> int:
        rates = _Rates()
        if out is not None:
            for number in range(iterations or 1):
                if number:
                    await asyncio.sleep(interval_s)
                out.start(COLUMNS)
                out.write(await _rows(client, order, rates))
                out.finish()
            return exit_codes.OK
        console, number = Console(), 0
        with Live(console=console, screen=True, auto_refresh=False) as live:
            async with _keys() as pressed:
                while iterations is None or number < iterations:
                    live.update(_screen(await _rows(client, order, rates), server.url, order), refresh=True)
                    number += 1
                    if await pressed(interval_s) == "q":
                        break
        return exit_codes.OK

    return run_client(server, go)


async def _rows(client: Client, order: Order, rates: _Rates) -> list[tuple[Cell, ...]]:
    queries = (await client.execute(_QUERIES)).rows
    findings: dict[str | None, list[str]] = defaultdict(list)
    for query, code in (await client.execute(_FINDINGS)).rows:
        findings[query].append(code or "")
    written = rates.of({row[0] or "": int(row[7]) for row in queries if row[7] is not None})
    rows: list[tuple[Cell, ...]] = [
        (
            name or sink,
            state,
            pool,
            _rounded(rate),
            _rounded(written.get(identifier or "")),
            lag,
            backlog,
            duration,
            size,
            ", ".join(findings[identifier]) or (message if state == "errored" else None),
            identifier,
        )
        for identifier, name, sink, state, pool, message, rate, _, lag, backlog, duration, size in queries
    ]
    rows.sort(key=lambda row: row[0] or "")
    if (place := _PLACES.get(order)) is not None:
        rows.sort(key=lambda row: float(row[place] or -1), reverse=True)
    return rows


def _rounded(rate: float | str | None) -> str | None:
    return None if rate is None else f"{float(rate):.1f}"


def _screen(rows: list[tuple[Cell, ...]], url: str, order: Order) -> Group:
    running = sum(row[1] == "running" for row in rows)
    queries = f"{counted(len(rows), 'query', 'queries')}, {running} running"
    title = f"{plain(url)}  {time.strftime('%H:%M:%S')}  {queries}, by {order.value}; q ends"
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
    for column in COLUMNS[:-1]:
        table.add_column(
            column.name.upper(), justify="left" if column.type == "VARCHAR" else "right", no_wrap=True
        )
    for row in rows:
        cells = [Text(plain(cell or "")) for cell in row[:-1]]
        cells[1].stylize(_STYLES.get(row[1] or "", ""))
        table.add_row(*cells)
    return Group(Text(title), table)


@asynccontextmanager
async def _keys() -> AsyncIterator[Callable[[float], Awaitable[str | None]]]:
    """Yield a function that waits for a key or some seconds, and returns the key."""
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def pressed(seconds: float) -> str | None:
        try:
            return await asyncio.wait_for(queue.get(), seconds)
        except TimeoutError:
            return None

    loop = asyncio.get_running_loop()
    with _unbuffered():
        loop.add_reader(sys.stdin, lambda: queue.put_nowait(sys.stdin.read(1)))
        try:
            yield pressed
        finally:
            loop.remove_reader(sys.stdin)


@contextmanager
def _unbuffered() -> Iterator[None]:
    """Read keys without Enter and without an echo inside."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
