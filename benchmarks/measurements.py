"""All measurements, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.delivery import delivery
from benchmarks.latency import latency
from benchmarks.lifecycle import recovery, start_up
from benchmarks.rig import Rig
from benchmarks.throughput import Figures, projection, temporal_join, tumble

MEASUREMENTS: dict[str, Callable[[Rig], Figures]] = {
    "start_up": start_up,
    "projection": projection,
    "tumble": tumble,
    "temporal_join": temporal_join,
    "delivery": delivery,
    "latency": latency,
    "recovery": recovery,
}

UNITS = {"_us_per_record": "µs", "_ms": "ms", "_s": "s", "_percent": "%", "_mb": "MiB", "_records": "records"}


def unit(figure: str) -> str:
    """From the end of a figure's name."""
    if figure.startswith("records_per_s"):
        return "records/s"
    return next(text for end, text in UNITS.items() if figure.endswith(end))
