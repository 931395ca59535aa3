"""Attempts of functions to get what they must not: files, network, other processes, memory, time; and its neighbours run on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from headrace.engine.functions.protocol import CallError, WorkerEnded
from tests.user_functions.caller import Called

Declare = Callable[..., Called]


@pytest.fixture
def escape(called: Declare) -> Called:
    return called("Escape", ["VARCHAR", "VARCHAR"], "VARCHAR")


def test_files_network_and_processes_are_out_of_reach(escape: Called, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the key")
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        attempts = [
            ("read", str(secret)),
            ("read", "/etc/passwd"),
            ("read", "/proc/self/environ"),
            ("read", f"/proc/{os.getpid()}/cmdline"),
            ("list", str(tmp_path)),
            ("list", "/"),
            ("write", str(tmp_path / "new")),
            ("write", "/dev/shm/new"),
            ("delete", str(secret)),
            ("connect", str(server.getsockname()[1])),
            ("datagram", ""),
            ("run", "/bin/true"),
        ]
        for attempt in attempts:
            with pytest.raises(CallError, match=r"enied|not permitted|NullPointer|NoClassDef"):
                escape(attempt)
    assert escape(("signal", str(other.pid))) == ["false"]
    assert other.poll() is None
    other.kill()
    other.wait()
    assert secret.read_text() == "the key"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["functions", "secret"]


def test_its_environment_is_empty_and_threads_and_printing_are_allowed(escape: Called) -> None:
    (environment,) = escape(("environment", ""))
    assert set(environment.strip("{}").split(", ")) == {
        "LANG=C.UTF-8",
        "TZ=UTC",
        "ARROW_DEFAULT_MEMORY_POOL=system",
    }
    assert escape(("threads", "")) == ["joined"]
    assert escape(("print", "")) == ["printed"]


@pytest.mark.parametrize("action", ["exit", "memory", "answer"])
def test_a_worker_that_ends_or_forges_an_answer_fails_its_call_only(called: Declare, action: str) -> None:
    neighbour = called("Shorten", ["VARCHAR"], "VARCHAR")
    assert neighbour(("hello",)) == ["hel"]
    with pytest.raises(WorkerEnded):
        called("Escape", ["VARCHAR", "VARCHAR"], "VARCHAR")((action, ""))
    assert neighbour(("hello",)) == ["hel"]


def test_a_class_that_ends_its_process_when_it_is_loaded_fails_its_declaration(called: Declare) -> None:
    with pytest.raises(WorkerEnded):
        called("StopsAtLoading", ["VARCHAR"], "VARCHAR").declare()


def test_recursion_without_end_and_a_library_that_is_missing_are_errors_of_the_function(
    called: Declare, escape: Called
) -> None:
    with pytest.raises(CallError, match=r"StackOverflowError"):
        escape(("recursion", ""))
    with pytest.raises(CallError, match=r"NoClassDefFoundError: com/example/library/Greeting") as caught:
        called("Greets", ["VARCHAR"], "VARCHAR", libraries=False).declare()
    assert caught.value.row == -1
    assert escape(("threads", "")) == ["joined"]


def test_a_function_that_hangs_is_given_up(escape: Called) -> None:
    assert escape(("threads", "")) == ["joined"]
    started = time.monotonic()
    with pytest.raises(WorkerEnded, match=r"not answered within 1\.5 s"):
        escape(("hang", ""), timeout_s=1.5)
    assert time.monotonic() - started < PATIENCE_S
