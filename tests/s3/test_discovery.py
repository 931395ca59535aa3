"""Files found by a query, over the death of its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headrace.connectors.s3.client import File
from headrace.connectors.s3.discovery import FileLog


def file(name: str) -> File:
    return File(name, 1, '"x"', 0)


Open = Callable[[], FileLog]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rows" / "source"


@pytest.fixture
def opened(folder: Path) -> Iterator[Open]:
    """A log of the folder, each time as a process of its own has it: what one does not flush, the next does not see."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(FileLog(str(folder))))


def test_an_offset_has_the_same_files_after_a_kill(opened: Open) -> None:
    log = opened()
    log.begin()
    assert log.append([file("a"), file("b")]) == 3
    assert log.append([file("c")]) == 4
    again = opened()
    assert [(number, item.key) for number, item in again.between(1, 4)] == [(1, "a"), (2, "b"), (3, "c")]
    assert file("b") in again
    assert file("d") not in again
    assert again.append([file("d")]) == 5


def test_what_spark_never_heard_of_is_found_again(opened: Open) -> None:
    log = opened()
    log.begin()
    log.append([file("a"), file("b")])
    again = opened()
    again.rewind(2)
    assert file("a") in again
    assert file("b") not in again
    assert again.append([file("c")]) == 3
    assert [item.key for _, item in opened().between(0, 3)] == ["a", "c"]


def test_a_line_that_was_being_written_counts_for_nothing(opened: Open, folder: Path) -> None:
    log = opened()
    log.begin()
    log.append([file("a")])
    with (folder / "files").open("ab") as half:
        half.write(b'["b", 1')
    again = opened()
    assert file("b") not in again
    assert again.append([file("c")]) == 3
    assert [item.key for _, item in opened().between(0, 3)] == ["a", "c"]


def test_without_a_folder_it_lives_as_long_as_its_process() -> None:
    log = FileLog(None)
    log.begin()
    assert [item.key for _, item in log.between(0, log.append([file("a")]))] == ["a"]
    log.close()
