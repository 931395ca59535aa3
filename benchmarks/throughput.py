"""Records a second: preloaded topics, read from their beginning as fast as the query can; with a peer, its figures too."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.records import PARTITIONS, Output, Sink
from benchmarks.results import Digest, digest
from benchmarks.rig import Figures, Rig, first_batch_s
from benchmarks.shapes import PEERED, SHAPES, Shape

_WITHIN_S = 600.0


def throughput(shape: Shape) -> Callable[[Rig], Figures]:
    """The measurement of one shape. The peer has the first turn every other time: neither always finds the warmer page cache."""

    def measure(rig: Rig) -> Figures:
        peer = rig.peer
        if peer is None or shape.name not in PEERED:
            return _on_headrace(rig, shape)[0]
        topics = {source.name: rig.filled(source) for source in shape.sources}
        if peer.runs % 2:
            theirs = peer.measure(shape, rig.sizes, topics)
            ours = _on_headrace(rig, shape)
        else:
            ours = _on_headrace(rig, shape)
            theirs = peer.measure(shape, rig.sizes, topics)
        (figures, rows), (rate, cpu, flink_rows) = ours, theirs
        if rows != flink_rows:
            raise RuntimeError(f"the results differ: Headrace {rows}, Flink {flink_rows}")
        return {
            **figures,
            "flink_records_per_s": rate,
            "flink_cpu_us_per_record": cpu,
            "flink_ratio": figures["records_per_s"] / rate,
        }

    return measure


def _on_headrace(rig: Rig, shape: Shape) -> tuple[Figures, Digest]:
    for source in shape.sources:
        rig.relation(source.name, source.headrace(rig.filled(source)))
    name, asked, cpu = rig.name(shape.name), time.time(), rig.driver_cpu_s()
    query = rig.start(shape.headrace(name), **shape.properties)
    sink = Sink(rig.bootstrap, name, PARTITIONS)
    try:
        output = shape.finished(sink, rig.sizes, within=_WITHIN_S, every=lambda: rig.check(query))
        cpu = rig.driver_cpu_s() - cpu
        rows_digest = digest(sink.records(), changelog=bool(shape.key))
    finally:
        sink.close()
    count = shape.records(rig.sizes)
    figures = {
        "records_per_s": count / (output.last_s - _began(rig, shape, query, output)),
        "driver_cpu_us_per_record": cpu / count * 1e6,
    }
    rig.terminate(query)
    if shape.stateless:
        figures["records_per_s_with_start"] = count / (output.last_s - asked)
        figures["first_output_s"] = output.first_s - asked
    return figures, rows_digest


def _began(rig: Rig, shape: Shape, query: str, output: Output) -> float:
    """Real-time mode has no batches: there its first output is the beginning."""
    return output.first_s if shape.stateless else first_batch_s(rig.checkpoint(query))


THROUGHPUT = {shape.name: throughput(shape) for shape in SHAPES}
