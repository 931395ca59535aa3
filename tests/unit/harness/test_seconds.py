"""The report of a run's test times, and its budget."""

from __future__ import annotations

import pytest

from tests.seconds import BUDGET_S, excess, without_group


@pytest.mark.parametrize(
    ("clock", "processor", "idle", "slower", "expected"),
    [
        (BUDGET_S - 1, 2 * BUDGET_S - 1, 0.5, 1.0, None),
        (BUDGET_S + 1, 0, 0.5, 1.0, "50% of the processors idle"),
        (BUDGET_S + 1, 0, 0.5, 1.1, None),
        (BUDGET_S * 3, 0, 0.05, 1.0, None),  # others used the processors
        (BUDGET_S - 1, 2 * BUDGET_S + 1, 0.0, 1.0, "processor seconds"),
        (BUDGET_S - 1, 2 * BUDGET_S + 1, 0.0, 1.1, None),
    ],
)
def test_a_run_has_a_budget(
    clock: float, processor: float, idle: float, slower: float, expected: str | None
) -> None:
    message = excess(clock=clock, processor=processor, idle=idle, slower=slower)
    assert message is None if expected is None else expected in str(message)


@pytest.mark.parametrize("name", ["tests/a/test_b.py::test_c", "tests/a/test_b.py::test_c[d@e]"])
def test_a_node_id_loses_its_group(name: str) -> None:
    assert without_group(f"{name}@tests/a/test_b.py") == without_group(name) == name
