"""Paths into JSON texts: `[lax | strict] $`, then `.name`, `."name"`, `['name']`, `[0]`, `[*]` or `.*` (SQL/JSON, without filters).

The extension's `JsonPath` reads the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PATH = re.compile(r"(?:(lax|strict)\s+)?\$(.*)", re.DOTALL)
_STEP = re.compile(
    r"\.(\*)|\.([^.\[\]*\"']+)|\.\"([^\"]*)\"|\['([^']*)'\]|\[\"([^\"]*)\"\]|\[([0-9]{1,9})\]|\[(\*)\]"
)


@dataclass(frozen=True)
class JsonPath:
    """Steps from the whole text: a member's name, an element's place, or `MEMBERS` or `ELEMENTS` for all of them."""

    strict: bool
    steps: tuple[str | int | All, ...]

    @property
    def several(self) -> bool:
        """True if a step takes all members or elements."""
        return any(isinstance(step, All) for step in self.steps)


@dataclass(frozen=True)
class All:
    """A step to all members of an object, or all elements of an array."""

    members: bool


def parse(text: str) -> JsonPath | None:
    """Read a path; None if it is none."""
    whole = _PATH.fullmatch(text.strip(" "))
    if whole is None:
        return None
    steps: list[str | int | All] = []
    at, rest = 0, whole[2]
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            return None
        name = next((group for group in step.groups()[1:5] if group is not None), None)
        if name is not None:
            steps.append(name)
        else:
            steps.append(int(step[6]) if step[6] is not None else All(members=step[1] is not None))
        at = step.end()
    return JsonPath(whole[1] == "strict", tuple(steps))
