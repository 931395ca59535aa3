from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.core.errors import InternalError
from headrace.runtime.webpage import _digest, install_packages, node_folder


def test_the_digest_follows_the_sources_and_not_what_is_made_from_them(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.ts").write_text("one")
    first = _digest(tmp_path)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "library.js").touch()
    assert _digest(tmp_path) == first
    (tmp_path / "src" / "main.ts").write_text("two")
    assert _digest(tmp_path) != first


def test_an_old_node_on_the_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"node": "#!/bin/sh\necho v18.19.0\n", "npm": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    node = node_folder()
    assert node != tmp_path
    assert subprocess.run([node / "node", "--version"], capture_output=True, check=True).stdout >= b"v20"


def test_packages_are_installed_once_by_those_who_start_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, packages = tmp_path / "bin", tmp_path / "packages"
    programs.mkdir()
    packages.mkdir()
    (packages / "package-lock.json").write_text("{}")
    slow = "#!/bin/sh\necho >> runs; rm -rf node_modules; sleep 0.2; mkdir node_modules; echo {} > node_modules/package.json\n"
    for name, text in {"node": "#!/bin/sh\necho v20.0.0\n", "npm": slow}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")

    def installed(_: int) -> str:
        install_packages(packages)
        return (packages / "node_modules" / "package.json").read_text()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(installed, range(4))) == ["{}\n"] * 4
    assert (packages / "runs").read_text() == "\n"


def test_no_node_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(InternalError, match="Node 20") as caught:
        node_folder()
    assert caught.value.hint is not None
    assert "make setup" in caught.value.hint
