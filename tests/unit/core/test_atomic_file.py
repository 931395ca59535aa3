"""Files that are written as a whole."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from headrace.core.atomic_file import write_atomically


@pytest.mark.parametrize("content", ["é", b"\xff\x00"])
def test_a_file_is_replaced_with_its_permissions(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    write_atomically(path, content, mode=0o600)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with patch("os.fsync", side_effect=OSError), pytest.raises(OSError):
        write_atomically(path, "after")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])
