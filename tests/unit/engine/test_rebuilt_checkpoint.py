"""Checkpoints of queries that continue partly: moved offsets, and operators that start in their midst."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.checkpoint import write_checkpoint
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import copy_checkpoint
from headrace.engine.rebuilt_checkpoint import place_rebuilt
from headrace.planner.branches import Rebuild
from tests.plans.world import planned

PLAN = planned(
    "CREATE STREAM s WITH ('delivery.guarantee' = 'exactly_once') AS "
    "SELECT carrier FROM arrivals UNION ALL SELECT DISTINCT carrier FROM flights"
)
OFFSETS = ['{"arrivals":{"0":7}}', '{"flights":{"0":9}}']


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy, after its batch 3, of a checkpoint with two sources and one operator."""
    write_checkpoint(tmp_path / "q", batches=4)
    for batch in range(4):
        (tmp_path / "q/offsets" / str(batch)).write_text(
            "\n".join(("v1", '{"batchWatermarkMs":0}', *OFFSETS))
        )
    for number in range(2):
        (tmp_path / "q/sources" / str(number)).mkdir(parents=True)
        (tmp_path / "q/sources" / str(number) / "0").write_text(f"first of {number}")
    identities = {"read_u1_arrivals": {"arrivals": "a"}, "read_u2_flights": {"flights": "b"}}
    (tmp_path / "q/identities.json").write_text(json.dumps(identities))
    copy_checkpoint(tmp_path / "q", tmp_path / "copy", 3, PLAN)
    return tmp_path / "copy"


def rebuild(
    *sources: int | None, operators: int, kept_operators: frozenset[int], entities: str, kept: str
) -> Rebuild:
    return Rebuild(sources, 2, tuple(entities.split()), operators, 1, kept_operators, frozenset([kept]))


def offsets(checkpoint: Path, batch: int) -> list[str]:
    return (checkpoint / "offsets" / str(batch)).read_text().splitlines()[2:]


def test_a_source_that_starts_has_no_offset_and_its_operator_no_state(copy: Path, tmp_path: Path) -> None:
    changed = rebuild(
        0, None, operators=1, kept_operators=frozenset(), entities="arrivals flights", kept="read_u1_arrivals"
    )
    place_rebuilt(copy, LocalFolder(tmp_path / "next"), 3, changed)
    for batch in range(4):
        assert offsets(tmp_path / "next", batch) == [OFFSETS[0], "-"]
    assert [path.name for path in (tmp_path / "next/sources").iterdir()] == ["0"]
    assert json.loads((tmp_path / "next/identities.json").read_text()) == {
        "read_u1_arrivals": {"arrivals": "a"}
    }
    files = [path for path in (tmp_path / "next/state").rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path / "next/state").as_posix() for path in files} == {
        "0/_metadata/v2/3",
        "0/first_version",
    }
    # The next batch, 4, reads the state of version 4.
    assert (tmp_path / "next/state/0/first_version").read_text() == "4"
    described = json.loads((tmp_path / "next/state/0/_metadata/v2/3").read_text().splitlines()[1])
    assert described["operatorInfo"] == {"operatorId": 0, "operatorName": "transformWithStateExec"}
    assert (tmp_path / "next/resumed").read_text() == "3"


def test_a_source_takes_its_positions_to_another_place_and_state_stays(copy: Path, tmp_path: Path) -> None:
    changed = rebuild(
        None,
        None,
        1,
        operators=1,
        kept_operators=frozenset([0]),
        entities="a b flights",
        kept="read_u2_flights",
    )
    place_rebuilt(copy, LocalFolder(tmp_path / "next"), 3, changed)
    assert offsets(tmp_path / "next", 3) == ["-", "-", OFFSETS[1]]
    assert (tmp_path / "next/sources/2/0").read_text() == "first of 1"
    assert (tmp_path / "next/state/0/0/4.changelog").is_file()
    assert not (tmp_path / "next/state/0/first_version").exists()


def test_what_is_removed_leaves_nothing(copy: Path, tmp_path: Path) -> None:
    changed = rebuild(
        0, operators=0, kept_operators=frozenset(), entities="arrivals", kept="read_u1_arrivals"
    )
    place_rebuilt(copy, LocalFolder(tmp_path / "next"), 3, changed)
    assert offsets(tmp_path / "next", 3) == OFFSETS[:1]
    assert not (tmp_path / "next/state").exists()


@pytest.mark.parametrize(
    ("changed", "actual"),
    [
        (Rebuild((0,), 3, ("arrivals",), 1, 1, frozenset([0]), frozenset()), "2 sources, expected 3"),
        (
            Rebuild((0, 1), 2, ("arrivals", "arrivals"), 1, 1, frozenset([0]), frozenset()),
            "the source 1 of flights, expected arrivals",
        ),
        (
            Rebuild((0, 1), 2, ("arrivals", "flights"), 2, 2, frozenset([0]), frozenset()),
            "1 operator with state, expected 2",
        ),
    ],
)
def test_a_checkpoint_that_is_not_as_the_plan_says_is_refused(
    copy: Path, tmp_path: Path, changed: Rebuild, actual: str
) -> None:
    with pytest.raises(UserError, match=actual) as caught:
        place_rebuilt(copy, LocalFolder(tmp_path / "next"), 3, changed)
    assert caught.value.state is SqlState.FEATURE_NOT_SUPPORTED
    assert not (tmp_path / "next").exists()


def test_an_operator_that_began_later_is_copied_with_the_versions_of_its_files(
    copy: Path, tmp_path: Path
) -> None:
    changed = rebuild(
        0, None, operators=1, kept_operators=frozenset(), entities="arrivals flights", kept="read_u1_arrivals"
    )
    place_rebuilt(copy, LocalFolder(tmp_path / "next"), 3, changed)
    for batch in (4, 5):
        for log in ("offsets", "commits"):
            (tmp_path / "next" / log / str(batch)).write_text("v1\n{}")
    (tmp_path / "next/state/0/0").mkdir()
    for version in (1, 2):
        (tmp_path / "next/state/0/0" / f"{version}.changelog").write_text("changes")

    copy_checkpoint(tmp_path / "next", tmp_path / "first", 3, PLAN)
    copy_checkpoint(tmp_path / "next", tmp_path / "second", 4, PLAN)

    for name, expected in (("first", set()), ("second", {"1.changelog"})):
        assert {path.name for path in (tmp_path / name / "state").rglob("*.changelog")} == expected
        assert (tmp_path / name / "state/0/first_version").is_file()
