"""Size: state of a million keys, and a topic of ten million records read again from its beginning."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.records import PARTITIONS, Record, Sink, preload
from benchmarks.rig import Figures, Rig, Samples
from benchmarks.shapes import CLICKS, NOTE, SHAPES, START_MS, STRIDE, Source, every, pieces
from harness.process import HeadraceProcess

KEYS_NEAR = 10_000
_NEAR_RECORDS = 200_000
_WITHIN_S = 1800.0
OPERATORS = {
    "group_by": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM rows_of_keys GROUP BY k",
    "keep_last": "SELECT k, v, at FROM (SELECT k, v, at, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC, v) AS place "
    "FROM rows_of_keys) AS x WHERE place = 1",
    "tumble": "SELECT window_end, k, COUNT(*) AS n, SUM(v) AS total FROM TUMBLE(rows_of_keys, SIZE 1 DAY) "
    "GROUP BY window_start, window_end, k",
}
"""The first and the last keep their state in Spark's operators, the other in ours. No window closes."""


@dataclass(frozen=True)
class _Sample:
    """State after a committed batch. `read` counts the records of all batches so far."""

    read: int
    largest_batch: int
    cpu_s: float
    rss_mb: float
    written: int


def many_keys(rig: Rig) -> Figures:
    """Measure the cost of a record when all keys exist in the state, with few and with many keys, and the driver's memory with many keys.

    Where records are `spread`, a batch of them changes as many keys as there are, at most; where they are `near`, the same number of
    keys whatever there are: only the size of the state differs then. Each query has a server of its own, whose pool does nothing else.
    """
    figures: Figures = {}
    for name, select in OPERATORS.items():
        for amount, keys in (("few", KEYS_NEAR), ("many", rig.sizes.keys_many)):
            samples = _of_keys(rig, select, keys)
            figures[f"{name}_{amount}_spread_cpu_us_per_record"] = _cost_us(samples, 1 / 3, 2 / 3)
            figures[f"{name}_{amount}_near_cpu_us_per_record"] = _cost_us(samples, 2 / 3, 1)
            figures[f"{name}_{amount}_rss_mb"] = max(sample.rss_mb for sample in samples)
        for order in ("spread", "near"):
            costs = [figures[f"{name}_{amount}_{order}_cpu_us_per_record"] for amount in ("many", "few")]
            figures[f"{name}_{order}_cost_ratio"] = costs[0] / costs[1]
        rig.say(
            f"    {', '.join(f'{key} {value:,.1f}' for key, value in figures.items() if key.startswith(name))}"
        )
    return figures


def replay(rig: Rig) -> Figures:
    """Run TUMBLE over a long topic from its start; measure batch sizes, results, memory, and the cost early and late in the topic."""
    sizes = replace(rig.sizes, window_records=rig.sizes.replay_records)
    topic = rig.topic("bench_replay", lambda name: preload(rig.bootstrap, name, CLICKS.rows(sizes)))
    shape = next(shape for shape in SHAPES if shape.name == "tumble")
    with _own_server(rig) as server:
        rig.execute(CLICKS.headrace(topic), server)
        samples = _samples(rig, server, shape.headrace, sizes.replay_records)
    memory = Samples([sample.rss_mb for sample in samples if sample.read > sizes.replay_records / 3])
    half = next(sample for sample in samples if sample.read >= sizes.replay_records / 2)
    return {
        "largest_batch_records": float(max(sample.largest_batch for sample in samples)),
        "written_at_half_percent": 100 * half.written / samples[-1].written,
        **memory.figures("driver", "rss_mb"),
        "cost_ratio": _cost_us(samples, 0.7, 1.0) / _cost_us(samples, 0.4, 0.7),
        "driver_cpu_us_per_record": _cost_us(samples, 0.4, 1.0),
    }


def _of_keys(rig: Rig, select: str, keys: int) -> list[_Sample]:
    """The first third of the records creates each key, the second third contains all keys, the last third `KEYS_NEAR` keys at a time."""
    columns = {"at": "BIGINT", "k": "BIGINT", "v": "BIGINT", "note": "VARCHAR"}
    source = Source("rows_of_keys", columns, lambda sizes: _rows(sizes.keys_many, keys))
    topic = rig.topic(f"bench_keys_{keys}", lambda name: preload(rig.bootstrap, name, source.rows(rig.sizes)))
    with _own_server(rig) as server:
        rig.execute(source.headrace(topic), server)
        return _samples(
            rig, server, lambda sink: f"CREATE CHANGELOG {sink} AS {select}", 3 * rig.sizes.keys_many
        )


def _rows(part: int, keys: int) -> list[Iterator[Record]]:
    def row(number: int) -> dict[str, object]:
        key = number * STRIDE
        if number >= 2 * part:
            key = number % KEYS_NEAR + number // _NEAR_RECORDS * KEYS_NEAR
        return {"at": START_MS + number // 10, "k": key % keys, "v": number, "note": NOTE}

    # A key is always in the same partition: all these numbers agree with `PARTITIONS`.
    return pieces(every(3 * part), row, end=False)


def _samples(rig: Rig, server: HeadraceProcess, statement: Callable[[str], str], count: int) -> list[_Sample]:
    """Return a sample for each commit that was seen, until `count` records have been read."""
    name = rig.name("scale")
    query = rig.start(statement(name), server)
    checkpoint = rig.checkpoint(query, server)
    sink = Sink(rig.bootstrap, name, PARTITIONS)
    samples: list[_Sample] = []
    try:

        def enough() -> bool:
            rig.check(query, server)
            read = _read(checkpoint)
            if read and (not samples or read[-1] > samples[-1].read):
                largest = max(after - before for before, after in zip([0, *read], read, strict=False))
                samples.append(
                    _Sample(
                        read[-1], largest, rig.driver_cpu_s(server), rig.driver_mb(server), sink.offsets()
                    )
                )
            return bool(samples) and samples[-1].read >= count

        rig.until(enough, within=_WITHIN_S)
    finally:
        sink.close()
    return samples


def _read(checkpoint: Path) -> list[int]:
    """Return how many records had been read at the end of each committed batch; at least of the newest hundred."""
    commits = checkpoint / "commits"
    batches = (
        sorted(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        if commits.is_dir()
        else []
    )
    return [_offsets(checkpoint / "offsets" / str(batch)) for batch in batches]


def _offsets(written: Path) -> int:
    sources = [json.loads(line) for line in written.read_text().splitlines()[2:]]
    return sum(offset for topics in sources for topic in topics.values() for offset in topic.values())


def _cost_us(samples: list[_Sample], begin: float, end: float) -> float:
    """Processor time per record between two shares of all records."""
    first = next(sample for sample in samples if sample.read >= begin * samples[-1].read)
    last = next(sample for sample in samples if sample.read >= end * samples[-1].read)
    return (last.cpu_s - first.cpu_s) / (last.read - first.read) * 1e6


@contextmanager
def _own_server(rig: Rig) -> Iterator[HeadraceProcess]:
    server = HeadraceProcess(rig.folder / rig.name("own")).start()
    try:
        rig.prepare(server)
        yield server
    finally:
        server.stop()
