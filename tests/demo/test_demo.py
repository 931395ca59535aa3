"""The main job, as `make demo ONCE=1` runs it but with fewer flights and a kill -9 in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("victim", ["driver", "server"])
def test_every_sink_is_right_after_a_kill(victim: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "demo",
        "--once",
        "--rows",
        "25000",
        "--kill",
        victim,
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"kill -9 of the {victim}" in done.stdout
    assert done.stdout.count(" yes ") == 5, done.stdout[-4000:]
