from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog.objects import QueryState
from headrace.core.errors import ErrorDomain
from headrace.core.settings import Settings
from headrace.engine.lifecycle import (
    DRIVER_STABLE_S,
    INTERNAL_FAILURES_MAX,
    TRANSITIONS,
    Decision,
    driver_failures,
    may_follow,
    on_failure,
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
    assert driver_failures(3, 5.0) == 4
    assert driver_failures(3, DRIVER_STABLE_S) == 1


def test_a_query_that_is_over_only_starts_anew() -> None:
    assert set(TRANSITIONS) == set(QueryState)
    assert not may_follow(QueryState.TERMINATED, QueryState.RUNNING)
    assert not may_follow(QueryState.ERRORED, QueryState.RESTARTING)
    assert all(may_follow(state, QueryState.STARTING) for state in QueryState)
