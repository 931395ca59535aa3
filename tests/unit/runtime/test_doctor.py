from __future__ import annotations

import fcntl
import socket
from importlib.metadata import metadata
from pathlib import Path

import pytest

from headrace.connectors.registry import STORE_TYPES, connector
from headrace.core.settings import Settings
from headrace.runtime.doctor import Check, State, checks


def report(folder: Path, *, port: int = 0) -> dict[str, Check]:
    return {check.name: check for check in checks(Settings(data_dir=folder / "data", port=port))}


def test_an_empty_cache_is_reported_with_the_command_that_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "not" / "there"))
    results = report(tmp_path)
    assert results["Python"].state is State.OK
    assert results["Java"].state is State.OK
    # `headrace up` fetches and compiles by itself: that is no reason why it could not run.
    assert results["Spark connector jars"].state is State.ON_FIRST_USE
    assert results["JVM extension"].state is State.ON_FIRST_USE
    assert results["Spark connector jars"].actual.startswith("0 of 5")
    assert "headrace.runtime.jars spark" in results["Spark connector jars"].fix
    assert not any(check.state is State.MISSING for check in results.values())
    assert not (tmp_path / "not").exists()
    assert not (tmp_path / "data").exists()


def test_a_java_that_cannot_be_used_is_no_end_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(tmp_path))
    results = report(tmp_path)
    assert results["Java"].state is State.MISSING
    assert "no bin/java" in results["Java"].actual
    assert results["Class archive"].state is State.OPTIONAL


def test_what_is_not_well_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    bad = [check for check in report(tmp_path).values() if check.state is not State.OK]
    assert {"Java", "Chromium", "Kafka broker jars"} <= {check.name for check in bad}
    assert all(check.fix for check in bad)


def test_what_another_server_holds_is_missing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "lock").open("a+b") as lock, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = report(tmp_path, port=listener.getsockname()[1])
    assert results["Data directory"].state is State.MISSING
    assert "a server is running" in results["Data directory"].actual
    assert results["Port"].state is State.MISSING
    assert report(tmp_path)["Data directory"].state is State.OK


def test_a_folder_that_cannot_be_made_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").write_text("a file")
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "data" / "cache"))
    results = report(tmp_path)
    assert results["Data directory"].state is State.MISSING
    assert results["Cache directory"].state is State.MISSING


def test_what_a_store_type_needs_besides_is_in_the_report(tmp_path: Path) -> None:
    extras = {
        f"pip install 'headrace[{extra}]'" for extra in metadata("headrace").get_all("Provides-Extra", [])
    }
    groups = {group for name in STORE_TYPES if (group := connector(name).jars)}
    assert len(extras) >= 3
    assert groups
    fixes = [check.fix for check in report(tmp_path).values()]
    assert extras <= set(fixes)
    for group in groups:
        assert any(fix.endswith(f"headrace.runtime.jars {group}") for fix in fixes), group
