from __future__ import annotations

from pathlib import Path

import pytest

from headrace.runtime.doctor import checks


def test_a_machine_with_nothing_in_its_cache_is_told_how_to_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "not" / "there"))
    report = {check.name: check for check in checks()}
    assert report["Python"].ok
    assert report["Java"].ok
    assert not report["Spark connector jars"].ok
    assert report["Spark connector jars"].found.startswith("0 of 5")
    assert "headrace.runtime.jars spark" in report["Spark connector jars"].fix
    assert not (tmp_path / "not").exists()


def test_a_java_that_cannot_be_used_is_no_end_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(tmp_path))
    report = {check.name: check for check in checks()}
    assert "no bin/java" in report["Java"].found
    assert not report["Class archive"].ok


def test_what_is_not_well_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    bad = [check for check in checks() if not check.ok]
    assert {"Java", "Chromium", "Kafka broker jars"} <= {check.name for check in bad}
    assert all(check.fix for check in bad)
