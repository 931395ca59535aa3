"""The compiled kube-apiserver: what its tests report where it cannot be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kubernetes.program import NotCompiledError, program


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_machine_without_go_is_named() -> None:
    with pytest.raises(NotCompiledError, match=r"need Go 1\.26 or newer.*there is no `go` in PATH"):
        program()


def test_the_compilers_message_is_reported(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'go: go.mod requires go >= 1.26.0' >&2; exit 1\n")
    go.chmod(0o755)
    with pytest.raises(NotCompiledError, match=r"needs Go 1\.26.*\n.*requires go >= 1\.26"):
        program()
    assert not list((tmp_path / "cache").rglob("apiserver"))
