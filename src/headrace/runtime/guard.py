"""Runs a command that must not outlive the process that started it, however that one ends.

The parent holds the other end of this process's standard input. When that closes, which the kernel sees to
even after ``kill -9``, the command gets SIGTERM and, if it does not go, SIGKILL. On Linux the kernel also
kills the command when this guard itself is killed. (That signal alone is not enough: it follows the *thread*
that started the process, and a server starts processes from threads that come and go.)

A file of a lease has a time of the monotonic clock. If that passes, whatever the parent does, the guard and the
command are killed at once: another server may start the same queries then (docs/adr/0086).

A command that outlives its parent ends by its lease only: it renews the lease itself while it has a parent (docs/adr/0096).

Run as a script, without this package: ``python -I -S guard.py GRACE_SECONDS LEASE PARENT COMMAND …``, where LEASE is
empty without such a file, and PARENT is ``outlived`` or ``watched``. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1
_REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LEASE_INTERVAL_S = 0.25
_OUTLIVED, _WATCHED = "outlived", "watched"


def guarded(
    command: Sequence[str], *, grace_s: float, lease: Path | None = None, outlives: bool = False
) -> list[str]:
    """Return the command line that runs `command` under a guard; start it with ``stdin=PIPE``, keep the pipe open.

    After SIGTERM, or when the pipe closes, `command` has `grace_s` seconds to end. When the time in the file `lease` has passed, it is
    killed with its process group; start it in a session of its own. With `outlives`, the pipe is not watched.
    """
    return [
        *(sys.executable, "-I", "-S", str(Path(__file__).resolve())),
        *(str(grace_s), str(lease or ""), _OUTLIVED if outlives else _WATCHED),
        *command,
    ]


def _prepare_command() -> None:
    # The guard has one thread when it starts the command, so that running Python between fork and exec is
    # safe.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _REQUESTS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _is_over(lease: str) -> bool:
    try:
        (deadline,) = struct.unpack("d", Path(lease).read_bytes())
    except (OSError, struct.error):
        return True
    return time.monotonic() > float(deadline)


def _main(grace_s: float, lease: str, parent: str, command: list[str]) -> int:
    # A request that comes before the handlers below stand waits for them: it would end the guard alone, and
    # the command at once.
    signal.pthread_sigmask(signal.SIG_BLOCK, _REQUESTS)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_prepare_command)
    ending = threading.Event()

    def end() -> None:
        if not ending.is_set():
            ending.set()
            child.terminate()
            killer = threading.Timer(grace_s, child.kill)
            killer.daemon = True
            killer.start()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        end()

    def watch_parent() -> None:
        while os.read(0, 4096):
            pass
        end()

    def watch_lease() -> None:
        while not _is_over(lease):
            time.sleep(_LEASE_INTERVAL_S)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        child.kill()

    for number in _REQUESTS:
        signal.signal(number, on_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _REQUESTS)
    if parent == _WATCHED:
        threading.Thread(target=watch_parent, daemon=True).start()
    if lease:
        threading.Thread(target=watch_lease, daemon=True).start()
    code = child.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    # os._exit: the watching thread sits in a read that ends only with the process.
    os._exit(_main(float(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
