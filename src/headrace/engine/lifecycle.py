"""The states of a continuous query, their transitions, the effect of a failure, and the steps of a compute pool. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from headrace.catalog.objects import ComputePool, PoolIntent, QueryState
from headrace.core.errors import ErrorDomain
from headrace.core.settings import Settings

INTERNAL_FAILURES_MAX = 10
"""Failures of our own in a row, without a batch done in between, after which a query is not restarted any more."""

DRIVER_STABLE_S = 60.0
"""Seconds of readiness after which a driver counts as well started: the next failure is a first failure again."""

_S = QueryState
_LEAVING = (_S.STOPPED, _S.ERRORED, _S.TERMINATE_REQUESTED, _S.TERMINATED)
TRANSITIONS: dict[QueryState, frozenset[QueryState]] = {
    # By a user's RESTART it may follow each state in which nothing runs.
    _S.QUEUED: frozenset({_S.STARTING, _S.TERMINATED}),
    _S.STARTING: frozenset({_S.RUNNING, _S.RESTARTING, *_LEAVING}),
    _S.RUNNING: frozenset({_S.STARTING, _S.RESTARTING, *_LEAVING}),
    _S.RESTARTING: frozenset({_S.STARTING, _S.RUNNING, *_LEAVING}),
    # With its pool.
    _S.STOPPED: frozenset({_S.STARTING, _S.TERMINATED}),
    # These three run again only when a user asks for that with RESTART, which is a start.
    _S.ERRORED: frozenset({_S.STARTING, _S.TERMINATED}),
    _S.TERMINATE_REQUESTED: frozenset({_S.STARTING, _S.TERMINATED}),
    _S.TERMINATED: frozenset({_S.STARTING}),
}
"""State to the states that may follow it. Staying in a state (with another message) is always allowed."""


@dataclass(frozen=True)
class Decision:
    """The state after a failure, and the milliseconds before the next start where there is one."""

    state: QueryState
    delay_ms: int = 0


def may_follow(state: QueryState, following: QueryState) -> bool:
    """True if `following` may come after `state`."""
    return state is following or following in TRANSITIONS[state]


def on_failure(domain: ErrorDomain, failures: int, settings: Settings) -> Decision:
    """Return the next state of a query that failed for the `failures`-th time (from 1) in a row without progress."""
    if domain is ErrorDomain.USER:
        return Decision(QueryState.ERRORED)
    if domain is ErrorDomain.INTERNAL and failures > INTERNAL_FAILURES_MAX:
        return Decision(QueryState.ERRORED)
    return Decision(QueryState.RESTARTING, backoff_ms(failures, settings))


def driver_failures(before: int, up_s: float, *, worked: bool) -> int:
    """Return how often in a row a driver has failed, now that it ended `up_s` seconds after it was ready.

    It `worked` if one of its queries finished a batch. Then its death is a first failure, as it is for a query: else kills from outside,
    less than a minute apart, would add up to the longest delay.
    """
    return 1 if worked or up_s >= DRIVER_STABLE_S else before + 1


def backoff_ms(failures: int, settings: Settings) -> int:
    """Return the delay after the `failures`-th failure in a row: doubles from the first to the longest of the settings."""
    exponent = min(max(failures, 1) - 1, 30)
    return min(settings.restart_backoff_ms << exponent, settings.restart_backoff_max_ms)


class PoolStep(Enum):
    """Next action on a compute pool's process."""

    NOTHING = auto()
    START = auto()
    STOP = auto()
    SUSPEND = auto()
    """As STOP, until a statement needs it again."""


def pool_step(
    pool: ComputePool | None, *, runs: bool, occupied: bool, idle_min: float, suspended: bool
) -> PoolStep:
    """Return the next step of a pool (None: it was dropped) whose process `runs` or does not.

    It is `occupied` while continuous queries run in it, or are to run: they end before it does. It has been without these and without
    readers for `idle_min` minutes, and is `suspended` if that was why it ended.
    """
    should_run = pool is not None and pool.desired_state is PoolIntent.RUNNING
    if not runs:
        return PoolStep.START if should_run and not suspended else PoolStep.NOTHING
    if occupied:
        return PoolStep.NOTHING
    if not should_run:
        return PoolStep.STOP
    timed_out = pool is not None and 0 < pool.timeout_min <= idle_min
    return PoolStep.SUSPEND if timed_out else PoolStep.NOTHING
