"""The process of a run's shared servers; `tests/slt` and others show that it starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.patience import PATIENCE_S
from harness.world import World, address
from headrace.testing.processes import running_after

ROOT = Path(__file__).parents[3]
LEADS = """
import time
from harness.world import World
World().start()
print(*(child.pid for child in __import__("psutil").Process().children()), flush=True)
time.sleep(3600)
"""


def test_it_ends_with_the_process_that_leads_the_run() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEADS], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as leader:
        assert leader.stdout is not None
        world = psutil.Process(int(leader.stdout.readline()))
        leader.kill()
    assert not running_after([world], PATIENCE_S)


def test_a_server_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_WORLD")
    world = World().start()
    try:
        with pytest.raises(AssertionError, match=r"(?s)nosuch did not start: .*KeyError"):
            address("nosuch")
        assert Path(os.environ["HEADRACE_WORLD"]).exists()
    finally:
        folder = Path(os.environ["HEADRACE_WORLD"]).parent
        world.stop()
    assert not folder.exists()
    assert "HEADRACE_WORLD" not in os.environ
