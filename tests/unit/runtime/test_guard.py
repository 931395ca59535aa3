from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.patience import PATIENCE_S
from headrace.runtime.guard import guarded
from headrace.testing.processes import running_after

SAYS_ITS_PID = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
IGNORES_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SAYS_ITS_PID


@contextmanager
def _running(program: str, *, grace_s: float = 5) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """The guard and the command it runs."""
    command = guarded([sys.executable, "-c", program], grace_s=grace_s)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guard:
        assert guard.stdout is not None
        yield guard, psutil.Process(int(guard.stdout.readline()))
        guard.kill()


@pytest.mark.parametrize("content", [struct.pack("d", 1.0), None])
def test_the_command_is_killed_when_the_lease_is_over(content: bytes | None, tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    lease.write_bytes(struct.pack("d", 1e18))
    command = guarded([sys.executable, "-c", IGNORES_SIGTERM], grace_s=600, lease=lease)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as guard:
        assert guard.stdout is not None
        process = psutil.Process(int(guard.stdout.readline()))
        with pytest.raises(subprocess.TimeoutExpired):
            guard.wait(0.4)
        if content is None:
            lease.unlink()
        else:
            lease.write_bytes(content)
        assert guard.wait(PATIENCE_S) == -9
        assert not running_after([process], PATIENCE_S)


def test_a_command_that_outlives_its_parent_ends_with_its_lease(tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    lease.write_bytes(struct.pack("d", 1e18))
    command = guarded([sys.executable, "-c", SAYS_ITS_PID], grace_s=600, lease=lease, outlives=True)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as guard:
        assert guard.stdout is not None
        assert guard.stdin is not None
        process = psutil.Process(int(guard.stdout.readline()))
        guard.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            guard.wait(0.5)
        lease.write_bytes(struct.pack("d", 1.0))
        assert guard.wait(PATIENCE_S) == -9
        assert not running_after([process], PATIENCE_S)


def test_the_command_ends_when_the_pipe_closes() -> None:
    with _running(SAYS_ITS_PID) as (guard, command):
        assert guard.stdin is not None
        guard.stdin.close()
        assert guard.wait(PATIENCE_S) == 128 + 15
        assert not running_after([command], PATIENCE_S)


def test_the_command_ends_when_the_guard_is_asked_to() -> None:
    with _running(SAYS_ITS_PID) as (guard, command):
        guard.terminate()
        assert guard.wait(PATIENCE_S) == 128 + 15
        assert not running_after([command], PATIENCE_S)


def test_a_command_that_ignores_the_request_is_killed_after_the_grace() -> None:
    with _running(IGNORES_SIGTERM, grace_s=0.2) as (guard, command):
        guard.terminate()
        assert guard.wait(PATIENCE_S) == 128 + 9
        assert not running_after([command], PATIENCE_S)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death is Linux's own")
def test_the_command_ends_when_the_guard_is_killed() -> None:
    with _running(SAYS_ITS_PID) as (guard, command):
        guard.kill()
        assert not running_after([command], PATIENCE_S)


def test_the_exit_code_is_that_of_the_command() -> None:
    command = guarded([sys.executable, "-c", "raise SystemExit(7)"], grace_s=1)
    with subprocess.Popen(command, stdin=subprocess.PIPE) as guard:
        assert guard.wait(PATIENCE_S) == 7
