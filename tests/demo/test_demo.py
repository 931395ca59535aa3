"""The demonstrations, as `make demo ONCE=1` runs them but with fewer flights; in `make faults` the lake's, and a kill -9 in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _demo(folder: Path, *options: str) -> str:
    """Return the output of `make demo ONCE=1`."""
    command = [sys.executable, "-m", "demo", "--once", "--folder", str(folder), *options]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.faults  # every sink has an .slt file in `make test`
@pytest.mark.xdist_group("demo of flights")
def test_every_sink_is_right(tmp_path: Path) -> None:
    said = _demo(tmp_path, "--rows", "5000")
    assert said.count(" yes ") == 5, said[-4000:]


@pytest.mark.faults
@pytest.mark.xdist_group("demo of flights")
@pytest.mark.parametrize("victim", ["server", "driver"])
def test_every_sink_is_right_after_a_kill(victim: str, tmp_path: Path) -> None:
    said = _demo(tmp_path, "--rows", "25000", "--kill", victim)
    assert f"kill -9 of the {victim}" in said
    assert said.count(" yes ") == 5, said[-4000:]


@pytest.mark.faults
@pytest.mark.xdist_group("demo of the lake")
def test_the_flights_are_in_the_tables_of_the_lake(tmp_path: Path) -> None:
    said = _demo(tmp_path, "--lake", "--rows", "5000")
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in said.splitlines() if "│" in line
    ]
    assert [row[:5] for row in rows] == [
        [name, store, "5000", "5000", "yes"]
        for name, store in (
            ("flights_lake", "Iceberg"),
            ("flights_facts", "ClickHouse"),
            ("carrier_totals", "ClickHouse"),
        )
    ]
