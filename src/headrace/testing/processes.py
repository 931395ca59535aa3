"""Ends of processes that a test did not start itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

_POLL_S = 0.02


def running_after(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until processes have ended, for that time at most, and return those that run on.

    `psutil.wait_procs` also waits until the parent of each has asked for its exit status. And it opens a handle of the process, which fails
    with FileNotFoundError while Linux 6.18 removes it.
    """
    deadline = time.monotonic() + seconds
    running = [each for each in processes if _runs(each)]
    while running and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        running = [each for each in running if _runs(each)]
    return running


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        # The first thread of a process that is killed may have ended before the others.
        is_over = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
        return process.is_running() and not is_over
    return False
