"""Comparisons of statements with existing objects, one for each class of statement."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from headrace.catalog.kinds import BY_NAME
from headrace.core.context import SessionContext
from headrace.core.errors import Span
from headrace.sql.ast import Statement
from headrace.statements.base import Execution
from headrace.statements.desired_state.steps import Action

UNWRITTEN = (Span(0, 0, 1, 1), "")
"""Place and text of a statement that nobody has written."""


@dataclass(frozen=True)
class Described:
    """The object that a statement describes, with its kind and name in a plan; `target` is None if it does not exist."""

    target: Any
    kind: str
    name: str


@dataclass(frozen=True)
class Verdict:
    """Comparison of a statement with an existing object."""

    action: Action
    notes: tuple[str, ...] = ()
    statement: str | None = None


LEAVE = Verdict(Action.LEAVE)
NOT_COMPARED = Verdict(Action.LEAVE, ("exists; its content is not compared",))

Find = Callable[[Any, Execution, Collection[str]], Described]
"""Returns what a statement describes; the last argument has the ids of the objects that statements before it describe."""
Compare = Callable[[Any, Any, Execution], Verdict]


def _nothing(_target: Any, _run: Execution) -> Collection[str]:
    return ()


def _unchanged(_statement: Any, run: Execution) -> SessionContext:
    return run.context


@dataclass(frozen=True)
class Comparison:
    """Functions that compare a statement with what exists.

    `covers` returns the ids of what a statement describes beside its object. `after` returns the context after a statement whose object
    exists.
    """

    find: Find
    compare: Compare
    covers: Callable[[Any, Execution], Collection[str]]
    after: Callable[[Any, Execution], SessionContext]


COMPARISONS: dict[type[Statement], Comparison] = {}


def compares(
    *statements: type[Statement],
    find: Find,
    covers: Callable[[Any, Execution], Collection[str]] = _nothing,
    after: Callable[[Any, Execution], SessionContext] = _unchanged,
) -> Callable[[Compare], Compare]:
    """Register a function that compares a statement with its existing object."""

    def register(compare: Compare) -> Compare:
        for statement in statements:
            COMPARISONS[statement] = Comparison(find, compare, covers, after)
        return compare

    return register


def by_name(kind: str) -> Find:
    """Return the function that finds an object of a kind, which only has a name."""

    def find(statement: Any, run: Execution, _desired: Collection[str]) -> Described:
        state = run.catalog.snapshot()
        target = state.get(BY_NAME[kind.replace(" ", "_")], (statement.name.name,))
        return Described(target, kind, str(statement.name))

    return find
