"""Named places where a test can have a compute pool's driver killed, as `kill -9` would. Off unless HEADRACE_FAIL_POINT is set.

Its value is `name` or `name:n` (the n-th time that a process passes there, from 1).
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress

_passes: Counter[str] = Counter()


def fail_point(name: str) -> None:
    """Kill the driver's processes (Python, JVM, workers) if the environment names this place."""
    armed, _, nth = os.environ.get("HEADRACE_FAIL_POINT", "").partition(":")
    if armed != name:
        return
    _passes[name] += 1
    if _passes[name] == int(nth or 1):
        _kill_driver()


def _kill_driver() -> None:
    import psutil  # only tests set a fail point

    # In the driver this variable names the process itself, in its workers the driver.
    driver = psutil.Process(int(os.environ["HEADRACE_DRIVER_PID"]))
    for process in [driver, *driver.children(recursive=True)]:
        if process.pid != os.getpid():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
