"""Steps towards a desired state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, Span


class Action(Enum):
    """Effect of a step. A conflict cannot be applied: the object must be dropped first, or the text changed."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    LEAVE = "leave"
    DROP = "drop"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class PlanStep:
    """A step towards the desired state: the statement that takes it, None if there is none, in `context`."""

    action: Action
    kind: str
    name: str
    statement: str | None
    context: SessionContext
    notes: tuple[str, ...] = ()
    span: Span | None = None


@dataclass(frozen=True)
class Plan:
    """The steps towards a desired state, in an order that runs, and the errors of its text; with errors it cannot be applied."""

    steps: tuple[PlanStep, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
