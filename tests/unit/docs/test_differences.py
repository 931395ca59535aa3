"""docs/differences-from-flink.md and the differential cases: a difference that a case calls documented is documented."""

from __future__ import annotations

from pathlib import Path

from tests.differential.cases import CASES

PAGE = Path(__file__).resolve().parents[3] / "docs/differences-from-flink.md"


def test_a_documented_difference_has_its_heading() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert {case.documented for case in CASES if case.documented} == {
        line.removeprefix("## ")
        for line in lines
        if line.startswith("## ") and line != "## What is not compared"
    }


def test_the_names_of_cases_are_distinct() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert len(names) > 60, "the page says so"
