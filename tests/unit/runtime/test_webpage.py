from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.core.errors import InternalError
from headrace.runtime.webpage import _digest, node_folder


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


def test_no_node_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(InternalError, match="Node 20") as caught:
        node_folder()
    assert caught.value.hint is not None
    assert "make setup" in caught.value.hint
