"""`headrace up` as a process: its one line, its token, its lock, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from harness.folders import paths_below
from harness.patience import PATIENCE_S
from headrace.testing.processes import running_after

pytestmark = pytest.mark.spark

UP = (sys.executable, "-m", "headrace.cli", "up", "--port", "0", "--data-dir")


@contextmanager
def server(folder: Path, token: str | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server with no other token in its environment, and its URL; ended with SIGTERM unless the test did it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_T")}
    if token is not None:
        environment["HEADRACE_TOKEN"] = token
    with (folder.parent / "stderr").open("a") as log:
        process = subprocess.Popen(
            [*UP, str(folder)], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
    try:
        assert process.stdout
        word, state, url = process.stdout.readline().split()
        assert (word, state) == ("headrace", "ready")
        yield process, url
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=PATIENCE_S)


def answer(url: str, token: str, statement: str) -> dict[str, object]:
    body: dict[str, object] = httpx.post(
        f"{url}/v2/statements",
        json={"statement": statement},
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=PATIENCE_S,
    ).json()
    return body


def sqlstate(url: str, token: str, statement: str) -> str:
    return str(answer(url, token, statement)["sqlState"])


def test_a_first_start_makes_a_token_the_next_one_resumes_and_a_given_one_replaces_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with server(folder) as (process, url):
        file = folder / "token"
        assert file.stat().st_mode & 0o777 == 0o600
        token = file.read_text().strip()
        assert str(file) in (tmp_path / "stderr").read_text()
        assert token not in (tmp_path / "stderr").read_text()
        assert sqlstate(url, token, "CREATE DATABASE d;") == "00000"
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert out == ""
    assert process.returncode == 0
    alive = running_after(started, PATIENCE_S)
    assert not alive
    with server(folder) as (_, url):
        assert (folder / "token").read_text().strip() == token
        assert sqlstate(url, token, "CREATE DATABASE d;") == "42P04"
    with server(folder, token="another") as (_, url):
        assert sqlstate(url, "another", "CREATE DATABASE d;") == "42P04"
        assert "sqlState" not in answer(url, token, "LIST DATABASES;"), (
            "a token that was replaced is good no longer"
        )
        assert not (folder / "token").exists()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A running server's data directory, in a folder of its own, and its URL."""
    folder = tmp_path_factory.mktemp("up") / "data"
    with server(folder) as (_, url):
        yield folder, url


def refused(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start a server that cannot start, and return how it ended."""
    ended = subprocess.run(
        [*UP, str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, **environment},
    )
    assert "Traceback" not in ended.stderr
    return ended


def test_nothing_in_the_data_directory_is_for_others_and_logs_are_json_without_secrets(
    running: tuple[Path, str],
) -> None:
    folder, url = running
    token = (folder / "token").read_text().strip()
    statement = "CREATE STORE s WITH ('type' = KAFKA, 'kafka.sasl.password' = 'hunter2' oops);"
    assert sqlstate(url, token, statement) == "42601"
    open_to_others = [path for path in paths_below(folder) if _is_open_to_others(path)]
    assert not open_to_others
    lines = (folder.parent / "stderr").read_text().splitlines()
    assert all(json.loads(line)["event"] for line in lines if not line.startswith("headrace: "))
    assert "hunter2" not in "".join(lines)


def _is_open_to_others(path: Path) -> bool:
    with suppress(FileNotFoundError):  # it may go while we look
        return bool(path.stat().st_mode & 0o077)
    return False


def test_a_second_server_over_the_same_data_is_refused(running: tuple[Path, str]) -> None:
    second = refused(running[0])
    assert second.returncode == 1
    assert second.stdout == ""
    assert "another server is running" in second.stderr


def test_an_occupied_port_and_wrong_settings_are_reported(running: tuple[Path, str], tmp_path: Path) -> None:
    taken = refused(tmp_path / "two", "--port", running[1].rsplit(":", 1)[1])
    assert taken.returncode == 1
    assert "cannot listen" in taken.stderr
    wrong = refused(tmp_path / "three", HEADRACE_DRIVER_MEMORY_MB="much")
    assert wrong.returncode == 2
    assert "HEADRACE_DRIVER_MEMORY_MB" in wrong.stderr
    (tmp_path / "file").touch()
    no_folder = refused(tmp_path / "file")
    assert no_folder.returncode == 1
    assert f"cannot use the data directory {tmp_path / 'file'}: File exists" in no_folder.stderr
