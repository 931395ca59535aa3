"""Stored plans of earlier versions, made into plans of the present one: JSON to JSON, one function a version.

A query that was created by an earlier release goes on from its checkpoint, so an upgrade changes how a plan is written down and
never what Spark makes of it: the SQL texts and the order of the stateful steps are what the checkpoint's state stands on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


def _to_2(plan: dict[str, Any]) -> dict[str, Any]:
    """Version 2 names its outputs; before, the last step was the only one."""
    return {**plan, "version": 2, "outputs": [step["id"] for step in plan["steps"][-1:]]}


UPGRADES: Mapping[int, Upgrade] = {1: _to_2}
"""By the version that a function takes; it gives the next one."""


def upgraded(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan in the newest version there is a way to; one of an unknown version comes back as it is."""
    while (upgrade := UPGRADES.get(plan.get("version", 0))) is not None:
        plan = upgrade(plan)
    return plan
