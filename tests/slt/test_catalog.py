"""The `.slt` files that need only a catalog, in process: part of `make check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.doors import InProcessDoor
from harness.slt import Runner, needs
from headrace.testing.script import read

FILES = sorted(Path(__file__).parent.glob("*.slt"))


@pytest.mark.parametrize(
    "path", [path for path in FILES if needs(path) == "catalog"], ids=lambda path: path.stem
)
def test_without_a_server(path: Path, tmp_path: Path, seed: str) -> None:
    door = InProcessDoor(tmp_path, pools=False)
    try:
        Runner(door, None, seed=seed).run(path)
    finally:
        door.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_that_kills_says_so(path: Path) -> None:
    words = [record.words[0] for record in read(path.read_text())]
    assert (needs(path) == "kill") == bool({"kill", "restart"} & {*words})
