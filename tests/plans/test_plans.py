"""Every construct's plan, compared with the expected plan: `cases/<name>.sql` is a statement over the relations of `world.py`,
`<name>.txt` the output of EXPLAIN, `<name>.json` the plan for a driver (without defaults).

`ACCEPT=1 pytest tests/plans` writes the expected files again; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.planner import plan_query
from headrace.planner.explain import explain, explain_running
from headrace.planner.physical import SparkPlan
from tests.plans.world import sink_of

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.sql"))


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_what_it_was(name: str) -> None:
    logical, sink = sink_of((CASES / f"{name}.sql").read_text())
    if logical.snapshot and not logical.has_end:
        _compare(CASES / f"{name}.txt", explain(logical))
        return
    plan = plan_query(logical, sink)
    _compare(CASES / f"{name}.txt", explain(logical, plan, sink))
    _compare(CASES / f"{name}.json", plan.model_dump_json(indent=1, exclude_defaults=True))
    stored = SparkPlan.from_json(plan.to_json())
    assert stored == plan
    said = explain(logical, plan, sink).splitlines()
    assert all(line in said for line in explain_running(stored).splitlines())


def test_every_expected_file_has_its_case() -> None:
    stray = [path.name for path in CASES.iterdir() if path.stem not in NAMES]
    assert not stray


def _compare(path: Path, text: str) -> None:
    if os.environ.get("ACCEPT"):
        path.write_text(text + "\n")
    assert path.read_text() == text + "\n"
