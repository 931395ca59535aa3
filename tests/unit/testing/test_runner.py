"""Files that need a catalog only, run in process: the errors of files, and plans that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.doors import InProcessDoor
from headrace.testing.patience import Patience
from headrace.testing.runner import Runner
from headrace.testing.script import ExpectationError

QUERY = 'SELECT name FROM deltastream.sys."databases" ORDER BY name;'


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessDoor]:
    door = InProcessDoor(Path(tmp_path_factory.mktemp("runner")), pools=False)
    yield door
    door.close()


def run(door: InProcessDoor, path: Path, text: str, *, update: bool = False) -> None:
    path.write_text(text)
    Runner(door, None, patience=Patience(0), update=update, seed="s").run(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("statment ok\nLIST STORES;\n", "t.slt:1: statment ok\n'statment' is not a directive; did you mean"),
        ("statement\nLIST STORES;\n", "expected ok or error after statement"),
        ("statement well\nLIST STORES;\n", "expected ok or error, found well"),
        ("statement error 42601\nLIST STORES;\n", "but the statement succeeded"),
        ("statement error 42601\nDROP STORE x;\n", "expected 42601, received 3D006"),
        ("statement error 3D006 /y/\nDROP STORE x;\n", "expected /y/, received"),
        ("\nstatement ok\nDROP STORE x;\n", "t.slt:2: statement ok\n3D006"),
        ("statement ok\nDROP STORE ${x};\n", r"no variable \$\{x\}: expected one of seed"),
        ("$ produce t\n{}\n", "run without a broker"),
        ("$ run missing.sql\n", "cannot read"),
        ("$ wait t running\n", "no query creates t"),
        ("query eventually\nLIST STORES;\n----\nother\n", "- other"),
        (f"explain\n{QUERY}\n", "run with --update"),
        ("$ kill driver\n", "cannot kill driver"),
    ],
)
def test_a_failure_names_the_line_and_the_reason(
    door: InProcessDoor, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises((ExpectationError, AssertionError), match=message):
        run(door, tmp_path / "t.slt", text)


def test_a_file_of_statements_is_relative_to_the_test(door: InProcessDoor, tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(
        "CREATE DATABASE made_by_${seed};\nUSE DATABASE made_by_${seed};\n"
    )
    run(
        door,
        tmp_path / "t.slt",
        "$ run sql/a.sql\n\nquery\nLIST DATABASES;\n----\nmade_by_s\t<any>\t<any>\t<any>\n",
    )


def test_plans_are_written_and_compared(door: InProcessDoor, tmp_path: Path) -> None:
    path = tmp_path / "t.slt"
    text = f"explain\n{QUERY}\n\nexplain\n{QUERY}\n----\nold\n\nstatement ok\nLIST STORES;\n"
    run(door, path, text, update=True)
    updated = path.read_text()
    assert updated.count("Mode: snapshot") == 2
    assert "old" not in updated
    run(door, path, updated)
    with pytest.raises(ExpectationError, match=r"- Mode: snap\n.*\+ Mode: snapshot"):
        run(door, path, updated.replace("Mode: snapshot", "Mode: snap", 1))
