"""All measurements, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.cluster import CLUSTER
from benchmarks.delivery import delivery
from benchmarks.latency import latency, stateful_latency
from benchmarks.lifecycle import recovery, recovery_busy, recovery_standby, start_up
from benchmarks.rig import Figures, Rig
from benchmarks.savepoints import savepoints
from benchmarks.scale import many_keys, replay
from benchmarks.state import state
from benchmarks.stores import codecs, kinesis, postgresql
from benchmarks.tables import TABLES
from benchmarks.throughput import THROUGHPUT

MEASUREMENTS: dict[str, Callable[[Rig], Figures]] = {
    "start_up": start_up,
    **THROUGHPUT,
    "delivery": delivery,
    "latency": latency,
    "stateful_latency": stateful_latency,
    "recovery": recovery,
    "recovery_busy": recovery_busy,
    "recovery_standby": recovery_standby,
    "savepoints": savepoints,
    "state": state,
    "many_keys": many_keys,
    "replay": replay,
    "kinesis": kinesis,
    "postgresql": postgresql,
    "codecs": codecs,
    **TABLES,
    **CLUSTER,
}

UNITS = {
    "_us_per_record": "µs",
    "_us_per_row": "µs",
    "_ms": "ms",
    "_s": "s",
    "_percent": "%",
    "_mb": "MiB",
    "_records": "records",
    "_rows": "rows",
}


def unit(figure: str) -> str:
    """Return the unit at the end of a figure's name."""
    if "records_per_s" in figure:
        return "records/s"
    if figure.endswith(("rows_per_s", "changes_per_s")):
        return f"{figure.split('_')[-3]}/s"
    if figure.endswith("_ratio"):
        return "times"
    return next(text for end, text in UNITS.items() if figure.endswith(end))
