"""The rule by which the number of a pool's executors follows the load."""

from __future__ import annotations

import pytest

from headrace.engine.driver.elastic import Load, Scale, scaled
from headrace.engine.pool_properties import Cluster

POOL = Cluster(executors=1, cores=2, memory="1g", executors_max=6)


def series(requested: int, *readings: Load) -> list[int]:
    """The requested executors after each reading."""
    scale, numbers = Scale(requested), []
    for load in readings:
        scale = scaled(scale, load, POOL)
        numbers.append(scale.requested)
    return numbers


@pytest.mark.parametrize(
    ("load", "after"),
    [
        # (executors, tasks at once on average, at most); the executors requested after readings 1, 2, and 12.
        (Load(2, 3.2, 9), (2, 4, 4)),
        (Load(2, 4.0, 5), (2, 3, 3)),
        (Load(2, 3.1, 9), (2, 2, 2)),
        (Load(2, 4.0, 4), (2, 2, 2)),
        (Load(1, 2.0, 9), (2, 2, 2)),
        (Load(1, 0.4, 1), (2, 2, 1)),
        (Load(0, 0.0, 9), (2, 2, 2)),
        (Load(2, 1.1, 9), (2, 2, 2)),
        (Load(2, 1.0, 9), (2, 2, 1)),
        (Load(2, 0.0, 0), (2, 2, 1)),
    ],
    ids=[
        "busy, and many tasks wait",
        "busy, and one task waits",
        "nearly busy",
        "busy, and nothing waits",
        "one executor is missing, and the other is busy",
        "one executor is missing, and the other is light",
        "all executors are missing",
        "nearly light",
        "light, with many tasks at a moment",
        "idle",
    ],
)
def test_a_steady_load_of_two_executors(load: Load, after: tuple[int, int, int]) -> None:
    numbers = series(2, *[load] * 12)
    # After a growth the executors that are there are fewer than requested, and nothing changes until they come.
    assert (numbers[0], numbers[1], numbers[11]) == after


def test_the_bounds_hold() -> None:
    assert series(6, *[Load(6, 12.0, 99)] * 20)[-1] == 6
    assert series(4, *[Load(4, 8.0, 99)] * 2) == [4, 6]
    assert series(1, *[Load(1, 0.0, 0)] * 40)[-1] == 1


def test_a_short_load_does_not_make_a_pool_grow_and_keeps_it_from_shrinking() -> None:
    busy, light = Load(2, 4.0, 9), Load(2, 0.0, 0)
    assert set(series(2, *[busy, light] * 20)) == {2}
    assert set(series(2, *[light] * 11, busy, *[light] * 11)) == {2}
    assert series(2, *[light] * 11, busy, *[light] * 12)[-1] == 1


def test_small_batches_with_pauses_count_by_their_mean() -> None:
    batch, pause = Load(2, 3.0, 4), Load(2, 0.0, 0)
    assert series(2, *[batch, pause, pause] * 4)[-1] == 1
    assert series(2, *[batch, pause] * 6)[-1] == 2


def test_a_change_does_not_cause_the_opposite_change() -> None:
    """The same work over the new number of executors is neither busy nor light."""
    for executors in range(1, 6):
        work = 0.8 * executors * POOL.cores
        grown = series(executors, *[Load(executors, work, 99)] * 2)[-1]
        assert grown > executors
        assert set(series(executors + 1, *[Load(executors + 1, work, 99)] * 20)) == {executors + 1}
        fits = 0.5 * executors * POOL.cores
        assert series(executors + 1, *[Load(executors + 1, fits, 99)] * 12)[-1] == executors
        assert series(executors, *[Load(executors, fits, 99)] * 2)[-1] == executors
