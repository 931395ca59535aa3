"""Waits for processes of others to end."""

from __future__ import annotations

import subprocess
import sys

import psutil

from harness.patience import PATIENCE_S
from headrace.testing.processes import running_after


def test_a_process_runs_until_it_is_over_even_if_nobody_asks_for_its_status() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
        assert running_after([process], 0.05) == [process]
        child.kill()
        assert running_after([process], PATIENCE_S) == []
        assert process.status() == psutil.STATUS_ZOMBIE
    assert running_after([process], 0) == []
