"""`make bench`: see the package."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.measurements import MEASUREMENTS, unit
from benchmarks.peer import FlinkPeer
from benchmarks.rig import Figures, Rig
from benchmarks.sizes import QUICK, Sizes
from benchmarks.targets import compared
from harness.flink import NotInstalledError
from harness.kafka import KafkaClient
from headrace import __version__
from headrace.runtime.kafka_broker import KafkaBroker

console = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> int:
    """Returns the exit code: 1 when a measurement failed. A missed target is no failure."""
    options = _options()
    sizes = QUICK if options.quick else Sizes()
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    try:
        with KafkaBroker(folder / "kafka") as broker:
            peer = _peer(folder, broker.bootstrap) if options.peer else None
            rig = Rig(folder, broker, sizes, peer)
            try:
                measurements = [_measured(name, rig, options.runs) for name in options.only]
            finally:
                rig.close()
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    report = _report(measurements, options, sizes)
    text = json.dumps(report, indent=2)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    _show(report)
    print(text)
    return 1 if any("error" in measurement for measurement in measurements) else 0


def _peer(folder: Path, bootstrap: str) -> FlinkPeer | None:
    """None, with a note, where Flink is not installed: our own figures are measured all the same."""
    try:
        return FlinkPeer(folder / "flink", KafkaClient(bootstrap))
    except NotInstalledError as reason:
        console.print(f"[bold yellow]SKIPPED, no figures of Flink.[/] {reason}")
        return None


def _measured(name: str, rig: Rig, runs: int) -> dict[str, Any]:
    """Run a measurement `runs` times; an error ends it and is in the report, and the others continue."""
    figures: list[Figures] = []
    stolen: list[float] = []
    before, began = os.getloadavg(), time.monotonic()
    error: str | None = None
    for number in range(runs):
        console.print(f"[bold]{name}[/] {number + 1}/{runs}  (load {os.getloadavg()[0]:.1f})")
        cpu = psutil.cpu_times()
        try:
            figures.append(MEASUREMENTS[name](rig))
            stolen.append(_stolen_percent(cpu))
        except Exception as raised:  # noqa: BLE001 - one failed measurement must not cost the others
            traceback.print_exc(file=sys.stderr)
            error = f"{type(raised).__name__}: {raised}"
            break
        console.print("    " + ", ".join(f"{key} {value:,.1f}" for key, value in figures[-1].items()))
    return {
        "name": name,
        "figures": {
            key: {
                "unit": unit(key),
                "median": round(statistics.median(each[key] for each in figures), 2),
                "runs": [round(each[key], 2) for each in figures],
            }
            for key in (figures[0] if figures else {})
        },
        "stolen_percent": stolen,
        "load_before": before,
        "load_after": os.getloadavg(),
        "seconds": round(time.monotonic() - began, 1),
        **({"error": error} if error else {}),
    }


def _stolen_percent(since: Any) -> float:
    """Share of processor time that the host gave to other machines; 0 if the system does not report it."""
    now = psutil.cpu_times()
    stolen = getattr(now, "steal", 0.0) - getattr(since, "steal", 0.0)
    return round(100 * stolen / max(sum(now) - sum(since), 1e-9), 1)


def _report(measurements: list[dict[str, Any]], options: argparse.Namespace, sizes: Sizes) -> dict[str, Any]:
    medians = {
        (measurement["name"], key): figure["median"]
        for measurement in measurements
        for key, figure in measurement["figures"].items()
    }
    return {
        "headrace": __version__,
        "machine": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "memory_mb": psutil.virtual_memory().total // 2**20,
            "python": platform.python_version(),
            "spark": version("pyspark"),
        },
        "settings": {"quick": options.quick, "runs": options.runs, "peer": options.peer, **asdict(sizes)},
        "measurements": measurements,
        "targets": compared(medians),
    }


def _show(report: dict[str, Any]) -> None:
    table = Table("measurement", "figure", "median", "target", "", title="Against the targets (medians)")
    for row in report["targets"]:
        sign = "≥" if row["bound"] == "at_least" else "≤"
        met = "[green]met[/]" if row["met"] else "[red]missed[/]"
        table.add_row(
            row["measurement"], row["figure"], f"{row['median']:,.1f}", f"{sign} {row['target']:,}", met
        )
    console.print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="Measure Headrace; JSON on standard output."
    )
    parser.add_argument("--runs", type=int, default=3, help="how often each measurement is done")
    parser.add_argument("--only", type=_names, default=list(MEASUREMENTS), help=", ".join(MEASUREMENTS))
    parser.add_argument(
        "--peer", choices=["flink"], help="run the same on Apache Flink, and say the ratio ours / Flink"
    )
    parser.add_argument("--quick", action="store_true", help="smaller inputs: figures are rougher")
    parser.add_argument("--output", type=Path, help="write the JSON to this file too")
    parser.add_argument("--keep", action="store_true", help="keep the working folder, with its logs")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected names of {', '.join(MEASUREMENTS)}, found {unknown[0]}")
    return names


if __name__ == "__main__":
    sys.exit(main())
