from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from headrace.catalog.objects import ComputePool, PoolIntent, QueryState
from headrace.core.errors import ErrorDomain
from headrace.core.settings import Settings
from headrace.engine.lifecycle import (
    DRIVER_STABLE_S,
    INTERNAL_FAILURES_MAX,
    TRANSITIONS,
    Decision,
    PoolStep,
    driver_failures,
    may_follow,
    on_failure,
    pool_step,
)

SETTINGS = Settings(data_dir=Path("unused"), restart_backoff_ms=100, restart_backoff_max_ms=1000)


def test_errors_of_the_user_are_never_retried() -> None:
    assert on_failure(ErrorDomain.USER, 1, SETTINGS) == Decision(QueryState.ERRORED)


@pytest.mark.parametrize(
    ("failures", "delay"), [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (500, 1000)]
)
def test_delays_double_up_to_the_longest(failures: int, delay: int) -> None:
    assert on_failure(ErrorDomain.EXTERNAL, failures, SETTINGS) == Decision(QueryState.RESTARTING, delay)


def test_our_own_errors_are_given_up_after_a_while() -> None:
    assert on_failure(ErrorDomain.INTERNAL, INTERNAL_FAILURES_MAX, SETTINGS).state is QueryState.RESTARTING
    assert on_failure(ErrorDomain.INTERNAL, INTERNAL_FAILURES_MAX + 1, SETTINGS).state is QueryState.ERRORED


def test_a_driver_that_dies_soon_after_it_was_ready_fails_again() -> None:
    assert driver_failures(3, 5.0, worked=False) == 4
    assert driver_failures(3, DRIVER_STABLE_S, worked=False) == 1


def test_a_driver_that_dies_after_a_batch_has_failed_for_the_first_time() -> None:
    assert driver_failures(3, 5.0, worked=True) == 1


def test_a_query_that_is_over_only_starts_anew() -> None:
    assert set(TRANSITIONS) == set(QueryState)
    assert not may_follow(QueryState.TERMINATED, QueryState.RUNNING)
    assert not may_follow(QueryState.ERRORED, QueryState.RESTARTING)
    assert all(may_follow(state, QueryState.STARTING) for state in QueryState)
    assert not may_follow(QueryState.ERRORED, QueryState.STOPPED)


NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
RUNNING = ComputePool("p", "small", "sysadmin", NOW, NOW, timeout_min=5)
ENDLESS = ComputePool("p", "small", "sysadmin", NOW, NOW)
STOPPED = ComputePool("p", "small", "sysadmin", NOW, NOW, PoolIntent.STOPPED, timeout_min=5)


@pytest.mark.parametrize(
    ("pool", "runs", "occupied", "idle_min", "suspended", "step"),
    [
        (RUNNING, False, False, 0.0, False, PoolStep.START),
        (RUNNING, False, False, 9.0, True, PoolStep.NOTHING),
        (RUNNING, True, False, 4.9, False, PoolStep.NOTHING),
        (RUNNING, True, False, 5.0, False, PoolStep.SUSPEND),
        (RUNNING, True, True, 9.0, False, PoolStep.NOTHING),
        (ENDLESS, True, False, 9.0, False, PoolStep.NOTHING),
        (STOPPED, True, True, 9.0, False, PoolStep.NOTHING),
        (STOPPED, True, False, 0.0, False, PoolStep.STOP),
        (STOPPED, False, False, 9.0, False, PoolStep.NOTHING),
        (None, True, False, 0.0, False, PoolStep.STOP),
        (None, False, False, 0.0, False, PoolStep.NOTHING),
    ],
)
def test_what_is_done_next_with_the_process_of_a_pool(
    pool: ComputePool | None, runs: bool, occupied: bool, idle_min: float, suspended: bool, step: PoolStep
) -> None:
    actual = pool_step(pool, runs=runs, occupied=occupied, idle_min=idle_min, suspended=suspended)
    assert actual is step
